//! The hot stacks that a thread keeps for itself, so that starting a fiber takes no lock.

use std::cell::RefCell;
use std::ptr::NonNull;

use regrow_sys::fault::AlternateStack;

use super::class::{self, CLASSES, Idle, class_of};
use super::overflow;
use crate::arch;
use crate::error::StackError;

/// Most stacks of a size that a thread keeps.
const MOST: usize = 64;
/// How many it takes and gives back at a time.
const BATCH: usize = 32;

thread_local! {
    static CACHE: RefCell<Cache> = const { RefCell::new(Cache::new()) };
}

/// See the module. At the end of its thread all goes back.
struct Cache {
    stacks: [Vec<Idle>; CLASSES],
    /// What signal handlers of this thread run on, for the end of another stack to be told.
    alternate: Option<AlternateStack>,
}

impl Cache {
    const fn new() -> Self {
        Self { stacks: [const { Vec::new() }; CLASSES], alternate: None }
    }

    /// Fills it; the first time also what a thread needs that runs fibers.
    #[cold]
    fn fill(&mut self, bytes: usize) -> Result<(), StackError> {
        if self.alternate.is_none() {
            if arch::has_shadow_stack() {
                return Err(StackError::ShadowStack);
            }
            overflow::watch();
            self.alternate = Some(AlternateStack::for_this_thread().map_err(StackError::Alternate)?);
        }
        class::take(bytes, BATCH, &mut self.stacks[class_of(bytes)])
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        for (number, stacks) in self.stacks.iter_mut().enumerate() {
            if !stacks.is_empty() {
                class::put(super::LEAST_STACK_BYTES << number, stacks.drain(..));
            }
        }
    }
}

/// Takes a stack.
#[inline]
pub(super) fn take(bytes: usize) -> Result<NonNull<u8>, StackError> {
    let taken = CACHE.try_with(|cache| {
        let mut cache = cache.borrow_mut();
        if let Some(idle) = cache.stacks[class_of(bytes)].pop() {
            return Ok(idle.0);
        }
        cache.fill(bytes)?;
        Ok(cache.stacks[class_of(bytes)].pop().map_or(NonNull::dangling(), |idle| idle.0))
    });
    taken.unwrap_or_else(|_| {
        // The thread is at its end.
        let mut taken = Vec::new();
        class::take(bytes, 1, &mut taken)?;
        Ok(taken.pop().map_or(NonNull::dangling(), |idle| idle.0))
    })
}

/// Takes a stack back.
#[inline]
pub(super) fn put(bottom: NonNull<u8>, bytes: usize) {
    let put = CACHE.try_with(|cache| {
        let stacks = &mut cache.borrow_mut().stacks[class_of(bytes)];
        if stacks.len() >= MOST {
            class::put(bytes, stacks.drain(..BATCH));
        }
        stacks.push(Idle(bottom));
    });
    if put.is_err() {
        class::put(bytes, std::iter::once(Idle(bottom)));
    }
}
