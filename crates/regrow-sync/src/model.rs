//! Atomics and locks of loom's, and a place that only one thread may be at.

#![allow(
    unsafe_code,
    reason = "loom's cell says which threads are there, and is not for threads by its type"
)]

pub(crate) mod threads;

use std::cell::Cell;
use std::marker::PhantomData;
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

/// As the words above.
#[derive(Debug)]
pub struct AtomicPtr<T> {
    word: atomic::AtomicPtr<T>,
    looks: atomic::AtomicU32,
}

impl<T> AtomicPtr<T> {
    pub fn new(value: *mut T) -> AtomicPtr<T> {
        AtomicPtr { word: atomic::AtomicPtr::new(value), looks: atomic::AtomicU32::new(0) }
    }

    pub fn load(&self, order: Ordering) -> *mut T {
        self.looks.fetch_add(0, Ordering::Relaxed);
        self.word.load(order)
    }

    pub fn store(&self, value: *mut T, order: Ordering) {
        self.word.store(value, order);
    }

    pub fn compare_exchange(
        &self,
        old: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        self.word.compare_exchange(old, new, success, failure)
    }
}

/// What numbers have.
macro_rules! number {
    ($name:ident, $value:ty) => {
        word!($name, $value);

        #[allow(dead_code, reason = "as above")]
        impl $name {
            pub fn store(&self, value: $value, order: Ordering) {
                self.word.store(value, order);
            }

            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.word.fetch_add(value, order)
            }
        }
    };
}

word!(AtomicBool, bool);
number!(AtomicU32, u32);
number!(AtomicU64, u64);
number!(AtomicUsize, usize);

impl AtomicBool {
    /// loom has no order of two stores that nothing orders, and lets an exchange overlook the later one. Flags are stored and exchanged by several threads:
    /// so a store is an exchange.
    pub fn store(&self, value: bool, order: Ordering) {
        self.word.swap(value, order);
    }
}

impl Default for AtomicBool {
    fn default() -> AtomicBool {
        AtomicBool::new(false)
    }
}

impl Default for Place {
    fn default() -> Place {
        Place::new()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

/// A value that is set once. Between two operations of loom's nobody else runs: so the value itself needs none.
#[derive(Debug, Default)]
pub struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    is_set: AtomicBool,
}

impl<T> OnceLock<T> {
    pub fn new() -> OnceLock<T> {
        OnceLock { value: std::sync::OnceLock::new(), is_set: AtomicBool::new(false) }
    }

    pub fn set(&self, value: T) -> Result<(), T> {
        self.value.set(value)?;
        self.is_set.store(true, Ordering::Release);
        Ok(())
    }

    pub fn get(&self) -> Option<&T> {
        if self.is_set.load(Ordering::Acquire) { self.value.get() } else { None }
    }
}

/// What each thread has for itself.
#[derive(Debug)]
pub struct Local<T: 'static>(loom::thread::LocalKey<T>);

impl<T: 'static> Local<T> {
    pub const fn new(init: fn() -> T) -> Local<T> {
        Local(loom::thread::LocalKey { init, _p: PhantomData })
    }
}

impl<T: Copy + 'static> Local<Cell<T>> {
    pub fn get(&'static self) -> T {
        self.0.with(Cell::get)
    }

    pub fn set(&'static self, value: T) {
        self.0.with(|cell| cell.set(value));
    }

    pub fn replace(&'static self, value: T) -> T {
        self.0.with(|cell| cell.replace(value))
    }
}
