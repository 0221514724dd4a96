//! The numbers of the kinds of messages, in the last two bytes of a header. Those to a client have bit 6 set.

use regrow_abi::client::kind;

pub(super) const RUN: u16 = 1;
pub(super) const STATUS: u16 = 2;
pub(super) const LIST: u16 = 3;
pub(super) const SHOW: u16 = 4;
pub(super) const CLEAR: u16 = 5;
pub(super) const STOP: u16 = 6;
pub(super) const BUDGET: u16 = 7;
pub(super) const PROOF: u16 = 8;
pub(super) const ONCE: u16 = 9;
pub(super) const LEASE: u16 = 10;
pub(super) const RENEW: u16 = 11;
pub(super) const RETURN: u16 = 12;
pub(super) const STARTED: u16 = 65;
pub(super) const DECLINED: u16 = 66;
pub(super) const STOPPED: u16 = 67;
pub(super) const CONTINUED: u16 = 68;
pub(super) const ENDED: u16 = 69;
pub(super) const ANSWER: u16 = 70;
pub(super) const DONE: u16 = 71;
pub(super) const FAILED: u16 = 72;
pub(super) const LEASED: u16 = 73;

// The client of one page has the same numbers.
const _: () = {
    assert!(ONCE == kind::ONCE && STARTED == kind::STARTED);
    assert!(DECLINED == kind::DECLINED && ENDED == kind::ENDED);
};
