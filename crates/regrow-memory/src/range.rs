//! The range of the address space that a service owns. It is reserved once; its pages come and go.
//!
//! Whoever has a block alone has its pages alone: the zones see to that. What the kernel does with the memory is asked for in `kernel`; below Miri, which maps no
//! memory, `heap` does it in its place. `poison` tells the address sanitizer which pages somebody has.

#![allow(unsafe_code, reason = "memory is looked at by address")]

#[cfg(miri)]
#[path = "range/heap.rs"]
mod kernel;
#[cfg(not(miri))]
mod kernel;
mod poison;

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use regrow_sys::pages;
use rustix::fs::MemfdFlags;
use rustix::io::Errno;

use crate::error::ServiceError;
use crate::units::{CHUNK_BYTES, CHUNK_PAGES, MAX_CHUNKS, PAGE_BYTES, Page};

/// The largest block whose pages are written where they are to be zero, in pages: 64 MiB.
const MOST_WRITTEN: u32 = 32 * CHUNK_PAGES;
/// A chunk whose pages are there and not there in more turns than this is given back as a whole.
const MOST_RUNS: usize = 16;

/// What a range is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backing {
    /// Memory of this process alone.
    #[default]
    Anonymous,
    /// A file in memory, which other processes map as well ([`crate::Domain`]).
    Memfd,
    /// The same, of huge pages that the administrator has set aside: as many as the range has chunks.
    HugeTlb,
}

/// See the module. It begins at a multiple of a chunk.
#[derive(Debug)]
pub(crate) struct Range {
    start: NonNull<u8>,
    bytes: usize,
    /// What other processes map.
    file: Option<OwnedFd>,
}

// SAFETY: the mapping belongs to the process, not to a thread. What is at its pages is given out by `Range::block` alone.
unsafe impl Send for Range {}

// SAFETY: as above; a shared reference changes pages only where its caller has them alone.
unsafe impl Sync for Range {}

impl Range {
    /// Reserves so many chunks. No page is mapped as yet.
    pub(crate) fn reserve(chunks: u32, backing: Backing) -> Result<Range, ServiceError> {
        if chunks == 0 || chunks > MAX_CHUNKS {
            return Err(ServiceError::Chunks { chunks, most: MAX_CHUNKS });
        }
        let bytes = chunks as usize * CHUNK_BYTES;
        let huge = match backing {
            Backing::Anonymous => {
                let start = kernel::anonymous(bytes).map_err(system("reserving the range"))?;
                return Ok(Range::of(start, bytes, None));
            }
            Backing::Memfd => MemfdFlags::empty(),
            Backing::HugeTlb => MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB,
        };
        let file = shared_file("regrow-memory", bytes, huge).map_err(system("making the range's file"))?;
        Range::map_file(file, bytes, backing)
    }

    /// The range of another process, out of its file.
    #[cfg(not(loom))]
    pub(crate) fn open(file: OwnedFd, chunks: u32) -> Result<Range, ServiceError> {
        let found = rustix::fs::fstat(&file).map_err(system("looking at the range's file"))?.st_size;
        let bytes = chunks as usize * CHUNK_BYTES;
        if chunks == 0 || chunks > MAX_CHUNKS || usize::try_from(found) != Ok(bytes) {
            return Err(ServiceError::Chunks { chunks, most: MAX_CHUNKS });
        }
        Range::map_file(file, bytes, Backing::Memfd)
    }

    fn map_file(file: OwnedFd, bytes: usize, backing: Backing) -> Result<Range, ServiceError> {
        let is_huge = backing == Backing::HugeTlb;
        let what = if is_huge { "setting huge pages aside" } else { "mapping the range's file" };
        let start = kernel::of_file(&file, bytes, is_huge).map_err(system(what))?;
        Ok(Range::of(start, bytes, Some(file)))
    }

    /// Nobody has any of its pages.
    fn of(start: NonNull<u8>, bytes: usize, file: Option<OwnedFd>) -> Range {
        poison::poison(NonNull::slice_from_raw_parts(start, bytes));
        Range { start, bytes, file }
    }

    /// What other processes map: nothing where the memory is this process's alone.
    #[cfg(not(loom))]
    pub(crate) fn file(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.file.as_ref().map(std::os::fd::AsFd::as_fd)
    }

