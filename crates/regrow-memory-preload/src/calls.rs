//! The names by which a program calls: each passes on to `heap`, `maps` or `moves`.
//!
//! They take the place of the C library's functions in all of the program. Tests of this crate have them under no name.

#![allow(unsafe_code, reason = "C knows functions by name")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the contracts are those of the C library's functions of the same names"
)]

use std::ffi::c_void;
use std::ptr::null_mut;

use libc::{EINVAL, ENOMEM, c_int, c_uint, off_t, size_t};
use regrow_memory::PAGE_BYTES;

use crate::maps::Wanted;
use crate::moves::Move;
use crate::{errno, heap, maps, moves};

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn malloc(bytes: size_t) -> *mut c_void {
    heap::malloc(bytes)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn calloc(count: size_t, each: size_t) -> *mut c_void {
    heap::calloc(count, each)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn realloc(block: *mut c_void, bytes: size_t) -> *mut c_void {
    // SAFETY: the contract is the same.
    unsafe { heap::realloc(block, bytes) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn reallocarray(block: *mut c_void, count: size_t, each: size_t) -> *mut c_void {
    match count.checked_mul(each) {
        // SAFETY: the contract is the same.
        Some(bytes) => unsafe { heap::realloc(block, bytes) },
        None => {
            errno::set(ENOMEM);
            null_mut()
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn free(block: *mut c_void) {
    // SAFETY: the contract is the same.
    unsafe { heap::free(block) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> size_t {
    // SAFETY: the contract is the same.
    unsafe { heap::usable_size(block) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn memalign(multiple: size_t, bytes: size_t) -> *mut c_void {
    match multiple.checked_next_power_of_two() {
        Some(multiple) => heap::memalign(multiple, bytes),
        None => refuse(EINVAL),
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn aligned_alloc(multiple: size_t, bytes: size_t) -> *mut c_void {
    if multiple.is_power_of_two() { heap::memalign(multiple, bytes) } else { refuse(EINVAL) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn posix_memalign(block: *mut *mut c_void, multiple: size_t, bytes: size_t) -> c_int {
    match heap::posix_memalign(multiple, bytes) {
        Ok(address) => {
            // SAFETY: the caller has room for an address there.
            unsafe { block.write(address) };
            0
        }
        Err(number) => number,
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn valloc(bytes: size_t) -> *mut c_void {
    heap::memalign(PAGE_BYTES, bytes)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn pvalloc(bytes: size_t) -> *mut c_void {
    match bytes.max(1).checked_next_multiple_of(PAGE_BYTES) {
        Some(bytes) => heap::memalign(PAGE_BYTES, bytes),
        None => refuse(ENOMEM),
    }
}

fn refuse(number: c_int) -> *mut c_void {
    errno::set(number);
    null_mut()
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn mmap(
    at: *mut c_void,
    bytes: size_t,
    prot: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the contract is the same.
    unsafe { maps::mmap(Wanted { at, bytes, prot, flags, file, offset }) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn mmap64(
    at: *mut c_void,
    bytes: size_t,
    prot: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the contract is the same.
    unsafe { maps::mmap(Wanted { at, bytes, prot, flags, file, offset }) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn munmap(at: *mut c_void, bytes: size_t) -> c_int {
    // SAFETY: the contract is the same.
    unsafe { maps::munmap(at, bytes) }
}

/// The fifth argument is there only where the flags say so; it is looked at only then.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn mremap(
    from: *mut c_void,
    has: size_t,
    bytes: size_t,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    // SAFETY: the contract is the same.
    unsafe { moves::mremap(Move { from, has, bytes, flags, to }) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn mprotect(at: *mut c_void, bytes: size_t, prot: c_int) -> c_int {
    // SAFETY: the contract is the same.
    unsafe { maps::mprotect(at, bytes, prot) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn pkey_mprotect(at: *mut c_void, bytes: size_t, prot: c_int, key: c_int) -> c_int {
    // SAFETY: the contract is the same.
    unsafe { maps::pkey_mprotect(at, bytes, prot, key) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn madvise(at: *mut c_void, bytes: size_t, advice: c_int) -> c_int {
    // SAFETY: the contract is the same.
    unsafe { maps::madvise(at, bytes, advice) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn mlock(at: *const c_void, bytes: size_t) -> c_int {
    // SAFETY: the contract is the same.
    unsafe { maps::mlock(at, bytes, None) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn mlock2(at: *const c_void, bytes: size_t, flags: c_uint) -> c_int {
    // SAFETY: the contract is the same.
    unsafe { maps::mlock(at, bytes, Some(flags)) }
}
