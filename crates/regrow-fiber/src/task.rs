//! A task: a fiber that a worker runs, instead of whoever has made it.
//!
//! ```text
//!   fresh ──worker takes it──> ready ──> running ──> waiting ──woken──> ready …
//!                                            └──> ended
//! ```
//!
//! What stands here is in the control block, and its worker's thread alone changes it. Others say what they want in the worker's post, with the
//! number of the wait that they mean: no two waits of the process have the same number, so that what comes too late is not taken for another wait.
//! A control block can be looked at when its fiber is gone: its memory stays mapped, and then says that nothing waits.

use std::cell::Cell;
use std::sync::atomic::AtomicU64;

use crate::arch::Position;

/// Why a wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Woken {
    /// What was waited for has happened.
    #[default]
    Happened,
    /// The time is over.
    TimedOut,
    /// The task is cancelled.
    Cancelled,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Task {
    /// Where it goes on, while it does not run.
    pub(crate) position: Cell<Position>,
    /// The number of its present wait; 0: it does not wait.
    pub(crate) wait: AtomicU64,
    /// How its last wait ended.
    pub(crate) woken: Cell<Woken>,
    /// It ends at its next wait.
    pub(crate) is_cancelled: Cell<bool>,
    /// It runs after those that are not.
    pub(crate) is_long: Cell<bool>,
}

impl Task {
    pub(crate) const fn new() -> Self {
        Self {
            position: Cell::new(Position::NONE),
            wait: AtomicU64::new(0),
            woken: Cell::new(Woken::Happened),
            is_cancelled: Cell::new(false),
            is_long: Cell::new(false),
        }
    }

    /// It is about to begin.
    pub(crate) fn begin(&self, position: Position) {
        self.position.set(position);
        self.woken.set(Woken::Happened);
        self.is_cancelled.set(false);
        self.is_long.set(false);
    }
}
