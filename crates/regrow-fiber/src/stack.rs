//! Stacks of fibers: where they are, who has them, what is left of them.
//!
//! ```text
//!   region    stacks of one size, mapped in one piece, never unmapped
//!   stack     bottom ─> guard page | … free … | frames | control block | label <─ top
//!   class     all stacks of one size: those that nobody has, the hot ones apart from the cold ones
//!   cache     a few hot stacks that a thread keeps for itself
//! ```
//!
//! Sizes are powers of two and include the guard page. A stack takes memory as it grows, a page at a time. Of the stacks that nobody has, so
//! many stay hot ([`HOT_STACKS`]); the memory of the others goes back to the kernel, their guard pages stay.

mod cache;
mod class;
mod label;
mod overflow;
mod region;
mod size;

use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::StackError;

pub use class::HOT_STACKS;
pub use size::{DEFAULT_STACK_BYTES, LEAST_STACK_BYTES, MOST_STACK_BYTES, suggested_stack_bytes};

/// A stack that somebody has alone; dropped, it is there for the next one.
#[derive(Debug)]
pub(crate) struct Stack {
    bottom: NonNull<u8>,
    bytes: usize,
}

impl Stack {
    /// A stack of at least so many bytes, guard page included, with the name of the fiber that is to run on it.
    #[inline]
    pub(crate) fn take(bytes: usize, name: Option<Arc<str>>) -> Result<Self, StackError> {
        let bytes = size::of(bytes)?;
        let bottom = cache::take(bytes)?;
        label::begin(bottom, bytes, name);
        Ok(Self { bottom, bytes })
    }

    /// Its size, guard page included.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first address behind what may be used of it.
    #[inline]
    pub(crate) fn top(&self) -> *mut u8 {
        label::of(self.bottom, self.bytes).cast()
    }

    /// The name of its fiber.
    pub(crate) fn name(&self) -> Option<&str> {
        label::name(self.bottom, self.bytes)
    }

    /// A stack of which no page is there, so that what is used of it can be seen.
    pub(crate) fn take_clear(bytes: usize, name: Option<Arc<str>>) -> Result<Self, StackError> {
        let bytes = size::of(bytes)?;
        let bottom = cache::take(bytes)?;
        class::give_memory_back(&[(bottom, bytes)]);
        label::begin(bottom, bytes, name);
        Ok(Self { bottom, bytes })
    }

    /// How many bytes below the top were written since its memory was last given back.
    pub(crate) fn high_water(&self) -> usize {
        region::high_water(self.bottom, self.bytes)
    }
}

impl Drop for Stack {
    #[inline]
    fn drop(&mut self) {
        label::end(self.bottom, self.bytes);
        cache::put(self.bottom, self.bytes);
    }
}
