//! A lock for which a task waits without keeping its worker from others.

#![allow(unsafe_code, reason = "what a lock keeps is reached through it")]

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};

use regrow_sync::owned::{Owned, OwnedGuard};

use crate::desk;
use crate::task::Woken;
use crate::wait::{self, Wait, Waiter, Waiters};

/// See the module. It is not poisoned: a panic lets it go.
pub struct Mutex<T> {
    state: Owned<State>,
    value: UnsafeCell<T>,
}

#[derive(Debug, Default)]
struct State {
    is_locked: bool,
    waiters: Waiters,
}

// SAFETY: the value is reached through a guard alone, of which there is one at a time.
unsafe impl<T: Send> Sync for Mutex<T> {}
// SAFETY: whoever has the mutex has the value.
unsafe impl<T: Send> Send for Mutex<T> {}

/// Nobody else has the lock as long as this is there.
pub struct MutexGuard<'a, T>(&'a Mutex<T>);

impl<T> Mutex<T> {
    /// A lock that nobody has.
    pub fn new(value: T) -> Self {
        // As in channels: the lock around the state has models of its own.
        Self { state: Owned::new(State::default(), cfg!(loom)), value: UnsafeCell::new(value) }
    }

    /// Has the lock; waits until nobody else has it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        loop {
            let mut state = self.state();
            if !state.is_locked {
                state.is_locked = true;
                return MutexGuard(self);
            }
            let wait = Wait::begin();
            state.waiters.push_own(&wait);
            drop(state);
            if wait.end(None) == Woken::Cancelled {
                self.withdraw(&wait.waiter());
                wait::unwind();
            }
        }
    }

    /// Has the lock unless somebody else has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let mut state = self.state();
        if state.is_locked {
            return None;
        }
        state.is_locked = true;
        Some(MutexGuard(self))
    }

    /// The value, for who has the mutex alone.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    fn state(&self) -> OwnedGuard<'_, State> {
        // SAFETY: the desk is this thread's; nothing that happens with the lock takes another one.
        unsafe { self.state.take(desk::of_thread()) }
    }

    /// Takes a wait back. If it was ended meanwhile, the next one has its turn.
    fn withdraw(&self, own: &Waiter) {
        let mut state = self.state();
        let was_woken = !state.waiters.remove(own);
        let next = if was_woken && !state.is_locked { state.waiters.pop() } else { None };
        drop(state);
        if let Some(next) = next {
            next.wake();
        }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_locked = false;
        let next = state.waiters.pop();
        drop(state);
        if let Some(next) = next {
            next.wake();
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and it is borrowed alone.
        unsafe { &mut *self.0.value.get() }
    }
}

// SAFETY: a guard gives references to the value, which may be shared between threads.
unsafe impl<T: Sync> Sync for MutexGuard<'_, T> {}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Mutex").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MutexGuard").finish_non_exhaustive()
    }
}
