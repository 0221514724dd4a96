//! A process that was started, and its end.
//!
//! The process is a child of the caller, however it was made, so that its number is not used again before it has been
//! waited for. It is waited for by number; its pidfd, which a recycled run has no need of, is opened when it is asked
//! for, and belongs to a child of the caller or to nobody. `__WALL` lets the wait find a child whatever its exit signal.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use regrow_body::Bell;
use regrow_sys::raw::pidfd_open;
use rustix::process::{Signal, WaitId, WaitIdOptions, WaitIdStatus};

use crate::ids::ProcessId;
use crate::run::creation::Creation;

/// The bit of a wait status that tells of a core dump.
const CORE_FLAG: i32 = 0x80;

/// What happens to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// This signal has stopped it.
    Stopped(i32),
    /// It goes on after a stop.
    Continued,
    /// It has ended.
    Ended(ExitStatus),
}

/// A process that was started and has not been waited for.
#[derive(Debug)]
pub struct Started {
    /// The number of the process.
    pub pid: i32,
    /// How it was made.
    pub creation: Creation,
    /// Why the modules that were asked for were not loaded ahead, where they can never be.
    pub not_loaded: Option<String>,
    /// Its row in the table of processes.
    pub(crate) process: Option<ProcessId>,
    pidfd: OnceLock<OwnedFd>,
    /// To be rung when the process has been waited for: its body can be put back.
    bell: Option<Bell>,
    /// Set when the process has been waited for.
    over: Arc<AtomicBool>,
    refused: AtomicBool,
}

impl Started {
    /// A process of which the number is known.
    #[must_use]
    pub fn new(pid: i32, creation: Creation) -> Self {
        Self {
            pid,
            creation,
            not_loaded: None,
            process: None,
            pidfd: OnceLock::new(),
            bell: None,
            over: Arc::default(),
            refused: AtomicBool::new(false),
        }
    }

    /// A process of which the pidfd is known too.
    #[must_use]
    pub fn with_pidfd(pid: i32, pidfd: OwnedFd, creation: Creation) -> Self {
        Self { pidfd: OnceLock::from(pidfd), ..Self::new(pid, creation) }
    }

    /// A process that runs in a kept body.
    #[must_use]
    pub fn in_body(pid: i32, bell: Bell, creation: Creation) -> Self {
        Self { bell: Some(bell), ..Self::new(pid, creation) }
    }

