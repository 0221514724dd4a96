//! Memory that a benchmark maps, writes to and gives back.

#![allow(unsafe_code, reason = "maps memory and writes to it by its address")]

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsFd;
use std::{ptr, slice};

use regrow_sys::raw::{SharedMapping, memfd};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Private anonymous memory, unmapped when it is dropped.
pub(crate) struct PrivateMemory {
    start: *mut u8,
    bytes: usize,
}

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
        assert!(memory.len() == 3 * page && memory.iter().all(|&byte| byte == 0));
        write_page_of_shared(page).unwrap();
    }
}
