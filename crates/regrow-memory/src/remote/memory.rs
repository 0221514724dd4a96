//! The memory that processes share, as references: the only file of the domain that looks at memory by address.

#![allow(unsafe_code, reason = "memory is mapped here, and looked at by address")]

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustix::fs::{MemfdFlags, fstat};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::lane::Lane;
use crate::range::{Range, shared_file};
use crate::shared::layout::{ENTRIES, Head, bytes_for};
use crate::units::{Page, pages_of};

/// A file in memory, mapped as long as this lives. It has the size that was asked for, and keeps it: see [`shared_file`].
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    file: OwnedFd,
}

// SAFETY: the mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}

// SAFETY: as above; what is given out of it are atomics.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(name: &str, bytes: usize) -> io::Result<Mapping> {
        Mapping::open(shared_file(name, bytes, MemfdFlags::empty())?, bytes)
    }

    fn open(file: OwnedFd, bytes: usize) -> io::Result<Mapping> {
        if usize::try_from(fstat(&file)?.st_size) != Ok(bytes) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a file of another size"));
        }
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        // SAFETY: the kernel chooses the address, so that no memory in use is replaced.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, prot, flags, &file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, bytes, file })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `open` has mapped it, and what was given out of it borrows it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// A lane between a client and the porter. Nobody else has it.
#[derive(Debug)]
pub(super) struct LaneMemory(Mapping);

impl LaneMemory {
    pub(super) fn new() -> io::Result<LaneMemory> {
        Mapping::new("regrow-lane", size_of::<Lane>()).map(LaneMemory)
    }

    pub(super) fn open(file: OwnedFd) -> io::Result<LaneMemory> {
        Mapping::open(file, size_of::<Lane>()).map(LaneMemory)
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.0.file.as_fd()
    }
}

impl Deref for LaneMemory {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        // SAFETY: the mapping begins at a page and has the size of a lane, which is atomics alone, valid whatever their bits are.
        unsafe { self.0.start.cast().as_ref() }
    }
}

/// What all processes of a domain share.
#[derive(Debug)]
pub(super) struct SharedMemory {
    mapping: Mapping,
    entries: usize,
}

impl SharedMemory {
    pub(super) fn new(chunks: u32) -> io::Result<SharedMemory> {
        let mapping = Mapping::new("regrow-domain", bytes_for(chunks))?;
        Ok(SharedMemory { entries: (mapping.bytes - ENTRIES) / size_of::<AtomicU64>(), mapping })
    }

    pub(super) fn open(file: OwnedFd, chunks: u32) -> io::Result<SharedMemory> {
        let mapping = Mapping::open(file, bytes_for(chunks))?;
        Ok(SharedMemory { entries: (mapping.bytes - ENTRIES) / size_of::<AtomicU64>(), mapping })
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.mapping.file.as_fd()
    }

    /// The head, and the desks.
    pub(super) fn head(&self) -> &Head {
        // SAFETY: the mapping begins at a page and is larger than a head, which is atomics alone, valid whatever their bits are.
        unsafe { self.mapping.start.cast().as_ref() }
    }

    /// The entry of a page; none where the range has no such page.
    pub(super) fn entry(&self, page: Page) -> Option<&AtomicU64> {
        // SAFETY: so many atomics lie behind the head, see `new` and `open`, at a multiple of their size.
        let entries = unsafe {
            let first = self.mapping.start.add(ENTRIES).cast::<AtomicU64>();
            std::slice::from_raw_parts(first.as_ptr(), self.entries)
        };
        entries.get(page as usize)
    }
}

/// The memory of a block that this process has alone.
#[derive(Debug)]
pub(super) struct Extent {
    memory: NonNull<[u8]>,
    page: Page,
    order: u8,
    range: Arc<Range>,
}

// SAFETY: an extent is the only way of this process to its memory.
unsafe impl Send for Extent {}

// SAFETY: a shared reference gives out shared references to the memory alone.
unsafe impl Sync for Extent {}

impl Extent {
    /// The memory of a block whose entry this client has made its own: there is one. None where the range ends before.
    pub(super) fn new(range: &Arc<Range>, page: Page, order: u8) -> Option<Extent> {
        let end = u64::from(page) + u64::from(pages_of(order));
        if end > u64::from(range.chunks()) * u64::from(crate::units::CHUNK_PAGES) {
            return None;
        }
        // SAFETY: the pages are in the range, and the domain lets one client have them at a time.
        let memory = unsafe { range.block(page, pages_of(order)) };
        let extent = Extent { memory, page, order, range: Arc::clone(range) };
        extent.take_up();
        Some(extent)
    }

    /// Nobody in this process uses it until it is taken up.
    pub(super) fn set_aside(&self) {
        self.range.take_in(self.page, pages_of(self.order));
    }

    /// Somebody uses it.
    pub(super) fn take_up(&self) {
        self.range.give_out(self.page, pages_of(self.order));
    }
}

impl Deref for Extent {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: all bytes are initialized, by the kernel or by an earlier block. Other processes of the domain that change them break its rules, as
        // one that writes to this process's memory by `/proc` does.
        unsafe { self.memory.as_ref() }
    }
}

impl DerefMut for Extent {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; this is the only reference to the only extent of these pages.
        unsafe { self.memory.as_mut() }
    }
}
