//! What is the processor's own: how one stack is left for another.

mod position;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub(crate) use position::{Position, Word};

#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{Main, STACK_ALIGN_BYTES, begin, fetch, switch, whole};

#[cfg(not(target_arch = "x86_64"))]
compile_error!("regrow-fiber knows how to switch stacks on x86-64 alone: src/arch has the place for others");
