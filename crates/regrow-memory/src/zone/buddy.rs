//! The free blocks of a zone: the buddy algorithm, without locks, system calls or `unsafe`.
//!
//! ```text
//!   range   │ chunk 0 │ chunk 1 │ chunk 2 │ …        a chunk is 512 pages (2 MiB), and belongs to one zone
//!   chunk   │ 1 byte for each page: head of a free block, of a used one, of one that is away, or inside of one
//!   lists   one for each order: 2^order pages; a free block stands in the list of its order
//! ```
//!
//! Pages are numbered over the whole range, so that chunks can move between zones. A block begins at a multiple of its size. Two free
//! buddies are one block, also over the border of chunks, if both chunks are the zone's. A block is *away* while its pages are given back to
//! the kernel: it is free, and in no list. It comes back at the end of its list, so that blocks whose pages are there are taken before it.

use crate::error::ZoneError;
use crate::units::{
    CHUNK_ORDER, CHUNK_PAGES, Chunk, MAX_CHUNKS, MAX_ORDER, Page, chunk_of, in_chunk, pages_of,
};

const ORDERS: usize = MAX_ORDER as usize + 1;
/// No page.
const NONE: Page = Page::MAX;
/// In the state of a page: it is the head of a free block, or of a used one, of the order in the lower bits.
const FREE: u8 = 0x80;
const USED: u8 = 0x40;
/// It is the head of a free block that is away, likewise.
const AWAY: u8 = 0x20;
const INSIDE: u8 = 0;

/// The lists' part of a chunk. As of its pages, none shares a cache line.
#[derive(Debug, Clone)]
#[repr(align(128))]
struct ChunkLists {
    state: [u8; CHUNK_PAGES as usize],
    /// Of the head of a free block: the blocks before and behind it in its list.
    links: [[Page; 2]; CHUNK_PAGES as usize],
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Buddy {
    chunks: Vec<Option<Box<ChunkLists>>>,
    /// The first free block of each order, the last one, and how many there are.
    heads: [Page; ORDERS],
    tails: [Page; ORDERS],
    counts: [u32; ORDERS],
    /// A bit for each order that has a free block.
    orders: u32,
    own_chunks: u32,
    away_pages: u64,
}

impl Default for Buddy {
    fn default() -> Buddy {
        let (heads, tails) = ([NONE; ORDERS], [NONE; ORDERS]);
        Buddy {
            chunks: Vec::new(),
            heads,
            tails,
            counts: [0; ORDERS],
            orders: 0,
            own_chunks: 0,
            away_pages: 0,
        }
    }
}

/// Where in its list a block is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    First,
    Last,
}

impl Buddy {
    /// Takes over a chunk. All of its pages are free.
    ///
    /// # Errors
    /// [`ZoneError::OwnChunk`], [`ZoneError::NoChunk`].
    pub(super) fn add_chunk(&mut self, chunk: Chunk) -> Result<(), ZoneError> {
        if chunk >= MAX_CHUNKS {
            return Err(ZoneError::NoChunk { chunk });
        }
        let at = chunk as usize;
        if at >= self.chunks.len() {
            self.chunks.resize_with(at + 1, || None);
        }
        let slot = self.chunks.get_mut(at).ok_or(ZoneError::OwnChunk { chunk })?;
        if slot.is_some() {
            return Err(ZoneError::OwnChunk { chunk });
        }
        let none = [[NONE; 2]; CHUNK_PAGES as usize];
        *slot = Some(Box::new(ChunkLists { state: [INSIDE; CHUNK_PAGES as usize], links: none }));
        self.own_chunks += 1;
        self.join_and_list(chunk << CHUNK_ORDER, CHUNK_ORDER, Place::First);
        Ok(())
    }

    /// Gives up a chunk that is free, of the smallest block that holds one; `None` where no chunk is free.
    pub(super) fn take_chunk(&mut self) -> Option<Chunk> {
        let (page, _) = self.take(CHUNK_ORDER)?;
        let chunk = chunk_of(page);
        *self.chunks.get_mut(chunk as usize)? = None;
        self.own_chunks -= 1;
        Some(chunk)
    }

    /// Takes a block, of the smallest free one that is large enough. And the order of that one.
    ///
    /// # Errors
    /// [`ZoneError::Order`], [`ZoneError::NoRoom`].
    pub(super) fn alloc(&mut self, order: u8) -> Result<(Page, u8), ZoneError> {
        if order > MAX_ORDER {
            return Err(ZoneError::Order { order, most: MAX_ORDER });
        }
        let (page, found) = self.take(order).ok_or(ZoneError::NoRoom { order })?;
        self.set_state(page, USED | order);
        Ok((page, found))
    }

