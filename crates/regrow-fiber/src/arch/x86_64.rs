//! Switching stacks on x86-64.
//!
//! ```text
//!   a stack that was left           one that was never run
//!   position ─> where it goes on    position ─> `start`
//!               rbp                             the control block
//!               rbx                             the function
//!               … the frame of the caller       0 (the end of the chain of frames)
//! ```
//!
//! The switch stands in its caller. All registers but three are declared as written, so that the compiler saves what lives and nothing else
//! (Keppel's remark in the letters: "no register saves and restores in the context switch routine"). The three are the stack pointer, and
//! `rbx` and `rbp`, which the compiler keeps for itself: they stand on the stack that is left.
//!
//! The control words of the floating-point units (`mxcsr`, x87) belong to the thread, as at any call of a function: they are not switched.

#![allow(unsafe_code, reason = "another stack is made the present one")]

use std::arch::{asm, naked_asm};
use std::mem::MaybeUninit;

use super::{Message, Position};

/// What the addresses of stacks are multiples of at a call.
pub(crate) const STACK_ALIGN_BYTES: usize = 16;

/// Leaves the present stack for another, which goes on with the message. Comes back when somebody switches here, with that one's position and
/// message.
///
/// # Safety
/// `next` was handed over by this function or made by [`begin`], and nobody has switched to it since; its stack is there, and belongs to this
/// thread as long as it runs.
#[inline(always)]
pub(crate) unsafe fn switch(next: Position, message: Message) -> (Position, Message) {
    let (other, word, tag);
    // SAFETY: the caller's promise about `next`; the stack below the pointer is free, and what is pushed is taken when this stack is gone on
    // with. Each register that the other stack may write is declared.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "lea rax, [rip + 2f]",
            "push rax",
            "xchg rsp, rdx",
            "pop rax",
            "jmp rax",
            "2:",
            "pop rbp",
            "pop rbx",
            inout("rdx") next => other,
            inout("rsi") message.word => word,
            inout("rcx") message.tag => tag,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("sysv64"),
        );
    }
    (other, Message { word, tag })
}

/// What a fiber begins with: it gets its control block, the first message, and the position of whoever has sent it.
pub(crate) type Main =
    unsafe extern "sysv64" fn(control: *mut u8, word: MaybeUninit<*mut ()>, other: Position, tag: usize) -> !;

/// Lays out a stack whose first message goes to `main`; its position.
///
/// # Safety
/// The memory below `top`, which is a multiple of [`STACK_ALIGN_BYTES`], belongs to the caller.
pub(crate) unsafe fn begin(top: *mut u8, main: Main, control: *mut u8) -> Position {
    let words = [start as *const () as usize, control as usize, main as *const () as usize, 0, 0];
    // SAFETY: the caller's promise. When `start` has taken three words, the pointer is a multiple of the alignment, as a call wants it.
    unsafe {
        let position = top.cast::<[usize; 5]>().sub(1);
        position.write(words);
        position.cast()
    }
}

/// The first that runs on a stack. For debuggers and unwinders it is the last frame.
#[unsafe(naked)]
unsafe extern "sysv64" fn start() -> ! {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "pop rdi",
        "pop rax",
        "xor ebp, ebp",
        "call rax",
        "ud2",
        ".cfi_endproc",
    )
}

/// Whether this thread has a shadow stack: a return is then checked against what was called on it, and it is not switched.
pub(crate) fn has_shadow_stack() -> bool {
    /// `ARCH_SHSTK_STATUS` of `arch_prctl(2)`.
    const STATUS: i32 = 0x5005;
    regrow_sys::raw::ask_architecture(STATUS).is_ok_and(|features| features & 1 != 0)
}

/// Has the memory around the top of a stack fetched into the caches, while something else runs.
#[inline]
pub(crate) fn fetch(top: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    for line in 0..3 {
        // SAFETY: nothing is read as far as the program can tell, whatever the address is.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(top.wrapping_sub(64 * line).cast()) };
    }
}
