//! Works that have a process of their own: waiting for its end, ending it, and what it has answered.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Instant;

use regrow_engine::run::creation::Creation;
use regrow_sys::raw::{pidfd_open, wait_pid};
use rustix::process::{Signal, pidfd_send_signal};

use super::died::{Died, StartError};
use super::exchange::{Answer, Exchange, from_bytes};
use super::printed::Printed;
use super::weight::Weight;
use crate::{Child, Output};

/// A process that does a work.
#[derive(Debug)]
pub(crate) struct Process<T> {
    pub(crate) weight: Weight,
    pub(crate) task: Task,
    /// What its end means.
    pub(crate) result: Outcome<T>,
    /// How much memory it may use more than it began with.
    pub(crate) memory: u64,
}

/// A process of the kernel's, that is waited for once.
#[derive(Debug)]
pub(crate) enum Task {
    /// One that the engine has started.
    Child(Box<Child>),
    /// A copy of this one.
    Copy {
        /// Its number.
        pid: i32,
        /// The same as a descriptor.
        pidfd: OwnedFd,
        /// Whether it was waited for.
        is_over: bool,
    },
}

/// Where the result of a process is.
#[derive(Debug)]
pub(crate) enum Outcome<T> {
    /// In its exchange.
    Exchange(Exchange, fn(&[u8]) -> Result<T, String>),
    /// What it has printed.
    Printed(Printed, fn(Output) -> Result<T, Died>),
}

impl Task {
    /// A copy of this process.
    pub(crate) fn copy(pid: i32) -> io::Result<Self> {
        Ok(Self::Copy { pid, pidfd: pidfd_open(pid)?, is_over: false })
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        match self {
            Self::Child(child) => child.id(),
            Self::Copy { pid, .. } => pid.unsigned_abs(),
        }
    }

    /// How it was made, where the engine has made it.
    pub(crate) fn creation(&self) -> Option<&Creation> {
        match self {
            Self::Child(child) => Some(child.creation()),
            Self::Copy { .. } => None,
        }
    }

    /// Whether it has ended before it began, and is to be executed anew.
    pub(crate) fn was_refused(&self) -> bool {
        matches!(self, Self::Child(child) if child.was_refused())
    }

    pub(crate) fn pidfd(&self) -> io::Result<BorrowedFd<'_>> {
        match self {
            Self::Child(child) => child.pidfd(),
            Self::Copy { pidfd, .. } => Ok(pidfd.as_fd()),
        }
    }

    /// Kills it; one that has ended is left alone.
    pub(crate) fn kill(&self) -> io::Result<()> {
        match pidfd_send_signal(self.pidfd()?, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until its end, or the time; whether it has ended.
    pub(crate) fn ends_until(&self, deadline: Option<Instant>) -> io::Result<bool> {
        super::waiting::readable(self.pidfd()?, deadline)
    }

    /// Takes its end, for which it waits if it must.
    pub(crate) fn end(&mut self) -> io::Result<ExitStatus> {
        match self {
            Self::Child(child) => child.wait(),
            Self::Copy { pid, is_over, .. } => {
                let status = wait_pid(*pid, false)?.ok_or(io::ErrorKind::NotFound)?;
                *is_over = true;
                Ok(ExitStatus::from_raw(status))
            }
        }
    }

    /// Takes its end, if it has ended.
    pub(crate) fn try_end(&mut self) -> io::Result<Option<ExitStatus>> {
        match self {
            Self::Child(child) => child.try_wait(),
            Self::Copy { is_over: true, .. } => Err(io::ErrorKind::NotFound.into()),
            Self::Copy { pid, is_over, .. } => {
                let status = wait_pid(*pid, true)?;
                *is_over = status.is_some();
                Ok(status.map(ExitStatus::from_raw))
            }
        }
    }
}

impl<T> Process<T> {
    /// Waits for the end, until the time; `None`: it has not ended.
    pub(crate) fn join_until(&mut self, deadline: Option<Instant>) -> Option<Result<T, Died>> {
        // Whoever may simply sleep does, without a descriptor.
        let may_sleep = deadline.is_none() && !super::waiting::is_in_task();
        if !may_sleep {
            match self.task.ends_until(deadline) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(lost(&error))),
            }
        }
        Some(self.task.end().map_err(|error| lost(&error)).and_then(|status| self.result_of(status)))
    }

    /// What an end means.
    fn result_of(&mut self, status: ExitStatus) -> Result<T, Died> {
        let (exchange, read) = match &mut self.result {
            Outcome::Exchange(exchange, read) => (exchange, *read),
            Outcome::Printed(printed, made) => {
                return match status.signal() {
                    Some(signal) => Err(Died::Signal { signal }),
                    None => printed.output(status).map_err(|error| lost(&error)).and_then(*made),
                };
            }
        };
        match exchange.answered(self.memory).map_err(|error| lost(&error))? {
            Answer::WantOfMemory => Err(Died::MemoryLimit { bytes: self.memory }),
            _ if status.signal().is_some() => {
                Err(Died::Signal { signal: status.signal().unwrap_or_default() })
            }
            Answer::Done(bytes) => read(&bytes).map_err(|error| Died::Lost(format!("its result: {error}"))),
            Answer::Panicked(message) => Err(Died::Panicked { message }),
            Answer::Refused(why) => Err(Died::not_started(self.weight, StartError::Refused(why))),
            Answer::TooLarge(bytes) => Err(Died::Lost(format!("its result of {bytes} bytes is too large"))),
            Answer::Nothing => Err(Died::Exited { code: status.code().unwrap_or_default() }),
        }
    }
}

/// The reader of a result.
pub(crate) fn reader<T: serde::de::DeserializeOwned>() -> fn(&[u8]) -> Result<T, String> {
    from_bytes
}

/// A process whose end nobody could see.
pub(crate) fn lost(error: &io::Error) -> Died {
    Died::Lost(error.to_string())
}
