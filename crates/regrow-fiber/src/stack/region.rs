//! Regions: stacks of one size that were mapped in one piece, and the table of all regions.
//!
//! A region is never unmapped, so that the table only grows, and a signal handler can read it.

#![allow(unsafe_code, reason = "memory is mapped, and looked at by address")]

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use regrow_sys::pages;

use super::size::PAGE_BYTES;
use crate::error::StackError;

/// Most regions.
const MOST_REGIONS: usize = 1024;
/// The least that is mapped at a time, and the most: each region of a size is as large as all before it.
const LEAST_BYTES: usize = 2 << 20;
const MOST_BYTES: usize = 4 << 30;

static REGIONS: [AtomicPtr<Region>; MOST_REGIONS] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST_REGIONS];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// See the module.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    bytes: usize,
    pub(crate) stack_bytes: usize,
}

// SAFETY: a region says where memory is, which belongs to the process. Who has a stack of it says the class.
unsafe impl Send for Region {}
// SAFETY: as above; it does not change.
unsafe impl Sync for Region {}

impl Region {
    /// Maps stacks of one size, of which there are so many already.
    pub(crate) fn map(stack_bytes: usize, present: usize) -> Result<&'static Self, StackError> {
        let bytes = (present * stack_bytes).clamp(LEAST_BYTES, MOST_BYTES).max(stack_bytes);
        let failed = |source: rustix::io::Errno| StackError::Memory {
            stacks: bytes / stack_bytes,
            bytes: stack_bytes,
            source: source.into(),
        };
        let slot = COUNT.fetch_add(1, Ordering::Relaxed);
        let Some(slot) = REGIONS.get(slot) else {
            COUNT.store(MOST_REGIONS, Ordering::Relaxed);
            return Err(StackError::Regions { regions: MOST_REGIONS });
        };
        let start = memory(bytes, stack_bytes).map_err(failed)?;
        let start = NonNull::new(start).ok_or_else(|| failed(rustix::io::Errno::NOMEM))?;
        let region: &'static Self = Box::leak(Box::new(Self { start, bytes, stack_bytes }));
        slot.store(ptr::from_ref(region).cast_mut(), Ordering::Release);
        Ok(region)
    }

    /// How many stacks it has.
    pub(crate) fn stacks(&self) -> usize {
        self.bytes / self.stack_bytes
    }

    /// The bottom of one of its stacks.
    pub(crate) fn bottom(&self, number: usize) -> NonNull<u8> {
        debug_assert!(number < self.stacks());
        // SAFETY: it lies in the mapping.
        unsafe { self.start.add(number * self.stack_bytes) }
    }

    /// The bottom of the stack whose guard page has this address.
    fn bottom_of_guard(&self, address: usize) -> Option<NonNull<u8>> {
        let distance = address.checked_sub(self.start.as_ptr() as usize)?;
        let is_guard = distance < self.bytes && distance % self.stack_bytes < PAGE_BYTES;
        is_guard.then(|| self.bottom(distance / self.stack_bytes))
    }
}

/// Memory that is zero, at a multiple of the alignment.
#[cfg(not(miri))]
fn memory(bytes: usize, align: usize) -> rustix::io::Result<*mut u8> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
    // SAFETY: the kernel chooses the address: nothing is there. A multiple of the alignment lies in it, and what is around goes unused.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes + align, access, flags) }?.cast::<u8>();
    let start = start.wrapping_add(start.align_offset(align));
    // SAFETY: the range was mapped just now. Of a huge page a fiber would use the least part. The advice may be unknown: nothing is lost.
    let _ = unsafe { madvise(start.cast(), bytes, Advice::LinuxNoHugepage) };
    Ok(start)
}

/// The same of the heap, for Miri.
#[cfg(miri)]
fn memory(bytes: usize, align: usize) -> rustix::io::Result<*mut u8> {
    let layout = std::alloc::Layout::from_size_align(bytes, align).map_err(|_| rustix::io::Errno::NOMEM)?;
    // SAFETY: it is a stack at least.
    Ok(unsafe { std::alloc::alloc_zeroed(layout) })
}

/// The stack whose guard page has this address: its bottom, and its size. It takes no lock.
pub(crate) fn of_guard(address: usize) -> Option<(NonNull<u8>, usize)> {
    let regions = REGIONS.iter().map(|slot| slot.load(Ordering::Acquire));
    regions.filter(|region| !region.is_null()).find_map(|region| {
        // SAFETY: a region that stands in the table is never freed.
        let region = unsafe { &*region };
        Some((region.bottom_of_guard(address)?, region.stack_bytes))
    })
}

/// Guards the lowest page of each of these stacks.
pub(crate) fn guard(bottoms: &[NonNull<u8>], stack_bytes: usize) -> Result<(), StackError> {
    if cfg!(miri) {
        return Ok(());
    }
    let ranges: Vec<NonNull<[u8]>> =
        bottoms.iter().map(|bottom| NonNull::slice_from_raw_parts(*bottom, PAGE_BYTES)).collect();
    // SAFETY: the lowest page of a stack is nobody's.
    let done = unsafe { pages::guard(&ranges) }.unwrap_or(0) / PAGE_BYTES;
    for range in ranges.into_iter().skip(done) {
        // SAFETY: as above.
        unsafe { pages::guard_one(range) }
            .map_err(|source| StackError::Guard { bytes: stack_bytes, source })?;
    }
    Ok(())
}

/// How many bytes of a stack were written, from its top down to the lowest that is not zero.
pub(crate) fn high_water(bottom: NonNull<u8>, bytes: usize) -> usize {
    let mut is_there = vec![0; bytes / PAGE_BYTES];
    if pages::are_there(NonNull::slice_from_raw_parts(bottom, bytes), &mut is_there).is_err() {
        return 0;
    }
    // The guard page is never there.
    let pages = is_there.iter().enumerate().skip(1).filter(|(_, is_there)| **is_there & 1 == 1);
    for (number, _) in pages {
        // SAFETY: the page lies in the stack. Whoever uses the stack does not run, or is the caller: it is read by words of which each may
        // change behind this, and no reference is made.
        let lowest = (0..PAGE_BYTES / 8).find(|word| unsafe {
            bottom.add(number * PAGE_BYTES + word * 8).cast::<u64>().read_volatile() != 0
        });
        if let Some(word) = lowest {
            return bytes - number * PAGE_BYTES - word * 8;
        }
    }
    0
}
