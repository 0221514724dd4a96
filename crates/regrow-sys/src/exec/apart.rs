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
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use rustix::io::retry_on_intr;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::{ChildStart, EXIT_NO_EXEC, Plan, SignalsBlocked, become_program, check};
use crate::raw::{pidfd_open, wait_pid};

/// The user and the groups that a process is to have. What is not said it has from the caller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The user: real, effective and saved.
    pub uid: Option<u32>,
    /// The group: real, effective and saved.
    pub gid: Option<u32>,
    /// The supplementary groups. Where a user is named and these are not, there are none, if the caller may say so.
    pub groups: Option<Vec<u32>>,
}

impl Identity {
    /// Whether all of it is the caller's.
    #[must_use]
    pub fn is_callers(&self) -> bool {
        *self == Self::default()
    }

    /// Gives it to this process: the user last, as it may take the right to the rest.
    pub(super) fn take_on(&self) -> Result<(), i32> {
        if let Some(groups) = &self.groups {
            // SAFETY: the groups are as many as is said, and are only read.
            check(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) }.into())?;
        }
        if let Some(gid) = self.gid {
            // SAFETY: a number only.
            check(unsafe { libc::setgid(gid) }.into())?;
        }
        let Some(uid) = self.uid else { return Ok(()) };
        if self.groups.is_none() {
            // SAFETY: no group is read.
            match check(unsafe { libc::setgroups(0, std::ptr::null()) }.into()) {
                Ok(()) | Err(libc::EPERM) => {}
                Err(errno) => return Err(errno),
            }
        }
        // SAFETY: a number only.
        check(unsafe { libc::setuid(uid) }.into())
    }
}

/// What is called in the process just before it executes the program. An error of it starts nothing.
#[derive(Clone)]
pub struct Hook(Arc<Mutex<HookFunction>>);

type HookFunction = dyn FnMut() -> io::Result<()> + Send + Sync;

impl Hook {
    /// A hook that calls this function. It must be one that may run in a forked copy of a process with threads.
    pub fn new(function: impl FnMut() -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Mutex::new(function)))
    }

    /// Calls it. A panic ends the process, as there is nobody to catch it.
    pub(super) fn call(&self) -> Result<(), i32> {
        let called = catch_unwind(AssertUnwindSafe(|| {
            // A hook that another thread called when this process was forked is locked for ever.
            let mut function = self.0.try_lock().map_err(|_| io::Error::from_raw_os_error(libc::EDEADLK))?;
            function()
        }));
        match called {
            Ok(result) => result.map_err(|error| error.raw_os_error().unwrap_or(libc::EINVAL)),
            Err(_) => std::process::abort(),
        }
    }
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hook")
    }
}

impl Plan<'_> {
    /// Forks the child, and waits until it has executed the program or has ended.
    pub(super) fn fork_child(&self) -> io::Result<(i32, OwnedFd)> {
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let theirs = self.beyond_targets(theirs)?;
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
    fn beyond_targets(&self, socket: OwnedFd) -> io::Result<OwnedFd> {
        let highest = self.moves.last().map_or(2, |step| step.target);
        Ok(rustix::io::fcntl_dupfd_cloexec(&socket, highest.saturating_add(1).max(3))?)
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
    if retry_on_intr(|| rustix::io::read(theirs, &mut told)) == Ok(told.len()) {
        if let Err(errno) = become_program(start) {
            // Nobody else is told.
            let _ = rustix::net::send(theirs, &errno.to_ne_bytes(), rustix::net::SendFlags::NOSIGNAL);
        }
    }
    // SAFETY: ends this process without the exit handlers, which are the caller's.
    unsafe { libc::_exit(EXIT_NO_EXEC) }
}
