//! The range as memory of the heap, for Miri: it maps no memory, and looks at each use of what the heap has given.

#![allow(unsafe_code, reason = "memory is looked at by address")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use rustix::fs::MemfdFlags;
use rustix::io::Errno;

use crate::units::CHUNK_BYTES;

fn layout(bytes: usize) -> Result<Layout, Errno> {
    Layout::from_size_align(bytes, CHUNK_BYTES).map_err(|_| Errno::NOMEM)
}

pub(super) fn anonymous(bytes: usize) -> Result<NonNull<u8>, Errno> {
    // SAFETY: a range has a chunk at least.
    NonNull::new(unsafe { alloc_zeroed(layout(bytes)?) }).ok_or(Errno::NOMEM)
}

pub(super) fn of_file(_: &OwnedFd, _: usize, _: bool) -> Result<NonNull<u8>, Errno> {
    Err(Errno::NOSYS)
}

pub(super) fn shared_file(_: &str, _: usize, _: MemfdFlags) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// # Safety
/// It comes from [`anonymous`], and nobody uses it.
pub(super) unsafe fn unmap(memory: NonNull<[u8]>) {
    if let Ok(layout) = layout(memory.len()) {
        // SAFETY: see the contract.
        unsafe { dealloc(memory.as_ptr().cast(), layout) };
    }
}

/// # Safety
/// It is there.
pub(super) unsafe fn populate(_: NonNull<[u8]>) -> Result<(), Errno> {
    Ok(())
}

/// # Safety
/// The content is the caller's to lose.
pub(super) unsafe fn give_back(memory: NonNull<[u8]>, _: bool) -> Result<(), Errno> {
    // SAFETY: see the contract.
    unsafe { memory.cast::<u8>().write_bytes(0, memory.len()) };
    Ok(())
}

/// # Safety
/// As [`give_back`].
pub(super) unsafe fn give_back_all(memory: &[NonNull<[u8]>]) -> Vec<bool> {
    // SAFETY: see the contract.
    memory.iter().map(|&memory| unsafe { give_back(memory, false) }.is_ok()).collect()
}

/// # Safety
/// As [`give_back`].
pub(super) unsafe fn replace(
    memory: NonNull<[u8]>,
    _: Option<(&OwnedFd, u64)>,
    _: bool,
) -> Result<(), Errno> {
    // SAFETY: see the contract.
    unsafe { give_back(memory, false) }
}
