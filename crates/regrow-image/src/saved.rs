//! Where the content of an image's saved pages is.
//!
//! ```text
//!   all pages in the store ──give back──> those that runs write in another store, the others in the seed alone
//! ```
//!
//! A store never changes: bodies that were made before go on with theirs, and it is gone with the last of them. The seed never runs the
//! program, so that its pages are what they were when the image was made; a page that is not stays in the store.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, PoisonError, RwLock};

use regrow_abi::{ImageHeader, PAGE_BYTES, PAGE_LEN, PageEntry};

use crate::seed::Seed;
use crate::store;

/// So many neighbouring pages are looked at together.
const BATCH: usize = 64;

/// A store, and which pages it has no content of.
#[derive(Debug)]
struct Store {
    file: OwnedFd,
    /// For each saved page whether the seed alone has it. Empty: none.
    in_seed: Vec<bool>,
}

impl Store {
    fn is_in_seed(&self, index: usize) -> bool {
        self.in_seed.get(index).is_some_and(|&is_in_seed| is_in_seed)
    }
}

/// The store of an image at present.
#[derive(Debug)]
pub(crate) struct SavedPages(RwLock<Arc<Store>>);

impl SavedPages {
    /// A store that has all pages.
    pub(crate) fn new(file: OwnedFd) -> SavedPages {
        SavedPages(RwLock::new(Arc::new(Store { file, in_seed: Vec::new() })))
    }

    fn current(&self) -> Arc<Store> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the seed alone has some pages.
    pub(crate) fn has_given_back(&self) -> bool {
        !self.current().in_seed.is_empty()
    }

    /// How many pages the seed alone has.
    pub(crate) fn given_back(&self) -> usize {
        self.current().in_seed.iter().filter(|&&is_in_seed| is_in_seed).count()
    }

    /// Reads pages, wherever they are.
    pub(crate) fn reader<'a>(
        &self,
        header: &'a ImageHeader,
        pages: &'a [PageEntry],
        seed: i32,
    ) -> SavedReader<'a> {
        SavedReader { store: self.current(), header, pages, seed, memory: OnceCell::new() }
    }

    /// Leaves to the seed the pages that are not `written`, as far as it has what was saved. Gives how many it has alone.
    pub(crate) fn give_back(
        &self,
        header: &ImageHeader,
        pages: &[PageEntry],
        seed: &Seed,
        written: &HashSet<u64>,
    ) -> io::Result<usize> {
        let reader = self.reader(header, pages, seed.pid());
        let mut in_seed = reader.store.in_seed.clone();
        if in_seed.is_empty() {
            let is_cold = |page: &PageEntry| page.was_anonymous() && !written.contains(&page.address());
            in_seed = pages.iter().map(is_cold).collect();
            reader.keep_what_differs(&mut in_seed)?;
            let file = store::without(reader.store.file.as_fd(), header, pages, &in_seed)?;
            seed.map_image(file.as_fd())?;
            let store = Arc::new(Store { file, in_seed: in_seed.clone() });
            *self.0.write().unwrap_or_else(PoisonError::into_inner) = store;
        }
        Ok(in_seed.iter().filter(|&&is_in_seed| is_in_seed).count())
    }
}

/// Reads saved pages of an image. What it reads stays, whatever is given back meanwhile.
#[derive(Debug)]
pub struct SavedReader<'a> {
    store: Arc<Store>,
    header: &'a ImageHeader,
    pages: &'a [PageEntry],
    seed: i32,
    memory: OnceCell<File>,
}

impl SavedReader<'_> {
    /// Reads saved pages, from the one of this index on.
    ///
    /// # Errors
    /// As `pread(2)`; `UnexpectedEof` when there are not as many, or the seed is gone that alone has them.
    pub fn read(&self, index: usize, pages: &mut [u8]) -> io::Result<()> {
        let mut at = index;
        let mut rest = pages;
        while !rest.is_empty() {
            let most = rest.len() / PAGE_LEN;
            let (is_in_seed, count) = self.alike(at, most);
            let (now, later) = rest.split_at_mut(count * PAGE_LEN);
            if is_in_seed {
                self.read_seed(at, now)?;
            } else {
                store::read_saved(self.store.file.as_fd(), self.header, at, now)?;
            }
            at += count;
            rest = later;
        }
        Ok(())
    }

    /// Whether the page of this index is in the seed alone, and how many from there on are, or are not, and can be read together.
    fn alike(&self, index: usize, most: usize) -> (bool, usize) {
        let is_in_seed = self.store.is_in_seed(index);
        let first = self.pages.get(index).map_or(0, |page| page.address());
        let goes_on = |&count: &usize| {
            let next = self.pages.get(index + count);
            let is_neighbour = next.is_some_and(|page| page.address() == first + count as u64 * PAGE_BYTES);
            self.store.is_in_seed(index + count) == is_in_seed && (is_neighbour || !is_in_seed)
        };
        (is_in_seed, 1 + (1..most).take_while(goes_on).count())
    }

    /// Reads the seed's pages at the addresses of saved pages that are neighbours.
    fn read_seed(&self, index: usize, pages: &mut [u8]) -> io::Result<()> {
        let page = self.pages.get(index).ok_or(io::ErrorKind::UnexpectedEof)?;
        let memory = match self.memory.get() {
            Some(memory) => memory,
            None => {
                let opened = File::open(format!("/proc/{}/mem", self.seed))?;
                self.memory.get_or_init(|| opened)
            }
        };
        memory.read_exact_at(pages, page.address())
    }

    /// Takes those out of `in_seed` of which the seed has something else than what was saved.
    fn keep_what_differs(&self, in_seed: &mut [bool]) -> io::Result<()> {
        let (mut have, mut want) = (vec![0; BATCH * PAGE_LEN], vec![0; BATCH * PAGE_LEN]);
        let mut next = 0;
        while let Some(Range { start, end }) = neighbours(self.pages, in_seed, next) {
            let bytes = (end - start) * PAGE_LEN;
            let (have, want) = (&mut have[..bytes], &mut want[..bytes]);
            self.read_seed(start, have)?;
            self.read(start, want)?;
            let pairs = have.chunks_exact(PAGE_LEN).zip(want.chunks_exact(PAGE_LEN));
            for (is_in_seed, (have, want)) in in_seed[start..end].iter_mut().zip(pairs) {
                *is_in_seed = have == want;
            }
            next = end;
        }
        Ok(())
    }
}

