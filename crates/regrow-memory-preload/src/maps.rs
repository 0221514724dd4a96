//! `mmap` and its like: large private anonymous memory from the service, all else from the kernel.
//!
//! ```text
//!   munmap of a whole block     the block goes home
//!   munmap of a part            the part is closed: a touch faults; the block goes home with its last part
//!   mmap, MAP_FIXED             over pages of blocks in use: the kernel's mapping stands there until the block goes home
//!                               over other pages of the range: ENOMEM, since they are somebody else's in a moment
//!   mprotect, madvise, mlock    the kernel's; the block is mapped anew before somebody else has it
//! ```

#![allow(unsafe_code, reason = "the kernel is asked by system call")]

use std::ffi::c_void;

use libc::{
    EINVAL, ENOMEM, MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_NORESERVE, MAP_POPULATE,
    MAP_PRIVATE, MAP_STACK, PROT_READ, PROT_WRITE, SYS_madvise, SYS_mlock, SYS_mlock2, SYS_mmap,
    SYS_mprotect, SYS_munmap, SYS_pkey_mprotect, c_int, c_uint, off_t, syscall,
};
use regrow_memory::raw::Part;
use regrow_memory::{Mode, PAGE_BYTES};

use crate::counts::{Count, add};
use crate::errno;
use crate::made::Served;
use crate::served;

/// What may be asked for beside private anonymous memory.
const ALSO: c_int = MAP_NORESERVE | MAP_STACK | MAP_POPULATE;
/// The largest block of the service.
const LARGEST: usize = 1 << 30;

/// The arguments of a mapping.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) at: *mut c_void,
    pub(crate) bytes: usize,
    pub(crate) prot: c_int,
    pub(crate) flags: c_int,
    pub(crate) file: c_int,
    pub(crate) offset: off_t,
}

/// # Safety
/// That of `mmap`: with MAP_FIXED, nobody uses what is replaced.
pub(crate) unsafe fn mmap(wanted: Wanted) -> *mut c_void {
    if wanted.flags & MAP_FIXED != 0 && wanted.flags & MAP_FIXED_NOREPLACE != MAP_FIXED_NOREPLACE {
        // SAFETY: the contract is the same.
        return unsafe { mmap_fixed(wanted) };
    }
    if let Some(served) = served::get()
        && is_served(served, wanted)
        && let Some(block) = serve(served, wanted.bytes, wanted.flags & MAP_POPULATE != 0)
    {
        return block;
    }
    // SAFETY: the contract is the same.
    unsafe { by_kernel(wanted) }
}

fn is_served(served: &Served, wanted: Wanted) -> bool {
    let kind = MAP_PRIVATE | MAP_ANONYMOUS;
    wanted.at.is_null()
        && wanted.flags & !ALSO == kind
        && wanted.prot == PROT_READ | PROT_WRITE
        && (served.mmap_from..=LARGEST).contains(&wanted.bytes)
}

/// A block that is zero; `None` where the service has no memory.
pub(crate) fn serve(served: &Served, bytes: usize, is_there: bool) -> Option<*mut c_void> {
    let mode = if is_there { Mode::Immediate } else { Mode::Delayed };
    match served.client.alloc(bytes.div_ceil(PAGE_BYTES) as u64, mode, true) {
        Ok(block) => {
            // `free` tells mappings from blocks of the heap by this.
            let labelled = served.client.label(block.as_ptr());
            debug_assert!(labelled.is_ok(), "a block that was just given: {labelled:?}");
            add(Count::Mmap);
            Some(block.as_ptr().cast())
        }
        Err(_) => {
            add(Count::Passed);
            None
        }
    }
}

/// # Safety
/// That of `mmap`.
unsafe fn mmap_fixed(wanted: Wanted) -> *mut c_void {
    if !may_be_replaced(wanted.at, wanted.bytes) {
        errno::set(ENOMEM);
        return MAP_FAILED;
    }
    // SAFETY: the contract is the same.
    let mapped = unsafe { by_kernel(wanted) };
    if mapped != MAP_FAILED
        && let Some((served, at, bytes)) = served::part_of(wanted.at, wanted.bytes)
    {
        served.client.note_changed(at, bytes, true);
        add(Count::Fixed);
    }
    mapped
}

/// Whether the program may have something else mapped there: none of it is in the range, or all of it is of blocks in use.
pub(crate) fn may_be_replaced(at: *mut c_void, bytes: usize) -> bool {
    match served::part_of(at, bytes) {
        None => true,
        Some((served, part, part_bytes)) => {
            part.addr() == at.addr() && part_bytes == bytes && served.client.is_in_use(part, part_bytes)
        }
    }
}

