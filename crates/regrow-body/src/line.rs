//! The engine's end of a body's socket, and what the agent has told on it.
//!
//! ```text
//!  engine ──order, descriptors──> armed process          control area: hints alone
//!         <──Armed, Clean, Refused──  (closes it before the program's first instruction)
//! ```
//!
//! A run can write to the control area as long as it lives, and has no such socket. So a body is armed when a message says so that came
//! after the last order, and an order was refused when a message names it. Invariant: what is read here was sent by the keeper or by a
//! process that had not begun.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use regrow_abi::{ARMED_GO, MAX_FDS, REPORT_WORDS, Refused, Report};
use regrow_sys::raw;
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, recv, sendmsg, shutdown,
};

/// What a body was told to be waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// For an order, which this process takes.
    Armed {
        /// The process, a child of the caller.
        pid: i32,
        /// It can only execute another program.
        is_shell: bool,
    },
    /// To be compared.
    Clean,
    /// For its end: this process has ended without an order.
    Gone {
        /// The process.
        pid: i32,
    },
}

/// A refused order: its number, the step that failed, and the errno.
type Refusal = (u64, Refused, i32);

/// Most refusals that nobody has asked for. The oldest are forgotten.
const MAX_REFUSALS: usize = 16;

/// The line to a body.
#[derive(Debug)]
pub(crate) struct Line {
    socket: OwnedFd,
    inbox: Mutex<Inbox>,
    /// The number of the last order that was sent, or is about to be.
    sent: AtomicU64,
    /// The number of the last order whose run is known to have left the body.
    over: AtomicU64,
    /// A run has left processes in its process group.
    left: AtomicBool,
}

#[derive(Debug, Default)]
struct Inbox {
    waits: Option<Waits>,
    refusals: Vec<Refusal>,
}

impl Line {
    pub(crate) fn new(socket: OwnedFd) -> Line {
        Line {
            socket,
            inbox: Mutex::default(),
            sent: AtomicU64::new(0),
            over: AtomicU64::new(0),
            left: AtomicBool::new(false),
        }
    }

    /// The socket, to send an order.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What the body waits for, as far as it has told.
    pub(crate) fn waits(&self) -> Option<Waits> {
        let mut inbox = self.inbox();
        while inbox.waits.is_none() && self.read(&mut inbox) {}
        inbox.waits
    }

    /// Forgets what the body waits for: it gets it.
    pub(crate) fn forget(&self) {
        self.inbox().waits = None;
    }

    /// Waits until the body has told something more. False when it has not in time, or is gone.
    pub(crate) fn await_report(&self, timeout: Duration) -> bool {
        raw::readable_within(self.socket.as_fd(), timeout) && self.read(&mut self.inbox())
    }

    /// Whether an order was refused: which step, and why. The answer is taken.
    pub(crate) fn take_refusal(&self, serial: u64) -> Option<(Refused, i32)> {
        let mut inbox = self.inbox();
        while self.read(&mut inbox) {}
        let at = inbox.refusals.iter().position(|refusal| refusal.0 == serial)?;
        let (_, step, errno) = inbox.refusals.remove(at);
        Some((step, errno))
    }

    /// A line to a body that this side was told of that it waits: in what was read already.
    pub(crate) fn of_armed(socket: OwnedFd, pid: i32) -> Line {
        let line = Line::new(socket);
        line.inbox().waits = Some(Waits::Armed { pid, is_shell: false });
        line
    }

