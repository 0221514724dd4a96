//! `malloc` and its like as the program would have them without this library: of the next library that has them.
//!
//! They are looked up when the first one is needed. The look-up itself may ask for memory: it has that out of a buffer, whose blocks are
//! never freed.

#![allow(unsafe_code, reason = "functions are called by address")]

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Places in the table.
const MALLOC: usize = 0;
const CALLOC: usize = 1;
const REALLOC: usize = 2;
const FREE: usize = 3;
const MEMALIGN: usize = 4;
const USABLE_SIZE: usize = 5;
const NAMES: [&CStr; 6] = [c"malloc", c"calloc", c"realloc", c"free", c"memalign", c"malloc_usable_size"];

static FOUND: [AtomicUsize; NAMES.len()] = [const { AtomicUsize::new(0) }; NAMES.len()];
/// Whether they were looked up.
static STATE: AtomicU8 = AtomicU8::new(NOT_YET);
const NOT_YET: u8 = 0;
const NOW: u8 = 1;
const DONE: u8 = 2;

/// What the look-up has its memory from: before each block stand 16 bytes with its size.
#[repr(align(16))]
struct Buffer(UnsafeCell<[u8; BUFFER]>);
const BUFFER: usize = 64 << 10;
const HEAD: usize = 16;

// SAFETY: each block of it is given once.
unsafe impl Sync for Buffer {}

static EARLY: Buffer = Buffer(UnsafeCell::new([0; BUFFER]));
static EARLY_USED: AtomicUsize = AtomicUsize::new(0);

/// The address of a function; 0 while they are looked up.
fn find(place: usize) -> usize {
    if STATE.load(Acquire) != DONE && STATE.compare_exchange(NOT_YET, NOW, Acquire, Acquire).is_ok() {
        for (name, found) in NAMES.iter().zip(&FOUND) {
            // SAFETY: the name ends in a zero.
            let address = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
            found.store(address.expose_provenance(), Relaxed);
        }
        STATE.store(DONE, Release);
    }
    if STATE.load(Acquire) == DONE { FOUND.get(place).map_or(0, |found| found.load(Relaxed)) } else { 0 }
}

/// A function of the table as a value of its type, or `None`.
macro_rules! next {
    ($place:ident, $type:ty) => {
        match find($place) {
            0 => None,
            address => {
                // SAFETY: the function of this name has this type in each C library.
                Some(unsafe {
                    std::mem::transmute::<*const c_void, $type>(std::ptr::with_exposed_provenance(address))
                })
            }
        }
    };
}

fn is_early(block: *const c_void) -> bool {
    block.addr().wrapping_sub(EARLY.0.get().addr()) < BUFFER
}

fn early(bytes: usize, multiple: usize) -> *mut c_void {
    let start = EARLY.0.get().addr();
    let place = |used: usize| (start + used + HEAD).next_multiple_of(multiple.max(HEAD)) - start;
    let take = |used: usize| place(used).checked_add(bytes).filter(|&end| end <= BUFFER);
    let Ok(used) = EARLY_USED.fetch_update(Relaxed, Relaxed, take) else { return null_mut() };
    let block = EARLY.0.get().cast::<u8>().wrapping_add(place(used));
    // SAFETY: the head lies before the block, in the part that was just taken.
    unsafe { block.sub(HEAD).cast::<usize>().write(bytes) };
    block.cast()
}

fn early_size(block: *const c_void) -> usize {
    // SAFETY: the head of a block of the buffer stands before it.
    unsafe { block.byte_sub(HEAD).cast::<usize>().read() }
}

pub(crate) fn malloc(bytes: usize) -> *mut c_void {
    match next!(MALLOC, unsafe extern "C" fn(usize) -> *mut c_void) {
        // SAFETY: any size may be asked for.
        Some(next) => unsafe { next(bytes) },
        None => early(bytes, 1),
    }
}

pub(crate) fn calloc(count: usize, each: usize) -> *mut c_void {
    match next!(CALLOC, unsafe extern "C" fn(usize, usize) -> *mut c_void) {
        // SAFETY: any size may be asked for.
        Some(next) => unsafe { next(count, each) },
        // The buffer is zero, and each part of it is given once.
        None => count.checked_mul(each).map_or(null_mut(), |bytes| early(bytes, 1)),
    }
}

/// At a multiple, which is a power of two.
pub(crate) fn memalign(multiple: usize, bytes: usize) -> *mut c_void {
    match next!(MEMALIGN, unsafe extern "C" fn(usize, usize) -> *mut c_void) {
        // SAFETY: any size may be asked for.
        Some(next) => unsafe { next(multiple, bytes) },
        None => early(bytes, multiple),
    }
}

/// # Safety
/// The block is null, or the next library's and used no more.
pub(crate) unsafe fn free(block: *mut c_void) {
    if is_early(block) {
        return;
    }
    if let Some(next) = next!(FREE, unsafe extern "C" fn(*mut c_void)) {
        // SAFETY: see the contract.
        unsafe { next(block) };
    }
}

/// # Safety
/// The block is the next library's.
pub(crate) unsafe fn usable_size(block: *mut c_void) -> usize {
    if is_early(block) {
        return early_size(block);
    }
    // SAFETY: see the contract.
    next!(USABLE_SIZE, unsafe extern "C" fn(*mut c_void) -> usize).map_or(0, |next| unsafe { next(block) })
}

/// # Safety
/// The block is null, or the next library's and used no more unless null is returned.
pub(crate) unsafe fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    let next = next!(REALLOC, unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void);
    match next {
        // SAFETY: see the contract.
        Some(next) if !is_early(block) => unsafe { next(block, bytes) },
        _ => {
            let new = malloc(bytes);
            if !new.is_null() && !block.is_null() {
                // SAFETY: both have so many bytes, and are two blocks.
                unsafe {
                    block.cast::<u8>().copy_to_nonoverlapping(new.cast(), bytes.min(early_size(block)));
                };
            }
            new
        }
    }
}
