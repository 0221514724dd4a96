//! A lock that one thread takes by a store and a load, until a second thread wants it: from then on all take it alike.
//!
//! ```text
//!   owner    its desk = this lock,  is it the owner still?  ── yes ──> has it        (a store and a load)
//!   second   owner -> shared, barrier in all threads, wait until it is not at the owner's desk   (a system call, once)
//!   shared   claim 0 -> 1                                                            (a locked instruction, for all alike)
//! ```
//!
//! It is the [biased lock](crate::biased) of those who never give a lock back to its owner: one look is enough, and what the owner writes stands in a
//! line of its own, the *desk*, whatever lock it takes. The owner's store may still be in its processor's buffer when it looks who the owner is; the
//! barrier (`membarrier`) drains it, so that the second thread sees the store, or the owner sees that it is none any more.

#![allow(unsafe_code, reason = "what a lock keeps is reached through it")]

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::ptr;

use crate::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, barrier};

/// Where a thread says which lock it is in: its address, or 0. It is there for ever, so that others can look at it. A line of the cache is one desk's.
#[derive(Debug)]
#[repr(align(64))]
pub struct Desk(AtomicUsize);

impl Desk {
    /// A desk of a thread that is in no lock.
    #[must_use]
    pub fn new() -> Desk {
        Desk(AtomicUsize::new(0))
    }
}

impl Default for Desk {
    fn default() -> Desk {
        Desk::new()
    }
}

/// All take it by claim. It stays so.
const SHARED: *mut Desk = ptr::without_provenance_mut(1);

/// See the module. A line of the cache, and the one that is fetched with it, are one lock's.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Owned<T> {
    /// The owner's desk; null: nobody has used it as yet.
    owner: AtomicPtr<Desk>,
    claim: AtomicU32,
    value: UnsafeCell<T>,
    #[cfg(loom)]
    place: crate::Place,
    /// One that is shared from the start is loom's own lock in a model check, so that models of what stands behind it try its orders alone.
    #[cfg(loom)]
    gate: Option<loom::sync::Mutex<()>>,
}

// SAFETY: the value is reached through a `OwnedGuard` alone, of which there is one at a time.
unsafe impl<T: Send> Sync for Owned<T> {}

/// Nobody else has the lock as long as this is there.
#[derive(Debug)]
pub struct OwnedGuard<'a, T> {
    lock: &'a Owned<T>,
    /// The owner's desk; `None`: it is claimed.
    desk: Option<&'static Desk>,
    #[cfg(loom)]
    gate: Option<loom::sync::MutexGuard<'a, ()>>,
}

impl<T> Owned<T> {
    /// A lock that nobody owns. `is_shared`: and that nobody will.
    pub fn new(value: T, is_shared: bool) -> Owned<T> {
        Owned {
            owner: AtomicPtr::new(if is_shared { SHARED } else { ptr::null_mut() }),
            claim: AtomicU32::new(0),
            value: UnsafeCell::new(value),
            #[cfg(loom)]
            place: crate::Place::new(),
            #[cfg(loom)]
            gate: is_shared.then(|| loom::sync::Mutex::new(())),
        }
    }