    /// Sends the message of an order, with its descriptors.
    pub(crate) fn send_order(&self, serial: u64, fds: &[(BorrowedFd<'_>, i32)]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let mut list = [self.socket(); MAX_FDS];
        for (to, from) in list.iter_mut().zip(fds) {
            *to = from.0;
        }
        let list = list.get(..fds.len()).unwrap_or_default();
        if !list.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(list));
        }
        self.set_sent(serial);
        sendmsg(self.socket(), &[io::IoSlice::new(&[ARMED_GO])], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Notes that an order is about to be sent.
    pub(crate) fn set_sent(&self, serial: u64) {
        self.sent.store(serial, SeqCst);
    }

    /// Whether an order that was sent has not been taken by anybody: the kernel still has the message, and no later one was sent.
    pub(crate) fn is_untaken(&self, serial: u64) -> bool {
        let is_last = || self.sent.load(SeqCst) == serial;
        is_last() && raw::has_unread(self.socket.as_fd()) && is_last()
    }

    /// Tells whoever waits for an order that none comes.
    pub(crate) fn close(&self) {
        let _ = shutdown(&self.socket, Shutdown::Write);
    }

    /// Notes that the run of an order has ended, or left the body.
    pub(crate) fn set_over(&self, serial: u64) {
        self.over.fetch_max(serial, SeqCst);
    }

    /// Whether the run of an order is known to have ended, or to have left the body.
    pub(crate) fn is_over(&self, serial: u64) -> bool {
        self.over.load(SeqCst) >= serial
    }

    /// Notes that a run has left processes behind.
    pub(crate) fn set_left(&self) {
        self.left.store(true, SeqCst);
    }

    /// Whether a run has left processes behind, as far as this side has seen.
    pub(crate) fn has_left(&self) -> bool {
        self.left.load(SeqCst)
    }

    /// Reads one message. False when there is none.
    fn read(&self, inbox: &mut Inbox) -> bool {
        let mut bytes = [0; REPORT_WORDS * 4];
        let got = loop {
            match recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other.map_or(0, |got| got.0),
            }
        };
        if got == bytes.len() {
            inbox.take_in(&bytes);
        }
        got != 0
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        // Each message is taken in as a whole.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inbox {
    fn take_in(&mut self, bytes: &[u8]) {
        let mut words = [0; REPORT_WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = bytes.try_into().map_or(0, u32::from_ne_bytes);
        }
        match Report::from_words(words) {
            Some(Report::Armed { pid, is_shell }) => self.waits = Some(Waits::Armed { pid, is_shell }),
            Some(Report::Clean) => self.waits = Some(Waits::Clean),
            Some(Report::Gone { pid }) => self.waits = Some(Waits::Gone { pid }),
            Some(Report::Refused { serial, step, errno }) => {
                if self.refusals.len() >= MAX_REFUSALS {
                    self.refusals.remove(0);
                }
                self.refusals.push((serial, step, errno));
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regrow_sys::raw;
    use rustix::net::send;

    fn line() -> (Line, OwnedFd) {
        let (ours, theirs) = raw::agent_socket().expect("a socket");
        (Line::new(ours), theirs)
    }

    fn tell(agent: &OwnedFd, report: Report) {
        let bytes: Vec<u8> = report.to_words().into_iter().flat_map(u32::to_ne_bytes).collect();
        send(agent, &bytes, SendFlags::empty()).expect("sent");
    }

    #[test]
    fn a_body_waits_for_what_it_has_told_since_its_last_order() {
        let (line, agent) = line();
        assert_eq!(line.waits(), None);
        let armed = |pid| Report::Armed { pid, is_shell: false };
        tell(&agent, armed(42));
        tell(&agent, Report::Clean);
        let waits = Waits::Armed { pid: 42, is_shell: false };
        assert_eq!((line.waits(), line.waits()), (Some(waits), Some(waits)), "until it is forgotten");
        line.forget();
        assert_eq!(line.waits(), Some(Waits::Clean));
        line.forget();
        assert_eq!(line.waits(), None);
        assert!(!line.await_report(Duration::ZERO));
        tell(&agent, armed(43));
        assert!(line.await_report(Duration::from_secs(60)));
        assert_eq!(line.waits(), Some(Waits::Armed { pid: 43, is_shell: false }));
    }

    #[test]
    fn a_refusal_is_that_of_one_order_and_taken_once() {
        let (line, agent) = line();
        tell(&agent, Report::Refused { serial: 7, step: Refused::Limit, errno: 1 });
        tell(&agent, Report::Armed { pid: 42, is_shell: false });
        tell(&agent, Report::Refused { serial: 8, step: Refused::Directory, errno: 2 });
        assert_eq!(line.take_refusal(6), None);
        assert_eq!(line.take_refusal(8), Some((Refused::Directory, 2)));
        assert_eq!((line.take_refusal(7), line.take_refusal(7)), (Some((Refused::Limit, 1)), None));
        assert_eq!(line.waits(), Some(Waits::Armed { pid: 42, is_shell: false }), "it was read on the way");
    }

    #[test]
    fn refusals_that_nobody_asks_for_do_not_pile_up() {
        let (line, agent) = line();
        for serial in 1..=20 {
            tell(&agent, Report::Refused { serial, step: Refused::Nice, errno: 1 });
        }
        assert_eq!((line.take_refusal(4), line.take_refusal(5)), (None, Some((Refused::Nice, 1))));
    }

    #[test]
    fn what_is_no_report_tells_nothing() {
        let (line, agent) = line();
        for bytes in [&[0u8; REPORT_WORDS * 4][..], b"x", &[0xff; 64]] {
            send(&agent, bytes, SendFlags::empty()).expect("sent");
        }
        tell(&agent, Report::Clean);
        assert_eq!(line.waits(), Some(Waits::Clean));
        assert_eq!(line.take_refusal(0), None);
    }

    #[test]
    fn whoever_waits_for_an_order_sees_that_none_comes_and_can_still_tell() {
        let (line, agent) = line();
        line.close();
        let mut byte = [0];
        assert_eq!(recv(&agent, &mut byte, RecvFlags::empty()).expect("the end").0, 0);
        tell(&agent, Report::Clean);
        assert_eq!(line.waits(), Some(Waits::Clean));
    }

    #[test]
    fn an_order_is_untaken_until_it_is_read() {
        let (line, agent) = line();
        line.set_sent(2);
        assert!(!line.is_untaken(2));
        send(line.socket(), b"g", SendFlags::empty()).expect("sent");
        tell(&agent, Report::Clean);
        assert!(line.is_untaken(2) && !line.is_untaken(1), "an earlier one was taken");
        let mut byte = [0];
        assert_eq!(recv(&agent, &mut byte, RecvFlags::empty()).expect("the order").0, 1);
        assert!(!line.is_untaken(2));
    }

    #[test]
    fn an_earlier_order_is_over_with_a_later_one() {
        let (line, _agent) = line();
        line.set_over(2);
        line.set_over(1);
        assert!(line.is_over(1) && line.is_over(2) && !line.is_over(3));
    }
}