    /// Gives a block back. Its order, and that of the free block in which it is now.
    ///
    /// # Errors
    /// [`ZoneError`] where no block that is in use begins at the page.
    pub(super) fn free(&mut self, page: Page) -> Result<(u8, u8), ZoneError> {
        let order = self.order_of(page)?;
        self.set_state(page, INSIDE);
        Ok((order, self.join_and_list(page, order, Place::First)))
    }

    /// Takes a free block away, out of the one in which it is. The order of that one; `None` where it is not free.
    pub(super) fn take_away(&mut self, page: Page, order: u8) -> Option<u8> {
        let first = |of: u8| page & !(pages_of(of) - 1);
        let found = (order..=MAX_ORDER).find(|&of| self.state(first(of)) == Some(FREE | of))?;
        self.unlist(first(found), found);
        for half in (order..found).rev() {
            // The half in which the block is not.
            self.list(first(half) ^ pages_of(half), half, Place::First);
        }
        self.set_state(page, AWAY | order);
        self.away_pages += u64::from(pages_of(order));
        Some(found)
    }

    /// Puts a block back that was away. The order of the free block in which it is now; `None` where none that was away begins at the page.
    pub(super) fn put_back(&mut self, page: Page) -> Option<u8> {
        let order = self.state(page).filter(|state| state & AWAY != 0)? & !AWAY;
        self.set_state(page, INSIDE);
        self.away_pages -= u64::from(pages_of(order));
        Some(self.join_and_list(page, order, Place::Last))
    }

    /// The free blocks of an order, those that are taken first before the others.
    pub(super) fn listed(&self, order: u8) -> impl Iterator<Item = Page> {
        let first = self.heads.get(usize::from(order)).copied();
        std::iter::successors(first.filter(|&page| page != NONE), |&page| {
            Some(self.link(page, BEHIND)).filter(|&page| page != NONE)
        })
    }

    /// The order of the block in use that begins at a page.
    ///
    /// # Errors
    /// [`ZoneError`] where none does.
    pub(super) fn order_of(&self, page: Page) -> Result<u8, ZoneError> {
        match self.state(page).ok_or(ZoneError::Elsewhere { page })? {
            state if state & USED != 0 => Ok(state & !USED),
            state if state & (FREE | AWAY) != 0 => Err(ZoneError::FreeAlready { page }),
            _ => Err(ZoneError::NoBlock { page }),
        }
    }

    /// Pages of its chunks.
    #[must_use]
    pub(super) fn own_pages(&self) -> u64 {
        u64::from(self.own_chunks) << CHUNK_ORDER
    }

    /// Pages in free blocks, also in those that are away.
    #[must_use]
    pub(super) fn free_pages(&self) -> u64 {
        let listed: u64 =
            self.counts.iter().enumerate().map(|(order, &count)| u64::from(count) << order).sum();
        listed + self.away_pages
    }

    /// How many free blocks of an order there are.
    #[must_use]
    pub(super) fn free_blocks(&self, order: u8) -> u32 {
        self.counts.get(usize::from(order)).copied().unwrap_or(0)
    }

    /// The highest order of which a block is free.
    #[must_use]
    pub(super) fn highest_free(&self) -> Option<u8> {
        u8::try_from(self.orders.checked_ilog2()?).ok()
    }

    /// Whether a chunk is its own.
    #[must_use]
    pub(super) fn has_chunk(&self, chunk: Chunk) -> bool {
        self.chunks.get(chunk as usize).is_some_and(Option::is_some)
    }

    /// Its chunks, each with how many of its pages are in blocks in use.
    pub(super) fn used_by_chunk(&self) -> impl Iterator<Item = (Chunk, u32)> {
        (0..)
            .zip(&self.chunks)
            .filter_map(|(chunk, lists)| Some((chunk, self.used_in(chunk, lists.as_deref()?))))
    }

    fn used_in(&self, chunk: Chunk, lists: &ChunkLists) -> u32 {
        let mut used = 0;
        let mut at = 0;
        while at < CHUNK_PAGES {
            let state = lists.state[at as usize];
            if state == INSIDE {
                // The block begins in a chunk before.
                return if self.is_inside_used(chunk << CHUNK_ORDER) { CHUNK_PAGES } else { 0 };
            }
            let pages = pages_of(state & !(FREE | USED | AWAY)).min(CHUNK_PAGES - at);
            used += if state & USED != 0 { pages } else { 0 };
            at += pages;
        }
        used
    }

    fn is_inside_used(&self, page: Page) -> bool {
        let heads = (CHUNK_ORDER + 1..=MAX_ORDER).filter_map(|order| {
            let state = self.state(page & !(pages_of(order) - 1))?;
            (state != INSIDE && state & !(FREE | USED | AWAY) >= order).then_some(state)
        });
        heads.take(1).any(|state| state & USED != 0)
    }