    /// For its owner: has it.
    ///
    /// # Safety
    /// The desk is the calling thread's alone, which has no turn at it.
    #[inline(always)]
    pub unsafe fn try_own(&self, desk: &'static Desk) -> Option<OwnedGuard<'_, T>> {
        #[cfg(loom)]
        if self.gate.is_some() {
            return None;
        }
        // Who finds another lock there sees what was done with this one before.
        desk.0.store(self.address(), Ordering::Release);
        barrier::light();
        if ptr::eq(self.owner.load(Ordering::Relaxed), desk) {
            return Some(OwnedGuard::new(self, Some(desk)));
        }
        desk.0.store(0, Ordering::Release);
        None
    }

    /// Has it, and waits where somebody else has it. The first one with a desk owns it from then on; the second thread makes it a shared one.
    ///
    /// # Safety
    /// As for [`Owned::try_own`].
    #[inline(always)]
    pub unsafe fn take(&self, desk: Option<&'static Desk>) -> OwnedGuard<'_, T> {
        // SAFETY: the caller's promise.
        let own = desk.and_then(|desk| unsafe { self.try_own(desk) });
        // SAFETY: the caller's promise; a turn was not had.
        own.unwrap_or_else(|| unsafe { self.take_slowly(desk) })
    }

    /// The same for who is not its owner.
    ///
    /// # Safety
    /// As for [`Owned::try_own`].
    #[cold]
    #[inline(never)]
    unsafe fn take_slowly(&self, desk: Option<&'static Desk>) -> OwnedGuard<'_, T> {
        #[cfg(loom)]
        if let Some(gate) = &self.gate {
            let gate = gate.lock().expect("nobody panics there");
            let mut turn = OwnedGuard::new(self, None);
            turn.gate = Some(gate);
            return turn;
        }
        let first = desk.map_or(SHARED, |desk| ptr::from_ref(desk).cast_mut());
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        if self.owner.load(Ordering::Relaxed).is_null()
            && self.owner.compare_exchange(ptr::null_mut(), first, success, failure).is_ok()
            && let Some(desk) = desk
            // SAFETY: the caller's promise.
            && let Some(turn) = unsafe { self.try_own(desk) }
        {
            return turn;
        }
        while self.claim.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            barrier::give_way();
        }
        self.share();
        OwnedGuard::new(self, None)
    }

    /// Has all take it by claim from then on, and waits until its owner is not in it. For who has claimed it.
    fn share(&self) {
        let owner = self.owner.load(Ordering::Acquire);
        if owner == SHARED {
            return;
        }
        self.owner.store(SHARED, Ordering::Relaxed);
        barrier::heavy();
        // SAFETY: somebody owned it, and desks are there for ever.
        let owner = unsafe { &*owner };
        while owner.0.load(Ordering::Acquire) == self.address() {
            barrier::give_way();
        }
    }

    fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }
}

impl<'a, T> OwnedGuard<'a, T> {
    #[inline(always)]
    fn new(lock: &'a Owned<T>, desk: Option<&'static Desk>) -> OwnedGuard<'a, T> {
        #[cfg(loom)]
        lock.place.write();
        OwnedGuard {
            lock,
            desk,
            #[cfg(loom)]
            gate: None,
        }
    }
}

