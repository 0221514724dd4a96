//! How large stacks are, and where on them something begins.

use std::ptr::NonNull;

use crate::error::StackError;

/// The size of a page.
pub(crate) const PAGE_BYTES: usize = 4096;
/// The smallest stack: a guard page and a page.
pub const LEAST_STACK_BYTES: usize = 2 * PAGE_BYTES;
/// The largest stack.
pub const MOST_STACK_BYTES: usize = 256 << 20;
/// What a fiber has unless it is given another one. A panic with a backtrace fits.
pub const DEFAULT_STACK_BYTES: usize = 64 << 10;
/// How many sizes there are.
pub(super) const CLASSES: usize = (MOST_STACK_BYTES / LEAST_STACK_BYTES).ilog2() as usize + 1;
/// In how many places of its top page a stack may begin, so that the frames of many fibers do not meet in the same lines of the caches.
const COLOURS: usize = 16;
/// How far these places are apart.
const COLOUR_BYTES: usize = 64;

/// The size that a stack of at least so many bytes has.
#[inline]
pub(super) fn of(bytes: usize) -> Result<usize, StackError> {
    if (LEAST_STACK_BYTES..=MOST_STACK_BYTES).contains(&bytes) {
        return Ok(bytes.next_power_of_two());
    }
    Err(StackError::Size { bytes, least: LEAST_STACK_BYTES, most: MOST_STACK_BYTES })
}

/// The number of a size, which is one that stacks have.
#[inline]
pub(super) fn class_of(bytes: usize) -> usize {
    (bytes / LEAST_STACK_BYTES).ilog2() as usize
}

/// The first address behind what is used of a stack.
#[inline]
pub(super) fn top_of(bottom: NonNull<u8>, bytes: usize) -> *mut u8 {
    let number = bottom.as_ptr() as usize >> bytes.trailing_zeros();
    bottom.as_ptr().wrapping_add(bytes - (number % COLOURS) * COLOUR_BYTES)
}

/// A size for stacks on which so much was used: twice that, and room for a signal handler.
#[must_use]
pub fn suggested_stack_bytes(high_water: usize) -> usize {
    let bytes = high_water.saturating_mul(2).saturating_add(2 * PAGE_BYTES);
    bytes.clamp(LEAST_STACK_BYTES, MOST_STACK_BYTES).next_power_of_two()
}
