//! Where a stack was left, and what goes over a switch.

use std::mem::MaybeUninit;

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
