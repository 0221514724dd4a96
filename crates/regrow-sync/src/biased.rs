//! A lock that one thread takes without a locked instruction: a *biased* lock.
//!
//! ```text
//!   owner    held = 1,  is claim 0?  ── yes ──> has it                    (a store and a load)
//!   others   claim = 1, barrier in all threads, wait until held is 0      (a system call)
//!   shared   claim 0 -> 1                                                 (a locked instruction, for all alike)
//! ```
//!
//! The owner's store may still be in its processor's buffer when it looks at the claim. The others have the kernel drain the buffers of all
//! threads of the process (`membarrier`, Linux 4.14): after that they see the store, or the owner sees the claim. Where the kernel does not,
//! all locks are shared. After "Asymmetric Dekker synchronization" (Dice, Huang and Yang, 2001), and the biased locks of Java.
//!
//! A thread is known by its thread pointer. One that begins may have that of one that has ended, and with it its locks.

#![allow(unsafe_code, reason = "what a lock keeps is reached through it")]

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

use crate::{AtomicU32, AtomicUsize, Ordering, barrier};

/// Nobody owns it as yet.
const NOBODY: usize = 0;
/// All take it by claim. It stays so.
const SHARED: usize = 1;

/// See the module. A line of the cache, and the one that is fetched with it, are one lock's.
#[derive(Debug)]
#[repr(align(128))]
pub struct Biased<T> {
    owner: AtomicUsize,
    held: AtomicU32,
    claim: AtomicU32,
    value: UnsafeCell<T>,
    #[cfg(loom)]
    place: crate::Place,
}

// SAFETY: the value is reached through a `Turn` alone, of which there is one at a time.
unsafe impl<T: Send> Sync for Biased<T> {}

/// Nobody else has the lock as long as this is there.
#[derive(Debug)]
pub struct Turn<'a, T> {
    lock: &'a Biased<T>,
    /// The word that is 0 as soon as it is let go.
    word: &'a AtomicU32,
}

/// A lock that is claimed, and that its owner may still have.
#[derive(Debug)]
pub struct Claim<'a, T>(&'a Biased<T>);

impl<T> Biased<T> {
    /// A lock that nobody owns. `is_shared`: and that nobody will.
    pub fn new(value: T, is_shared: bool) -> Biased<T> {
        let owner = AtomicUsize::new(if is_shared { SHARED } else { NOBODY });
        Biased {
            owner,
            held: AtomicU32::new(0),
            claim: AtomicU32::new(0),
            value: UnsafeCell::new(value),
            #[cfg(loom)]
            place: crate::Place::new(),
        }
    }

    /// For its owner: has it, unless somebody has claimed it, or this thread has it already and was interrupted.
    #[inline]
    pub fn try_own(&self, thread: usize) -> Option<Turn<'_, T>> {
        if self.owner.load(Ordering::Relaxed) != thread || self.held.load(Ordering::Relaxed) != 0 {
            return None;
        }
        self.held.store(1, Ordering::Relaxed);
        barrier::light();
        // Who has claimed it may have let it go again, and shared it meanwhile.
        if self.claim.load(Ordering::Acquire) == 0 && self.owner.load(Ordering::Relaxed) == thread {
            return Some(Turn::new(self, &self.held));
        }
        self.held.store(0, Ordering::Release);
        None
    }

    /// Becomes its owner, if nobody is.
    pub fn adopt(&self, thread: usize) -> bool {
        self.owner.compare_exchange(NOBODY, thread, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Whether a thread owns it.
    pub fn is_of(&self, thread: usize) -> bool {
        self.owner.load(Ordering::Relaxed) == thread
    }

    /// Has a lock that is shared, unless somebody else has it.
    pub fn try_shared(&self) -> Option<Turn<'_, T>> {
        let claim = self.try_claim().filter(|_| self.is_of(SHARED))?;
        Some(claim.turn())
    }

    /// Claims it, unless somebody else has. Its owner may still have it.
    pub fn try_claim(&self) -> Option<Claim<'_, T>> {
        // A claim that is dropped is let go: there must be none where somebody else has it.
        self.claim.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).ok().map(|_| Claim(self))
    }
}

impl<'a, T> Claim<'a, T> {
    /// Has the lock, unless its owner has it still. To be called after [`barrier::heavy`].
    pub fn take(self) -> Result<Turn<'a, T>, Claim<'a, T>> {
        if self.0.held.load(Ordering::Acquire) == 0 { Ok(self.turn()) } else { Err(self) }
    }

