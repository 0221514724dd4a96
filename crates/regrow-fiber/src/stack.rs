//! Stacks of fibers: where they are, who has them, what is left of them.
//!
//! ```text
//!   region    stacks of one size, mapped in one piece, never unmapped
//!   stack     bottom ─> guard page | … free … | frames | control block <─ top
//!   class     all stacks of one size: those that nobody has, the hot ones apart from the cold ones
//!   cache     a few hot stacks that a thread keeps for itself
//! ```
//!
//! Sizes are powers of two and include the guard page. A stack takes memory as it grows, a page at a time. Of the stacks that nobody has, so
//! many stay hot ([`HOT_STACKS`]); the memory of the others goes back to the kernel, their guard pages stay.

mod cache;
mod class;
mod overflow;
mod region;

use std::ptr::NonNull;

use crate::error::StackError;

pub use class::HOT_STACKS;

/// The size of a page.
pub(crate) const PAGE_BYTES: usize = 4096;
/// The smallest stack: a guard page and a page.
pub const LEAST_STACK_BYTES: usize = 2 * PAGE_BYTES;
/// The largest stack.
pub const MOST_STACK_BYTES: usize = 256 << 20;
/// What a fiber has unless it is given another one. A panic with a backtrace fits.
pub const DEFAULT_STACK_BYTES: usize = 64 << 10;
/// In how many places of its top page a stack may begin, so that the frames of many fibers do not meet in the same lines of the caches.
const COLOURS: usize = 16;
/// How far these places are apart.
const COLOUR_BYTES: usize = 64;

/// Where below the top of a stack that nobody has the address of the next one stands.
const LINK_BYTES: usize = 128;

/// A stack that somebody has alone; dropped, it is there for the next one.
#[derive(Debug)]
pub(crate) struct Stack {
    bottom: NonNull<u8>,
    bytes: usize,
}

impl Stack {
    /// A stack of at least so many bytes, guard page included.
    pub(crate) fn take(bytes: usize) -> Result<Self, StackError> {
        if !(LEAST_STACK_BYTES..=MOST_STACK_BYTES).contains(&bytes) {
            return Err(StackError::Size { bytes, least: LEAST_STACK_BYTES, most: MOST_STACK_BYTES });
        }
        let bytes = bytes.next_power_of_two();
        cache::take(bytes).map(|bottom| Self { bottom, bytes })
    }

    /// Its size, guard page included.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first address behind what may be used of it.
    pub(crate) fn top(&self) -> *mut u8 {
        top_of(self.bottom, self.bytes)
    }

    /// Makes all of it zero and gives its memory back, so that what is used of it from now on can be seen.
    pub(crate) fn clear(&self) {
        class::give_memory_back(&[(self.bottom, self.bytes)]);
    }

    /// How many bytes below the top were written since its memory was last given back.
    pub(crate) fn high_water(&self) -> usize {
        region::high_water(self.bottom, self.bytes)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        cache::put(self.bottom, self.bytes);
    }
}

/// The first address behind what may be used of a stack.
pub(crate) fn top_of(bottom: NonNull<u8>, bytes: usize) -> *mut u8 {
    let number = bottom.as_ptr() as usize / bytes;
    bottom.as_ptr().wrapping_add(bytes - (number % COLOURS) * COLOUR_BYTES)
}

/// A size for stacks on which so much was used: twice that, and room for a signal handler.
pub fn suggested_stack_bytes(high_water: usize) -> usize {
    let bytes = high_water.saturating_mul(2).saturating_add(2 * PAGE_BYTES);
    bytes.clamp(LEAST_STACK_BYTES, MOST_STACK_BYTES).next_power_of_two()
}
