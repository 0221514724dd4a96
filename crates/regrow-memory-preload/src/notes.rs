//! Memory for what the service notes: from the kernel, in pieces, without `malloc`.
//!
//! The service runs inside of `malloc` and `mmap`. If its own lists came from the program's allocator, a fork could wait for a lock of that
//! allocator, whose holder waits for the service.
//!
//! Sizes are powers of two from 16 bytes; freed ones stand in a list of their size. Those of 128 KiB and more are mapped one by one.

#![allow(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// The largest size in the lists, and what is mapped at once for them.
const LARGEST: usize = 64 << 10;
const PIECE: usize = 256 << 10;
const SMALLEST: usize = 16;
const CLASSES: usize = (LARGEST / SMALLEST).ilog2() as usize + 1;
const PAGE: usize = 4096;

/// The lists, by addresses: zero is none.
pub(crate) struct Lists {
    free: [usize; CLASSES],
    /// What is left of the last piece.
    next: usize,
    end: usize,
}

static LISTS: Mutex<Lists> = Mutex::new(Lists { free: [0; CLASSES], next: 0, end: 0 });

/// See the module.
pub(crate) struct Notes;

/// Has all others wait who want memory.
pub(crate) fn hold() -> MutexGuard<'static, Lists> {
    LISTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The class of a layout, and its size; `None` for what is mapped by itself.
fn class_of(layout: Layout) -> Option<(usize, usize)> {
    let size = layout.size().max(layout.align()).max(SMALLEST).checked_next_power_of_two()?;
    (size <= LARGEST).then(|| ((size / SMALLEST).ilog2() as usize, size))
}

fn map(bytes: usize) -> *mut u8 {
    let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: the kernel chooses the address, so that no memory in use is replaced.
    unsafe { mmap_anonymous(null_mut(), bytes, prot, flags) }.map_or(null_mut(), <*mut _>::cast)
}

// SAFETY: a block is given once until it comes back: it leaves its list, or is cut off the piece, under the lock.
unsafe impl GlobalAlloc for Notes {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some((class, size)) = class_of(layout) else {
            // Nothing of the service asks for more than a page's alignment.
            return if layout.align() > PAGE { null_mut() } else { map(layout.size()) };
        };
        let mut lists = hold();
        if let Some(first) = lists.free.get_mut(class).filter(|first| **first != 0) {
            let block = with_exposed_provenance_mut::<usize>(*first);
            // SAFETY: a free block begins with the address of the next one.
            *first = unsafe { block.read() };
            return block.cast();
        }
        lists.next = lists.next.next_multiple_of(size);
        if lists.next + size > lists.end {
            let piece = map(PIECE);
            if piece.is_null() {
                return null_mut();
            }
            lists.next = piece.expose_provenance().next_multiple_of(size);
            lists.end = piece.addr() + PIECE;
        }
        let block = with_exposed_provenance_mut(lists.next);
        lists.next += size;
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some((class, _)) = class_of(layout) else {
            // SAFETY: it was mapped with this size, and is used no more.
            let _ = unsafe { munmap(block.cast(), layout.size()) };
            return;
        };
        let mut lists = hold();
        if let Some(first) = lists.free.get_mut(class) {
            let next = std::mem::replace(first, block.expose_provenance());
            // SAFETY: the block has 16 bytes at least, is aligned to them, and is used no more.
            unsafe { block.cast::<usize>().write(next) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_do_not_overlap_and_come_back() {
        let mut all = Vec::new();
        for (number, size) in [1usize, 16, 17, 100, 4096, 5000, 60_000, 65_536, 65_537, 3 << 20]
            .into_iter()
            .cycle()
            .take(300)
            .enumerate()
        {
            let layout = Layout::from_size_align(size, 1 << (number % 9)).expect("a layout");
            // SAFETY: the size is not zero.
            let block = unsafe { Notes.alloc(layout) };
            assert!(!block.is_null() && block.addr().is_multiple_of(layout.align()));
            let mark = number.to_le_bytes()[0];
            // SAFETY: the block has so many bytes.
            unsafe { block.write_bytes(mark, size) };
            all.push((block, layout, mark));
        }
        for &(block, layout, mark) in &all {
            // SAFETY: as above; they were written.
            let bytes = unsafe { std::slice::from_raw_parts(block, layout.size()) };
            assert!(bytes.iter().all(|&byte| byte == mark));
        }
        let last = *all.iter().rfind(|(_, layout, _)| layout.size() == 100).expect("there are some");
        // SAFETY: each is given back once.
        all.iter().for_each(|&(block, layout, _)| unsafe { Notes.dealloc(block, layout) });
        // SAFETY: the size is not zero.
        let again = unsafe { Notes.alloc(Layout::from_size_align(100, 16).expect("a layout")) };
        assert!(!again.is_null() && all.iter().any(|&(block, ..)| block == again), "{last:?}");
    }
}