    fn turn(self) -> Turn<'a, T> {
        let lock = self.0;
        std::mem::forget(self);
        Turn::new(lock, &lock.claim)
    }
}

impl<T> Drop for Claim<'_, T> {
    fn drop(&mut self) {
        self.0.claim.store(0, Ordering::Release);
    }
}

impl<'a, T> Turn<'a, T> {
    #[inline]
    fn new(lock: &'a Biased<T>, word: &'a AtomicU32) -> Turn<'a, T> {
        #[cfg(loom)]
        lock.place.write();
        Turn { lock, word }
    }

    /// Has all take it by claim from then on. For who has claimed it.
    pub fn share(&self) {
        self.lock.owner.store(SHARED, Ordering::Relaxed);
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: nobody else has the lock: see the module.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Turn<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and this turn is borrowed alone.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Turn<'_, T> {
    #[inline]
    fn drop(&mut self) {
        #[cfg(loom)]
        self.lock.place.write();
        self.word.store(0, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;

    /// Adds one to both halves, which others must never see in the middle.
    fn add(turn: &mut Turn<'_, (u32, u32)>) {
        let (first, second) = **turn;
        assert_eq!(first, second);
        turn.0 = first + 1;
        loom::thread::yield_now();
        turn.1 = second + 1;
    }

    #[test]
    fn an_owner_and_those_who_claim_its_lock_have_it_one_at_a_time() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let lock = loom::sync::Arc::new(Biased::new((0, 0), false));
            assert!(lock.adopt(77) && !lock.adopt(78));
            let owner = loom::sync::Arc::clone(&lock);
            let owner = loom::thread::spawn(move || {
                let turns = (0..2).map(|_| owner.try_own(77).map(|mut turn| add(&mut turn)));
                u32::try_from(turns.flatten().count()).expect("at most two")
            });
            let mut claimed = 0;
            for _ in 0..2 {
                let Some(claim) = lock.try_claim() else { continue };
                barrier::heavy();
                if let Ok(mut turn) = claim.take() {
                    add(&mut turn);
                    turn.share();
                    claimed += 1;
                }
            }
            let owned = owner.join().expect("it ends");
            let claim = lock.try_claim().expect("nobody has it");
            let turn = claim.take().expect("nobody has it");
            assert_eq!(*turn, (owned + claimed, owned + claimed));
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64};

    const TURNS: u64 = if cfg!(miri) { 20 } else { 5_000 };

    #[test]
    fn one_that_is_had_is_had_once_and_one_that_is_shared_has_no_owner() {
        let lock = Biased::new(5, false);
        assert!(lock.try_own(9).is_none() && lock.adopt(9) && !lock.adopt(10));
        let turn = lock.try_own(9).expect("it is its owner's");
        assert!(lock.try_own(9).is_none() && lock.try_shared().is_none());
        let claim = lock.try_claim().expect("nobody has claimed it");
        assert!(lock.try_claim().is_none());
        let claim = claim.take().expect_err("its owner has it");
        drop(turn);
        assert!(lock.try_own(9).is_none(), "it is claimed");
        let turn = claim.take().expect("its owner has let it go");
        turn.share();
        drop(turn);
        assert!(lock.try_own(9).is_none() && lock.try_shared().is_some_and(|turn| *turn == 5));
    }

    /// With real threads and the kernel's barrier: each addition is there, whoever made it.
    #[test]
    fn an_owner_that_works_all_the_time_loses_nothing_to_those_who_claim() {
        assert!(barrier::prepare(), "the kernel has barriers");
        let (lock, stop) = (Biased::new(0u64, false), AtomicBool::new(false));
        let owned = AtomicU64::new(0);
        assert!(lock.adopt(9));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    if let Some(mut turn) = lock.try_own(9) {
                        *turn += 1;
                        owned.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            let (mut claimed, mut seen) = (0, 0);
            while claimed < TURNS {
                // The owner has a turn between two claims.
                if owned.load(Ordering::Relaxed) == seen {
                    std::thread::yield_now();
                    continue;
                }
                let Some(claim) = lock.try_claim() else { continue };
                barrier::heavy();
                if let Ok(mut turn) = claim.take() {
                    *turn += 1;
                    claimed += 1;
                    seen = owned.load(Ordering::Relaxed);
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        let claim = lock.try_claim().expect("nobody has it");
        assert_eq!(*claim.take().expect("nobody has it"), owned.into_inner() + TURNS);
    }
}
