//! Starting and ending a thread that the C library does not know.

#![allow(
    unsafe_code,
    reason = "the new thread has a stack of its own, and the old one none any more: instructions alone can do that"
)]

use std::sync::atomic::AtomicU32;

/// Words of the thread-local storage that compiled code reads: its own address, twice, and the values that guard stacks and pointers.
const SELF: [usize; 2] = [0, 2];
const GUARDS: [usize; 2] = [5, 6];

/// What a thread is started with.
pub(crate) struct Start {
    /// `CLONE_*`.
    pub(crate) flags: usize,
    /// Its stack ends there, at a multiple of 16.
    pub(crate) stack_end: *mut usize,
    /// Its thread pointer.
    pub(crate) pointer: *mut usize,
    /// The kernel writes its number there before it runs.
    pub(crate) number: *mut u32,
    /// The kernel writes zero there when it has ended.
    pub(crate) is_there: *mut u32,
}

/// Starts a thread that calls `entry` with `argument`. Its number, or a negative error.
///
/// # Safety
/// The stack and the thread-local storage are nobody else's until the thread has ended, and hold two words and seven; the two words of the
/// kernel's live as long. `entry` uses no more of the thread-local storage than there is.
pub(crate) unsafe fn start_thread(start: &Start, entry: extern "C" fn(usize) -> !, argument: usize) -> isize {
    let mut result: i64 = libc::SYS_clone;
    // SAFETY: both lie in memory that is the new thread's (see the contract). The guards are words of this thread's own storage. The
    // instructions change no memory of this thread; the new one takes two words from its own stack, and never comes back here.
    unsafe {
        let stack = start.stack_end.sub(2);
        stack.write(entry as usize);
        stack.add(1).write(argument);
        let own = std::ptr::with_exposed_provenance::<usize>(super::thread_pointer());
        SELF.iter().for_each(|&at| start.pointer.add(at).write(start.pointer as usize));
        GUARDS.iter().for_each(|&at| start.pointer.add(at).write(own.add(at).read()));
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "pop rax",
            "pop rdi",
            "call rax",
            "ud2",
            "2:",
            inlateout("rax") result,
            in("rdi") start.flags, in("rsi") stack, in("rdx") start.number,
            in("r10") start.is_there, in("r8") start.pointer,
            lateout("rcx") _, lateout("r11") _);
    }
    isize::try_from(result).unwrap_or(isize::MIN)
}

/// Ends the calling thread in the moment in which it changes a word from one value to another, so that its stack is free for whoever sees the
/// second one. Comes back where the word has another value.
///
/// # Safety
/// Nobody waits for the calling thread, and nothing on its stack is used again.
pub(crate) unsafe fn end_thread(word: &AtomicU32, from: u32, to: u32) {
    // SAFETY: the word is live. After the exchange no memory is touched but by the kernel.
    unsafe {
        std::arch::asm!(
            "lock cmpxchg dword ptr [{word}], {to:e}",
            "jne 2f",
            "mov eax, {exit}",
            "xor edi, edi",
            "syscall",
            "ud2",
            "2:",
            word = in(reg) word.as_ptr(),
            to = in(reg) to,
            exit = const libc::SYS_exit,
            inout("eax") from => _,
            out("rdi") _,
            out("rcx") _, out("r11") _);
    }
}
