//! Giving back what nobody needs: carries out what zones say, without their tokens while the kernel works.
//!
//! ```text
//!   T1, T2      the keeper looks: what was idle all through the period, above H1 or H2          ┐    Zone: takes blocks out of its lists
//!   pressure    the keeper is told: all that is idle                                            ├──> Range: ranges of pages, many in one call
//!   now         the caller: all that is idle                                                    ┘    Zone: puts them back, zero and not there
//! ```
//!
//! T1, T2, H1 and H2 are those of Taniguchi, Yamauchi and Tamura (2020), 3.2.2, for pages. Why `MADV_DONTNEED`, and why in one call: decision 044.
//! Blocks that clients keep for themselves are in use for the zones, and stay: [`crate::Client::trim`].

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::keeper::{Keeper, PressureWatch};
use crate::seat::Seat;
use crate::store::Store;
use crate::units::{CHUNK_PAGES, Page, pages_of};
use crate::zone::{Away, Limits, Look, Most};

/// Most that is away at once: the kernel takes less than a millisecond for it.
const MOST: Most = Most { pages: 8192, blocks: 256 };
/// So many blocks are put back while a zone is kept from others.
const PUT_AT_ONCE: usize = 64;

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

    fn limits(&self) -> Limits {
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
    pub(crate) keeper: Keeper,
}

/// Why somebody gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Time,
    Pressure,
    Asked,
}

impl GivingBack {
    pub(crate) fn new(keeper: Keeper) -> GivingBack {
        let none = || AtomicU64::new(0);
        GivingBack {
            turn: Mutex::new(()),
            looks: none(),
            pressures: none(),
            asked: none(),
            refused: none(),
            keeper,
        }
    }

    /// Waits until nothing is away, and nothing is as long as the caller has this. Who has it has no token.
    pub(crate) fn pause(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, cause: Cause) {
        let counter = match cause {
            Cause::Time => &self.looks,
            Cause::Pressure => &self.pressures,
            Cause::Asked => &self.asked,
        };
        counter.fetch_add(1, Relaxed);
    }
}

impl Store {
    /// Has all zones tell the keeper when it is to look.
    pub(crate) fn watch_zones(&self) {
        let keeper = &self.giving_back().keeper;
        let Some(notice) = keeper.notice() else { return };
        let limits = keeper.options().limits();
        for seat in self.seats() {
            let notice = notice.clone();
            seat.with(|zone| zone.watch(limits, notice));
        }
    }

    /// Begins the periods of all looks.
    pub(crate) fn begin_looking(&self) {
        self.seats().iter().for_each(|seat| seat.with(crate::zone::Zone::begin_looking));
    }

    /// Whether a zone is to be looked at again.
    pub(crate) fn is_watched(&self, is_longer: bool) -> bool {
        // Each is asked: a zone that is watched no more tells when it has too much again.
        self.seats().iter().filter(|seat| seat.with(|zone| zone.is_watched(is_longer))).count() > 0
    }

    /// Gives back what a look finds in the zones. How many pages.
    pub(crate) fn give_back(&self, look: Look, cause: Cause) -> u64 {
        self.giving_back().count(cause);
        self.seats().iter().map(|seat| self.give_back_of(seat, look)).sum()
    }

    fn give_back_of(&self, seat: &Seat, look: Look) -> u64 {
        let mut surplus = seat.with(|zone| zone.surplus(look));
        let mut given = 0;
        while surplus > 0 {
            let _turn = self.giving_back().pause();
            let away = seat.with(|zone| zone.take_away(look, surplus, MOST));
            if away.is_empty() {
                break;
            }
            let (pages, is_refused) = self.drop_pages(seat, &away);
            given += pages;
            surplus = surplus.saturating_sub(away.iter().map(|away| away.idle).sum());
            if is_refused {
                break;
            }
        }
        given
    }

    /// Has the kernel take the pages of blocks that are away, and puts them back. How many pages it took, and whether it refused some.
    fn drop_pages(&self, seat: &Seat, away: &[Away]) -> (u64, bool) {
        let ranges = ranges_of(away);
        let taken = self.range().give_back_all(&ranges);
        let refused = taken.iter().filter(|&&taken| !taken).count() as u64;
        self.giving_back().refused.fetch_add(refused, Relaxed);
        let is_taken = |page: Page| {
            let at = ranges.partition_point(|&(start, _)| start <= page).checked_sub(1);
            at.and_then(|at| taken.get(at)).copied().unwrap_or(false)
        };
        for part in away.chunks(PUT_AT_ONCE) {
            seat.with(|zone| part.iter().for_each(|away| zone.put_back(away, is_taken(away.page))));
        }
        let pages = away.iter().filter(|away| is_taken(away.page)).map(|away| away.idle).sum();
        (pages, refused > 0)
    }

    /// What was given back until now.
    pub(crate) fn giving_back_state(&self) -> GivingBackState {
        let giving = self.giving_back();
        let of_zone = |seat: &Seat| seat.with(|zone| zone.given_back_pages());
        GivingBackState {
            pages: self.seats().iter().map(of_zone).sum(),
            looks: giving.looks.load(Relaxed),
            pressures: giving.pressures.load(Relaxed),
            asked: giving.asked.load(Relaxed),
            refused: giving.refused.load(Relaxed),
            pressure: giving.keeper.pressure(),
        }
    }
}

/// Blocks as ranges of pages: those that lie beside one another are one.
fn ranges_of(away: &[Away]) -> Vec<(Page, u32)> {
    let mut ranges: Vec<(Page, u32)> = Vec::new();
    for &Away { page, order, .. } in away {
        match ranges.last_mut() {
            Some((start, pages)) if *start + *pages == page => *pages += pages_of(order),
            _ => ranges.push((page, pages_of(order))),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_beside_one_another_are_one_range() {
        let away = |page, order| Away { page, order, idle: 1 };
        let blocks = [away(4, 2), away(8, 3), away(16, 0), away(18, 1), away(512, 9), away(1024, 9)];
        assert_eq!(ranges_of(&blocks), [(4, 13), (18, 2), (512, 1024)]);
        assert!(ranges_of(&[]).is_empty());
    }
}
