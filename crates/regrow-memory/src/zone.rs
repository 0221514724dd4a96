//! A zone: chunks that one server manages, without looking at their memory.
//!
//! ```text
//!   alloc   hot block of the order?  ── no ──> buddy lists          and says: has the memory to be zeroed, or mapped?
//!   free    ──> hot, as long as there are few of its order  ── else ──> buddy lists
//! ```
//!
//! A *hot* block was in use a moment ago: its memory is mapped and in the caches, and it is not joined with its buddies. Of each page the
//! zone knows who had it last ([`crate::request::Owner`]), and whether it is mapped. Memory that goes from one client to another is zeroed.
//! What nobody has needed for a while goes back to the kernel (`giving_back`).

mod buddy;
mod chunk;
mod giving_back;
mod idle;
mod look;

use crate::error::ZoneError;
use crate::request::{Grant, Owner, Want};
use crate::units::{CHUNK_ORDER, Chunk, MAX_ORDER, Page, chunk_of, chunk_start, pages_of};

pub use idle::{Limits, Notice};
pub use look::{Away, Look, Most};

use buddy::Buddy;
use chunk::Table;
use idle::Idle;

/// The highest order of which blocks stay hot.
const HOT_ORDER: usize = CHUNK_ORDER as usize;
/// How many pages may be hot in blocks of one order.
const HOT_PAGES: usize = 1024;

/// Room for so many pages at least is made for hot blocks of an order: two cache lines, so that the first entries of two zones share none.
const HOT_ROOM: usize = 32;

/// See the module.
#[derive(Debug)]
pub struct Zone {
    buddy: Buddy,
    table: Table,
    hot: [Vec<Page>; HOT_ORDER + 1],
    idle: Idle,
}

impl Default for Zone {
    fn default() -> Zone {
        let hot = std::array::from_fn(|order| Vec::with_capacity((HOT_PAGES >> order).max(HOT_ROOM)));
        Zone { buddy: Buddy::default(), table: Table::default(), hot, idle: Idle::default() }
    }
}

impl Zone {
    /// Takes over a chunk, all of whose pages are zero and not mapped.
    ///
    /// # Errors
    /// [`ZoneError::OwnChunk`], [`ZoneError::NoChunk`].
    pub fn add_chunk(&mut self, chunk: Chunk) -> Result<(), ZoneError> {
        self.buddy.add_chunk(chunk)?;
        self.table.add(chunk);
        Ok(())
    }

    /// Gives up a chunk that is free. Whether its memory may be other than zero, or is mapped.
    pub fn take_chunk(&mut self) -> Option<(Chunk, bool)> {
        let chunk = self.buddy.take_chunk().or_else(|| {
            self.cool_down();
            self.buddy.take_chunk()
        })?;
        let idle = self.table.take(chunk);
        self.idle.taken(idle);
        self.idle.left_chunks(idle);
        Some((chunk, idle > 0))
    }

    /// Takes a block.
    ///
    /// # Errors
    /// [`ZoneError::Order`], [`ZoneError::NoRoom`].
    pub fn alloc(&mut self, want: Want) -> Result<Grant, ZoneError> {
        let (page, found) = match self.hot.get_mut(usize::from(want.order)).and_then(Vec::pop) {
            Some(page) => {
                self.table.set_hot(page, false);
                (page, want.order)
            }
            None => self.buddy.alloc(want.order).or_else(|error| {
                if !self.cool_down() {
                    return Err(error);
                }
                self.buddy.alloc(want.order)
            })?,
        };
        if want.order < CHUNK_ORDER && found >= CHUNK_ORDER {
            self.idle.left_chunks(self.table.touched(chunk_start(page), CHUNK_ORDER));
        }
        let (zero, map, idle) = self.table.give(page, want);
        self.idle.taken(idle);
        if want.order >= CHUNK_ORDER {
            self.idle.left_chunks(idle);
        }
        Ok(Grant { page, zero, map })
    }