/// # Safety
/// That of `mmap`.
pub(crate) unsafe fn by_kernel(wanted: Wanted) -> *mut c_void {
    let Wanted { at, bytes, prot, flags, file, offset } = wanted;
    // SAFETY: see the contract.
    let address = unsafe { syscall(SYS_mmap, at, bytes, prot, flags, file, offset) };
    // MAP_FAILED is the last address, as -1 is the last number.
    at.with_addr(usize::try_from(address.cast_unsigned()).unwrap_or(usize::MAX))
}

/// # Safety
/// That of `munmap`: nobody uses these pages.
pub(crate) unsafe fn munmap(at: *mut c_void, bytes: usize) -> c_int {
    let rounded = bytes.checked_next_multiple_of(PAGE_BYTES);
    let (Some(rounded), true) = (rounded, at.addr().is_multiple_of(PAGE_BYTES) && bytes > 0) else {
        errno::set(EINVAL);
        return -1;
    };
    let Some((served, part, part_bytes)) = served::part_of(at, rounded) else {
        // SAFETY: the contract is the same.
        return unsafe { munmap_by_kernel(at, rounded) };
    };
    let before = part.addr() - at.addr();
    let after = rounded - before - part_bytes;
    // SAFETY: the contract is the same; the range itself is left out.
    unsafe {
        if before > 0 && munmap_by_kernel(at, before) != 0 {
            return -1;
        }
        if after > 0 && munmap_by_kernel(part.wrapping_add(part_bytes).cast(), after) != 0 {
            return -1;
        }
    }
    give_back(served, part, part_bytes)
}

/// Has pages of the range go home, or be closed until the rest of their block does.
pub(crate) fn give_back(served: &Served, at: *mut u8, bytes: usize) -> c_int {
    let is_whole =
        served.client.block_around(at).is_some_and(|(block, _)| block == (at.addr()..at.addr() + bytes));
    match served.client.free_part(at, bytes, Part::Closed) {
        Ok(()) => {
            add(if is_whole { Count::Munmap } else { Count::Part });
            0
        }
        Err(_) => {
            errno::set(ENOMEM);
            -1
        }
    }
}

/// # Safety
/// That of `munmap`, outside of the range.
unsafe fn munmap_by_kernel(at: *mut c_void, bytes: usize) -> c_int {
    // SAFETY: see the contract.
    if unsafe { syscall(SYS_munmap, at, bytes) } == 0 { 0 } else { -1 }
}

/// Notes that the mapping of pages is not what it was, as far as they are in the range.
fn note(at: *mut c_void, bytes: usize) {
    if let Some((served, at, bytes)) = served::part_of(at, bytes) {
        served.client.note_changed(at, bytes, false);
        add(Count::Changed);
    }
}

/// # Safety
/// That of `mprotect`.
pub(crate) unsafe fn mprotect(at: *mut c_void, bytes: usize, prot: c_int) -> c_int {
    note(at, bytes);
    // SAFETY: see the contract.
    if unsafe { syscall(SYS_mprotect, at, bytes, prot) } == 0 { 0 } else { -1 }
}

/// # Safety
/// That of `pkey_mprotect`.
pub(crate) unsafe fn pkey_mprotect(at: *mut c_void, bytes: usize, prot: c_int, key: c_int) -> c_int {
    note(at, bytes);
    // SAFETY: see the contract.
    if unsafe { syscall(SYS_pkey_mprotect, at, bytes, prot, key) } == 0 { 0 } else { -1 }
}

/// # Safety
/// That of `madvise`.
pub(crate) unsafe fn madvise(at: *mut c_void, bytes: usize, advice: c_int) -> c_int {
    use libc::{
        MADV_COLD, MADV_DONTNEED, MADV_FREE, MADV_PAGEOUT, MADV_POPULATE_READ, MADV_POPULATE_WRITE,
        MADV_WILLNEED,
    };
    const PASSING: [c_int; 7] = [
        MADV_COLD,
        MADV_DONTNEED,
        MADV_FREE,
        MADV_PAGEOUT,
        MADV_POPULATE_READ,
        MADV_POPULATE_WRITE,
        MADV_WILLNEED,
    ];
    if !PASSING.contains(&advice) {
        note(at, bytes);
    }
    // SAFETY: see the contract.
    if unsafe { syscall(SYS_madvise, at, bytes, advice) } == 0 { 0 } else { -1 }
}

/// # Safety
/// That of `mlock`.
pub(crate) unsafe fn mlock(at: *const c_void, bytes: usize, flags: Option<c_uint>) -> c_int {
    note(at.cast_mut(), bytes);
    // SAFETY: see the contract.
    let done = unsafe {
        match flags {
            None => syscall(SYS_mlock, at, bytes),
            Some(flags) => syscall(SYS_mlock2, at, bytes, flags),
        }
    };
    if done == 0 { 0 } else { -1 }
}
