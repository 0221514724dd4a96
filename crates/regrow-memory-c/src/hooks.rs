//! Hooks by which an arena of jemalloc has its extents from a client (`arena.<i>.extent_hooks`, `arenas.create`).
//!
//! ```text
//!   alloc    a delayed block, of 2^n pages           split, merge   allowed: a client gives parts of blocks back one by one
//!   dalloc   pages go home                           commit         nothing to do: a block is committed
//!   purge    pages go to the kernel, and are zero    decommit       refused: the kernel takes no reservation back
//! ```
//!
//! A hook returns `true` where it refuses, as jemalloc has it. jemalloc must not have its own arena 0 from these hooks where it is the
//! program's allocator: the service asks the program's allocator for what it notes.

#![allow(unsafe_code, reason = "jemalloc calls functions of C")]
#![allow(clippy::missing_safety_doc, reason = "the contracts are those of jemalloc's manual")]

use std::ffi::{c_uint, c_void};

use regrow_memory::raw::Part;
use regrow_memory::{Mode, PAGE_BYTES, RawClient};

use crate::client::RegrowMemoryClient;

/// Hooks: what jemalloc has as `extent_hooks_t`. A pointer to them is passed to it as a pointer to that.
pub struct RegrowMemoryHooks {
    _private: [u8; 0],
}

/// jemalloc's `extent_hooks_t`, and behind it whose blocks the extents are.
#[repr(C)]
struct Hooks {
    alloc: Alloc,
    dalloc: Dalloc,
    destroy: Destroy,
    commit: Pages,
    decommit: Pages,
    purge_lazy: Pages,
    purge_forced: Pages,
    split: Split,
    merge: Merge,
    client: *const RegrowMemoryClient,
}

type Table = *mut Hooks;
type Alloc =
    unsafe extern "C" fn(Table, *mut c_void, usize, usize, *mut bool, *mut bool, c_uint) -> *mut c_void;
type Dalloc = unsafe extern "C" fn(Table, *mut c_void, usize, bool, c_uint) -> bool;
type Destroy = unsafe extern "C" fn(Table, *mut c_void, usize, bool, c_uint);
type Pages = unsafe extern "C" fn(Table, *mut c_void, usize, usize, usize, c_uint) -> bool;
type Split = unsafe extern "C" fn(Table, *mut c_void, usize, usize, usize, bool, c_uint) -> bool;
type Merge = unsafe extern "C" fn(Table, *mut c_void, usize, *mut c_void, usize, bool, c_uint) -> bool;

/// Hooks for arenas whose extents are blocks of a client; null for a client that is null.
///
/// # Safety
/// `client` is null, or a client that lives as long as the arenas do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn regrow_memory_hooks_new(
    client: *const RegrowMemoryClient,
) -> *mut RegrowMemoryHooks {
    if client.is_null() {
        return std::ptr::null_mut();
    }
    let hooks = Hooks {
        alloc,
        dalloc,
        destroy,
        commit,
        decommit,
        purge_lazy: purge,
        purge_forced: purge,
        split,
        merge,
        client,
    };
    Box::into_raw(Box::new(hooks)).cast()
}

/// Destroys hooks that no arena has. Null is no hooks.
///
/// # Safety
/// `hooks` is null, or hooks that were not destroyed before and that no arena has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn regrow_memory_hooks_destroy(hooks: *mut RegrowMemoryHooks) {
    if !hooks.is_null() {
        // SAFETY: see the contract; they were made by a box.
        drop(unsafe { Box::from_raw(hooks.cast::<Hooks>()) });
    }
}

/// The client of hooks.
///
/// # Safety
/// The hooks are there, and their client lives.
unsafe fn client_of<'a>(table: Table) -> &'a RawClient {
    // SAFETY: see the contract.
    unsafe { &(*(*table).client).raw }
}

unsafe extern "C" fn alloc(
    table: Table,
    at: *mut c_void,
    bytes: usize,
    multiple: usize,
    zero: *mut bool,
    commit: *mut bool,
    _arena: c_uint,
) -> *mut c_void {
    if !at.is_null() {
        // Blocks come where the service has room.
        return std::ptr::null_mut();
    }
    // SAFETY: jemalloc passes the table that it was given, and two flags of its own.
    let (client, zeroed) = unsafe { (client_of(table), *zero) };
    let pages = |bytes: usize| bytes.div_ceil(PAGE_BYTES) as u64;
    let Ok(block) = client.alloc_aligned(pages(bytes), pages(multiple), Mode::Delayed, zeroed) else {
        return std::ptr::null_mut();
    };
    if !block.addr().get().is_multiple_of(multiple) {
        // More than a chunk: the service does not promise that.
        let _ = client.free(block.as_ptr());
        return std::ptr::null_mut();
    }
    // SAFETY: as above.
    unsafe { *commit = true };
    block.as_ptr().cast()
}

unsafe extern "C" fn dalloc(
    table: Table,
    at: *mut c_void,
    bytes: usize,
    _committed: bool,
    _arena: c_uint,
) -> bool {
    // SAFETY: jemalloc passes the table that it was given.
    unsafe { client_of(table) }.free_part(at.cast(), bytes, Part::Open).is_err()
}

unsafe extern "C" fn destroy(table: Table, at: *mut c_void, bytes: usize, committed: bool, arena: c_uint) {
    // SAFETY: the contract is the same.
    unsafe { dalloc(table, at, bytes, committed, arena) };
}

unsafe extern "C" fn commit(_: Table, _: *mut c_void, _: usize, _: usize, _: usize, _: c_uint) -> bool {
    false
}

unsafe extern "C" fn decommit(_: Table, _: *mut c_void, _: usize, _: usize, _: usize, _: c_uint) -> bool {
    true
}

unsafe extern "C" fn purge(
    table: Table,
    at: *mut c_void,
    _: usize,
    offset: usize,
    bytes: usize,
    _: c_uint,
) -> bool {
    // SAFETY: jemalloc passes the table that it was given.
    unsafe { client_of(table) }.purge(at.cast::<u8>().wrapping_add(offset), bytes).is_err()
}

unsafe extern "C" fn split(
    _: Table,
    _: *mut c_void,
    _: usize,
    _: usize,
    _: usize,
    _committed: bool,
    _: c_uint,
) -> bool {
    false
}

unsafe extern "C" fn merge(
    _: Table,
    _: *mut c_void,
    _: usize,
    _: *mut c_void,
    _: usize,
    _committed: bool,
    _: c_uint,
) -> bool {
    false
}
