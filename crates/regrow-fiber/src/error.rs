//! What can go wrong with fibers.

use std::any::Any;
use std::{fmt, io};

use thiserror::Error;

/// Why there is no stack.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StackError {
    /// A stack cannot be so small or so large.
    #[error("a stack of {bytes} bytes: between {least} and {most} bytes are possible")]
    Size {
        /// What was asked for.
        bytes: usize,
        /// The least.
        least: usize,
        /// The most.
        most: usize,
    },
    /// The kernel gives no memory.
    #[error("{stacks} stacks of {bytes} bytes cannot be mapped")]
    Memory {
        /// How many were asked for in one piece.
        stacks: usize,
        /// The size of each.
        bytes: usize,
        /// The kernel's word.
        source: io::Error,
    },
    /// The kernel gives no guard pages.
    #[error("no guard page below a stack of {bytes} bytes")]
    Guard {
        /// The size of the stack.
        bytes: usize,
        /// The kernel's word; `ENOMEM`: the process has as many mappings as it may (`vm.max_map_count`).
        source: io::Error,
    },
    /// As many stacks were mapped as are kept account of.
    #[error("stacks were mapped {regions} times, which is the most")]
    Regions {
        /// How often.
        regions: usize,
    },
    /// A thread has no stack for its signal handlers, so that the end of another stack could not be told.
    #[error("no alternate stack for signals")]
    Alternate(#[source] io::Error),
    /// The processor checks return addresses against a second stack, which is not switched.
    #[error(
        "this process has a shadow stack (CET), on which fibers would fault: it can be started without one, by GLIBC_TUNABLES"
    )]
    ShadowStack,
}

/// Why a task has no result.
#[derive(Error)]
#[non_exhaustive]
pub enum JoinError {
    /// Its function has panicked, with this.
    #[error("the task has panicked{}", in_words(.0.as_ref()))]
    Panicked(Box<dyn Any + Send>),
    /// It was cancelled, or its runtime has ended.
    #[error("the task was cancelled")]
    Cancelled,
    /// There was no stack for it.
    #[error(transparent)]
    Stack(StackError),
    /// The caller is in no task of a runtime, which could run it.
    #[error("there is no runtime here: tasks are started from within Runtime::run")]
    NoRuntime,
    /// Somebody has taken its result before.
    #[error("the result of the task was taken before")]
    Taken,
}

fn in_words(payload: &(dyn Any + Send)) -> String {
    let words = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    words.map(|words| format!(": {words}")).unwrap_or_default()
}

impl fmt::Debug for JoinError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "JoinError({self})")
    }
}

/// The other side of a channel is gone, and with it the value that was to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("nobody receives from this channel any more")]
pub struct SendError<T>(pub T);

/// Why a value could not be sent at once; it comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TrySendError<T> {
    /// The channel is full.
    #[error("the channel is full")]
    Full(T),
    /// Nobody receives any more.
    #[error("nobody receives from this channel any more")]
    Closed(T),
}

/// Why nothing was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ReceiveError {
    /// There is nothing at present, or the time is over.
    #[error("the channel is empty")]
    Empty,
    /// Nobody sends any more, and all that was sent was received.
    #[error("nobody sends to this channel any more")]
    Closed,
}

/// Why a runtime does not begin.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// A worker has no thread.
    #[error("no thread for worker {number}")]
    Thread {
        /// Its number.
        number: usize,
        /// The system's word.
        source: io::Error,
    },
    /// There would be more workers than a process may have.
    #[error("a process has {most} workers of runtimes at most")]
    Workers {
        /// The most.
        most: u64,
    },
    /// The first task has no stack.
    #[error(transparent)]
    Stack(#[from] StackError),
}
