//! What is the processor's own: how one stack is left for another.

use std::mem::MaybeUninit;

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{Main, STACK_ALIGN_BYTES, begin, fetch, has_shadow_stack, switch};

#[cfg(not(target_arch = "x86_64"))]
compile_error!("regrow-fiber knows how to switch stacks on x86-64 alone: src/arch has the place for others");

/// A position at which a stack was left: its stack pointer, and the code that goes on. The lowest bit of the code's address is the *mark* of who has
/// left: it says that the message is not the usual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) stack: *mut u8,
    pub(crate) code: usize,
}

impl Position {
    /// No position.
    pub(crate) const NONE: Self = Self { stack: std::ptr::null_mut(), code: 0 };

    /// Whether who has left it says that the message is not the usual one.
    #[inline]
    pub(crate) fn is_marked(self) -> bool {
        self.code & 1 != 0
    }

    /// The position to switch to.
    pub(crate) fn unmarked(self) -> Self {
        Self { code: self.code & !1, ..self }
    }
}

/// What goes over a switch, in a register: a value of at most one word, or the address of a larger one.
pub(crate) type Word = MaybeUninit<*mut ()>;
