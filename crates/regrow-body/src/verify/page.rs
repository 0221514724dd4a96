//! What a page of a body is to hold, by its word of the page map and what the image has of it.

use regrow_abi::PAGE_BYTES;

/// How many pages are compared at a time.
pub(super) const BATCH: usize = 16;

/// A saved page of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SavedPage {
    pub(super) index: usize,
    /// It was anonymous at the snapshot.
    pub(super) was_anonymous: bool,
}

/// What a page is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// The image's saved page of this index.
    Saved(usize),
    /// Nothing: nobody has written to it.
    Zeroes,
    /// The file's page, of which the body has a copy.
    TheFiles,
}

/// What the page map tells of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageCheck {
    /// Its content must be looked at.
    Compare(Expected),
    /// It is as in the image: it is not there, or it is the file's.
    Untouched,
    /// Whoever touches it is ended by a signal.
    Guard,
    /// The image has it as an anonymous page, and it is not there.
    Missing,
}

/// Whether a page is a guard (Linux 6.15 tells).
pub(super) fn is_guard(word: u64) -> bool {
    const GUARD: u64 = 1 << 58;
    word & GUARD != 0
}

/// Judges a page by its word of the page map.
pub(super) fn check(word: u64, is_file: bool, saved: Option<SavedPage>) -> PageCheck {
    match (is_anonymous(word, is_file), saved) {
        _ if is_guard(word) => PageCheck::Guard,
        (true, Some(page)) => PageCheck::Compare(Expected::Saved(page.index)),
        (true, None) if is_file => PageCheck::Compare(Expected::TheFiles),
        (true, None) => PageCheck::Compare(Expected::Zeroes),
        (false, Some(SavedPage { was_anonymous: true, .. })) => PageCheck::Missing,
        (false, _) => PageCheck::Untouched,
    }
}

/// Whether a page is no file's: present or swapped.
pub(super) fn is_anonymous(word: u64, is_file: bool) -> bool {
    const PRESENT: u64 = 1 << 63;
    const PRESENT_OR_SWAPPED: u64 = 3 << 62;
    const FILE_OR_SHARED: u64 = 1 << 61;
    const WRITE_PROTECTED: u64 = 1 << 57;
    // In a mapping of a file the kernel notes the protection of a page that is not there as it notes a swapped one.
    let is_noted = word & (PRESENT | WRITE_PROTECTED) == WRITE_PROTECTED && is_file;
    word & PRESENT_OR_SWAPPED != 0 && word & FILE_OR_SHARED == 0 && !is_noted
}

/// Neighbouring pages that are compared at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) start: u64,
    pub(super) pages: usize,
    /// What the first page is to hold; of saved pages the others hold those that follow.
    pub(super) expected: Expected,
}

impl Batch {
    /// A batch of one page.
    pub(super) fn new(start: u64, expected: Expected) -> Batch {
        Batch { start, pages: 1, expected }
    }

    /// Takes in the page at an address, unless it is no neighbour, of another kind, or one too many.
    pub(super) fn take(&mut self, address: u64, expected: Expected) -> bool {
        let is_next = self.start + self.pages as u64 * PAGE_BYTES == address && self.pages < BATCH;
        let is_alike = match (self.expected, expected) {
            (Expected::Saved(first), Expected::Saved(index)) => first + self.pages == index,
            (Expected::Zeroes, Expected::Zeroes) | (Expected::TheFiles, Expected::TheFiles) => true,
            _ => false,
        };
        if is_next && is_alike {
            self.pages += 1;
        }
        is_next && is_alike
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    const FILE: u64 = 1 << 61;
    const PROTECTED: u64 = 1 << 57;

    fn saved(was_anonymous: bool) -> Option<SavedPage> {
        Some(SavedPage { index: 3, was_anonymous })
    }

    #[test]
    fn a_page_that_somebody_wrote_is_compared_with_what_was_saved_or_with_zeroes() {
        for word in [PRESENT, SWAPPED, PRESENT | PROTECTED] {
            for was_anonymous in [true, false] {
                let wanted = PageCheck::Compare(Expected::Saved(3));
                assert_eq!(check(word, true, saved(was_anonymous)), wanted);
                assert_eq!(check(word, false, saved(was_anonymous)), wanted);
            }
            assert_eq!(check(word, false, None), PageCheck::Compare(Expected::Zeroes));
            assert_eq!(check(word, true, None), PageCheck::Compare(Expected::TheFiles));
        }
    }

    #[test]
    fn a_page_that_is_gone_is_missing_only_if_the_image_had_it_as_its_own() {
        for word in [0, PRESENT | FILE, SWAPPED | FILE] {
            assert_eq!(check(word, true, saved(true)), PageCheck::Missing);
            assert_eq!(check(word, true, saved(false)), PageCheck::Untouched);
            assert_eq!(check(word, true, None), PageCheck::Untouched);
            assert_eq!(check(word, false, None), PageCheck::Untouched);
        }
    }

    #[test]
    fn a_noted_protection_of_a_files_page_is_no_swapped_page() {
        assert_eq!(check(SWAPPED | PROTECTED, true, None), PageCheck::Untouched);
        assert_eq!(check(SWAPPED | PROTECTED, true, saved(true)), PageCheck::Missing);
        assert_eq!(check(SWAPPED | PROTECTED, false, None), PageCheck::Compare(Expected::Zeroes));
    }

    #[test]
    fn a_guard_is_told_from_a_page_that_is_not_there() {
        for (word, is_file) in [(1 << 58, false), (1 << 58 | SWAPPED, false), (1 << 58, true)] {
            assert_eq!(check(word, is_file, None), PageCheck::Guard);
            assert_eq!(check(word, is_file, saved(true)), PageCheck::Guard);
        }
        assert!(!is_guard(PRESENT | SWAPPED | FILE | PROTECTED));
    }

    #[test]
    fn neighbours_of_one_kind_are_a_batch() {
        let mut batch = Batch::new(0x1000, Expected::Saved(5));
        assert!(batch.take(0x2000, Expected::Saved(6)));
        assert_eq!(batch, Batch { start: 0x1000, pages: 2, expected: Expected::Saved(5) });
        // Not the next saved page, not the next address, another kind.
        assert!(!batch.take(0x3000, Expected::Saved(8)));
        assert!(!batch.take(0x4000, Expected::Saved(7)));
        assert!(!batch.take(0x3000, Expected::Zeroes));
        assert_eq!(batch.pages, 2);
    }

    #[test]
    fn a_batch_has_an_end() {
        let mut batch = Batch::new(0, Expected::Zeroes);
        let addresses = (1..).map(|page| page * PAGE_BYTES);
        let taken = addresses.take_while(|&address| batch.take(address, Expected::Zeroes)).count();
        assert_eq!(taken, BATCH - 1);
    }
}
