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
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.map(|left| std::time::Duration::try_into(left).unwrap_or_default());
        let mut polled = [rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN)];
        match rustix::event::poll(&mut polled, timeout.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
