//! Giving pages of this process back to the kernel, and making guard pages of them, many ranges in one call.
//!
//! Each `madvise` of its own interrupts every processor on which a thread of this process runs; a call with many ranges does so once.

#![allow(unsafe_code, reason = "memory is given back by its address")]

use std::io;
use std::ptr::NonNull;

use crate::raw::{check, syscall, word};

/// This process, where a pidfd is asked for (Linux 6.14).
const SELF: i32 = -10_001;
/// Makes guard pages (Linux 6.13).
const MADV_GUARD_INSTALL: i32 = 102;
/// Most ranges of one call.
const MOST: usize = 1024;

/// Gives ranges of whole pages back, so that they are zero and not there; shared memory stays. As far as it comes: how many bytes, from the
/// first range on.
///
/// # Errors
/// Where no byte was given back. `EINVAL`, `EBADF`, `EPERM` or `ENOSYS` also where the kernel has no such call for a process's own memory
/// (before Linux 6.14): then [`give_back_one`] does it range by range.
///
/// # Safety
/// The ranges are mapped, private and anonymous, and their content is the caller's to lose.
pub unsafe fn give_back(ranges: &[NonNull<[u8]>]) -> io::Result<usize> {
    // SAFETY: see the contract.
    unsafe { advise(ranges, libc::MADV_DONTNEED) }
}

/// Makes guard pages of ranges of whole pages: who touches one gets `SIGSEGV`. Their mapping stays whole, and giving pages back leaves the guard in
/// place. As far as it comes: how many bytes, from the first range on.
///
/// # Errors
/// Where no page was guarded. As [`give_back`] says, the kernel may have no such call for many ranges; [`guard_one`] does it range by range.
///
/// # Safety
/// As [`give_back`]; nobody looks at the ranges afterwards.
pub unsafe fn guard(ranges: &[NonNull<[u8]>]) -> io::Result<usize> {
    // SAFETY: see the contract.
    unsafe { advise(ranges, MADV_GUARD_INSTALL) }
}

/// Makes guard pages of one range: by `MADV_GUARD_INSTALL` where the kernel has it (Linux 6.13), else by a protection, which makes a mapping of
/// its own of it.
///
/// # Errors
/// As `madvise(2)` and `mprotect(2)`: `ENOMEM` where the process has as many mappings as it may.
///
/// # Safety
/// As [`guard`].
pub unsafe fn guard_one(range: NonNull<[u8]>) -> io::Result<()> {
    let (start, bytes) = (range.as_ptr().cast::<u8>() as usize, range.len());
    // SAFETY: see the contract.
    let guarded =
        check(unsafe { syscall(libc::SYS_madvise, [start, bytes, word(MADV_GUARD_INSTALL), 0, 0, 0]) });
    match guarded {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            // SAFETY: as above.
            check(unsafe { syscall(libc::SYS_mprotect, [start, bytes, word(libc::PROT_NONE), 0, 0, 0]) })
                .map(drop)
        }
        guarded => guarded.map(drop),
    }
}

/// One call for many ranges.
///
/// # Safety
/// As the advice asks.
unsafe fn advise(ranges: &[NonNull<[u8]>], advice: i32) -> io::Result<usize> {
    let vectors: Vec<libc::iovec> = ranges
        .iter()
        .take(MOST)
        .map(|range| libc::iovec { iov_base: range.as_ptr().cast(), iov_len: range.len() })
        .collect();
    let args = [word(SELF), vectors.as_ptr() as usize, vectors.len(), word(advice), 0, 0];
    // SAFETY: the vectors are live; what happens to the memory is in the contract.
    check(unsafe { syscall(libc::SYS_process_madvise, args) })
}

/// Gives one range back.
///
/// # Errors
/// As `madvise(2)`: `EINVAL` for memory that is locked.
///
/// # Safety
/// As [`give_back`].
pub unsafe fn give_back_one(range: NonNull<[u8]>) -> io::Result<()> {
    let args = [range.as_ptr().cast::<u8>() as usize, range.len(), word(libc::MADV_DONTNEED), 0, 0, 0];
    // SAFETY: see the contract.
    check(unsafe { syscall(libc::SYS_madvise, args) }).map(drop)
}

