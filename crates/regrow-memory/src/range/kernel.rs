//! What the kernel does with the memory of a range.

#![allow(unsafe_code, reason = "memory is mapped here")]

use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use regrow_sys::pages;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap,
};
use rustix::process::{Resource, getrlimit};

use crate::units::CHUNK_BYTES;

const ACCESS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// Memory of this process alone, of which no page is there as yet. It begins at a multiple of a chunk.
pub(super) fn anonymous(bytes: usize) -> Result<NonNull<u8>, Errno> {
    address_space(bytes, ACCESS)
}

/// The same, of a file.
pub(super) fn of_file(file: &OwnedFd, bytes: usize, is_huge: bool) -> Result<NonNull<u8>, Errno> {
    let start = address_space(bytes, ProtFlags::empty())?;
    let mut flags = MapFlags::SHARED | MapFlags::FIXED;
    if !is_huge {
        flags |= MapFlags::NORESERVE;
    }
    // SAFETY: the file replaces memory that was reserved for it just before, and that nobody knows of.
    let mapped = unsafe { mmap(start.as_ptr().cast(), bytes, ACCESS, flags, file, 0) };
    if let Err(error) = mapped {
        // SAFETY: as above.
        unsafe { unmap(NonNull::slice_from_raw_parts(start, bytes)) };
        return Err(error);
    }
    Ok(start)
}

/// A file in memory, whose size nobody can change: a page of it that is mapped is there.
pub(super) fn shared_file(name: &str, bytes: usize, huge: MemfdFlags) -> Result<OwnedFd, Errno> {
    // A file that is larger than the limit would end the process by SIGXFSZ.
    if getrlimit(Resource::Fsize).current.is_some_and(|most| most < bytes as u64) {
        return Err(Errno::FBIG);
    }
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | huge)?;
    ftruncate(&file, bytes as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

fn address_space(bytes: usize, prot: ProtFlags) -> Result<NonNull<u8>, Errno> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: the kernel chooses the address, so that no memory in use is replaced. What lies before and behind the aligned part is
    // unmapped, and nobody knows of it.
    unsafe {
        let all = mmap_anonymous(std::ptr::null_mut(), bytes + CHUNK_BYTES, prot, flags)?;
        let before = all.cast::<u8>().align_offset(CHUNK_BYTES);
        let start = all.cast::<u8>().add(before);
        if before > 0 {
            munmap(all, before)?;
        }
        munmap(start.add(bytes).cast(), CHUNK_BYTES - before)?;
        NonNull::new(start).ok_or(Errno::NOMEM)
    }
}

/// Unmaps memory.
///
/// # Safety
/// It was mapped here, and nobody uses it.
pub(super) unsafe fn unmap(memory: NonNull<[u8]>) {
    // SAFETY: see the contract. There is nobody to be told where it fails.
    let _ = unsafe { munmap(memory.as_ptr().cast(), memory.len()) };
}

/// Maps all pages of memory.
///
/// # Errors
/// `EINVAL` before Linux 5.14.
///
/// # Safety
/// It is mapped.
pub(super) unsafe fn populate(memory: NonNull<[u8]>) -> Result<(), Errno> {
    // SAFETY: see the contract; what is in it stays.
    unsafe { madvise(memory.as_ptr().cast(), memory.len(), Advice::LinuxPopulateWrite) }
}

/// Gives pages back: they are zero, and not there.
///
/// # Safety
/// They are mapped, from a file where it says so, and their content is the caller's to lose.
pub(super) unsafe fn give_back(memory: NonNull<[u8]>, is_of_file: bool) -> Result<(), Errno> {
    // Pages of a file stay in it when they are unmapped.
    let advice = if is_of_file { Advice::LinuxRemove } else { Advice::LinuxDontNeed };
    // SAFETY: see the contract.
    unsafe { madvise(memory.as_ptr().cast(), memory.len(), advice) }
}

/// Gives private pages back in several places. Whether the kernel took each: they are zero then, and not there.
///
/// # Safety
/// As [`give_back`].
pub(super) unsafe fn give_back_all(memory: &[NonNull<[u8]>]) -> Vec<bool> {
    // SAFETY: see the contract.
    let mut together = unsafe { pages::give_back(memory) }.unwrap_or(0);
    let one = |memory: &NonNull<[u8]>| {
        let was_taken = memory.len() <= together;
        together = together.saturating_sub(memory.len());
        // SAFETY: see the contract. What was taken in part is given back once more.
        was_taken || unsafe { pages::give_back_one(*memory) }.is_ok()
    };
    memory.iter().map(one).collect()
}

/// Maps memory anew, of a file from an offset on where there is one. It is zero, and not there yet; where it is not open, each touch faults.
///
/// # Safety
/// The memory is the caller's, and so is its content, also in the file.
pub(super) unsafe fn replace(
    memory: NonNull<[u8]>,
    file: Option<(&OwnedFd, u64)>,
    is_open: bool,
) -> Result<(), Errno> {
    let (start, bytes) = (memory.as_ptr().cast(), memory.len());
    let flags = MapFlags::NORESERVE | MapFlags::FIXED;
    let prot = if is_open { ACCESS } else { ProtFlags::empty() };
    let Some((file, offset)) = file else {
        // SAFETY: see the contract.
        unsafe { mmap_anonymous(start, bytes, prot, flags | MapFlags::PRIVATE) }?;
        return Ok(());
    };
    // SAFETY: see the contract.
    unsafe {
        mmap(start, bytes, ACCESS, flags | MapFlags::SHARED, file, offset)?;
        give_back(memory, true)?;
        mprotect(start, bytes, MprotectFlags::from_bits_retain(prot.bits()))
    }
}
