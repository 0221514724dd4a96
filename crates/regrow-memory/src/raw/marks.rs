//! What is known of each page that a raw client may have: whether a block begins there, and what has become of it.
//!
//! ```text
//!   first page of a block   used or freed │ order │ pages that were asked for │ delayed, changed, gone
//!   any other page          gone, or nothing
//! ```
//!
//! A mark is one atomic word. The words of a chunk are made when its first mark is set.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::request::Mode;
use crate::units::{CHUNK_PAGES, MAX_ORDER, Page, chunk_of, in_chunk, pages_of};

const ORDER: u32 = 0x1f;
/// The pages that were asked for, less one.
const ASKED_SHIFT: u32 = 5;
const ASKED: u32 = pages_of(MAX_ORDER) - 1;
const USED: u32 = 1 << 24;
const FREED: u32 = 1 << 25;
const DELAYED: u32 = 1 << 26;
/// The caller has changed the mapping of pages of the block.
const CHANGED: u32 = 1 << 27;
/// The page was given back apart from its block.
const GONE: u32 = 1 << 28;
/// The caller has labelled the block.
const LABELLED: u32 = 1 << 29;

/// The mark of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark(u32);

impl Mark {
    /// Of the first page of a block that is given.
    pub(super) fn used(order: u8, asked: u32, mode: Mode) -> Mark {
        let delayed = if mode == Mode::Delayed { DELAYED } else { 0 };
        Mark(USED | delayed | u32::from(order) | ((asked.saturating_sub(1) & ASKED) << ASKED_SHIFT))
    }

    /// The same for another count of pages.
    pub(super) fn asking_for(self, asked: u32) -> Mark {
        Mark(self.0 & !(ASKED << ASKED_SHIFT) | ((asked.saturating_sub(1) & ASKED) << ASKED_SHIFT))
    }

    /// The same, freed.
    pub(super) fn freed(self) -> Mark {
        Mark(FREED | self.0 & ORDER)
    }

    pub(super) fn is_used(self) -> bool {
        self.0 & USED != 0
    }

    pub(super) fn is_freed(self) -> bool {
        self.0 & FREED != 0
    }

    pub(super) fn is_changed(self) -> bool {
        self.0 & CHANGED != 0
    }

    pub(super) fn is_gone(self) -> bool {
        self.0 & GONE != 0
    }

    /// Used, and nothing else is to be known of it.
    pub(super) fn is_plain(self) -> bool {
        self.0 & (USED | CHANGED | LABELLED) == USED
    }

    pub(super) fn is_labelled(self) -> bool {
        self.0 & LABELLED != 0
    }

    pub(super) fn mode(self) -> Mode {
        if self.0 & DELAYED == 0 { Mode::Immediate } else { Mode::Delayed }
    }

    pub(super) fn order(self) -> u8 {
        (self.0 & ORDER).to_le_bytes()[0]
    }

    /// The pages that were asked for: at most those of the block.
    pub(super) fn asked(self) -> u32 {
        (self.0 >> ASKED_SHIFT & ASKED) + 1
    }
}

type ChunkMarks = [AtomicU32; CHUNK_PAGES as usize];

/// See the module.
#[derive(Debug)]
pub(super) struct Marks(Box<[OnceLock<Box<ChunkMarks>>]>);

impl Marks {
    /// For so many chunks.
    pub(super) fn new(chunks: u32) -> Marks {
        Marks((0..chunks).map(|_| OnceLock::new()).collect())
    }

    pub(super) fn get(&self, page: Page) -> Mark {
        Mark(self.word(page).map_or(0, |word| word.load(Ordering::Acquire)))
    }

    #[inline(never)]
    pub(super) fn set(&self, page: Page, mark: Mark) {
        if let Some(chunk) = self.0.get(chunk_of(page) as usize) {
            let words = chunk.get_or_init(|| Box::new([const { AtomicU32::new(0) }; CHUNK_PAGES as usize]));
            words[in_chunk(page)].store(mark.0, Ordering::Release);
        }
    }

    /// The same of a page that has had a mark before.
    #[inline]
    pub(super) fn set_again(&self, page: Page, mark: Mark) {
        match self.word(page) {
            Some(word) => word.store(mark.0, Ordering::Release),
            None => self.set(page, mark),
        }
    }

    /// Sets a mark where there is still the one that the caller has seen. False where there is another one. `is_single`: no other thread does so.
    #[inline]
    pub(super) fn exchange(&self, page: Page, seen: Mark, mark: Mark, is_single: bool) -> bool {
        let Some(word) = self.word(page) else { return false };
        if !is_single {
            return word.compare_exchange(seen.0, mark.0, Ordering::AcqRel, Ordering::Acquire).is_ok();
        }
        let is_seen = word.load(Ordering::Acquire) == seen.0;
        if is_seen {
            word.store(mark.0, Ordering::Release);
        }
        is_seen
    }

