//! The `syscall` instruction, and the thread pointer.

#![allow(unsafe_code, reason = "system calls and the thread pointer are instructions")]

/// One system call without `errno`: values from -4095 to -1 are negative error numbers.
///
/// # Safety
/// The arguments are what the call takes; pointers among them are valid for it.
#[inline]
pub unsafe fn syscall(number: i64, args: [usize; 6]) -> isize {
    let result: i64;
    // SAFETY: the instruction clobbers rcx and r11; the rest is the caller's contract.
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") number => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    // A register is as wide as a pointer on this architecture.
    isize::try_from(result).unwrap_or(isize::MIN)
}

/// What tells the calling thread from all others that live: the address of its thread-local storage, which stands there itself.
#[inline]
#[must_use]
pub fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the ABI of the architecture has the word at the thread pointer hold that address; it is read, and does not change.
    unsafe {
        std::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, pure, readonly, preserves_flags));
    }
    pointer
}

/// The addresses of the calling thread's static storage, of so many bytes: it ends at the thread pointer.
#[must_use]
pub(crate) fn thread_storage(bytes: usize) -> std::ops::Range<usize> {
    let end = thread_pointer();
    end - bytes..end
}

/// Whether the calling thread has a shadow stack (CET): its return addresses are checked against a second stack.
#[must_use]
pub fn has_shadow_stack() -> bool {
    /// `ARCH_SHSTK_STATUS`, and the bit of its answer that says so.
    const STATUS: usize = 0x5005;
    const ENABLED: u64 = 1;
    let mut features = 0_u64;
    // SAFETY: the kernel writes a word, or nothing where it does not know the question.
    let asked = unsafe { syscall(libc::SYS_arch_prctl, [STATUS, &raw mut features as usize, 0, 0, 0, 0]) };
    asked == 0 && features & ENABLED != 0
}
