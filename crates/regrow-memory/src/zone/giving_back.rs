//! What a zone gives back to the kernel: it says which blocks, and has them *away* until somebody has done it.
//!
//! ```text
//!   look     what was idle all through a period, above a limit
//!   take     such blocks out of the lists: nobody gets them          (under the zone's token)
//!   …        their pages are given back                              (without it)
//!   put      them back, their pages zero and not there, at the ends of their lists
//! ```
//!
//! Blocks of a zone's lists are taken for requests from the smallest fitting order, and from the front. So what goes back is the other
//! end: whole chunks first, and of each order what has been free the longest. Blocks that are in use, also those that a client keeps for itself, are
//! in no list.

use super::Zone;
use super::idle::{Limits, Notice};
use super::look::{Away, Look, Most};
use crate::units::{CHUNK_ORDER, MAX_ORDER, Page, chunk_start, pages_of};

/// Most blocks smaller than a chunk that are looked at while the zone is kept from others.
const LOOKS: usize = 16_384;

/// What is looked for in the lists, and what is found.
#[derive(Debug)]
struct Search {
    /// The order of the smallest parts.
    smallest: u8,
    /// So many idle pages come first, and stay.
    keep: u64,
    /// So many are still to be found.
    left: u64,
    blocks: usize,
    found: Vec<Away>,
}

impl Search {
    fn is_over(&self) -> bool {
        self.left == 0 || self.found.len() == self.blocks
    }
}

impl Zone {
    /// Tells as soon as more is idle than the limits say: somebody is to look at the zone from time to time, until [`Zone::is_watched`] is
    /// false.
    pub fn watch(&mut self, limits: Limits, notice: Notice) {
        self.idle.watch(limits, notice);
    }

    /// Begins the periods of all looks.
    pub fn begin_looking(&mut self) {
        self.idle.begin();
    }

    /// How many pages a look finds that are to be given back. Its next period begins.
    pub fn surplus(&mut self, look: Look) -> u64 {
        self.idle.surplus(look)
    }

    /// Whether somebody is to look again, before the zone tells that again. `is_longer`: the longer one of the periods has just ended.
    pub fn is_watched(&mut self, is_longer: bool) -> bool {
        self.idle.is_watched(is_longer)
    }

    /// Ends the periods of all looks: the zone tells when it has too much again.
    pub fn end_looking(&mut self) {
        self.idle.rest();
    }

    /// Pages that nobody uses, and that may be there.
    #[must_use]
    pub fn idle_pages(&self) -> u64 {
        self.idle.pages()
    }

    /// How many pages were given back.
    #[must_use]
    pub fn given_back_pages(&self) -> u64 {
        self.idle.given_back()
    }

    /// Takes free blocks away that are to be given back: of the surplus, so much at once. They are sorted, and [`Zone::put_back`] is called
    /// with each.
    pub fn take_away(&mut self, look: Look, surplus: u64, most: Most) -> Vec<Away> {
        let smallest = if look == Look::Chunks { CHUNK_ORDER } else { 0 };
        if surplus < u64::from(pages_of(smallest)) {
            return Vec::new();
        }
        self.cool_down();
        let within = self.idle.within(look);
        let surplus = surplus.min(within);
        let mut found = self.find(smallest, within - surplus, surplus.min(most.pages), most.blocks);
        found.sort_unstable();
        found.iter().for_each(|away| self.leave(away));
        found
    }

    /// Puts a block back that was away. Its pages are zero and not there, or they are as they were.
    pub fn put_back(&mut self, away: &Away, is_given_back: bool) {
        let &Away { page, order, idle } = away;
        if is_given_back {
            self.table.forget(page, order);
        }
        let Some(joined) = self.buddy.put_back(page) else {
            debug_assert!(false, "a block that was away is put back once: {away:?}");
            return;
        };
        let kept = if is_given_back { 0 } else { idle };
        self.idle.back(idle, kept);
        if order >= CHUNK_ORDER {
            self.idle.came_into_chunks(kept);
        } else {
            self.joined(page, order, joined);
        }
    }

