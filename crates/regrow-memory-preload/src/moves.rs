//! `mremap` of blocks of the service.
//!
//! ```text
//!   shorter                 the end is given back
//!   longer, block reaches   in its place
//!   longer                  to a new block: copied, or, where there is much of it, moved page by page by the kernel
//!   changed by the program  (protections, other mappings): moved by the kernel, and the kernel's from then on
//! ```
//!
//! The kernel moves pages with `MREMAP_DONTUNMAP`: it leaves no hole in the range that somebody else's mapping could fall into.

#![allow(unsafe_code, reason = "the kernel is asked by system call, and blocks are copied by address")]

use std::ffi::c_void;
use std::ptr::null_mut;

use libc::{
    EFAULT, EINVAL, ENOMEM, MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, MREMAP_DONTUNMAP, MREMAP_FIXED,
    MREMAP_MAYMOVE, PROT_READ, PROT_WRITE, SYS_mremap, c_int, syscall,
};
use regrow_memory::PAGE_BYTES;

use crate::counts::{Count, add};
use crate::errno;
use crate::made::Served;
use crate::maps::{Wanted, by_kernel, give_back, may_be_replaced, munmap, serve};
use crate::served;

/// From so many bytes on, moving pages is quicker than copying them.
const MOVED_FROM: usize = 1 << 20;

/// The arguments of a move.
#[derive(Clone, Copy)]
pub(crate) struct Move {
    pub(crate) from: *mut c_void,
    pub(crate) has: usize,
    pub(crate) bytes: usize,
    pub(crate) flags: c_int,
    pub(crate) to: *mut c_void,
}

fn failed(number: c_int) -> *mut c_void {
    errno::set(number);
    MAP_FAILED
}

/// # Safety
/// That of `mremap`: nobody uses what is moved, or what it is moved over.
pub(crate) unsafe fn mremap(order: Move) -> *mut c_void {
    let Move { from, has, bytes, flags, to } = order;
    let is_fixed = flags & MREMAP_FIXED != 0;
    if is_fixed && !may_be_replaced(to, bytes) {
        return failed(ENOMEM);
    }
    let rounded = (has.checked_next_multiple_of(PAGE_BYTES), bytes.checked_next_multiple_of(PAGE_BYTES));
    let Some((served, part, part_bytes)) = served::part_of(from, rounded.0.unwrap_or(usize::MAX).max(1))
    else {
        // SAFETY: the contract is the same.
        let moved = unsafe { moved_by_kernel(order) };
        if moved != MAP_FAILED && is_fixed {
            note_there(to, bytes);
        }
        return moved;
    };
    let (Some(has), Some(bytes)) = rounded else { return failed(EINVAL) };
    if has == 0 || bytes == 0 || !from.addr().is_multiple_of(PAGE_BYTES) {
        return failed(EINVAL);
    }
    if part.addr() != from.addr() || part_bytes != has || !served.client.is_in_use(part, has) {
        return failed(EFAULT);
    }
    add(Count::Mremap);
    let order = Move { has, bytes, ..order };
    // SAFETY: the contract is the same.
    unsafe {
        if flags & MREMAP_DONTUNMAP != 0 || is_fixed {
            elsewhere(served, order)
        } else {
            resized(served, order)
        }
    }
}

fn note_there(at: *mut c_void, bytes: usize) {
    if let Some((served, at, bytes)) = served::part_of(at, bytes) {
        served.client.note_changed(at, bytes, true);
        add(Count::Fixed);
    }
}

/// # Safety
/// As `mremap`; the order is of pages in the range.
unsafe fn resized(served: &Served, order: Move) -> *mut c_void {
    let Move { from, has, bytes, flags, .. } = order;
    if bytes <= has {
        let end = from.cast::<u8>().wrapping_add(bytes);
        return if bytes == has || give_back(served, end, has - bytes) == 0 { from } else { MAP_FAILED };
    }
    let Some((block, is_as_given)) = served.client.block_around(from.cast()) else { return failed(EFAULT) };
    let is_whole = block == (from.addr()..from.addr() + has);
    if is_whole && served.client.resize(from.cast(), (bytes / PAGE_BYTES) as u64) {
        return from;
    }
    if flags & MREMAP_MAYMOVE == 0 {
        return failed(ENOMEM);
    }
    // SAFETY: the contract is the same.
    unsafe { if is_as_given { to_new_block(served, order) } else { to_kernel(served, order) } }
}

