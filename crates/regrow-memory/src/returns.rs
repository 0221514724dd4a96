//! Carries out what zones say is to be given back, without their tokens while the kernel works.
//!
//! ```text
//!   T1, T2      the keeper looks: what was idle all through the period, above H1 or H2          ┐    Zone: takes blocks out of its lists
//!   pressure    the keeper is told: all that is idle                                            ├──> Range: ranges of pages, many in one call
//!   now         the caller: all that is idle                                                    ┘    Zone: puts them back, zero and not there
//! ```

use crate::giving_back::{Cause, GivingBackState};
use crate::keeper::LookedAfter;
use crate::seat::Seat;
use crate::store::Store;
use crate::units::{Page, pages_of};
use crate::zone::{Away, Look, Most};

/// Most that is away at once: the kernel takes less than a millisecond for it.
const MOST: Most = Most { pages: 8192, blocks: 256 };
/// So many blocks are put back while a zone is kept from others.
const PUT_AT_ONCE: usize = 64;

impl LookedAfter for Store {
    fn begin_looking(&self) {
        self.seats().iter().for_each(|seat| seat.with(crate::zone::Zone::begin_looking));
    }

    fn end_looking(&self) {
        self.seats().iter().for_each(|seat| seat.with(crate::zone::Zone::end_looking));
    }

    fn is_watched(&self, is_longer: bool) -> bool {
        // Each is asked: a zone that is watched no more tells when it has too much again.
        self.seats().iter().filter(|seat| seat.with(|zone| zone.is_watched(is_longer))).count() > 0
    }

    fn give_back(&self, look: Look, cause: Cause) -> u64 {
        self.giving_back().count(cause);
        self.seats().iter().map(|seat| self.give_back_of(seat, look)).sum()
    }
}

impl Store {
    /// Has all zones tell the keeper when it is to look.
    pub(crate) fn watch_zones(&self) {
        let keeper = self.keeper();
        let Some(notice) = keeper.notice() else { return };
        let limits = keeper.options().limits();
        for seat in self.seats() {
            let notice = notice.clone();
            seat.with(|zone| zone.watch(limits, notice));
        }
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
        self.giving_back().refuse(refused);
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
        let of_zone = |seat: &Seat| seat.with(|zone| zone.given_back_pages());
        self.giving_back().state(self.seats().iter().map(of_zone).sum(), self.keeper().pressure())
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
