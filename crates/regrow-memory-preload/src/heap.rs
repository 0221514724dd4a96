//! `malloc` and its like: a page and more from the service, less from the next library.
//!
//! A block begins at a page, and its pages come when they are touched. A block that grows stays where it is as far as the service's block
//! reaches.

#![allow(unsafe_code, reason = "blocks are copied by address")]

use std::ffi::c_void;
use std::ptr::null_mut;

use libc::{EINVAL, ENOMEM, c_int};
use regrow_memory::{Mode, PAGE_BYTES};

use crate::counts::{Count, add};
use crate::made::Served;
use crate::served;
use crate::{errno, next};

/// The largest alignment that the service gives: a chunk's.
const LARGEST_MULTIPLE: usize = 2 << 20;

/// A block of the service; `None` where the request is not the service's, or it has no memory.
#[inline]
fn serve(bytes: usize, multiple: usize, zeroed: bool, what: Count) -> Option<*mut c_void> {
    if bytes < PAGE_BYTES || multiple > LARGEST_MULTIPLE {
        return None;
    }
    let served = served::get()?;
    let (pages, multiple) = (bytes.div_ceil(PAGE_BYTES) as u64, multiple.div_ceil(PAGE_BYTES) as u64);
    match served.client.alloc_aligned(pages, multiple, Mode::Delayed, zeroed) {
        Ok(block) => {
            add(what);
            Some(block.as_ptr().cast())
        }
        Err(_) => {
            add(Count::Passed);
            None
        }
    }
}

#[inline]
pub(crate) fn malloc(bytes: usize) -> *mut c_void {
    serve(bytes, 1, false, Count::Malloc).unwrap_or_else(|| next::malloc(bytes))
}

pub(crate) fn calloc(count: usize, each: usize) -> *mut c_void {
    let Some(bytes) = count.checked_mul(each) else {
        errno::set(ENOMEM);
        return null_mut();
    };
    serve(bytes, 1, true, Count::Calloc).unwrap_or_else(|| next::calloc(count, each))
}

/// At a multiple that is a power of two.
pub(crate) fn memalign(multiple: usize, bytes: usize) -> *mut c_void {
    serve(bytes, multiple, false, Count::Aligned).unwrap_or_else(|| next::memalign(multiple, bytes))
}

/// `posix_memalign` without its pointer: the block, or the number of an error.
pub(crate) fn posix_memalign(multiple: usize, bytes: usize) -> Result<*mut c_void, c_int> {
    if !multiple.is_power_of_two() || !multiple.is_multiple_of(size_of::<*mut c_void>()) {
        return Err(EINVAL);
    }
    let error = errno::get();
    let block = memalign(multiple, bytes);
    errno::set(error);
    if block.is_null() { Err(ENOMEM) } else { Ok(block) }
}

/// The service, if a block of the heap is its own. The next library may have its memory from the service by `mmap`: what it gives out of
/// that is its own.
fn of_heap(block: *const c_void) -> Option<&'static Served> {
    served::of(block).filter(|served| served.client.is_labelled(block.cast()) != Some(true))
}

/// # Safety
/// The block is null, or was given by this library or the next one, and is used no more.
#[inline]
pub(crate) unsafe fn free(block: *mut c_void) {
    let is_freed = match served::of(block) {
        Some(served) => served.client.free_unless_labelled(block.cast()),
        None => Ok(false),
    };
    match is_freed {
        Ok(true) => add(Count::Free),
        // SAFETY: see the contract.
        Ok(false) => unsafe { next::free(block) },
        Err(error) => errno::fault("free", error),
    }
}

fn free_served(served: &Served, block: *mut c_void, function: &str) {
    match served.client.free(block.cast()) {
        Ok(()) => add(Count::Free),
        Err(error) => errno::fault(function, error),
    }
}

/// # Safety
/// The block is null, or was given by this library or the next one.
pub(crate) unsafe fn usable_size(block: *mut c_void) -> usize {
    match of_heap(block) {
        Some(served) => {
            served.client.size(block.cast()).unwrap_or_else(|error| errno::fault("malloc_usable_size", error))
        }
        None if block.is_null() => 0,
        // SAFETY: see the contract.
        None => unsafe { next::usable_size(block) },
    }
}

/// # Safety
/// The block is null, or was given by this library or the next one, and is used no more unless null is returned.
pub(crate) unsafe fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    if block.is_null() {
        return malloc(bytes);
    }
    let served = of_heap(block);
    let has = match served {
        Some(served) => {
            served.client.size(block.cast()).unwrap_or_else(|error| errno::fault("realloc", error))
        }
        // SAFETY: see the contract.
        None if bytes < PAGE_BYTES => return unsafe { next::realloc(block, bytes) },
        // SAFETY: see the contract.
        None => unsafe { next::usable_size(block) },
    };
    let Some(served) = served else {
        // SAFETY: see the contract.
        return unsafe { into_service(block, has, bytes) };
    };
    if bytes == 0 {
        free_served(served, block, "realloc");
        return null_mut();
    }
    if bytes <= has && bytes > has / 4 {
        add(Count::Realloc);
        return block;
    }
    let new = malloc(bytes);
    if !new.is_null() {
        // SAFETY: both blocks are there, have so many bytes, and are two.
        unsafe { block.cast::<u8>().copy_to_nonoverlapping(new.cast(), has.min(bytes)) };
        free_served(served, block, "realloc");
        add(Count::Realloc);
    }
    new
}

/// Has a block of the next library become one of a page and more.
///
/// # Safety
/// As `realloc`.
unsafe fn into_service(block: *mut c_void, has: usize, bytes: usize) -> *mut c_void {
    let Some(new) = serve(bytes, 1, false, Count::Realloc) else {
        // SAFETY: see the contract.
        return unsafe { next::realloc(block, bytes) };
    };
    // SAFETY: both blocks are there, have so many bytes, and are two; the old one is used no more.
    unsafe {
        block.cast::<u8>().copy_to_nonoverlapping(new.cast(), has.min(bytes));
        next::free(block);
    }
    new
}