/// Moves pages that are as they were given to a block of the service, or of the kernel where that has none.
///
/// # Safety
/// As `resized`.
unsafe fn to_new_block(served: &Served, order: Move) -> *mut c_void {
    let Move { from, has, bytes, .. } = order;
    let (prot, flags) = (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    let wanted = Wanted { at: null_mut(), bytes, prot, flags, file: -1, offset: 0 };
    let new = serve(served, bytes, false);
    // SAFETY: the kernel chooses the address.
    let new = new.unwrap_or_else(|| unsafe { by_kernel(wanted) });
    if new == MAP_FAILED {
        return MAP_FAILED;
    }
    let flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
    // SAFETY: the new block is nobody's as yet, and has room for the pages.
    let is_moved = has >= MOVED_FROM
        && unsafe { moved_by_kernel(Move { from, has, bytes: has, flags, to: new }) } != MAP_FAILED;
    if is_moved {
        note_there(new, has);
    } else {
        // SAFETY: both have so many bytes, which can be read and written, and are two.
        unsafe { from.cast::<u8>().copy_to_nonoverlapping(new.cast(), has) };
    }
    if give_back(served, from.cast(), has) == 0 { new } else { MAP_FAILED }
}

/// Has the kernel move pages that the program has changed, with all that it has done to them.
///
/// # Safety
/// As `resized`.
unsafe fn to_kernel(served: &Served, order: Move) -> *mut c_void {
    let Move { from, has, bytes, .. } = order;
    let away = Move { from, has, bytes: has, flags: MREMAP_MAYMOVE | MREMAP_DONTUNMAP, to: null_mut() };
    // SAFETY: the contract is the same; the kernel chooses the address.
    let new = unsafe { moved_by_kernel(away) };
    if new == MAP_FAILED {
        return MAP_FAILED;
    }
    let longer = Move { from: new, has, bytes, flags: MREMAP_MAYMOVE, to: null_mut() };
    // SAFETY: these pages are the caller's, and nobody else knows of them.
    let longer = unsafe { moved_by_kernel(longer) };
    if longer == MAP_FAILED {
        let back = Move { from: new, has, bytes: has, flags: MREMAP_MAYMOVE | MREMAP_FIXED, to: from };
        // SAFETY: they come back to where they were.
        let _ = unsafe { moved_by_kernel(back) };
        return failed(ENOMEM);
    }
    if give_back(served, from.cast(), has) == 0 { longer } else { MAP_FAILED }
}

/// To an address that the program names, or so that the pages stay mapped where they were.
///
/// # Safety
/// As `mremap`; the order is of pages in the range.
unsafe fn elsewhere(served: &Served, order: Move) -> *mut c_void {
    let Move { from, has, bytes, flags, to } = order;
    if flags & MREMAP_DONTUNMAP != 0 {
        // SAFETY: the contract is the same.
        let moved = unsafe { moved_by_kernel(order) };
        served.client.note_changed(from.cast(), has, false);
        if moved != MAP_FAILED {
            note_there(moved, bytes);
        }
        return moved;
    }
    let both = has.min(bytes);
    let away = Move { from, has: both, bytes: both, flags: flags | MREMAP_DONTUNMAP, to };
    // SAFETY: the contract is the same.
    let moved = unsafe { moved_by_kernel(away) };
    if moved == MAP_FAILED {
        return MAP_FAILED;
    }
    note_there(moved, both);
    if give_back(served, from.cast(), has) != 0 {
        return MAP_FAILED;
    }
    if bytes > both {
        let rest = Move { from: moved, has: both, bytes, flags: 0, to: null_mut() };
        // SAFETY: it stays where it is, and what comes behind it was to be replaced.
        unsafe {
            munmap(moved.byte_add(both), bytes - both);
            return moved_by_kernel(rest);
        }
    }
    moved
}

/// # Safety
/// That of `mremap`.
unsafe fn moved_by_kernel(order: Move) -> *mut c_void {
    let Move { from, has, bytes, flags, to } = order;
    // SAFETY: see the contract.
    let address = unsafe { syscall(SYS_mremap, from, has, bytes, flags, to) };
    // MAP_FAILED is the last address, as -1 is the last number.
    from.with_addr(usize::try_from(address.cast_unsigned()).unwrap_or(usize::MAX))
}