    /// How many chunks it has.
    pub(crate) fn chunks(&self) -> u32 {
        u32::try_from(self.bytes / CHUNK_BYTES).unwrap_or(0)
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where a page of it begins.
    pub(crate) fn address(&self, page: Page) -> NonNull<u8> {
        let offset = page as usize * PAGE_BYTES;
        debug_assert!(offset < self.bytes, "page {page} is in the range");
        self.start.map_addr(|start| start.saturating_add(offset))
    }

    /// The page at an address, which need not be its beginning; `None` outside of the range.
    pub(crate) fn page_at(&self, address: usize) -> Option<Page> {
        let offset = address.checked_sub(self.start.addr().get()).filter(|&offset| offset < self.bytes)?;
        Page::try_from(offset / PAGE_BYTES).ok()
    }

    /// The memory of pages that the caller has alone.
    ///
    /// # Safety
    /// As long as the slice is used, nobody else uses these pages. They are in the range.
    pub(crate) unsafe fn block(&self, page: Page, pages: u32) -> NonNull<[u8]> {
        self.memory(page, pages)
    }

    /// Somebody has these pages from here on. What is done with them before is reported where the address sanitizer looks at it.
    #[inline]
    pub(crate) fn give_out(&self, page: Page, pages: u32) {
        if poison::IS_THERE {
            poison::unpoison(self.memory(page, pages));
        }
    }

    /// Nobody has these pages any more.
    #[inline]
    pub(crate) fn take_in(&self, page: Page, pages: u32) {
        if poison::IS_THERE {
            poison::poison(self.memory(page, pages));
        }
    }

    /// Maps pages that the caller has alone, so that no touch of them faults.
    pub(crate) fn map(&self, page: Page, pages: u32) -> Result<(), ServiceError> {
        let memory = self.memory(page, pages);
        // SAFETY: the caller has these pages alone.
        let mapped = unsafe { kernel::populate(memory) };
        if mapped == Err(Errno::INVAL) {
            // Linux before 5.14: each page is touched.
            for number in 0..pages as usize {
                // SAFETY: as above, and a byte is written as it was read.
                unsafe {
                    let byte = memory.cast::<u8>().add(number * PAGE_BYTES).as_ptr();
                    byte.write_volatile(byte.read_volatile());
                }
            }
            return Ok(());
        }
        mapped.map_err(system("mapping pages"))
    }

    /// Makes pages zero that the caller has alone. `as_is_best`: those of a large block are written as far as they are there, and the others
    /// are given back to the kernel; else all are written.
    pub(crate) fn zero(&self, page: Page, pages: u32, as_is_best: bool) {
        if !as_is_best {
            self.write_zeroes(page, pages);
        } else if self.file.is_some() || pages > MOST_WRITTEN {
            self.give_back_or_write(page, pages);
        } else {
            for chunk in (page..page + pages).step_by(CHUNK_PAGES as usize) {
                self.zero_chunk(chunk, CHUNK_PAGES.min(page + pages - chunk));
            }
        }
    }

    /// The same of a chunk. What is not there may be swapped out, and is other than zero then: it is given back.
    fn zero_chunk(&self, page: Page, pages: u32) {
        let mut found = [0u8; CHUNK_PAGES as usize];
        let found = found.get_mut(..pages as usize).unwrap_or_default();
        // SAFETY: the pages are in the range, and are not looked at.
        let is_told = pages::are_there(unsafe { self.block(page, pages) }, found).is_ok();
        let runs = || found.chunk_by(|one, next| one & 1 == next & 1);
        if !is_told || runs().count() > MOST_RUNS {
            self.give_back_or_write(page, pages);
            return;
        }
        let mut at = page;
        for run in runs() {
            let count = u32::try_from(run.len()).unwrap_or(0);
            if run.first().is_some_and(|first| first & 1 == 1) {
                self.write_zeroes(at, count);
            } else {
                self.give_back_or_write(at, count);
            }
            at += count;
        }
    }

    fn give_back_or_write(&self, page: Page, pages: u32) {
        if self.give_back(page, pages).is_err() {
            self.write_zeroes(page, pages);
        }
    }

    fn write_zeroes(&self, page: Page, pages: u32) {
        // SAFETY: the caller has these pages alone.
        unsafe { self.block(page, pages).cast::<u8>().write_bytes(0, pages as usize * PAGE_BYTES) };
    }

    /// Gives pages back to the kernel that the caller has alone. They are zero, and not mapped.
    pub(crate) fn give_back(&self, page: Page, pages: u32) -> io::Result<()> {
        // SAFETY: the caller has these pages alone; their content is his to lose.
        Ok(unsafe { kernel::give_back(self.memory(page, pages), self.file.is_some()) }?)
    }

    /// Maps pages anew that the caller has alone, whatever has been done to their mapping. They are zero, and not there yet.
    pub(crate) fn renew(&self, page: Page, pages: u32) -> io::Result<()> {
        self.replace(page, pages, true)
    }

    /// Has each touch of pages that the caller has alone fault, as if nothing were mapped there. What is in them is lost.
    pub(crate) fn close(&self, page: Page, pages: u32) -> io::Result<()> {
        self.replace(page, pages, false)
    }

    fn replace(&self, page: Page, pages: u32, is_open: bool) -> io::Result<()> {
        let memory = self.memory(page, pages);
        let offset = u64::from(page) * PAGE_BYTES as u64;
        let file = self.file.as_ref().map(|file| (file, offset));
        // SAFETY: pages of the range, which the caller has alone; their content is his to lose. The same pages of its file are mapped there.
        Ok(unsafe { kernel::replace(memory, file, is_open) }?)
    }

    /// Gives ranges of pages back that the caller has alone. Whether the kernel took each: they are zero then, and not mapped.
    pub(crate) fn give_back_all(&self, ranges: &[(Page, u32)]) -> Vec<bool> {
        if self.file.is_some() {
            // No call takes pages out of a file in several places.
            return ranges.iter().map(|&(page, pages)| self.give_back(page, pages).is_ok()).collect();
        }
        let memory: Vec<NonNull<[u8]>> =
            ranges.iter().map(|&(page, pages)| self.memory(page, pages)).collect();
        // SAFETY: the memory of the range is private and anonymous, and the caller has these pages alone.
        unsafe { kernel::give_back_all(&memory) }
    }

    /// The memory of pages, which are in the range.
    fn memory(&self, page: Page, pages: u32) -> NonNull<[u8]> {
        let (from, bytes) = (page as usize * PAGE_BYTES, pages as usize * PAGE_BYTES);
        debug_assert!(from + bytes <= self.bytes, "page {page} is in the range");
        // SAFETY: it lies in the mapping.
        NonNull::slice_from_raw_parts(unsafe { self.start.add(from) }, bytes)
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        let memory = NonNull::slice_from_raw_parts(self.start, self.bytes);
        // What is mapped there next is somebody else's.
        poison::unpoison(memory);
        // SAFETY: it was mapped for this range, and blocks keep the range.
        unsafe { kernel::unmap(memory) };
    }
}

fn system(what: &'static str) -> impl Fn(Errno) -> ServiceError {
    move |source| ServiceError::System { what, source: source.into() }
}

/// A file in memory, whose size nobody can change: a page of it that is mapped is there.
pub(crate) fn shared_file(name: &str, bytes: usize, huge: MemfdFlags) -> Result<OwnedFd, Errno> {
    kernel::shared_file(name, bytes, huge)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use rustix::fs::ftruncate;

    #[test]
    fn pages_are_zero_until_they_are_written_and_after_they_were_given_back() {
        for backing in [Backing::Anonymous, Backing::Memfd, Backing::HugeTlb] {
            let range = match Range::reserve(3, backing) {
                // Few machines have huge pages set aside.
                Err(ServiceError::System { .. }) if backing == Backing::HugeTlb => continue,
                range => range.expect("room for it"),
            };
            assert_eq!(range.chunks(), 3);
            range.map(600, 4).expect("memory");
            range.give_out(512, 512);
            // SAFETY: nobody else has these pages.
            let mut block = unsafe { range.block(600, 4) };
            // SAFETY: as above.
            let block = unsafe { block.as_mut() };
            assert_eq!(block.len(), 4 * PAGE_BYTES);
            assert!(block.as_ptr().addr().is_multiple_of(PAGE_BYTES) && block.iter().all(|&byte| byte == 0));
            block.fill(7);
            range.zero(601, 1, false);
            assert_eq!((block[0], block[PAGE_BYTES], block[2 * PAGE_BYTES]), (7, 0, 7), "{backing:?}");
            range.give_back(600, 4).expect("they are mapped");
            assert!(block.iter().all(|&byte| byte == 0), "{backing:?}");
            block.fill(8);
            assert_eq!(range.give_back_all(&[(600, 1), (602, 2)]), [true, true]);
            let first: Vec<u8> = block.chunks(PAGE_BYTES).map(|page| page[5]).collect();
            assert_eq!(first, [0, 8, 0, 0], "{backing:?}");
            block.fill(9);
            if backing == Backing::HugeTlb {
                // A part of a huge page is not mapped by itself.
                assert!(range.close(602, 1).is_err() && range.give_back(602, 1).is_ok());
            } else {
                range.close(602, 1).expect("it is mapped");
                range.renew(602, 1).expect("it was mapped");
            }
            let first: Vec<u8> = block.chunks(PAGE_BYTES).map(|page| page[5]).collect();
            assert_eq!(first, [9, 9, 0, 9], "{backing:?}");
            range.zero(512, 512, true);
            assert!(block.iter().all(|&byte| byte == 0), "{backing:?}");
        }
    }

    /// Whatever is there of a large block, all of it is zero afterwards, and no page has come that was not there.
    #[test]
    fn a_large_block_is_zeroed_as_far_as_it_is_there() {
        let range = Range::reserve(4, Backing::Anonymous).expect("room for it");
        let there = || {
            let mut found = vec![0u8; 1100];
            // SAFETY: it is not looked at.
            let memory = unsafe { range.block(100, 1100) };
            pages::are_there(memory, &mut found).expect("it is mapped");
            found.iter().filter(|&&found| found & 1 == 1).count()
        };
        // SAFETY: nobody else has these pages.
        let block = unsafe { range.block(100, 1100).as_mut() };
        let all_pages = |page: usize| (0..page).collect::<Vec<_>>();
        // All of it, a part at each end, each other page.
        for (touched, stay) in [
            (all_pages(1100), 1100),
            ((0..300).chain(1000..1100).collect(), 400),
            ((0..1100).step_by(2).collect(), 0),
            (vec![], 0),
        ] {
            range.give_back(100, 1100).expect("it is mapped");
            range.give_out(100, 1100);
            touched.iter().for_each(|page| block[page * PAGE_BYTES..][..PAGE_BYTES].fill(7));
            assert_eq!(there(), touched.len());
            range.zero(100, 1100, true);
            assert_eq!(there(), stay);
            assert!(block.iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn a_range_of_no_chunks_or_too_many_is_refused() {
        for chunks in [0, MAX_CHUNKS + 1, u32::MAX] {
            for backing in [Backing::Anonymous, Backing::Memfd, Backing::HugeTlb] {
                assert!(
                    matches!(Range::reserve(chunks, backing), Err(ServiceError::Chunks { .. })),
                    "{chunks}"
                );
            }
        }
    }

    #[test]
    fn two_mappings_of_a_file_are_the_same_memory_and_nobody_shrinks_it() {
        let one = Range::reserve(2, Backing::Memfd).expect("room for it");
        let file = || one.file().expect("it has one").try_clone_to_owned().expect("a descriptor");
        assert_eq!(ftruncate(file(), 0), Err(Errno::PERM));
        assert!(matches!(Range::open(file(), 3), Err(ServiceError::Chunks { chunks: 3, .. })));
        let other = Range::open(file(), 2).expect("its size");
        [&one, &other].into_iter().for_each(|range| range.give_out(5, 1));
        // SAFETY: nobody else has these pages, and one reference is used at a time.
        unsafe { one.block(5, 1).as_mut()[9] = 77 };
        // SAFETY: as above.
        assert_eq!(unsafe { other.block(5, 1).as_ref()[9] }, 77);
        other.give_back(5, 1).expect("it is mapped");
        // SAFETY: as above.
        assert_eq!(unsafe { one.block(5, 1).as_ref()[9] }, 0);
    }

    #[test]
    fn huge_pages_are_there_or_a_typed_error_says_that_they_are_not() {
        match Range::reserve(1 << 20, Backing::HugeTlb) {
            Err(ServiceError::System { what, .. }) => {
                assert!(what.contains("huge") || what.contains("file"), "{what}");
            }
            other => panic!("no machine has 2 TiB of them: {other:?}"),
        }
    }
}