/// The next pages from an index on that are chosen and neighbours, at most [`BATCH`].
fn neighbours(pages: &[PageEntry], chosen: &[bool], from: usize) -> Option<Range<usize>> {
    let start = from + chosen.get(from..)?.iter().position(|&is_chosen| is_chosen)?;
    let first = pages.get(start)?.address();
    let goes_on = |&count: &usize| {
        chosen.get(start + count).is_some_and(|&is_chosen| is_chosen)
            && pages
                .get(start + count)
                .is_some_and(|page| page.address() == first + count as u64 * PAGE_BYTES)
    };
    Some(start..start + 1 + (1..BATCH).take_while(goes_on).count())
}

#[cfg(test)]
mod tests {
    use regrow_abi::PAGE_WAS_ANONYMOUS;

    use super::*;

    #[test]
    fn pages_are_looked_at_together_as_far_as_they_are_neighbours() {
        let addresses = [0x1000, 0x2000, 0x3000, 0x5000, 0x6000];
        let pages = addresses.map(|address_and_flags| PageEntry { address_and_flags });
        let chosen = [false, true, true, true, false];
        assert_eq!(neighbours(&pages, &chosen, 0), Some(1..3));
        assert_eq!(neighbours(&pages, &chosen, 2), Some(2..3));
        assert_eq!(neighbours(&pages, &chosen, 3), Some(3..4));
        assert_eq!(neighbours(&pages, &chosen, 4), None);
        assert_eq!(neighbours(&pages, &chosen, 5), None);
        let many: Vec<_> = (1..=100).map(|page| PageEntry { address_and_flags: page * PAGE_BYTES }).collect();
        assert_eq!(neighbours(&many, &[true; 100], 0), Some(0..BATCH));
        assert_eq!(neighbours(&many, &[true; 100], BATCH), Some(BATCH..100));
    }

    /// A "seed" that is this process, and pages of its own memory.
    fn memory() -> (Vec<u8>, Vec<PageEntry>) {
        let mut memory = vec![0u8; 6 * PAGE_LEN];
        let first = (memory.as_ptr() as u64).next_multiple_of(PAGE_BYTES);
        let offset = usize::try_from(first - memory.as_ptr() as u64).expect("small");
        for (page, bytes) in memory[offset..].chunks_exact_mut(PAGE_LEN).take(5).enumerate() {
            bytes.fill(u8::try_from(page).expect("few") + 1);
        }
        let entry =
            |page: u64| PageEntry { address_and_flags: (first + page * PAGE_BYTES) | PAGE_WAS_ANONYMOUS };
        (memory, [0, 1, 3, 4].map(entry).to_vec())
    }

    #[test]
    fn a_page_is_read_from_where_it_is() {
        let (memory, pages) = memory();
        let file = regrow_sys::raw::memfd("test", 4 * PAGE_BYTES).expect("a memfd");
        let stored = File::from(file.try_clone().expect("a copy"));
        for (at, byte) in [(1, 12), (3, 15)] {
            stored.write_all_at(&[byte; PAGE_LEN], at * PAGE_BYTES).expect("written");
        }
        let header = store::tests::header();
        let own = std::process::id().cast_signed();
        let store = Arc::new(Store { file, in_seed: vec![true, false, true, false] });
        let reader =
            SavedReader { store, header: &header, pages: &pages, seed: own, memory: OnceCell::new() };
        let mut read = [0u8; 4 * PAGE_LEN];
        reader.read(0, &mut read).expect("all are somewhere");
        let firsts: Vec<u8> = read.chunks_exact(PAGE_LEN).map(|page| page[0]).collect();
        assert_eq!(firsts, [1, 12, 4, 15]);
        drop(memory);
    }

    #[test]
    fn what_the_seed_does_not_have_as_it_was_stays_in_the_store() {
        let (memory, pages) = memory();
        let file = regrow_sys::raw::memfd("test", 4 * PAGE_BYTES).expect("a memfd");
        let stored = File::from(file.try_clone().expect("a copy"));
        for (at, byte) in [(0, 1), (1, 2), (2, 9), (3, 5)] {
            stored.write_all_at(&[byte; PAGE_LEN], at * PAGE_BYTES).expect("written");
        }
        let header = store::tests::header();
        let own = std::process::id().cast_signed();
        let store = Arc::new(Store { file, in_seed: Vec::new() });
        let reader =
            SavedReader { store, header: &header, pages: &pages, seed: own, memory: OnceCell::new() };
        let mut in_seed = [true, false, true, true];
        reader.keep_what_differs(&mut in_seed).expect("read");
        assert_eq!(in_seed, [true, false, false, true]);
        drop(memory);
    }
}
