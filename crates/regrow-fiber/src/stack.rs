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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_stack_has_its_name_and_is_there_for_the_next_one() {
        let stack = Stack::take(10_000, Some("first".into())).expect("there is memory");
        assert_eq!((stack.bytes(), stack.name()), (16 << 10, Some("first")));
        let top = stack.top();
        assert_eq!((top as usize % 16, top > stack.bottom.as_ptr()), (0, true));
        drop(stack);
        let again = Stack::take(16 << 10, None).expect("it is there");
        assert_eq!((again.top(), again.name()), (top, None));
    }

    #[test]
    fn no_two_have_the_same_stack_on_whichever_thread_they_are() {
        let count = if cfg!(miri) { 40 } else { 4_000 };
        let all_have = std::sync::Barrier::new(2);
        let mut all: Vec<usize> = std::thread::scope(|scope| {
            let threads = [(); 2].map(|()| {
                scope.spawn(|| {
                    // Some go back and are taken again.
                    let taken = || (0..count).flat_map(|_| Stack::take(8 << 10, Some("named".into())));
                    let mut stacks: Vec<_> = taken().collect();
                    stacks.truncate(count / 3);
                    stacks.extend(taken());
                    all_have.wait();
                    stacks.iter().map(|stack| stack.bottom.as_ptr().addr()).collect::<Vec<_>>()
                })
            });
            threads.into_iter().flat_map(|thread| thread.join().expect("it does not panic")).collect()
        });
        assert_eq!(all.len(), 2 * (count + count / 3));
        all.sort_unstable();
        assert!(all.is_sorted_by(|one, other| one < other));
    }
}
