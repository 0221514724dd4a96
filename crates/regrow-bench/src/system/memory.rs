//! Memory that a benchmark maps, writes to and gives back.

#![allow(unsafe_code, reason = "maps memory and writes to it by its address")]

use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::slice;

use regrow_sys::pages;
use regrow_sys::raw::{SharedMapping, memfd};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Private anonymous memory, unmapped when it is dropped.
pub(crate) struct PrivateMemory {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, and `self` alone has its address.
unsafe impl Send for PrivateMemory {}

impl PrivateMemory {
    /// Maps so many bytes.
    pub(crate) fn map(bytes: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a null hint without MAP_FIXED: the kernel chooses an address that nothing occupies.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, MapFlags::PRIVATE)? };
        Ok(Self { start: start.cast(), bytes })
    }

    /// Writes to each page: the kernel provides those that are missing.
    pub(crate) fn touch(&mut self) {
        for offset in (0..self.bytes).step_by(rustix::param::page_size()) {
            // SAFETY: `offset` is below `bytes`, the length of the writable mapping, which `self` alone owns.
            unsafe { self.start.add(offset).write_volatile(1) };
        }
    }

    /// Gives parts of the memory back to the kernel, each by a call of its own: at once, or when the kernel needs them (`MADV_FREE`).
    pub(crate) fn give_back_each(&mut self, parts: &[Range<usize>], lazily: bool) -> io::Result<()> {
        let advice = if lazily { Advice::LinuxFree } else { Advice::LinuxDontNeed };
        parts.iter().try_for_each(|part| {
            let part = self.part(part);
            // SAFETY: a part of the mapping, to which no reference is given out.
            unsafe { madvise(part.as_ptr().cast(), part.len(), advice)? };
            Ok(())
        })
    }

    /// The same at once, by one call for all. `None` where the kernel has none for that.
    pub(crate) fn give_back_together(&mut self, parts: &[Range<usize>]) -> Option<usize> {
        let parts: Vec<NonNull<[u8]>> = parts.iter().map(|part| self.part(part)).collect();
        // SAFETY: as above; the mapping is private and anonymous.
        unsafe { pages::give_back(&parts) }.ok()
    }

    /// Has the kernel provide all pages of parts of it, each by a call of its own.
    pub(crate) fn populate_each(&mut self, parts: &[Range<usize>]) -> io::Result<()> {
        parts.iter().try_for_each(|part| {
            let part = self.part(part);
            // SAFETY: a part of the mapping; its content stays as it is.
            unsafe { madvise(part.as_ptr().cast(), part.len(), Advice::LinuxPopulateWrite)? };
            Ok(())
        })
    }

    /// Writes to each page of parts of it.
    pub(crate) fn touch_parts(&mut self, parts: &[Range<usize>]) {
        for part in parts.iter().map(|part| self.part(part)) {
            for offset in (0..part.len()).step_by(rustix::param::page_size()) {
                // SAFETY: the offset is in the part, which lies in the writable mapping.
                unsafe { part.cast::<u8>().add(offset).write_volatile(1) };
            }
        }
    }

    fn part(&self, part: &Range<usize>) -> NonNull<[u8]> {
        assert!(part.start <= part.end && part.end <= self.bytes, "{part:?} is in the memory");
        // SAFETY: the part lies in the mapping, whose start is not null.
        let start = unsafe { NonNull::new_unchecked(self.start.add(part.start)) };
        NonNull::slice_from_raw_parts(start, part.len())
    }

    /// Fills the memory with zeros.
    pub(crate) fn zero(&mut self) {
        // SAFETY: `start` and `bytes` are those of the writable mapping, which `self` alone owns.
        unsafe { ptr::write_bytes(self.start, 0, self.bytes) };
    }
}

impl Deref for PrivateMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping that `map` made, of initialized bytes, which only `self` gives out.
        unsafe { slice::from_raw_parts(self.start, self.bytes) }
    }
}

impl DerefMut for PrivateMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; `self` is borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.start, self.bytes) }
    }
}

impl Drop for PrivateMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping that `map` made, and to which no reference is given out.
        // The call fails for no mapping of this process's own.
        let _ = unsafe { munmap(self.start.cast(), self.bytes) };
    }
}

/// Maps shared memory of so many bytes, writes its first page, and gives it back.
pub(crate) fn write_page_of_shared(bytes: usize) -> io::Result<()> {
    let file = memfd("regrow-bench", bytes as u64)?;
    let mapping = SharedMapping::new(file.as_fd(), bytes)?;
    let page = rustix::param::page_size().min(bytes);
    // SAFETY: the mapping is writable, has `bytes` bytes, and lives until the end of this function.
    unsafe { ptr::write_bytes(mapping.as_ptr(), 1, page) };
    Ok(())
}

/// Maps so many bytes of a file in memory, writes a byte at each of some offsets, and unmaps them.
pub(crate) fn write_shared(file: BorrowedFd<'_>, bytes: usize, offsets: &[usize]) -> io::Result<()> {
    let mapping = SharedMapping::new(file, bytes)?;
    for &offset in offsets {
        assert!(offset < bytes, "{offset} is in the mapping");
        // SAFETY: the offset is in the mapping, which is writable and lives until the end of this function.
        unsafe { mapping.as_ptr().add(offset).write_volatile(1) };
    }
    Ok(())
}

/// The same with each of its pages.
pub(crate) fn touch_shared(file: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let offsets: Vec<usize> = (0..bytes).step_by(rustix::param::page_size()).collect();
    write_shared(file, bytes, &offsets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_can_be_written_from_end_to_end() {
        let page = rustix::param::page_size();
        let mut memory = PrivateMemory::map(3 * page).unwrap();
        memory.touch();
        assert!(memory.chunks(page).all(|page| page[0] == 1));
        memory[page] = 2;
        memory.zero();
        memory.give_back_each(&[0..page, 2 * page..3 * page], true).unwrap();
        memory.give_back_each(&[page..page, page..3 * page], false).unwrap();
        assert!(
            memory.give_back_together(&[0..page, 2 * page..3 * page]).is_none_or(|bytes| bytes == 2 * page)
        );
        memory.populate_each(&[0..page, page..3 * page]).unwrap();
        assert!(memory.len() == 3 * page && memory.iter().all(|&byte| byte == 0));
        write_page_of_shared(page).unwrap();
    }
}
