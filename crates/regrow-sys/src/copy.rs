//! A copy of this process that goes on in a function: `fork`, for programs whose other threads may hold locks.

#![allow(unsafe_code, reason = "forks")]

use std::io;
use std::os::fd::RawFd;

/// Makes a copy of this process, which runs `work` and ends with its result, without the calls that a program has registered for its end. Gives
/// the number of the copy.
///
/// The copy has the caller's thread alone. Locks that other threads held stay locked in it, but those of the C library's memory.
///
/// # Errors
/// As `fork(2)`.
pub fn fork(work: impl FnOnce() -> i32) -> io::Result<i32> {
    // SAFETY: the C library's own function, which makes its locks usable in the copy. The copy's thread never leaves this function, so that nothing
    // of the caller's frames is used or dropped twice.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let guard = EndOnUnwind;
            let code = work();
            std::mem::forget(guard);
            // SAFETY: ends the process.
            unsafe { libc::_exit(code) }
        }
        pid => Ok(pid),
    }
}

/// No panic leaves the copy's function.
struct EndOnUnwind;

impl Drop for EndOnUnwind {
    fn drop(&mut self) {
        // SAFETY: ends the process.
        unsafe { libc::_exit(101) }
    }
}

/// Closes a descriptor by its number.
///
/// In a copy whose owner of the descriptor never runs again.
pub fn close_by_number(descriptor: RawFd) {
    // SAFETY: in a copy of a process the values that own descriptors stand in frames that never run again, so that nobody closes it twice.
    unsafe { libc::close(descriptor) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::wait_pid;

    fn code_of(pid: i32) -> i32 {
        let status = wait_pid(pid, false).expect("a child").expect("its end");
        assert!(libc::WIFEXITED(status), "{status:#x}");
        libc::WEXITSTATUS(status)
    }

    #[test]
    fn a_copy_ends_with_what_its_function_says() {
        let text = String::from("own");
        let pid = fork(|| if text == "own" { 7 } else { 8 }).expect("a copy");
        assert_eq!(code_of(pid), 7);
    }

    #[test]
    fn no_panic_leaves_a_copy() {
        let pid = fork(|| std::panic::resume_unwind(Box::new("quiet"))).expect("a copy");
        assert_eq!(code_of(pid), 101);
    }
}