    /// Removes the marks of pages.
    pub(super) fn clear(&self, pages: Range<Page>) {
        let mut at = pages.start;
        while at < pages.end {
            let end = pages.end.min((chunk_of(at) + 1) * CHUNK_PAGES);
            if let Some(words) = self.0.get(chunk_of(at) as usize).and_then(OnceLock::get) {
                let count = (end - at) as usize;
                words.iter().skip(in_chunk(at)).take(count).for_each(|word| word.store(0, Ordering::Relaxed));
            }
            at = end;
        }
    }

    /// Notes of the first page of a block that somebody has changed the mapping of its pages.
    pub(super) fn set_changed(&self, page: Page) {
        if let Some(word) = self.word(page) {
            word.fetch_or(CHANGED, Ordering::AcqRel);
        }
    }

    /// Notes of the first page of a block that its caller has labelled it.
    pub(super) fn set_labelled(&self, page: Page) {
        if let Some(word) = self.word(page) {
            word.fetch_or(LABELLED, Ordering::AcqRel);
        }
    }

    /// Notes of pages whether they were given back.
    pub(super) fn set_gone(&self, pages: Range<Page>, is_gone: bool) {
        for page in pages {
            match self.word(page) {
                Some(word) if is_gone => {
                    word.fetch_or(GONE, Ordering::AcqRel);
                }
                Some(word) => {
                    word.fetch_and(!GONE, Ordering::AcqRel);
                }
                // The words of this chunk are made: they hold nothing that could be lost.
                None if is_gone => self.set(page, Mark(GONE)),
                None => {}
            }
        }
    }

    /// The first page of the block in use that a page belongs to, and its mark. Blocks begin at multiples of their size.
    pub(super) fn block_of(&self, page: Page) -> Option<(Page, Mark)> {
        (0..=MAX_ORDER).find_map(|order| {
            let first = page & !(pages_of(order) - 1);
            let mark = self.get(first);
            (mark.is_used() && mark.order() >= order).then_some((first, mark))
        })
    }

    #[inline]
    fn word(&self, page: Page) -> Option<&AtomicU32> {
        self.0.get(chunk_of(page) as usize)?.get()?.get(in_chunk(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_says_what_it_was_made_of() {
        for (order, asked) in [(0, 1), (3, 5), (18, 1 << 18), (18, (1 << 17) + 1)] {
            let mark = Mark::used(order, asked, Mode::Delayed);
            assert_eq!((mark.order(), mark.asked(), mark.mode()), (order, asked, Mode::Delayed));
            assert!(mark.is_used() && !mark.is_freed() && !mark.is_changed() && !mark.is_gone());
            assert_eq!(mark.asking_for(1).asked(), 1);
            let freed = mark.freed();
            assert!(freed.is_freed() && !freed.is_used() && freed.order() == order);
        }
        assert_eq!(Mark::used(2, 4, Mode::Immediate).mode(), Mode::Immediate);
    }

    #[test]
    fn the_block_of_a_page_is_found_from_any_page_of_it() {
        let marks = Marks::new(4);
        assert_eq!(marks.block_of(700), None);
        let (large, small) = (Mark::used(10, 1000, Mode::Delayed), Mark::used(1, 2, Mode::Immediate));
        marks.set(0, large);
        marks.set(1030, small);
        for page in [0, 1, 511, 512, 1023] {
            assert_eq!(marks.block_of(page), Some((0, large)), "{page}");
        }
        assert_eq!((marks.block_of(1031), marks.block_of(1032)), (Some((1030, small)), None));
        marks.set_gone(1000..1029, true);
        assert!(marks.get(1028).is_gone() && !marks.get(1029).is_gone());
        marks.set_gone(1000..1001, false);
        assert!(!marks.get(1000).is_gone());
        marks.clear(1..1030);
        assert!(!marks.get(1028).is_gone() && marks.block_of(1031).is_some());
        assert!(
            !marks.exchange(0, small, small.freed(), false) && marks.exchange(0, large, large.freed(), false)
        );
        assert!(
            marks.exchange(0, large.freed(), large, true) && !marks.exchange(0, small, small.freed(), true)
        );
        assert!(marks.exchange(0, large, large.freed(), true) && !marks.exchange(9_999, small, large, true));
        assert_eq!((marks.block_of(5), marks.get(u32::MAX)), (None, Mark(0)));
    }
}
