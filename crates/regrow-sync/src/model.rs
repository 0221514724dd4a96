//! Atomics and locks of loom's, and a place that only one thread may be at.

#![allow(
    unsafe_code,
    reason = "loom's cell says which threads are there, and is not for threads by its type"
)]

use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

use loom::cell::UnsafeCell;
use loom::sync::atomic;

use crate::Ordering;

/// A word of loom's. loom tries both orders of a look and a change, but forgets a look as soon as another thread has looked, also where that one goes on to
/// change the word; so each look changes a word beside it, which orders nothing.
macro_rules! word {
    ($name:ident, $value:ty) => {
        #[derive(Debug)]
        pub struct $name {
            word: atomic::$name,
            looks: atomic::AtomicU32,
        }

        #[allow(dead_code, reason = "not each kind of word is used in each way")]
        impl $name {
            pub fn new(value: $value) -> $name {
                $name { word: atomic::$name::new(value), looks: atomic::AtomicU32::new(0) }
            }

            pub fn load(&self, order: Ordering) -> $value {
                self.looks.fetch_add(0, Ordering::Relaxed);
                self.word.load(order)
            }

            pub fn store(&self, value: $value, order: Ordering) {
                self.word.store(value, order);
            }

            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.word.swap(value, order)
            }

            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.word.fetch_or(value, order)
            }

            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                self.word.fetch_and(value, order)
            }

            pub fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.word.compare_exchange(old, new, success, failure)
            }
        }
    };
}

/// A lock of loom's. loom does not try whether somebody who only tries to lock comes before or after an unlocking; so both change a word beside it, which
/// orders nothing.
#[derive(Debug)]
pub struct Mutex<T> {
    lock: loom::sync::Mutex<T>,
    tries: atomic::AtomicU32,
}

/// See [`Mutex`].
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    locked: loom::sync::MutexGuard<'a, T>,
    tries: &'a atomic::AtomicU32,
}

impl<T> Mutex<T> {
    pub fn new(of: T) -> Mutex<T> {
        Mutex { lock: loom::sync::Mutex::new(of), tries: atomic::AtomicU32::new(0) }
    }

    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let guard = |locked| MutexGuard { locked, tries: &self.tries };
        self.lock.lock().map(guard).map_err(|error| PoisonError::new(guard(error.into_inner())))
    }

    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        self.tries.fetch_add(0, Ordering::Relaxed);
        let guard = |locked| MutexGuard { locked, tries: &self.tries };
        self.lock.try_lock().map(guard).map_err(|error| match error {
            TryLockError::Poisoned(error) => PoisonError::new(guard(error.into_inner())).into(),
            TryLockError::WouldBlock => TryLockError::WouldBlock,
        })
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.locked
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.locked
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.tries.fetch_add(0, Ordering::Relaxed);
    }
}

/// A place that threads write to and read from in turn: a model fails where one does so while another one writes.
#[derive(Debug)]
pub struct Place(UnsafeCell<()>);

// SAFETY: nothing is in it. loom keeps its own note of who was there, one thread at a time.
unsafe impl Sync for Place {}

impl Place {
    pub fn new() -> Place {
        Place(UnsafeCell::new(()))
    }

    pub fn write(&self) {
        self.0.with_mut(|_| ());
    }

    pub fn read(&self) {
        self.0.with(|_| ());
    }
}

word!(AtomicU32, u32);
word!(AtomicU64, u64);
word!(AtomicUsize, usize);