    fn leave(&mut self, away: &Away) {
        let Some(found) = self.buddy.take_away(away.page, away.order) else {
            debug_assert!(false, "it stood in a list: {away:?}");
            return;
        };
        if away.order >= CHUNK_ORDER {
            self.idle.left_chunks(away.idle);
        } else if found >= CHUNK_ORDER {
            self.idle.left_chunks(self.table.touched(chunk_start(away.page), CHUNK_ORDER));
        }
        self.idle.away(away.idle);
    }

    /// Blocks from an order on with so many idle pages together, where so many others come before them.
    fn find(&self, smallest: u8, keep: u64, pages: u64, blocks: usize) -> Vec<Away> {
        let mut search = Search { smallest, keep, left: pages, blocks, found: Vec::new() };
        let mut looks = LOOKS;
        for away in (smallest..=MAX_ORDER).flat_map(|order| self.listed(order)) {
            looks -= usize::from(away.order < CHUNK_ORDER);
            if search.is_over() || looks == 0 {
                break;
            }
            self.choose(away, &mut search);
        }
        search.found
    }

    /// Takes a block, or the parts of it that are neither kept nor too much.
    fn choose(&self, away: Away, search: &mut Search) {
        if away.idle == 0 || search.is_over() {
        } else if away.idle <= search.keep {
            search.keep -= away.idle;
        } else if search.keep == 0 && away.idle <= search.left {
            search.left -= away.idle;
            search.found.push(away);
        } else if away.order > search.smallest {
            let order = away.order - 1;
            for page in [away.page, away.page + pages_of(order)] {
                self.choose(Away { page, order, idle: self.table.touched(page, order) }, search);
            }
        } else {
            search.keep = 0;
        }
    }

