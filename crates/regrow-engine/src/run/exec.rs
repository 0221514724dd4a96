//! Runs that are not recycled: a request, started by exec.
//!
//! Errors are the plain `errno` of the step that failed, as `posix_spawn` reports it: a program that is not executable by
//! its format is `ENOEXEC` and is not given to a shell.

use std::ffi::CString;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use regrow_sys::exec::Spawn;
use regrow_sys::ptrace;

use crate::run::creation::{Creation, Fallback};
use crate::run::request::Request;
use crate::run::started::Started;

/// Starts the process that `request` describes by exec. `why` is the reason that it is not recycled.
///
/// The run has the descriptors of [`Request::descriptors`] and no others, the caller's signal mask and
/// ignored signals (`SIGPIPE` alone is set to its default, as `std::process` does), and everything else from the
/// caller that the request does not set.
///
/// # Errors
/// As [`Spawn::start`].
pub fn spawn_exec(request: &Request, why: Fallback) -> io::Result<Started> {
    let (pid, pidfd) = Prepared::of(request)?.spawn().start()?;
    let started = Started::with_pidfd(pid, pidfd, Creation::Exec { why });
    if request.traced { trace(started) } else { Ok(started) }
}

/// Makes the calling process the one that `request` describes. Returns only with an error, as [`Spawn::replace_caller`].
#[must_use]
pub fn replace_caller(request: &Request) -> io::Error {
    match Prepared::of(request) {
        Ok(prepared) => prepared.spawn().replace_caller(),
        Err(error) => error,
    }
}

/// A request with what is looked up for its exec.
struct Prepared<'r> {
    request: &'r Request,
    candidates: Vec<CString>,
    fds: Vec<(BorrowedFd<'r>, RawFd)>,
}

impl<'r> Prepared<'r> {
    fn of(request: &'r Request) -> io::Result<Self> {
        Ok(Self { request, candidates: request.candidates(), fds: request.descriptors()? })
    }

    fn spawn(&self) -> Spawn<'_> {
        let request = self.request;
        Spawn {
            candidates: &self.candidates,
            argv0: request.argv0(),
            args: &request.args,
            env: &request.env,
            fds: &self.fds,
            directory: request.current_dir.as_deref(),
            task: &request.task,
            identity: &request.identity,
            hooks: &request.hooks,
        }
    }
}

/// Traces a process that has just executed its program. One that is over already, on a busy machine, cannot be traced
/// any more: `Interrupted`.
fn trace(started: Started) -> io::Result<Started> {
    if let Err(error) = ptrace::seize_to_exit(started.pid) {
        let _ = started.kill();
        started.wait()?;
        let is_over = error.raw_os_error() == Some(libc::EPERM);
        return Err(if is_over { io::ErrorKind::Interrupted.into() } else { error });
    }
    Ok(started)
}

#[cfg(test)]
mod tests;
