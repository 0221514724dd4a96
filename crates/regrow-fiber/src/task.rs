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
use std::ptr;
use std::sync::atomic::AtomicU64;

use crate::arch::Position;

/// Why a wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Woken {
    /// What was waited for was put into its hand.
    #[default]
    Given,
    /// What was waited for has happened.
    Happened,
    /// Its hand was closed: it is to look for itself, and may still stand where it waits.
    Disturbed,
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
    /// The number of its present wait; 0: it does not wait, or with its hand open.
    pub(crate) wait: AtomicU64,
    /// Its hand: where it waits for a value to be put; null: it does not. All such waits of a task have the number of its birth, so that what comes too late
    /// may end one: it is *disturbed*, and looks for itself.
    pub(crate) hand: Cell<*mut ()>,
    /// How its last wait ended; `Given` from when it has seen that until the next one ends.
    pub(crate) woken: Cell<Woken>,
    /// It ends at its next wait.
    pub(crate) is_cancelled: Cell<bool>,
    /// How it is scheduled.
    pub(crate) marks: Cell<Marks>,
    /// The number of its site, or of the look at it.
    pub(crate) site: Cell<u32>,
}

/// How a task is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks(u8);

impl Marks {
    /// As most tasks are.
    pub(crate) const NONE: Self = Self(0);
    /// It runs after those that are not.
    pub(crate) const LONG: Self = Self(1);
    /// It is seen how long it runs.
    pub(crate) const LOOKED_AT: Self = Self(2);
    /// Whether it is long was said by itself: no prediction changes it.
    pub(crate) const BY_HAND: Self = Self(4);

    /// Both marks.
    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The marks without those.
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether it has one of those.
    #[inline]
    pub(crate) const fn has(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }

    /// Whether the worker's loop alone lets it run, and comes back when it leaves.
    #[inline]
    pub(crate) const fn is_for_loop(self) -> bool {
        self.has(Self::LONG.with(Self::LOOKED_AT))
    }
}

impl Task {
    pub(crate) const fn new() -> Self {
        Self {
            position: Cell::new(Position::NONE),
            wait: AtomicU64::new(0),
            hand: Cell::new(ptr::null_mut()),
            woken: Cell::new(Woken::Given),
            is_cancelled: Cell::new(false),
            marks: Cell::new(Marks::NONE),
            site: Cell::new(0),
        }
    }

    /// It is about to begin.
    #[inline]
    pub(crate) fn begin(&self, position: Position, marks: Marks, site: u32) {
        self.position.set(position);
        self.hand.set(ptr::null_mut());
        self.woken.set(Woken::Given);
        self.is_cancelled.set(false);
        self.marks.set(marks);
        self.site.set(site);
    }
}
