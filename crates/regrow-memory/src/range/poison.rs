//! Tells the address sanitizer (`--cfg address_sanitizer`, `make sanitize`) which pages somebody has: each use of others is reported.

#![allow(unsafe_code, reason = "functions of the sanitizer's runtime library are called")]

use std::ptr::NonNull;

/// Whether somebody looks at it.
pub(super) const IS_THERE: bool = cfg!(address_sanitizer);

#[cfg(address_sanitizer)]
mod runtime {
    unsafe extern "C" {
        pub(super) fn __asan_poison_memory_region(start: *const u8, bytes: usize);
        pub(super) fn __asan_unpoison_memory_region(start: *const u8, bytes: usize);
    }
}

/// Each use of this memory is reported from here on.
pub(super) fn poison(memory: NonNull<[u8]>) {
    #[cfg(address_sanitizer)]
    // SAFETY: the runtime library notes that the memory is not to be used; it is mapped.
    unsafe {
        runtime::__asan_poison_memory_region(memory.as_ptr().cast(), memory.len());
    }
    #[cfg(not(address_sanitizer))]
    let _ = memory;
}

/// Somebody has this memory.
pub(super) fn unpoison(memory: NonNull<[u8]>) {
    #[cfg(address_sanitizer)]
    // SAFETY: as above.
    unsafe {
        runtime::__asan_unpoison_memory_region(memory.as_ptr().cast(), memory.len());
    }
    #[cfg(not(address_sanitizer))]
    let _ = memory;
}
