//! Atomics, locks and fences: the standard library's, and in a model check (`--cfg loom`) those of loom.

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(loom)]
pub(crate) use model::{AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard, Place};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{Ordering, fence};

#[cfg(loom)]
#[allow(unsafe_code, reason = "loom's cell says which threads are there, and is not for threads by its type")]
mod model {
    use std::ops::{Deref, DerefMut};
    use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

    use loom::cell::UnsafeCell;
    use loom::sync::atomic;

    use super::Ordering;

    /// A word of loom's. loom tries both orders of a look and a change, but forgets a look as soon as another thread has looked, also where that one goes on to
    /// change the word; so each look changes a word beside it, which orders nothing.
    macro_rules! word {
        ($name:ident, $value:ty) => {
            #[derive(Debug)]
            pub(crate) struct $name {
                word: atomic::$name,
                looks: atomic::AtomicU32,
            }

            #[allow(dead_code, reason = "not each kind of word is used in each way")]
            impl $name {
                pub(crate) fn new(value: $value) -> $name {
                    $name { word: atomic::$name::new(value), looks: atomic::AtomicU32::new(0) }
                }

                pub(crate) fn load(&self, order: Ordering) -> $value {
                    self.looks.fetch_add(0, Ordering::Relaxed);
                    self.word.load(order)
                }

                pub(crate) fn store(&self, value: $value, order: Ordering) {
                    self.word.store(value, order);
                }

                pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                    self.word.swap(value, order)
                }

                pub(crate) fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                    self.word.fetch_or(value, order)
                }

                pub(crate) fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                    self.word.fetch_and(value, order)
                }

                pub(crate) fn compare_exchange(
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
    pub(crate) struct Mutex<T> {
        lock: loom::sync::Mutex<T>,
        tries: atomic::AtomicU32,
    }

    /// See [`Mutex`].
    #[derive(Debug)]
    pub(crate) struct MutexGuard<'a, T> {
        locked: loom::sync::MutexGuard<'a, T>,
        tries: &'a atomic::AtomicU32,
    }

    impl<T> Mutex<T> {
        pub(crate) fn new(of: T) -> Mutex<T> {
            Mutex { lock: loom::sync::Mutex::new(of), tries: atomic::AtomicU32::new(0) }
        }

        pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
            let guard = |locked| MutexGuard { locked, tries: &self.tries };
            self.lock.lock().map(guard).map_err(|error| PoisonError::new(guard(error.into_inner())))
        }

        pub(crate) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
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
    pub(crate) struct Place(UnsafeCell<()>);

    // SAFETY: nothing is in it. loom keeps its own note of who was there, one thread at a time.
    unsafe impl Sync for Place {}

    impl Place {
        pub(crate) fn new() -> Place {
            Place(UnsafeCell::new(()))
        }

        pub(crate) fn write(&self) {
            self.0.with_mut(|_| ());
        }

        pub(crate) fn read(&self) {
            self.0.with(|_| ());
        }
    }

    word!(AtomicU32, u32);
    word!(AtomicU64, u64);
    word!(AtomicUsize, usize);
}

/// A barrier of two sides: one costs nothing, the other one a system call.
#[cfg(not(loom))]
pub(crate) mod barrier {
    use std::sync::atomic::{Ordering, compiler_fence};
    use std::time::Duration;

    pub(crate) use regrow_sys::barrier::{heavy, prepare};
    pub(crate) use regrow_sys::raw::thread_pointer as thread;

    /// Neither the compiler moves a load before a store past it, nor the processor as far as who calls `heavy` can see.
    #[inline]
    pub(crate) fn light() {
        compiler_fence(Ordering::SeqCst);
    }

    /// Lets others run for so long, and changes no error's number.
    pub(crate) fn sleep(time: Duration) {
        if let Ok(time) = time.try_into() {
            let _ = rustix::thread::nanosleep(&time);
        }
    }
}

/// The same, each side a fence.
#[cfg(loom)]
pub(crate) mod barrier {
    use super::{Ordering, fence};

    pub(crate) fn prepare() -> bool {
        true
    }

    pub(crate) fn thread() -> usize {
        64
    }

    pub(crate) fn heavy() {
        fence(Ordering::SeqCst);
    }

    pub(crate) fn light() {
        fence(Ordering::SeqCst);
    }

    pub(crate) fn sleep(_: std::time::Duration) {
        loom::thread::yield_now();
    }
}