    /// Takes a block back. Its order.
    ///
    /// # Errors
    /// [`ZoneError`] where no block that is in use begins at the page.
    pub fn free(&mut self, page: Page) -> Result<u8, ZoneError> {
        let order = self.buddy.order_of(page)?;
        if order <= CHUNK_ORDER && self.table.is_hot(page) {
            return Err(ZoneError::FreeAlready { page });
        }
        match self.hot.get_mut(usize::from(order)) {
            Some(hot) if hot.len() < (HOT_PAGES >> order).max(1) => {
                hot.push(page);
                self.table.set_hot(page, true);
            }
            _ => {
                let (_, joined) = self.buddy.free(page)?;
                self.joined(page, order, joined);
            }
        }
        let pages = u64::from(pages_of(order));
        self.idle.returned(pages);
        if order >= CHUNK_ORDER {
            self.idle.came_into_chunks(pages);
        }
        Ok(order)
    }

    /// Notes that a block, before it is taken back, was passed to another client than the one that was given it.
    ///
    /// # Errors
    /// [`ZoneError`] where no block begins at the page.
    pub fn pass_on(&mut self, page: Page, owner: Owner) -> Result<(), ZoneError> {
        let order = self.buddy.order_of(page)?;
        self.table.pass_on(page, order, owner);
        Ok(())
    }

    /// A block became a part of a larger one.
    fn joined(&mut self, page: Page, order: u8, joined: u8) {
        if order < CHUNK_ORDER && joined >= CHUNK_ORDER {
            self.idle.came_into_chunks(self.table.touched(chunk_start(page), CHUNK_ORDER));
        }
    }

    /// Joins hot blocks with their buddies. False where there were none.
    pub fn cool_down(&mut self) -> bool {
        let mut were_any = false;
        for number in 0..=HOT_ORDER {
            let mut hot = std::mem::take(&mut self.hot[number]);
            for page in hot.drain(..) {
                were_any = true;
                self.table.set_hot(page, false);
                let freed = self.buddy.free(page);
                debug_assert!(freed.is_ok(), "a hot block is in use for the lists: {freed:?}");
                if let Ok((order, joined)) = freed {
                    self.joined(page, order, joined);
                }
            }
            // Its room is used again.
            self.hot[number] = hot;
        }
        were_any
    }

    /// Pages of its chunks.
    #[must_use]
    pub fn own_pages(&self) -> u64 {
        self.buddy.own_pages()
    }

    /// Pages that are in use by nobody.
    #[must_use]
    pub fn free_pages(&self) -> u64 {
        let hot: u64 = (0u8..).zip(&self.hot).map(|(order, hot)| (hot.len() as u64) << order).sum();
        self.buddy.free_pages() + hot
    }

    /// The highest order of which a block is free, hot ones joined with none.
    #[must_use]
    pub fn highest_free(&self) -> Option<u8> {
        self.buddy.highest_free()
    }

    /// Whether a page is in one of its chunks.
    #[must_use]
    pub fn has(&self, page: Page) -> bool {
        self.buddy.has_chunk(chunk_of(page))
    }

    /// Its chunks, each with how many of its pages clients have.
    #[must_use]
    pub fn used_by_chunk(&self) -> Vec<(Chunk, u32)> {
        let mut used: Vec<(Chunk, u32)> = self.buddy.used_by_chunk().collect();
        for (order, hot) in (0u8..).zip(&self.hot) {
            for &page in hot {
                if let Ok(at) = used.binary_search_by_key(&chunk_of(page), |&(chunk, _)| chunk) {
                    used[at].1 = used[at].1.saturating_sub(pages_of(order));
                }
            }
        }
        used
    }

