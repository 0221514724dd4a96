//! Fresh tasks: those that have not begun. They have no stack, so that workers may take them from one another.

#![allow(unsafe_code, reason = "what may go to other threads is not said by the type that goes")]

use std::panic::Location;
use std::sync::Arc;

use crate::control::ControlAddress;
use crate::error::StackError;
use crate::post::Post;
use crate::queues::{Deque, Steal, Stealer};

/// What a task runs: it has no result, and does not panic.
pub(crate) type Function = Box<dyn FnOnce()>;

/// A task that has not begun.
pub(crate) struct Fresh {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) stack_bytes: usize,
    /// Where it was created.
    pub(crate) site: &'static Location<'static>,
    pub(crate) function: Box<dyn Start>,
}

/// What a fresh task becomes.
pub(crate) trait Start {
    /// It runs, at this address.
    fn begin(self: Box<Self>, control: ControlAddress, birth: u64, post: &'static Post) -> Function;
    /// It will not run: there is no stack.
    fn refuse(self: Box<Self>, error: StackError);
}

/// A fresh task that may go to another thread.
pub(crate) struct FreshSend(Fresh);

// SAFETY: made of functions that may go to other threads alone: see `FreshSend::new`.
unsafe impl Send for FreshSend {}

impl FreshSend {
    pub(crate) fn new(
        name: Option<Arc<str>>,
        stack_bytes: usize,
        site: &'static Location<'static>,
        function: Box<dyn Start + Send>,
    ) -> Self {
        Self(Fresh { name, stack_bytes, site, function })
    }

    /// Where it was created.
    #[inline]
    pub(crate) fn site(&self) -> &'static Location<'static> {
        self.0.site
    }

    /// On the thread where it is to run.
    #[inline]
    pub(crate) fn here(self) -> Fresh {
        self.0
    }
}

/// Fresh tasks that any worker may take; those that are predicted to run long stand apart.
pub(crate) struct FreshQueues {
    fresh: Deque<FreshSend>,
    long: Deque<FreshSend>,
}

/// Where others take them.
#[derive(Debug)]
pub(crate) struct FreshStealers {
    fresh: Stealer<FreshSend>,
    long: Stealer<FreshSend>,
}

impl FreshQueues {
    pub(crate) fn new() -> Self {
        Self { fresh: Deque::new_fifo(), long: Deque::new_fifo() }
    }

    pub(crate) fn stealers(&self) -> FreshStealers {
        FreshStealers { fresh: self.fresh.stealer(), long: self.long.stealer() }
    }

    pub(crate) fn put(&self, fresh: FreshSend) {
        self.fresh.push(fresh);
    }

    /// Puts one aside that is predicted to run long.
    pub(crate) fn put_long(&self, fresh: FreshSend) {
        self.long.push(fresh);
    }

    /// Whether one is here that is predicted to run long.
    pub(crate) fn has_long(&self) -> bool {
        !self.long.is_empty()
    }

    /// The next one, own or another worker's; this worker has that number.
    #[inline]
    pub(crate) fn next(&self, number: usize, all: &[FreshStealers]) -> Option<FreshSend> {
        self.fresh.pop().or_else(|| steal(&self.fresh, number, all, |theirs| &theirs.fresh))
    }

    /// The same of those that are predicted to run long.
    pub(crate) fn next_long(&self, number: usize, all: &[FreshStealers]) -> Option<FreshSend> {
        self.long.pop().or_else(|| steal(&self.long, number, all, |theirs| &theirs.long))
    }

    /// Drops all that are here.
    pub(crate) fn drop_all(&self, may_be_long: bool) {
        while self.fresh.pop().is_some() {}
        while may_be_long && self.long.pop().is_some() {}
    }
}

impl FreshStealers {
    /// Whether there is any.
    pub(crate) fn has_any(&self, may_be_long: bool) -> bool {
        !self.fresh.is_empty() || (may_be_long && !self.long.is_empty())
    }
}

/// Takes one of another worker's, and some more along.
#[inline]
fn steal(
    to: &Deque<FreshSend>,
    number: usize,
    all: &[FreshStealers],
    of: impl Fn(&FreshStealers) -> &Stealer<FreshSend>,
) -> Option<FreshSend> {
    (1..all.len()).find_map(|step| {
        let stealer = of(&all[(number + step) % all.len()]);
        loop {
            match stealer.steal_batch_and_pop(to) {
                Steal::Success(fresh) => return Some(fresh),
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
    })
}