    /// Takes a free block out of the lists, and lists what is left of a larger one. And the order of that one.
    fn take(&mut self, order: u8) -> Option<(Page, u8)> {
        let fitting = self.orders >> order;
        let found = order + u8::try_from(fitting.trailing_zeros()).ok().filter(|_| fitting != 0)?;
        let page = *self.heads.get(usize::from(found))?;
        self.unlist(page, found);
        for half in (order..found).rev() {
            self.list(page + pages_of(half), half, Place::First);
        }
        Some((page, found))
    }

    /// Lists a block that has become free, together with its free buddies. The order of all of it.
    fn join_and_list(&mut self, mut page: Page, mut order: u8, place: Place) -> u8 {
        while order < MAX_ORDER {
            let buddy = page ^ pages_of(order);
            if self.state(buddy) != Some(FREE | order) {
                break;
            }
            self.unlist(buddy, order);
            page &= !pages_of(order);
            order += 1;
        }
        self.list(page, order, place);
        order
    }

    fn list(&mut self, page: Page, order: u8, place: Place) {
        let at = usize::from(order);
        let (before, behind) = match place {
            Place::First => (NONE, self.heads[at]),
            Place::Last => (self.tails[at], NONE),
        };
        self.set_state(page, FREE | order);
        self.set_link(page, BEFORE, before);
        self.set_link(page, BEHIND, behind);
        self.link_up(order, before, page, page, behind);
        self.counts[at] += 1;
        self.orders |= 1 << order;
    }

    fn unlist(&mut self, page: Page, order: u8) {
        let at = usize::from(order);
        let (before, behind) = (self.link(page, BEFORE), self.link(page, BEHIND));
        self.set_state(page, INSIDE);
        self.link_up(order, before, behind, before, behind);
        self.counts[at] -= 1;
        if self.counts[at] == 0 {
            self.orders &= !(1 << order);
        }
    }

    /// Has the block before a place in a list, or the list's head, lead to `next`, and the one behind it, or the tail, back to `last`.
    fn link_up(&mut self, order: u8, before: Page, next: Page, last: Page, behind: Page) {
        let at = usize::from(order);
        if before == NONE {
            self.heads[at] = next;
        } else {
            self.set_link(before, BEHIND, next);
        }
        if behind == NONE {
            self.tails[at] = last;
        } else {
            self.set_link(behind, BEFORE, last);
        }
    }

    fn lists(&self, page: Page) -> Option<&ChunkLists> {
        self.chunks.get(chunk_of(page) as usize)?.as_deref()
    }

    fn lists_mut(&mut self, page: Page) -> Option<&mut ChunkLists> {
        self.chunks.get_mut(chunk_of(page) as usize)?.as_deref_mut()
    }

    fn state(&self, page: Page) -> Option<u8> {
        self.lists(page).map(|lists| lists.state[in_chunk(page)])
    }

    fn set_state(&mut self, page: Page, state: u8) {
        if let Some(lists) = self.lists_mut(page) {
            lists.state[in_chunk(page)] = state;
        }
    }

    fn link(&self, page: Page, which: usize) -> Page {
        self.lists(page).map_or(NONE, |lists| lists.links[in_chunk(page)][which])
    }

    /// Without effect for no page.
    fn set_link(&mut self, page: Page, which: usize, to: Page) {
        if let Some(lists) = self.lists_mut(page) {
            lists.links[in_chunk(page)][which] = to;
        }
    }
}

