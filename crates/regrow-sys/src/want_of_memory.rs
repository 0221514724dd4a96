//! A process that ends because the kernel refuses it memory, and says so first.

#![allow(unsafe_code, reason = "has a signal handler, and looks at who called it")]

use std::ffi::c_void;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Where a process that ends for want of memory writes a byte: descriptor, offset and byte.
static NOTE: (AtomicI32, AtomicU64, AtomicI32) = (AtomicI32::new(-1), AtomicU64::new(0), AtomicI32::new(0));

/// Has this process, when it aborts after the kernel has refused it memory, write a byte to a file first.
///
/// # Errors
/// As `sigaction(2)`.
pub fn note(file: RawFd, offset: u64, byte: u8) -> io::Result<()> {
    extern "C" fn on_abort(_signal: libc::c_int) {
        // Mostly an allocation function aborts right after the kernel's answer. Rust's may print a backtrace before, which changes the error number.
        if io::Error::last_os_error().raw_os_error() == Some(libc::ENOMEM) || comes_from_allocation() {
            let (file, offset, byte) = &NOTE;
            let byte = byte.load(Ordering::Relaxed).to_le_bytes();
            let offset = libc::off_t::try_from(offset.load(Ordering::Relaxed)).unwrap_or(0);
            // SAFETY: a byte of this frame; the file is whatever has this number, and the call is allowed in a handler.
            unsafe { libc::pwrite(file.load(Ordering::Relaxed), byte.as_ptr().cast(), 1, offset) };
        }
    }
    NOTE.0.store(file, Ordering::Relaxed);
    NOTE.1.store(offset, Ordering::Relaxed);
    NOTE.2.store(i32::from(byte), Ordering::Relaxed);
    // SAFETY: an all-zero action is a valid one; it is filled in, and the handler makes only calls that a handler may make.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_abort as *const () as usize;
        action.sa_flags = libc::SA_RESETHAND;
        libc::sigaction(libc::SIGABRT, &raw const action, std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether Rust's function for an allocation that has failed is among the callers.
fn comes_from_allocation() -> bool {
    unsafe extern "C" {
        fn _Unwind_Backtrace(
            visit: extern "C" fn(*mut c_void, *mut c_void) -> libc::c_int,
            argument: *mut c_void,
        ) -> libc::c_int;
        fn _Unwind_GetIP(frame: *mut c_void) -> usize;
        fn _Unwind_FindEnclosingFunction(address: *mut c_void) -> *mut c_void;
    }
    extern "C" fn visit(frame: *mut c_void, found: *mut c_void) -> libc::c_int {
        // SAFETY: the unwinder's own frame; an address of code is looked up, not read; and the caller's flag.
        unsafe {
            let call = std::ptr::without_provenance_mut(_Unwind_GetIP(frame).saturating_sub(1));
            let function = _Unwind_FindEnclosingFunction(call).addr();
            if function == (std::alloc::handle_alloc_error as *const ()).addr() {
                *found.cast::<bool>() = true;
            }
        }
        0
    }
    let mut found = false;
    // SAFETY: the unwinder, which comes with the standard library, visits the frames of this thread, and is told where the flag is.
    unsafe { _Unwind_Backtrace(visit, (&raw mut found).cast()) };
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::fork;
    use crate::raw::wait_pid;

    #[test]
    fn a_process_that_aborts_for_want_of_memory_notes_it_and_no_other() {
        let allocate = || std::alloc::handle_alloc_error(std::alloc::Layout::new::<u64>());
        // SAFETY: the end of the process.
        let abort = || unsafe { libc::abort() };
        for (errno, end, expected) in [
            (libc::ENOMEM, abort as fn() -> !, &b"..M."[..]),
            (libc::ENOENT, abort, b"...."),
            (libc::ENOENT, allocate, b"..M."),
        ] {
            let file = crate::raw::memfd("note", 0).expect("a file");
            rustix::io::pwrite(&file, b"....", 0).expect("written");
            let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
            let pid = fork(|| {
                note(descriptor, 2, b'M').expect("a handler");
                // SAFETY: the thread's own error number.
                unsafe { *libc::__errno_location() = errno };
                end()
            });
            let status = wait_pid(pid.expect("a copy"), false).expect("a child").expect("its end");
            assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT, "{status:#x}");
            let mut noted = [0; 4];
            rustix::io::pread(&file, &mut noted, 0).expect("read");
            assert_eq!(noted, expected);
        }
    }
}
