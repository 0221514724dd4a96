//! What is the processor's own: how one stack is left for another.

use std::mem::MaybeUninit;

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{Main, STACK_ALIGN_BYTES, begin, fetch, has_shadow_stack, switch};

#[cfg(not(target_arch = "x86_64"))]
compile_error!("regrow-fiber knows how to switch stacks on x86-64 alone: src/arch has the place for others");

/// A position on a stack that was left: where its stack pointer was.
pub(crate) type Position = *mut u8;

/// What goes over a switch, in two registers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    /// A value of at most one word, or the address of a larger one.
    pub(crate) word: MaybeUninit<*mut ()>,
    /// What it is.
    pub(crate) tag: usize,
}