    /// How much of what is free cannot be given as a block of an order, from 0 to 1; 0 where nothing is free. Hot blocks count as joined
    /// with none.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "there are fewer pages than 2^52")]
    pub fn fragmentation(&self, order: u8) -> f64 {
        let free = self.free_pages();
        let large: u64 = (order..=MAX_ORDER)
            .map(|order| u64::from(self.buddy.free_blocks(order)) * u64::from(pages_of(order)))
            .sum();
        if free == 0 { 0.0 } else { 1.0 - large as f64 / free as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone() -> Zone {
        let mut zone = Zone::default();
        zone.add_chunk(4).expect("a new chunk");
        zone.add_chunk(5).expect("a new chunk");
        zone
    }

    fn want(order: u8, owner: Owner) -> Want {
        Want { order, owner, mapped: true, zeroed: false }
    }

    #[test]
    fn memory_is_zeroed_when_another_client_has_it_and_when_it_is_asked_for() {
        let mut zone = zone();
        let first = zone.alloc(want(2, 7)).expect("room");
        assert_eq!((first.zero, first.map), (false, true), "nobody had it");
        zone.free(first.page).expect("a block");
        let again = zone.alloc(want(2, 7)).expect("room");
        assert_eq!(again, Grant { page: first.page, zero: false, map: false }, "it is hot");
        zone.free(again.page).expect("a block");
        let zeroed = zone.alloc(Want { zeroed: true, ..want(2, 7) }).expect("room");
        assert_eq!(zeroed, Grant { page: first.page, zero: true, map: false });
        zone.free(zeroed.page).expect("a block");
        let other = zone.alloc(want(2, 8)).expect("room");
        assert_eq!(other, Grant { page: first.page, zero: true, map: false });
        zone.free(other.page).expect("a block");
        // A part of it is in a larger block.
        assert!(zone.cool_down() && !zone.cool_down());
        let large = zone.alloc(want(10, 9)).expect("room");
        assert_eq!((large.zero, large.map), (true, true));
        assert_eq!((zone.free_pages(), zone.own_pages()), (0, 1024));
    }

    #[test]
    fn a_block_that_was_passed_on_is_zeroed_for_the_client_that_was_given_it() {
        let mut zone = zone();
        let page = zone.alloc(want(3, 7)).expect("room").page;
        assert_eq!(zone.pass_on(page, 8), Ok(()));
        zone.free(page).expect("a block");
        assert_eq!(zone.alloc(want(3, 7)), Ok(Grant { page, zero: true, map: false }));
        zone.pass_on(page, 8).expect("a block");
        zone.free(page).expect("a block");
        assert_eq!(zone.alloc(want(3, 8)), Ok(Grant { page, zero: false, map: false }), "it has seen it");
        assert!(zone.pass_on(page + 1, 7).is_err() && zone.pass_on(0, 7).is_err());
    }

    #[test]
    fn a_hot_block_is_not_freed_twice_and_is_used_for_larger_ones() {
        let mut zone = zone();
        let pages: Vec<Page> = (0..1024).map(|_| zone.alloc(want(0, 1)).expect("room").page).collect();
        assert_eq!(zone.alloc(want(0, 1)), Err(ZoneError::NoRoom { order: 0 }));
        pages.iter().for_each(|&page| assert_eq!(zone.free(page), Ok(0)));
        assert_eq!(zone.free(pages[0]), Err(ZoneError::FreeAlready { page: pages[0] }));
        assert!((zone.fragmentation(0), zone.fragmentation(9)) == (1.0, 1.0), "all of it is hot");
        assert_eq!(zone.free_pages(), 1024);
        assert_eq!(zone.alloc(want(10, 1)).expect("hot blocks are joined").page, 4 * 512);
        assert_eq!(zone.free(4 * 512), Ok(10));
        assert!(zone.fragmentation(9) == 0.0 && zone.highest_free() == Some(10));
    }

    #[test]
    fn a_chunk_that_is_given_up_says_whether_it_is_clean() {
        let mut zone = zone();
        let page = zone.alloc(want(0, 3)).expect("room").page;
        let (clean, is_used) = zone.take_chunk().expect("one is free");
        assert!(!is_used && clean != chunk_of(page) && !zone.has(clean << 9));
        zone.free(page).expect("a block");
        assert_eq!(zone.take_chunk(), Some((chunk_of(page), true)), "its hot page is joined");
        assert_eq!((zone.take_chunk(), zone.own_pages(), zone.free_pages()), (None, 0, 0));
        assert_eq!(zone.add_chunk(u32::MAX), Err(ZoneError::NoChunk { chunk: u32::MAX }));
    }
}