    /// What becomes true when the process has been waited for.
    pub(crate) fn over(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.over)
    }

    /// After the wait: whether the process ended before the program's first instruction, because a step of its start
    /// failed. Only a start that was not waited for ends so; the request is to be carried out by exec.
    #[must_use]
    pub fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// The process as a descriptor.
    ///
    /// # Errors
    /// `ESRCH` or `ECHILD` when it has been waited for before anybody asked for this; `EMFILE` without a free descriptor.
    pub fn pidfd(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(pidfd) = self.pidfd.get() {
            return Ok(pidfd.as_fd());
        }
        let opened = pidfd_open(self.pid)?;
        // The number may be another process's if somebody else has waited for this one: it must be a child of ours.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT | wall();
        rustix::process::waitid(WaitId::PidFd(opened.as_fd()), options)?;
        Ok(self.pidfd.get_or_init(|| opened).as_fd())
    }

    /// After the end of a run whose order went through the exchange of its body: what it has answered there, the first time. Before the end
    /// nothing.
    #[must_use]
    pub fn take_answer(&self) -> Option<Vec<u8>> {
        let bell = self.bell.as_ref()?;
        // Somebody else may have waited for it.
        let has_ended = self.over.load(Ordering::Acquire) || !regrow_sys::child::is_living_child(self.pid);
        has_ended.then(|| bell.take_answer())?
    }

    /// Has a process begin that was started ahead of its turn ([`Request::is_ahead`](crate::run::request::Request::is_ahead)).
    pub fn let_go(&self) {
        if let Some(bell) = &self.bell {
            bell.let_go();
        }
    }

    /// Kills the process with `SIGKILL`. A process that has ended and was not waited for can still be killed,
    /// without effect.
    ///
    /// # Errors
    /// What `pidfd_send_signal` says: `ESRCH` when the process was waited for, `EPERM` when it changed its user.
    pub fn kill(&self) -> io::Result<()> {
        Ok(rustix::process::pidfd_send_signal(self.pidfd()?, Signal::KILL)?)
    }

    /// Waits for the end of the process and takes its status. A signal handler that runs meanwhile does not
    /// end the wait.
    ///
    /// # Errors
    /// `ECHILD` when the status was taken already, also by the kernel for a caller that ignores `SIGCHLD`.
    pub fn wait(&self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.wait_once(WaitIdOptions::empty())? {
                return Ok(status);
            }
        }
    }

    /// Takes the status of the process if it has ended.
    ///
    /// # Errors
    /// As [`Started::wait`].
    pub fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        self.wait_once(WaitIdOptions::NOHANG)
    }

    /// When a run of a pool that notes times entered its program, on the monotonic clock in nanoseconds; `None` for others.
    #[must_use]
    pub fn entered_ns(&self) -> Option<u64> {
        self.bell.as_ref().map(Bell::main_ns).filter(|&ns| ns != 0)
    }

    /// What has happened to the process since the last time: it was stopped, goes on, or has ended. After the end the
    /// caller is to call [`Started::give_back`]: whoever waits for the news may be told first.
    ///
    /// # Errors
    /// As [`Started::wait`].
    pub fn try_change(&self) -> io::Result<Option<Change>> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG;
        let Some(status) = self.wait_for(options)? else { return Ok(None) };
        Ok(Some(match (self.note_end(&status), status.stopping_signal()) {
            (Some(ended), _) => Change::Ended(ended),
            (None, Some(signal)) => Change::Stopped(signal),
            (None, None) => Change::Continued,
        }))
    }

    fn wait_once(&self, options: WaitIdOptions) -> io::Result<Option<ExitStatus>> {
        Ok(self.wait_for(options)?.and_then(|status| self.take_end(&status)))
    }

    /// Waits for the end, and what else the options name.
    fn wait_for(&self, options: WaitIdOptions) -> io::Result<Option<WaitIdStatus>> {
        let options = options | WaitIdOptions::EXITED | wall();
        let pid = rustix::process::Pid::from_raw(self.pid).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(rustix::io::retry_on_intr(|| rustix::process::waitid(WaitId::Pid(pid), options))?)
    }

    /// Lets the body of a process that has ended be put back.
    pub fn give_back(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }

    /// The end that a status tells of, if it does: the body is given back then.
    fn take_end(&self, status: &WaitIdStatus) -> Option<ExitStatus> {
        let ended = self.note_end(status)?;
        self.give_back();
        Some(ended)
    }

    /// The end that a status tells of, if it does.
    fn note_end(&self, status: &WaitIdStatus) -> Option<ExitStatus> {
        let ended = exit_status(status)?;
        self.over.store(true, Ordering::Release);
        if let Some(bell) = &self.bell {
            bell.run_is_over();
            // One that was killed is not made again.
            if ended.code().is_some_and(|code| bell.was_refused(code)) {
                self.refused.store(true, Ordering::Relaxed);
            }
        }
        Some(ended)
    }
}

/// Wait for children of every kind, also for one whose exit signal is not `SIGCHLD`.
fn wall() -> WaitIdOptions {
    WaitIdOptions::from_bits_retain(libc::__WALL.cast_unsigned())
}

/// The end that a `waitid` tells of, as the status that `wait4` would give.
fn exit_status(status: &WaitIdStatus) -> Option<ExitStatus> {
    let raw = if let Some(code) = status.exit_status() {
        (code & 0xff) << 8
    } else {
        let core = if status.dumped() { CORE_FLAG } else { 0 };
        status.terminating_signal()? | core
    };
    Some(ExitStatus::from_raw(raw))
}