    /// The free blocks of an order, those of several chunks chunk by chunk.
    fn listed(&self, order: u8) -> impl Iterator<Item = Away> {
        let part = order.min(CHUNK_ORDER);
        let parts = move |page: Page| (page..page + pages_of(order)).step_by(pages_of(part) as usize);
        let away = move |page| Away { page, order: part, idle: self.table.touched(page, part) };
        self.buddy.listed(order).flat_map(parts).map(away)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Want;
    use crate::units::Chunk;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    const ALL: Most = Most { pages: u64::MAX, blocks: usize::MAX };

    fn of_chunks(chunks: impl IntoIterator<Item = Chunk>) -> Zone {
        let mut zone = Zone::default();
        chunks.into_iter().for_each(|chunk| zone.add_chunk(chunk).expect("a new chunk"));
        zone
    }

    fn alloc(zone: &mut Zone, order: u8) -> Page {
        let want = Want { order, owner: 1, mapped: false, zeroed: false };
        zone.alloc(want).expect("room").page
    }

    /// Blocks that a client has had for a moment.
    fn used(zone: &mut Zone, order: u8, count: usize) {
        let pages: Vec<Page> = (0..count).map(|_| alloc(zone, order)).collect();
        pages.into_iter().for_each(|page| assert_eq!(zone.free(page), Ok(order)));
    }

    fn give_back(zone: &mut Zone, look: Look, surplus: u64) -> Vec<Page> {
        let away = zone.take_away(look, surplus, ALL);
        away.iter().for_each(|away| zone.put_back(away, true));
        away.iter().map(|away| away.page).collect()
    }

    #[test]
    fn a_look_finds_what_nobody_has_needed_since_the_one_before() {
        let mut zone = of_chunks([0, 1, 2]);
        used(&mut zone, 4, 10);
        assert_eq!((zone.idle_pages(), zone.surplus(Look::All)), (160, 0), "no period has begun");
        assert_eq!((zone.surplus(Look::All), zone.surplus(Look::Chunks)), (160, 0));
        let page = alloc(&mut zone, 4);
        used(&mut zone, 4, 2);
        assert_eq!(
            (zone.idle_pages(), zone.surplus(Look::All)),
            (144, 160 - 3 * 16),
            "three were needed at once"
        );
        assert_eq!(zone.surplus(Look::Everything), 144);
        zone.free(page).expect("a block");
        assert_eq!((zone.surplus(Look::All), zone.surplus(Look::All)), (144, 160));
        // What goes back at one look was not needed for the other one.
        zone.begin_looking();
        give_back(&mut zone, Look::All, 99);
        assert_eq!((zone.idle_pages(), zone.given_back_pages()), (61, 99), "neither more nor less");
        assert_eq!((zone.surplus(Look::All), zone.surplus(Look::Chunks)), (61, 61));
    }

    #[test]
    fn a_zone_tells_when_it_has_too_much_and_once_until_it_is_looked_at_no_more() {
        let mut zone = of_chunks([0]);
        let told = Arc::new(AtomicU32::new(0));
        let of_notice = Arc::clone(&told);
        let notice = Notice::new(move || of_notice.fetch_add(1, Ordering::Relaxed) != 3);
        zone.watch(Limits { h1_pages: 64, h2_pages: 32 }, notice);
        let times = || told.load(Ordering::Relaxed);
        used(&mut zone, 5, 1);
        assert_eq!(times(), 0, "32 pages may be idle");
        used(&mut zone, 5, 4);
        used(&mut zone, 5, 4);
        assert_eq!(times(), 1);
        zone.begin_looking();
        assert_eq!((zone.surplus(Look::Chunks), zone.surplus(Look::All)), (128 - 64, 128 - 32));
        assert!(zone.is_watched(false) && !zone.is_watched(true), "nothing has changed in the longer period");
        used(&mut zone, 5, 1);
        assert_eq!(times(), 2);
        assert!(zone.is_watched(true) && !zone.is_watched(true), "something has, and then nothing");
        used(&mut zone, 5, 1);
        give_back(&mut zone, Look::All, 96);
        used(&mut zone, 5, 1);
        assert!(!zone.is_watched(false) && times() == 3, "little is left");
        // Somebody does not hear it.
        used(&mut zone, 5, 4);
        used(&mut zone, 6, 4);
        assert_eq!(times(), 4, "not before a chunk more is idle");
        zone.end_looking();
        used(&mut zone, 5, 1);
        assert_eq!((times(), zone.surplus(Look::Surplus)), (5, zone.idle_pages() - 32));
    }

    #[test]
    fn what_would_be_taken_last_goes_first() {
        let mut zone = of_chunks([0, 2, 4, 6]);
        let chunks: Vec<Page> = (0..4).map(|_| alloc(&mut zone, 9)).collect();
        chunks[..3].iter().for_each(|&page| assert_eq!(zone.free(page), Ok(9)));
        // The last chunk is in use in part.
        zone.free(chunks[3]).expect("a block");
        zone.cool_down();
        let small = alloc(&mut zone, 3);
        let within = chunk_start(small);
        let whole: Vec<Page> = zone.buddy.listed(9).collect();
        assert_eq!(whole.len(), 3);
        assert_eq!(give_back(&mut zone, Look::Chunks, 511), [], "no chunk is divided");
        assert_eq!(give_back(&mut zone, Look::All, 512), [whole[2]], "the last of the largest");
        assert_eq!(zone.buddy.listed(9).collect::<Vec<_>>(), whole, "it is taken last");
        assert_eq!(give_back(&mut zone, Look::Chunks, u64::MAX).len(), 2, "those that are there");
        let rest = give_back(&mut zone, Look::All, u64::MAX);
        assert!(rest.iter().all(|&page| chunk_start(page) == within));
        assert_eq!((rest.len(), zone.idle_pages(), zone.given_back_pages()), (6, 0, 3 * 512 + 504));
        zone.free(small).expect("it was in use all the time");
        assert_eq!(zone.idle_pages(), 8);
    }

    #[test]
    fn what_the_kernel_does_not_take_stays_idle() {
        let mut zone = of_chunks([0]);
        used(&mut zone, 9, 1);
        let away = zone.take_away(Look::Chunks, 512, ALL);
        assert_eq!((away.len(), zone.idle_pages(), zone.free_pages()), (1, 0, 512));
        zone.put_back(&away[0], false);
        assert_eq!((zone.idle_pages(), zone.given_back_pages()), (512, 0));
        assert!(zone.take_chunk().is_some_and(|(_, is_used)| is_used));
    }
}
