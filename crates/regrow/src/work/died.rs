//! How a work ended that has no result.

use std::any::Any;
use std::io;
use std::time::Duration;

use regrow_fiber::JoinError;
use thiserror::Error;

use super::weight::Weight;

/// Why a work has no result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Died {
    /// It has panicked.
    #[error("the work has panicked: {message}")]
    Panicked {
        /// With these words.
        message: String,
    },
    /// It was cancelled, or what ran it has ended.
    #[error("the work was cancelled")]
    Cancelled,
    /// Its time was over.
    #[error("the work was not done within {0:?}")]
    TimedOut(Duration),
    /// A signal has ended its process.
    #[error("signal {signal} has ended the process of the work")]
    Signal {
        /// The number of the signal.
        signal: i32,
    },
    /// Its process has ended itself.
    #[error("the process of the work has exited with {code} and without a result")]
    Exited {
        /// The exit code.
        code: i32,
    },
    /// It was refused memory, and has ended.
    #[error("the work has used up the {bytes} bytes of memory that it may use")]
    MemoryLimit {
        /// What it may use more than it began with.
        bytes: u64,
    },
    /// It was not started.
    #[error("the work was not started as a {weight}: {source}")]
    NotStarted {
        /// How it was to be started.
        weight: Weight,
        /// Why it was not.
        source: StartError,
    },
    /// It has ended, and nobody knows how.
    #[error("how the work ended is lost: {0}")]
    Lost(String),
}

/// Why a work was not started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The kernel says no.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Such a work cannot be done by so much process.
    #[error("{work} runs as {fits}")]
    Weight {
        /// What was to be done.
        work: &'static str,
        /// By what it can be done.
        fits: &'static str,
    },
    /// The program has not said where it is ready.
    #[error("the program has not called regrow::work::ready(), behind which fresh processes of it begin")]
    NotReady,
    /// What goes from process to process cannot be put into bytes.
    #[error("its arguments cannot be passed on: {0}")]
    Arguments(String),
    /// The process could not begin.
    #[error("the process has refused: {0}")]
    Refused(String),
    /// No stack, or no thread.
    #[error("{0}")]
    Fiber(String),
}

impl Died {
    pub(crate) fn not_started(weight: Weight, source: impl Into<StartError>) -> Self {
        Self::NotStarted { weight, source: source.into() }
    }

    /// What a panic says.
    pub(crate) fn panicked(payload: &(dyn Any + Send)) -> Self {
        Self::Panicked { message: words_of(payload) }
    }
}

/// What a panic says, in words.
pub(crate) fn words_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words").to_owned()
}

/// The end of a task.
pub(crate) fn of_task(weight: Weight, error: JoinError) -> Died {
    match error {
        JoinError::Panicked(payload) => Died::panicked(payload.as_ref()),
        JoinError::Cancelled => Died::Cancelled,
        JoinError::Taken => Died::Lost(error.to_string()),
        other => Died::not_started(weight, StartError::Fiber(other.to_string())),
    }
}
