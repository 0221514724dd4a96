//! Switching stacks on x86-64.
//!
//! ```text
//!   a stack that was left           one that was never run
//!   position ─> rbp                 position ─> the control block
//!               rbx                             the function
//!               … the frame of the caller
//! ```
//!
//! The switch stands in its caller. All registers but three are declared as written, so that the compiler saves what lives and nothing else
//! (Keppel's remark in the letters: "no register saves and restores in the context switch routine"). The three are the stack pointer, and
//! `rbx` and `rbp`, which the compiler keeps for itself: they stand on the stack that is left. Both parts of a position go in registers, to and fro.
//!
//! The control words of the floating-point units (`mxcsr`, x87) belong to the thread, as at any call of a function: they are not switched.

#![allow(unsafe_code, reason = "another stack is made the present one")]

use std::arch::{asm, naked_asm};

use super::position::{Position, Word};

/// What the addresses of stacks are multiples of at a call.
pub(crate) const STACK_ALIGN_BYTES: usize = 16;

/// Leaves the present stack for another, which goes on with a word. Comes back when somebody switches here, with that one's position and word. `MARK`
/// is the mark of this switch: 0 or 1.
///
/// # Safety
/// `next` was handed over by this function or made by [`begin`], is not marked, and nobody has switched to it since; its stack is there, and belongs
/// to this thread as long as it runs.
#[inline(always)]
pub(crate) unsafe fn switch<const MARK: u8>(next: Position, word: Word) -> (Position, Word) {
    let (stack, code, answer);
    // SAFETY: the caller's promise about `next`; the stack below the pointer is free, and what is pushed is taken when this stack is gone on
    // with. Each register that the other stack may write is declared.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "lea r9, [rip + 2f + {mark}]",
            "xchg rsp, rdx",
            "jmp r8",
            ".balign 16",
            "2:",
            "pop rbp",
            "pop rbx",
            mark = const MARK,
            inout("rdx") next.stack => stack,
            inout("r8") next.code => _,
            out("r9") code,
            inout("rsi") word => answer,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("sysv64"),
        );
    }
    (Position { stack, code }, answer)
}

/// What a fiber begins with: it gets its control block, the first word, and the position of whoever has sent it, stack and code.
pub(crate) type Main = unsafe extern "sysv64" fn(
    control: *mut u8,
    word: Word,
    stack: *mut u8,
    _: usize,
    _: usize,
    code: usize,
) -> !;

/// Lays out a stack whose first word goes to `main`; its position.
///
/// # Safety
/// The memory below `top`, which is a multiple of [`STACK_ALIGN_BYTES`], belongs to the caller.
#[inline]
pub(crate) unsafe fn begin(top: *mut u8, main: Main, control: *mut u8) -> Position {
    // SAFETY: the caller's promise. When `start` has taken both words, the pointer is a multiple of the alignment, as a call wants it.
    let stack = unsafe {
        let words = top.cast::<[usize; 2]>().sub(1);
        words.write([control as usize, main as *const () as usize]);
        words.cast()
    };
    Position { stack, code: start as *const () as usize }
}

/// The first that runs on a stack. For debuggers and unwinders it is the last frame.
///
/// # Safety
/// The stack begins as [`begin`] has laid it out.
#[unsafe(naked)]
unsafe extern "sysv64" fn start() -> ! {
    naked_asm!(
        ".balign 16",
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

/// Has the memory around the top of a stack fetched into the caches, while something else runs.
#[inline]
pub(crate) fn fetch(top: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    for line in 0..3 {
        // SAFETY: nothing is read as far as the program can tell, whatever the address is.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(top.wrapping_sub(64 * line).cast()) };
    }
}

/// The same word, of which the compiler takes each byte for needed: it is stored and loaded whole.
#[cfg(not(miri))]
#[inline(always)]
pub(crate) fn whole(mut word: Word) -> Word {
    // SAFETY: nothing is done.
    unsafe { asm!("/* {0} */", inout(reg) word, options(pure, nomem, nostack, preserves_flags)) };
    word
}

/// The same for Miri, which knows no instructions of the processor's.
#[cfg(miri)]
pub(crate) fn whole(word: Word) -> Word {
    word
}
