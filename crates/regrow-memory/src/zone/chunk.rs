//! What a zone knows of the pages of its chunks beside the lists: who had each last, which are mapped, which blocks are hot.
//!
//! *Mapped* pages are there for sure: a touch does not fault. *Touched* ones may be there: a client has had them, and touched them or did
//! not. What was never touched, or was given back to the kernel since, is zero and costs nothing.

use std::ops::Range;

use crate::request::{NOBODY, Owner, Want};
use crate::units::{CHUNK_PAGES, Chunk, Page, chunk_of, in_chunk, pages_of};

/// A bit for each page of a chunk.
type Bits = [u64; CHUNK_PAGES as usize / 64];

/// The pages of a chunk. Slaves write to theirs: none shares a cache line with what lies beside it.
#[derive(Debug, Clone)]
#[repr(align(128))]
struct ChunkPages {
    last: [Owner; CHUNK_PAGES as usize],
    mapped: Bits,
    touched: Bits,
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
            touched: Bits::default(),
            hot: Bits::default(),
        };
        self.0[at] = Some(Box::new(new));
    }

    /// Forgets a chunk. How many of its pages may be there, and other than zero.
    pub(super) fn take(&mut self, chunk: Chunk) -> u64 {
        let pages = self.0.get_mut(chunk as usize).and_then(Option::take);
        pages.map_or(0, |pages| count(&pages.touched, 0..CHUNK_PAGES as usize))
    }

    /// Notes that a client has a block. Whether it is to be zeroed, and to be mapped; and how many of its pages may have been there.
    pub(super) fn give(&mut self, page: Page, want: Want) -> (bool, bool, u64) {
        let of_another = |&last: &Owner| last != NOBODY && (want.zeroed || last != want.owner);
        let (mut zero, mut map, mut touched) = (false, false, 0);
        self.each(page, want.order, |pages, range| {
            touched += count(&pages.touched, range.clone());
            set(&mut pages.touched, range.clone(), true);
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
        (zero, map, touched)
    }

    /// How many pages of a block may be there.
    pub(super) fn touched(&self, page: Page, order: u8) -> u64 {
        let end = page + pages_of(order);
        let chunks = chunk_of(page)..=chunk_of(end - 1);
        let in_chunks = chunks.filter_map(|chunk| {
            let pages = self.0.get(chunk as usize)?.as_deref()?;
            let (from, to) = (page.max(chunk * CHUNK_PAGES), end.min((chunk + 1) * CHUNK_PAGES));
            Some(count(&pages.touched, in_chunk(from)..in_chunk(from) + (to - from) as usize))
        });
        in_chunks.sum()
    }

    /// Notes that a block was given back to the kernel: its pages are zero, and not there.
    pub(super) fn forget(&mut self, page: Page, order: u8) {
        self.each(page, order, |pages, range| {
            set(&mut pages.mapped, range.clone(), false);
            set(&mut pages.touched, range.clone(), false);
            pages.last[range].fill(NOBODY);
        });
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
    for (at, mask) in masks(range) {
        let word = &mut bits[at];
        let new = if value { *word | mask } else { *word & !mask };
        has_changed |= new != *word;
        *word = new;
    }
    has_changed
}

/// How many bits are set.
fn count(bits: &Bits, range: Range<usize>) -> u64 {
    masks(range).map(|(at, mask)| u64::from((bits[at] & mask).count_ones())).sum()
}

/// The words in which bits stand, each with a mask of them.
fn masks(range: Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    let words = range.start / 64..range.end.div_ceil(64);
    words.map(move |at| {
        let (from, to) = (range.start.max(at * 64), range.end.min(at * 64 + 64));
        let mask = if to - from == 64 { u64::MAX } else { ((1 << (to - from)) - 1) << (from % 64) };
        (at, mask)
    })
}
