//! Waiting for a descriptor: a task lets others run meanwhile, a thread sleeps.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// Whether the caller is a task of a runtime.
pub(crate) fn is_in_task() -> bool {
    regrow_fiber::is_in_task()
}

/// Waits until a descriptor can be read, or until the time; whether it can.
pub(crate) fn readable(fd: BorrowedFd<'_>, deadline: Option<Instant>) -> io::Result<bool> {
    match regrow_fiber::io::readable(fd, deadline) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(false),
        Err(error) => Err(error),
    }
}
