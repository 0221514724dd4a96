//! Exec where the child must not share the caller's memory: with another user, and with hooks.
//!
//! ```text
//!   caller                          child (a fork, with memory of its own)
//!   socket pair, fork ────────────▶ waits for a byte
//!   opens the pidfd
//!   a byte ───────────────────────▶ as every child, then the user and the hooks
//!   ◀───────────────────────────── execve closes its end; if something fails: errno, _exit
//! ```
//!
//! A change of the user makes the memory undumpable, for all who share it: the caller could not be traced any more, nor its
//! files in `/proc` be read. A hook may write to the memory. The C library forks, so that its locks and those of others
//! (`pthread_atfork`) are free in the child, where a hook may allocate: as `std::process` does it.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::retry_on_intr;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::{ChildStart, EXIT_NO_EXEC, Plan, SignalsBlocked, become_program};
use crate::raw::{pidfd_open, wait_pid};

impl Plan<'_> {
    /// Forks the child, and waits until it has executed the program or has ended.
    pub(super) fn fork_child(&self) -> io::Result<(i32, OwnedFd)> {
        let (ours, near) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let theirs = self.beyond_targets(&near)?;
        // The caller hears of the child's end only when nobody else has it.
        drop(near);
        let signals = SignalsBlocked::new()?;
        let mask = self.task.blocked_signals().unwrap_or(signals.before);
        // SAFETY: the child calls what may be called in a forked copy of a process with threads, as the makers of the
        // hooks promise of them, and never returns from here.
        match unsafe { libc::fork() } {
            ..0 => Err(io::Error::last_os_error()),
            0 => {
                drop(ours);
                become_told(&ChildStart { plan: self, mask }, &theirs)
            }
            pid => {
                drop(theirs);
                begin(pid, &ours).inspect_err(|_| {
                    drop(ours);
                    // It has ended, or sees that nobody tells it to go on.
                    let _ = wait_pid(pid, false);
                })
            }
        }
    }

    /// The socket under a number that no descriptor of the child takes.
    fn beyond_targets(&self, socket: &OwnedFd) -> io::Result<OwnedFd> {
        let highest = self.moves.last().map_or(2, |step| step.target);
        Ok(rustix::io::fcntl_dupfd_cloexec(socket, highest.saturating_add(1).max(3))?)
    }
}

/// The caller's part: tells the child to go on, and hears how that went.
fn begin(pid: i32, ours: &OwnedFd) -> io::Result<(i32, OwnedFd)> {
    // While it waits, it is there.
    let pidfd = pidfd_open(pid)?;
    // One that was killed meanwhile says nothing either, and its status tells why.
    let _ = rustix::net::send(ours, &[0], rustix::net::SendFlags::NOSIGNAL);
    let mut errno = [0; size_of::<i32>()];
    let mut received = 0;
    while let Some(room) = errno.get_mut(received..).filter(|room| !room.is_empty()) {
        match retry_on_intr(|| rustix::io::read(ours, &mut *room)) {
            Ok(0) | Err(_) => return Ok((pid, pidfd)),
            Ok(bytes) => received += bytes,
        }
    }
    Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno)))
}

/// The child's part.
fn become_told(start: &ChildStart<'_>, theirs: &OwnedFd) -> ! {
    let mut told = [0];
    let goes_on = retry_on_intr(|| rustix::io::read(theirs, &mut told)) == Ok(told.len());
    if let Some(Err(errno)) = goes_on.then(|| become_program(start)) {
        // Nobody else is told.
        let _ = rustix::net::send(theirs, &errno.to_ne_bytes(), rustix::net::SendFlags::NOSIGNAL);
    }
    // SAFETY: ends this process without the exit handlers, which are the caller's.
    unsafe { libc::_exit(EXIT_NO_EXEC) }
}
