//! A value that one thread leaves for others. A model check fails where somebody takes it before it is there.

#![allow(unsafe_code, reason = "who may look at the value is known to those who use it")]

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;

/// See the module.
pub struct Handed<T> {
    value: UnsafeCell<MaybeUninit<T>>,
    #[cfg(loom)]
    place: crate::Place,
}

// SAFETY: each use says that no other one is at the same time, or that all of them look: see the methods.
unsafe impl<T: Send + Sync> Sync for Handed<T> {}

impl<T: Copy> Handed<T> {
    /// Nothing as yet.
    #[inline]
    pub fn new() -> Handed<T> {
        Handed {
            value: UnsafeCell::new(MaybeUninit::uninit()),
            #[cfg(loom)]
            place: crate::Place::new(),
        }
    }

    /// Leaves a value.
    ///
    /// # Safety
    /// Nobody else uses this until they learn that there is something, from who has left it.
    #[inline]
    pub unsafe fn leave(&self, value: T) {
        #[cfg(loom)]
        self.place.write();
        // SAFETY: the caller's promise.
        unsafe { (*self.value.get()).write(value) };
    }

    /// The value.
    ///
    /// # Safety
    /// It was left, and the caller has learned of that.
    #[inline]
    pub unsafe fn get(&self) -> T {
        #[cfg(loom)]
        self.place.read();
        // SAFETY: the caller's promise.
        unsafe { (*self.value.get()).assume_init() }
    }
}

impl<T: Copy> Default for Handed<T> {
    fn default() -> Handed<T> {
        Handed::new()
    }
}

impl<T> fmt::Debug for Handed<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Handed").finish_non_exhaustive()
    }
}