/// Whether each page of a range is there; `found` has a byte for each, of which the lowest bit says so. A page that is swapped out is not.
///
/// # Errors
/// As `mincore(2)`.
pub fn are_there(range: NonNull<[u8]>, found: &mut [u8]) -> io::Result<()> {
    let start = range.as_ptr().cast::<u8>() as usize;
    let bytes = range.len().min(found.len() * rustix::param::page_size());
    // SAFETY: the kernel writes a byte for each page of so many bytes, and looks at no memory.
    check(unsafe { syscall(libc::SYS_mincore, [start, bytes, found.as_mut_ptr() as usize, 0, 0, 0]) })
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

    #[test]
    fn ranges_are_zero_after_they_were_given_back_and_what_lies_between_stays() {
        let page = rustix::param::page_size();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address of the mapping, which this test has alone and unmaps at its end.
        unsafe {
            let start =
                mmap_anonymous(std::ptr::null_mut(), 8 * page, access, MapFlags::PRIVATE).expect("memory");
            let memory = std::slice::from_raw_parts_mut(start.cast::<u8>(), 8 * page);
            memory.fill(7);
            let range = |from: usize, pages: usize| {
                let start = NonNull::new(start.cast::<u8>().add(from * page)).expect("an address");
                NonNull::slice_from_raw_parts(start, pages * page)
            };
            let mut found = [7; 8];
            are_there(range(0, 8), &mut found).expect("it is mapped");
            assert!(found.iter().all(|found| found & 1 == 1));
            match give_back(&[range(0, 1), range(3, 2), range(7, 1)]) {
                Ok(bytes) => assert_eq!(bytes, 4 * page),
                Err(error) => {
                    assert!(
                        [libc::EINVAL, libc::EBADF, libc::EPERM, libc::ENOSYS]
                            .map(Some)
                            .contains(&error.raw_os_error())
                    );
                    let _ = [range(0, 1), range(3, 2), range(7, 1)]
                        .map(|range| give_back_one(range).expect("it is mapped"));
                }
            }
            give_back_one(range(6, 1)).expect("it is mapped");
            let first: Vec<u8> = memory.chunks(page).map(|page| page[page.len() - 1]).collect();
            assert_eq!(first, [0, 7, 7, 0, 0, 7, 0, 0]);
            munmap(start, 8 * page).expect("it is mapped");
        }
    }

    #[test]
    fn guard_pages_stay_when_their_memory_is_given_back() {
        let page = rustix::param::page_size();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // A read by the kernel, which fails where the process would get a signal.
        let reads = |address: *const u8| {
            let (_reader, sender) = std::io::pipe().expect("a pipe");
            // SAFETY: the kernel reads one byte, or fails.
            let bytes = unsafe { std::slice::from_raw_parts(address, 1) };
            rustix::io::write(sender, bytes).err() != Some(rustix::io::Errno::FAULT)
        };
        // SAFETY: the kernel chooses the address of the mapping, which this test has alone and unmaps at its end.
        unsafe {
            let start = mmap_anonymous(std::ptr::null_mut(), 4 * page, access, MapFlags::PRIVATE)
                .expect("memory")
                .cast::<u8>();
            let range = |from: usize| {
                NonNull::slice_from_raw_parts(NonNull::new(start.add(from * page)).expect("an address"), page)
            };
            if guard(&[range(0)]).is_err() {
                guard_one(range(0)).expect("it is mapped");
            }
            guard_one(range(2)).expect("it is mapped");
            for _ in 0..2 {
                let seen: Vec<bool> = (0..4).map(|at| reads(start.add(at * page))).collect();
                assert_eq!(seen, [false, true, false, true]);
                for at in 0..4 {
                    give_back_one(range(at)).expect("it is mapped");
                }
            }
            munmap(start.cast(), 4 * page).expect("it is mapped");
        }
    }

    #[test]
    fn what_is_not_mapped_is_an_error() {
        let page = rustix::param::page_size();
        // SAFETY: the lowest page of the address space is never mapped, so that nothing is lost.
        unsafe {
            let range = NonNull::slice_from_raw_parts(NonNull::new_unchecked(page as *mut u8), page);
            assert!(give_back(&[range]).is_err() && give_back_one(range).is_err());
        }
    }
}