impl<T> Deref for OwnedGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: nobody else has the lock: see the module.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for OwnedGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and this turn is borrowed alone.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for OwnedGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        #[cfg(loom)]
        self.lock.place.write();
        #[cfg(loom)]
        if self.gate.is_some() {
            return;
        }
        match self.desk {
            Some(desk) => desk.0.store(0, Ordering::Release),
            None => self.lock.claim.store(0, Ordering::Release),
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;

    fn desk() -> &'static Desk {
        Box::leak(Box::new(Desk::new()))
    }

    /// Adds one to both halves, which others must never see in the middle.
    fn add(mut turn: OwnedGuard<'_, (u32, u32)>) {
        let (first, second) = *turn;
        assert_eq!(first, second);
        turn.0 = first + 1;
        loom::thread::yield_now();
        turn.1 = second + 1;
    }

    fn check(changes: usize, model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(changes);
        builder.check(model);
    }

    #[test]
    fn an_owner_and_another_thread_have_a_lock_one_at_a_time() {
        check(3, || {
            let lock = loom::sync::Arc::new(Owned::new((0, 0), false));
            let own = desk();
            // SAFETY: the desk is this thread's, and then that of the one that it is handed to.
            add(unsafe { lock.take(Some(own)) });
            let owners = loom::sync::Arc::clone(&lock);
            let owner = loom::thread::spawn(move || {
                for _ in 0..2 {
                    // SAFETY: as above.
                    add(unsafe { owners.take(Some(own)) });
                }
            });
            // SAFETY: there is no desk.
            add(unsafe { lock.take(None) });
            owner.join().expect("it ends");
            // SAFETY: as above.
            assert_eq!(*unsafe { lock.take(None) }, (4, 4));
        });
    }

    /// Nobody owns it when they come.
    #[test]
    fn whoever_comes_first_with_a_desk_or_without_one_locks_are_had_one_at_a_time() {
        for has_desk in [true, false] {
            check(3, move || {
                let lock = loom::sync::Arc::new(Owned::new((0, 0), false));
                let of_other = loom::sync::Arc::clone(&lock);
                let other = loom::thread::spawn(move || {
                    let own = has_desk.then(desk);
                    // SAFETY: the desk is this thread's, which has one turn.
                    add(unsafe { of_other.take(own) });
                });
                // SAFETY: as above.
                add(unsafe { lock.take(Some(desk())) });
                other.join().expect("it ends");
                // SAFETY: there is no desk.
                assert_eq!(*unsafe { lock.take(None) }, (2, 2));
            });
        }
    }

    /// The owner is in another one of its locks when a second thread comes, which sees what was done with this one nonetheless.
    #[test]
    fn an_owner_goes_from_lock_to_lock() {
        check(3, || {
            let locks = loom::sync::Arc::new([(); 2].map(|()| Owned::new((0, 0), false)));
            let own = desk();
            let owners = loom::sync::Arc::clone(&locks);
            // SAFETY: the desk is this thread's, and then that of the one that it is handed to.
            locks.iter().for_each(|lock| drop(unsafe { lock.take(Some(own)) }));
            let owner = loom::thread::spawn(move || {
                // SAFETY: as above.
                owners.iter().for_each(|lock| add(unsafe { lock.take(Some(own)) }));
            });
            // SAFETY: there is no desk.
            add(unsafe { locks[0].take(None) });
            owner.join().expect("it ends");
            // SAFETY: as above.
            assert_eq!(*unsafe { locks[0].take(None) }, (2, 2));
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const TURNS: u64 = if cfg!(miri) { 10 } else { 5_000 };
    const ROUNDS: u32 = if cfg!(miri) { 4 } else { 200 };

    fn desk() -> &'static Desk {
        /// Miri takes what nobody knows of for lost.
        static ALL: std::sync::Mutex<Vec<&'static Desk>> = std::sync::Mutex::new(Vec::new());
        let desk = Box::leak(Box::new(Desk::new()));
        ALL.lock().expect("nobody panics there").push(desk);
        desk
    }

    #[test]
    fn who_comes_first_owns_it_until_a_second_one_wants_it() {
        let lock = Owned::new(5, false);
        let (first, second) = (desk(), desk());
        // SAFETY: this thread has each desk at one lock at a time.
        unsafe {
            assert!(lock.try_own(first).is_none(), "nobody owns it as yet");
            *lock.take(Some(first)) += 1;
            assert!(lock.try_own(first).is_some() && lock.try_own(second).is_none());
            assert_eq!(*lock.take(Some(second)), 6);
            assert!(lock.try_own(first).is_none() && lock.try_own(second).is_none(), "it is shared");
            assert_eq!(*lock.take(Some(first)), 6);
            assert_eq!(*lock.take(None), 6);
            let lock = Owned::new(7, true);
            assert!(*lock.take(Some(first)) == 7 && lock.try_own(first).is_none());
        }
    }

    /// With real threads and the kernel's barrier: each addition is there, whoever made it, and at whatever moment the second thread came.
    #[test]
    fn nothing_is_lost_when_a_second_thread_comes() {
        for round in 0..ROUNDS {
            let lock = Owned::new(0_u64, false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let own = desk();
                    for _ in 0..TURNS {
                        // SAFETY: the desk is this thread's, which has one turn at a time.
                        *unsafe { lock.take(Some(own)) } += 1;
                    }
                });
                (0..round * 20).for_each(|_| std::hint::spin_loop());
                for has_desk in [true, false] {
                    let lock = &lock;
                    scope.spawn(move || {
                        let own = has_desk.then(desk);
                        for _ in 0..TURNS / 10 {
                            // SAFETY: as above.
                            *unsafe { lock.take(own) } += 1;
                        }
                    });
                }
            });
            // SAFETY: there is no desk.
            assert_eq!(*unsafe { lock.take(None) }, TURNS + TURNS / 10 * 2);
        }
    }
}
