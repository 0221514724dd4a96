//! The ticket of a run: an eventfd that holds one, which one of both sides takes.
//!
//! The client issues it and sends it with the message. The daemon takes it right before it starts the run. A client whose
//! daemon is gone takes it back: if it can, nothing was started.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::EventfdFlags;
use rustix::io::ReadWriteFlags;

/// See the module.
#[derive(Debug)]
pub(crate) struct Ticket(Arc<OwnedFd>);

impl Ticket {
    /// One that is not issued.
    pub(crate) fn new() -> io::Result<Ticket> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Ticket(Arc::new(rustix::event::eventfd(0, flags)?)))
    }

    /// Has it be there once. One that the daemon did not take is not there twice.
    pub(crate) fn issue(&self) -> io::Result<()> {
        self.take();
        rustix::io::write(&*self.0, &1u64.to_ne_bytes())?;
        Ok(())
    }

    /// Takes it. False when somebody else has, or it cannot be had. Does not wait, whatever the descriptor is that somebody
    /// has sent.
    pub(crate) fn take(&self) -> bool {
        const AT_ITS_POSITION: u64 = u64::MAX;
        let mut value = [0u8; 8];
        let mut parts = [IoSliceMut::new(&mut value)];
        let taken = rustix::io::preadv2(&*self.0, &mut parts, AT_ITS_POSITION, ReadWriteFlags::NOWAIT);
        matches!(taken, Ok(8))
    }
}

/// One that a client has sent.
impl From<Arc<OwnedFd>> for Ticket {
    fn from(fd: Arc<OwnedFd>) -> Self {
        Self(fd)
    }
}

impl AsFd for Ticket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_taken_once_and_nothing_else_is_waited_for() {
        let ticket = Ticket::new().expect("an eventfd");
        assert!(!ticket.take());
        ticket.issue().expect("it can be written to");
        ticket.issue().expect("it can be written to");
        assert!(ticket.take());
        assert!(!ticket.take());
        let blocking = rustix::event::eventfd(1, EventfdFlags::empty()).expect("an eventfd");
        let blocking = Ticket::from(Arc::new(blocking));
        assert!(blocking.take());
        assert!(!blocking.take());
        let (read, _write) = rustix::pipe::pipe().expect("a pipe");
        assert!(!Ticket::from(Arc::new(read)).take());
    }
}
