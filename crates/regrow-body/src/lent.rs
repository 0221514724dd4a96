//! What there is to say of a body that is lent: to its owner, and to its borrower.

use std::os::fd::OwnedFd;

/// Whether a body can be lent, or is.
#[derive(Debug)]
pub(crate) enum Lending {
    No,
    /// By its control area.
    Possible(OwnedFd),
    /// This process was armed then.
    Lent(i32),
}

impl Lending {
    pub(crate) fn is_lent(&self) -> bool {
        matches!(self, Lending::Lent(_))
    }
}

/// What the borrower of a body is given.
#[derive(Debug)]
pub struct Lent {
    /// The owner's end of the body's socket.
    pub socket: OwnedFd,
    /// The control area.
    pub control: OwnedFd,
    /// The process that waits for the first order.
    pub armed: i32,
    /// The keeper.
    pub keeper: i32,
}

/// How a lease ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseEnd {
    /// The borrower waits for the run that is under way.
    RunGoesOn,
    /// The borrower is gone.
    RunIsKilled,
}
