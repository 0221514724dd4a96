//! What is given back, when and why, and what was: T1, T2, H1 and H2 are those of Taniguchi, Yamauchi and Tamura (2020), 3.2.2, for pages.
//!
//! Why `MADV_DONTNEED`, and why in one call: decision 044. Blocks that clients keep for themselves are in use for the zones, and stay:
//! [`crate::Client::trim`].

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::units::CHUNK_PAGES;
use crate::zone::Limits;

/// What is given back, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GiveBack {
    /// Whole chunks that nobody has needed for so long go back, up to twice as long after they became idle; zero: never.
    pub t1: Duration,
    /// The same for blocks of all sizes. Longer than `t1`.
    pub t2: Duration,
    /// So many idle pages each zone keeps when chunks are given back.
    pub h1_pages: u64,
    /// So many when blocks of all sizes are. A zone that never has had more is not looked at.
    pub h2_pages: u64,
    /// All that is idle goes back when the kernel says that memory is short.
    pub on_pressure: bool,
}

impl GiveBack {
    /// Nothing, unless it is asked for ([`crate::Service::give_back_now`]). There is no thread for it.
    pub const NEVER: GiveBack =
        GiveBack { t1: Duration::ZERO, t2: Duration::ZERO, h1_pages: 0, h2_pages: 0, on_pressure: false };

    /// Whether somebody has to look or to listen.
    pub(crate) fn needs_keeper(&self) -> bool {
        self.on_pressure || !self.t1.is_zero() || !self.t2.is_zero()
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits { h1_pages: self.h1_pages, h2_pages: self.h2_pages }
    }
}

impl Default for GiveBack {
    /// Chunks after a second, but for 8 MiB of each zone; all but 2 MiB after four; and all of it under pressure.
    fn default() -> GiveBack {
        let (t1, t2) = (Duration::from_secs(1), Duration::from_secs(4));
        let pages = u64::from(CHUNK_PAGES);
        GiveBack { t1, t2, h1_pages: 4 * pages, h2_pages: pages, on_pressure: true }
    }
}

/// Who says that memory is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PressureWatch {
    /// Nobody, as was wanted.
    Off,
    /// Nobody as yet: the keeper comes with the first client ([`crate::Service::start_keeper`]).
    NotYet,
    /// The kernel, or the descriptor that was given.
    Watched,
    /// Nobody: the kernel does not count stalls, or this process may not ask for them.
    None {
        /// The error's number.
        errno: i32,
    },
    /// Nobody: what did has ended.
    Ended,
}

/// What was given back until now, and who says that memory is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivingBackState {
    /// Pages that were given back, by zones that were asked or looked at.
    pub pages: u64,
    /// How often somebody looked because T1 or T2 was over.
    pub looks: u64,
    /// How often memory was said to be short.
    pub pressures: u64,
    /// How often the service was asked for all that is idle.
    pub asked: u64,
    /// Ranges of pages that the kernel did not take: memory that the process has locked.
    pub refused: u64,
    /// Who says that memory is short.
    pub pressure: PressureWatch,
}

/// The part of a store that gives back.
#[derive(Debug)]
pub(crate) struct GivingBack {
    /// Something is away only while somebody has it.
    turn: Mutex<()>,
    looks: AtomicU64,
    pressures: AtomicU64,
    asked: AtomicU64,
    refused: AtomicU64,
}

/// Why somebody gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Time,
    Pressure,
    Asked,
}

impl GivingBack {
    pub(crate) fn new() -> GivingBack {
        let none = || AtomicU64::new(0);
        GivingBack { turn: Mutex::new(()), looks: none(), pressures: none(), asked: none(), refused: none() }
    }

    /// Waits until nothing is away, and nothing is as long as the caller has this. Who has it has no token.
    pub(crate) fn pause(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self, cause: Cause) {
        let counter = match cause {
            Cause::Time => &self.looks,
            Cause::Pressure => &self.pressures,
            Cause::Asked => &self.asked,
        };
        counter.fetch_add(1, Relaxed);
    }

    /// Counts ranges that the kernel did not take.
    pub(crate) fn refuse(&self, ranges: u64) {
        self.refused.fetch_add(ranges, Relaxed);
    }

    /// What was given back until now, of so many pages.
    pub(crate) fn state(&self, pages: u64, pressure: PressureWatch) -> GivingBackState {
        GivingBackState {
            pages,
            looks: self.looks.load(Relaxed),
            pressures: self.pressures.load(Relaxed),
            asked: self.asked.load(Relaxed),
            refused: self.refused.load(Relaxed),
            pressure,
        }
    }
}
