//! Stops another process at a place of its code that nothing else reaches: by tracing its system calls.

#![allow(unsafe_code, reason = "ptrace, which no safe interface has")]

use std::ptr;

/// Begins to trace a child of this process, from this thread. False when it cannot be.
pub(crate) fn seize(pid: i32) -> bool {
    // SAFETY: numbers only; the kernel checks them.
    unsafe {
        libc::ptrace(libc::PTRACE_SEIZE, pid, ptr::null_mut::<u8>(), libc::PTRACE_O_TRACESYSGOOD as usize)
            == 0
            && libc::ptrace(libc::PTRACE_INTERRUPT, pid, ptr::null_mut::<u8>(), ptr::null_mut::<u8>()) == 0
    }
}

/// Lets it go on until it has made this system call, and leaves it there. False when it ends before.
pub(crate) fn stop_after(pid: i32, call: i64) -> bool {
    let wanted = u64::try_from(call).expect("calls are not negative");
    let mut entered = false;
    loop {
        let mut status = 0;
        // SAFETY: the status is written to a place on this stack; it is asked about this child alone.
        if unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) } != pid || !libc::WIFSTOPPED(status) {
            return false;
        }
        match at_call(pid) {
            (libc::PTRACE_SYSCALL_INFO_ENTRY, number) => entered = number == wanted,
            (libc::PTRACE_SYSCALL_INFO_EXIT, _) if entered => return true,
            _ => {}
        }
        // SAFETY: as for `seize`.
        unsafe { libc::ptrace(libc::PTRACE_SYSCALL, pid, ptr::null_mut::<u8>(), ptr::null_mut::<u8>()) };
    }
}

/// Where a stopped process is: the kind of the stop, and at the entry of a system call its number.
fn at_call(pid: i32) -> (u8, u64) {
    // The kernel's `struct ptrace_syscall_info`: the kind in the first byte, the number after instruction and stack pointer.
    let mut words = [0u64; 11];
    let bytes = size_of_val(&words);
    // SAFETY: the kernel writes at most as many bytes as it is told.
    let got = unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, pid, bytes, words.as_mut_ptr()) };
    if got > 0 { (words[0].to_ne_bytes()[0], words[3]) } else { (0, 0) }
}