/// Which of a block's two links.
const BEFORE: usize = 0;
const BEHIND: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn of_chunks(chunks: impl IntoIterator<Item = Chunk>) -> Buddy {
        let mut buddy = Buddy::default();
        chunks.into_iter().for_each(|chunk| buddy.add_chunk(chunk).expect("a new chunk"));
        buddy
    }

    #[test]
    fn free_buddies_are_one_block_over_the_borders_of_chunks() {
        let mut buddy = of_chunks([2, 3, 5]);
        assert_eq!((buddy.own_pages(), buddy.free_pages()), (3 * 512, 3 * 512));
        assert_eq!((buddy.free_blocks(10), buddy.free_blocks(9)), (1, 1), "chunks 2 and 3 are buddies");
        let (page, _) = buddy.alloc(0).expect("room");
        assert_eq!(page, 5 * 512, "of the smallest block");
        let (large, _) = buddy.alloc(10).expect("room");
        assert_eq!((large, buddy.free_pages()), (2 * 512, 511));
        assert_eq!(buddy.alloc(9), Err(ZoneError::NoRoom { order: 9 }));
        assert_eq!((buddy.free(large), buddy.free(page)), (Ok((10, 10)), Ok((0, 9))));
        assert_eq!((buddy.free_blocks(10), buddy.free_blocks(9), buddy.highest_free()), (1, 1, Some(10)));
    }

    #[test]
    fn what_is_no_block_is_not_freed() {
        let mut buddy = of_chunks([1]);
        let (page, _) = buddy.alloc(3).expect("room");
        assert_eq!(buddy.free(page + 1), Err(ZoneError::NoBlock { page: page + 1 }));
        assert_eq!(buddy.free(0), Err(ZoneError::Elsewhere { page: 0 }));
        assert_eq!(buddy.free(u32::MAX), Err(ZoneError::Elsewhere { page: u32::MAX }));
        assert_eq!(buddy.free(page), Ok((3, 9)));
        assert_eq!(buddy.free(page), Err(ZoneError::FreeAlready { page }));
        assert_eq!(buddy.alloc(MAX_ORDER + 1), Err(ZoneError::Order { order: 19, most: 18 }));
        assert_eq!(buddy.add_chunk(1), Err(ZoneError::OwnChunk { chunk: 1 }));
        assert_eq!(buddy.free_pages(), 512);
    }

    #[test]
    fn a_chunk_is_given_up_only_when_all_of_it_is_free() {
        let mut buddy = of_chunks([0, 1]);
        let (page, _) = buddy.alloc(0).expect("room");
        let other = buddy.take_chunk().expect("the other one is free");
        assert_ne!(other, chunk_of(page));
        assert_eq!((buddy.take_chunk(), buddy.own_pages()), (None, 512));
        assert!(!buddy.has_chunk(other) && buddy.has_chunk(chunk_of(page)));
        buddy.free(page).expect("a block");
        assert_eq!((buddy.take_chunk(), buddy.take_chunk()), (Some(chunk_of(page)), None));
        assert_eq!((buddy.own_pages(), buddy.free_pages(), buddy.highest_free()), (0, 0, None));
    }

    #[test]
    fn a_block_that_is_away_is_free_and_nobody_gets_it_until_it_is_back() {
        let mut buddy = of_chunks([0, 1]);
        assert_eq!(buddy.take_away(512 + 64, 6), Some(10));
        assert_eq!((buddy.free_pages(), buddy.highest_free()), (1024, Some(9)));
        assert_eq!(buddy.take_away(512 + 64, 6), None, "it is away already");
        assert_eq!(buddy.free(512 + 64), Err(ZoneError::FreeAlready { page: 512 + 64 }));
        assert_eq!((buddy.alloc(9), buddy.alloc(9)), (Ok((0, 9)), Err(ZoneError::NoRoom { order: 9 })));
        assert_eq!((buddy.take_chunk(), buddy.put_back(512)), (None, None));
        assert_eq!((buddy.put_back(512 + 64), buddy.put_back(512 + 64)), (Some(9), None));
        assert_eq!((buddy.take_away(0, 0), buddy.alloc(9)), (None, Ok((512, 9))));
    }

    #[test]
    fn what_was_away_is_taken_last() {
        let mut buddy = of_chunks([0, 2, 4]);
        assert_eq!(buddy.listed(9).collect::<Vec<_>>(), [2048, 1024, 0]);
        assert_eq!((buddy.take_away(2048, 9), buddy.take_away(1024, 9)), (Some(9), Some(9)));
        assert_eq!((buddy.put_back(2048), buddy.put_back(1024)), (Some(9), Some(9)));
        assert_eq!(buddy.listed(9).collect::<Vec<_>>(), [0, 2048, 1024]);
        assert_eq!((buddy.alloc(9), buddy.alloc(9)), (Ok((0, 9)), Ok((2048, 9))));
        assert_eq!((buddy.free(2048), buddy.listed(9).collect::<Vec<_>>()), (Ok((9, 9)), vec![2048, 1024]));
    }
    #[test]
    fn the_use_of_chunks_is_told_also_inside_of_large_blocks() {
        let mut buddy = of_chunks([0, 1, 2, 3, 9]);
        let used = |buddy: &Buddy| buddy.used_by_chunk().collect::<Vec<_>>();
        assert_eq!(used(&buddy), [(0, 0), (1, 0), (2, 0), (3, 0), (9, 0)]);
        let small = buddy.alloc(3).expect("room").0;
        let large = buddy.alloc(11).expect("room").0;
        assert_eq!((small >> 9, large), (9, 0));
        assert_eq!(used(&buddy), [(0, 512), (1, 512), (2, 512), (3, 512), (9, 8)]);
        buddy.free(large).expect("a block");
        let half = buddy.alloc(10).expect("room").0;
        assert_eq!(used(&buddy).iter().map(|&(_, pages)| pages).sum::<u32>(), 1024 + 8);
        buddy.free(half).expect("a block");
    }
}
