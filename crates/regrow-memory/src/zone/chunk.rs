//! What a zone knows of the pages of its chunks beside the lists: who had each last, which are mapped, which blocks are hot.

use std::ops::Range;

use crate::request::{NOBODY, Owner, Want};
use crate::units::{CHUNK_PAGES, Chunk, Page, chunk_of, in_chunk, pages_of};

/// A bit for each page of a chunk.
type Bits = [u64; CHUNK_PAGES as usize / 64];

/// The pages of a chunk.
#[derive(Debug, Clone)]
struct ChunkPages {
    last: [Owner; CHUNK_PAGES as usize],
    mapped: Bits,
    hot: Bits,
}

/// The chunks of a zone.
#[derive(Debug, Clone, Default)]
pub(super) struct Table(Vec<Option<Box<ChunkPages>>>);

impl Table {
    /// A chunk whose pages are zero and not mapped.
    pub(super) fn add(&mut self, chunk: Chunk) {
        let at = chunk as usize;
        if at >= self.0.len() {
            self.0.resize_with(at + 1, || None);
        }
        let new = ChunkPages {
            last: [NOBODY; CHUNK_PAGES as usize],
            mapped: Bits::default(),
            hot: Bits::default(),
        };
        self.0[at] = Some(Box::new(new));
    }

    /// Forgets a chunk. Whether a page of it may be other than zero, or is mapped.
    pub(super) fn take(&mut self, chunk: Chunk) -> bool {
        let pages = self.0.get_mut(chunk as usize).and_then(Option::take);
        pages.is_some_and(|pages| {
            pages.last.iter().any(|&last| last != NOBODY) || pages.mapped != Bits::default()
        })
    }

    /// Notes that a client has a block. Whether it is to be zeroed, and to be mapped.
    pub(super) fn give(&mut self, page: Page, want: Want) -> (bool, bool) {
        let of_another = |&last: &Owner| last != NOBODY && (want.zeroed || last != want.owner);
        let (mut zero, mut map) = (false, false);
        self.each(page, want.order, |pages, range| {
            let last = &mut pages.last[range];
            zero |= last.iter().any(of_another);
            last.fill(want.owner);
        });
        if zero && want.is_zeroed_by_the_kernel() {
            self.each(page, want.order, |pages, range| {
                set(&mut pages.mapped, range, false);
            });
        }
        if want.mapped {
            self.each(page, want.order, |pages, range| map |= set(&mut pages.mapped, range, true));
        }
        (zero, map)
    }

    /// Notes that another client has had a block last.
    pub(super) fn pass_on(&mut self, page: Page, order: u8, owner: Owner) {
        self.each(page, order, |pages, range| pages.last[range].fill(owner));
    }

    /// Goes through the chunks of a block, each with the pages in it that are the block's.
    fn each(&mut self, page: Page, order: u8, mut work: impl FnMut(&mut ChunkPages, Range<usize>)) {
        let end = page + pages_of(order);
        let mut from = page;
        while from < end {
            let to = end.min((chunk_of(from) + 1) * CHUNK_PAGES);
            if let Some(pages) = self.pages_mut(from) {
                work(pages, in_chunk(from)..in_chunk(from) + (to - from) as usize);
            }
            from = to;
        }
    }

    /// Whether a block is hot.
    pub(super) fn is_hot(&self, page: Page) -> bool {
        let pages = self.0.get(chunk_of(page) as usize).and_then(Option::as_deref);
        pages.is_some_and(|pages| pages.hot[in_chunk(page) / 64] >> (page % 64) & 1 == 1)
    }

    /// Notes whether it is.
    pub(super) fn set_hot(&mut self, page: Page, is_hot: bool) {
        if let Some(pages) = self.pages_mut(page) {
            let bit = 1 << (page % 64);
            let word = &mut pages.hot[in_chunk(page) / 64];
            *word = if is_hot { *word | bit } else { *word & !bit };
        }
    }

    fn pages_mut(&mut self, page: Page) -> Option<&mut ChunkPages> {
        self.0.get_mut(chunk_of(page) as usize)?.as_deref_mut()
    }
}

/// Sets bits to a value. Whether one of them had another one.
fn set(bits: &mut Bits, range: Range<usize>, value: bool) -> bool {
    let mut has_changed = false;
    let mut from = range.start;
    while from < range.end {
        let to = range.end.min((from / 64 + 1) * 64);
        let count = to - from;
        let mask = if count == 64 { u64::MAX } else { ((1 << count) - 1) << (from % 64) };
        let word = &mut bits[from / 64];
        let new = if value { *word | mask } else { *word & !mask };
        has_changed |= new != *word;
        *word = new;
        from = to;
    }
    has_changed
}
