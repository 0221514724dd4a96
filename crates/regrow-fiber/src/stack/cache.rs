//! The hot stacks that a thread keeps for itself, so that starting a fiber takes no lock.
//!
//! They hang together in lists, one for each size, by their labels.

use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};

use regrow_sys::fault::AlternateStack;
use regrow_sys::raw::has_shadow_stack;

use super::class::{self, Idle};
use super::size::{CLASSES, LEAST_STACK_BYTES, class_of};
use super::{label, overflow};
use crate::error::StackError;

/// Most stacks of a size that a thread keeps.
const MOST: usize = 64;
/// How many it takes and gives back at a time.
const BATCH: usize = 32;

/// The stacks of a size.
struct List {
    first: Cell<*mut u8>,
    count: Cell<usize>,
}

thread_local! {
    static LISTS: [List; CLASSES] = const { [const { List { first: Cell::new(ptr::null_mut()), count: Cell::new(0) } }; CLASSES] };
    /// The thread is at its end: it keeps nothing any more.
    static IS_OVER: Cell<bool> = const { Cell::new(false) };
    static THREAD: RefCell<Thread> = const { RefCell::new(Thread { alternate: None }) };
}

/// What a thread needs that runs fibers. At its end all its stacks go back.
struct Thread {
    /// What signal handlers of this thread run on, for the end of another stack to be told.
    alternate: Option<AlternateStack>,
}

impl Thread {
    #[cold]
    fn prepare(&mut self) -> Result<(), StackError> {
        if self.alternate.is_none() && !cfg!(miri) {
            if has_shadow_stack() {
                return Err(StackError::ShadowStack);
            }
            overflow::watch();
            self.alternate = Some(AlternateStack::for_this_thread().map_err(StackError::Alternate)?);
        }
        Ok(())
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        IS_OVER.set(true);
        for number in 0..CLASSES {
            let bytes = LEAST_STACK_BYTES << number;
            LISTS.with(|lists| lists[number].give_back(bytes, usize::MAX));
        }
    }
}

impl List {
    #[inline]
    fn pop(&self, bytes: usize) -> Option<NonNull<u8>> {
        let bottom = NonNull::new(self.first.get())?;
        self.first.set(label::next(bottom, bytes));
        self.count.set(self.count.get() - 1);
        Some(bottom)
    }

    #[inline]
    fn push(&self, bottom: NonNull<u8>, bytes: usize) {
        label::set_next(bottom, bytes, self.first.get());
        self.first.set(bottom.as_ptr());
        self.count.set(self.count.get() + 1);
    }

    #[cold]
    fn fill(&self, bytes: usize) -> Result<(), StackError> {
        let mut taken = Vec::new();
        class::take(bytes, BATCH, &mut taken)?;
        taken.into_iter().for_each(|idle| self.push(idle.0, bytes));
        Ok(())
    }

    #[cold]
    fn give_back(&self, bytes: usize, most: usize) {
        let stacks: Vec<Idle> = std::iter::from_fn(|| self.pop(bytes)).take(most).map(Idle).collect();
        if !stacks.is_empty() {
            class::put(bytes, stacks.into_iter());
        }
    }
}

/// Takes a stack.
#[inline]
pub(super) fn take(bytes: usize) -> Result<NonNull<u8>, StackError> {
    match LISTS.with(|lists| lists[class_of(bytes)].pop(bytes)) {
        Some(bottom) => Ok(bottom),
        None => take_slowly(bytes),
    }
}

#[cold]
fn take_slowly(bytes: usize) -> Result<NonNull<u8>, StackError> {
    match THREAD.try_with(|thread| thread.borrow_mut().prepare()) {
        Ok(prepared) => {
            prepared?;
            LISTS.with(|lists| {
                let list = &lists[class_of(bytes)];
                list.fill(bytes)?;
                Ok(list.pop(bytes).unwrap_or(NonNull::dangling()))
            })
        }
        // The thread is at its end: nothing would give its stacks back.
        Err(_) => {
            let mut taken = Vec::new();
            class::take(bytes, 1, &mut taken)?;
            Ok(taken.pop().map_or(NonNull::dangling(), |idle| idle.0))
        }
    }
}

/// Takes a stack back.
#[inline]
pub(super) fn put(bottom: NonNull<u8>, bytes: usize) {
    LISTS.with(|lists| {
        let list = &lists[class_of(bytes)];
        list.push(bottom, bytes);
        if list.count.get() > MOST || IS_OVER.get() {
            list.give_back(bytes, BATCH);
        }
    });
}
