//! A bell: says which of some lanes have something for a server, and wakes it where it sleeps; also between processes.
//!
//! ```text
//!   sender    writes a line ─> ring(lane)     sets the lane's bit; wakes the server only where it sleeps
//!   server    take() ─> serves these lanes    nothing there for a while ─> wait()
//! ```
//!
//! A server that looks at all lanes all the time says so with [`Bell::attend`]: then nobody rings, and a sender writes to no line that others write to.
//!
//! No line is overlooked: a sender that finds its bit set has written before the server takes the bit, and so before it looks into the lane.

use std::io;
use std::time::Duration;

use crate::sync::{AtomicU32, Ordering, fence};

/// The lanes that a bell tells apart. Lanes with higher numbers share a bit.
pub(crate) const LANES: usize = 30;
/// The server looks at all lanes itself.
const ATTENDED: u32 = 1 << LANES;
/// The server sleeps.
const ASLEEP: u32 = 1 << (LANES + 1);
const STATES: u32 = ATTENDED | ASLEEP;

/// See the module. All zero it is silent.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Bell(AtomicU32, #[cfg(loom)] model::Futex);

impl Bell {
    /// A silent one.
    pub(crate) fn new() -> Bell {
        Bell(
            AtomicU32::new(0),
            #[cfg(loom)]
            model::Futex::default(),
        )
    }

    /// Says that a lane has something. What was written to it before is seen by who takes the bit.
    pub(crate) fn ring(&self, lane: usize) {
        let bit = 1 << (lane % LANES);
        fence(Ordering::SeqCst);
        let seen = self.0.load(Ordering::Relaxed);
        if seen & (bit | ATTENDED) == 0 && self.0.fetch_or(bit, Ordering::Relaxed) & ASLEEP != 0 {
            self.wake();
        }
    }

    /// The same, where the server does not look at this lane itself.
    pub(crate) fn insist(&self, lane: usize) {
        if self.0.fetch_or(1 << (lane % LANES), Ordering::AcqRel) & ASLEEP != 0 {
            self.wake();
        }
    }

    /// The same, whatever another process has written to the bell: the server wakes where it sleeps.
    #[cfg_attr(loom, allow(dead_code, reason = "the processes on both sides are not there"))]
    pub(crate) fn urge(&self, lane: usize) {
        self.0.fetch_or(1 << (lane % LANES), Ordering::AcqRel);
        self.wake();
    }

    /// Whether the server sleeps, as far as this thread knows.
    pub(crate) fn is_asleep(&self) -> bool {
        self.0.load(Ordering::Relaxed) & ASLEEP != 0
    }

    /// Whether a lane has something. Looks after all that this thread has done before.
    pub(crate) fn has_rung(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) & !STATES != 0
    }

    /// Says that the server looks at all lanes itself, or does so no longer: then it looks at all of them once more.
    pub(crate) fn attend(&self, does: bool) {
        if does {
            self.0.fetch_or(ATTENDED, Ordering::AcqRel);
        } else {
            self.0.fetch_and(!ATTENDED, Ordering::AcqRel);
        }
        fence(Ordering::SeqCst);
    }

    /// Wakes who sleeps, or is about to: says that something is there that it looks at before it sleeps.
    pub(crate) fn wake_if_asleep(&self) {
        fence(Ordering::SeqCst);
        if self.0.load(Ordering::Relaxed) & ASLEEP != 0 && self.0.fetch_or(1, Ordering::AcqRel) & ASLEEP != 0
        {
            self.wake();
        }
    }

    /// The lanes that have something, as bits; the bell is silent then.
    pub(crate) fn take(&self) -> u32 {
        if self.0.load(Ordering::Relaxed) & !STATES == 0 {
            return 0;
        }
        // Another one may sleep here, and is to be woken by who rings.
        let bits = self.0.fetch_and(STATES, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        bits & !STATES
    }

    /// Sleeps until the bell rings, or so long; not at all where something is there already. One thread alone waits.
    pub(crate) fn wait(&self, at_most: Option<Duration>, mut is_ready: impl FnMut() -> bool) {
        if let Err(seen) = self.0.compare_exchange(0, ASLEEP, Ordering::AcqRel, Ordering::Relaxed) {
            if seen & STATES != 0 {
                // Who waits neither sleeps nor looks at the lanes: another process has written that, and would keep this one from sleeping.
                self.0.fetch_and(!STATES, Ordering::AcqRel);
            }
            return;
        }
        fence(Ordering::SeqCst);
        if is_ready() {
            self.0.fetch_and(!ASLEEP, Ordering::AcqRel);
            return;
        }
        while self.0.load(Ordering::Relaxed) == ASLEEP {
            match self.sleep(at_most) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The word is another one already, somebody has rung, or the time is over.
                _ => break,
            }
        }
        self.0.fetch_and(!ASLEEP, Ordering::AcqRel);
    }

    #[cfg(not(loom))]
    fn sleep(&self, at_most: Option<Duration>) -> io::Result<()> {
        use rustix::thread::futex;
        let limit = at_most.and_then(|limit| limit.try_into().ok());
        Ok(futex::wait(&self.0, futex::Flags::empty(), ASLEEP, limit.as_ref())?)
    }

    #[cfg(not(loom))]
    fn wake(&self) {
        use rustix::thread::futex;
        // There is nobody to be told where it fails: the word is mapped.
        let _ = futex::wake(&self.0, futex::Flags::empty(), 1);
    }

    #[cfg(loom)]
    fn sleep(&self, _: Option<Duration>) -> io::Result<()> {
        self.1.sleep(|| self.0.load(Ordering::Relaxed) == ASLEEP);
        Ok(())
    }

    #[cfg(loom)]
    fn wake(&self) {
        self.1.wake();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_bell_tells_which_lanes_have_rung_once() {
        let bell = Bell::new();
        assert!(!bell.has_rung() && bell.take() == 0);
        [0, 5, 29, 30, 5].into_iter().for_each(|lane| bell.ring(lane));
        assert!(bell.has_rung());
        assert_eq!((bell.take(), bell.take()), (1 | 1 << 5 | 1 << 29, 0), "30 shares the bit of 0");
        bell.ring(3);
        bell.wait(None, || false);
        assert_eq!(bell.take(), 8, "it does not sleep when it has rung");
        bell.wait(Some(Duration::from_millis(1)), || false);
        assert_eq!(bell.take(), 0);
    }

    #[test]
    fn a_word_that_another_process_has_written_keeps_nobody_from_sleeping_or_waking() {
        for wrong in [ASLEEP, ATTENDED, STATES] {
            let bell = Bell::new();
            bell.0.store(wrong, Ordering::Relaxed);
            bell.wait(None, || false);
            assert_eq!(bell.0.load(Ordering::Relaxed), 0, "{wrong:#x}: the next time it sleeps");
        }
        let bell = Arc::new(Bell::new());
        let of_sleeper = Arc::clone(&bell);
        let sleeper = std::thread::spawn(move || of_sleeper.wait(None, || false));
        while !bell.is_asleep() {
            std::thread::yield_now();
        }
        bell.0.store(ATTENDED, Ordering::Relaxed);
        bell.ring(3);
        assert_eq!(bell.take(), 0, "nobody rings for who looks at all lanes");
        while !sleeper.is_finished() {
            bell.urge(3);
        }
        assert_eq!((bell.take(), sleeper.join().is_ok()), (8, true));
    }

    #[test]
    fn who_waits_for_something_that_is_there_does_not_sleep() {
        let bell = Bell::new();
        bell.wait(None, || true);
        bell.wake_if_asleep();
        assert_eq!(bell.take(), 0, "nobody sleeps");
    }

    #[test]
    fn who_sleeps_is_woken_each_time() {
        let times = if cfg!(miri) { 20 } else { 2_000 };
        let bells = Arc::new([Bell::new(), Bell::new()]);
        let of_other = Arc::clone(&bells);
        let other = std::thread::spawn(move || {
            for _ in 0..times {
                while of_other[0].take() == 0 {
                    of_other[0].wait(None, || false);
                }
                of_other[1].ring(7);
            }
        });
        for _ in 0..times {
            bells[0].ring(1);
            while bells[1].take() == 0 {
                bells[1].wait(None, || false);
            }
        }
        other.join().expect("it does not panic");
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::AtomicU64;
    use loom::sync::{Arc, Condvar, Mutex};

    /// What the kernel does: who sleeps does so until it is woken, and not at all where the word is another one.
    #[derive(Debug, Default)]
    pub(super) struct Futex {
        lock: Mutex<()>,
        sleepers: Condvar,
    }

    impl Futex {
        pub(super) fn sleep(&self, is_to_sleep: impl Fn() -> bool) {
            let locked = self.lock.lock().expect("nobody panics there");
            if is_to_sleep() {
                drop(self.sleepers.wait(locked));
            }
        }

        pub(super) fn wake(&self) {
            let _locked = self.lock.lock().expect("nobody panics there");
            self.sleepers.notify_one();
        }
    }

    #[test]
    fn what_was_written_before_a_bell_rang_is_seen_and_nobody_sleeps_on() {
        let mut model = loom::model::Builder::new();
        // All orders take minutes; what three changes of the running thread do not find, four have not found.
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Arc::new((Bell::new(), [AtomicU64::new(0), AtomicU64::new(0)]));
            let senders: Vec<_> = (0..2)
                .map(|lane: usize| {
                    let shared = Arc::clone(&shared);
                    loom::thread::spawn(move || {
                        shared.1[lane].store(1, Ordering::Relaxed);
                        shared.0.ring(lane);
                    })
                })
                .collect();
            let mut found = 0;
            while found < 2 {
                let bits = shared.0.take();
                found += (0..2).filter(|lane| bits >> lane & 1 == 1).count();
                (0..2)
                    .filter(|lane| bits >> lane & 1 == 1)
                    .for_each(|lane| assert_eq!(shared.1[lane].load(Ordering::Relaxed), 1));
                if bits == 0 {
                    shared.0.wait(None, || false);
                }
            }
            senders.into_iter().for_each(|sender| sender.join().expect("it does not panic"));
        });
    }

    #[test]
    fn what_is_written_while_the_bell_still_rings_is_seen_too() {
        loom::model(|| {
            let shared = Arc::new((Bell::new(), AtomicU64::new(0)));
            let of_other = Arc::clone(&shared);
            let other = loom::thread::spawn(move || {
                for number in 1..=2 {
                    of_other.1.store(number, Ordering::Relaxed);
                    of_other.0.ring(0);
                }
            });
            let mut seen = 0;
            if shared.0.take() != 0 {
                seen = shared.1.load(Ordering::Relaxed);
            }
            other.join().expect("it does not panic");
            assert!(seen == 2 || shared.0.take() == 1);
        });
    }

    #[test]
    fn a_server_that_attends_no_longer_has_seen_what_nobody_rang_for() {
        loom::model(|| {
            let shared = Arc::new((Bell::new(), AtomicU64::new(0)));
            shared.0.attend(true);
            let of_other = Arc::clone(&shared);
            let other = loom::thread::spawn(move || {
                of_other.1.store(1, Ordering::Relaxed);
                of_other.0.ring(3);
            });
            shared.0.attend(false);
            let seen = shared.1.load(Ordering::Relaxed) == 1;
            other.join().expect("it does not panic");
            assert!(seen || shared.0.take() == 8);
        });
    }

    #[test]
    fn who_is_about_to_sleep_sees_what_is_there_or_is_woken() {
        loom::model(|| {
            let shared = Arc::new((Bell::new(), AtomicU64::new(0)));
            let of_other = Arc::clone(&shared);
            let other = loom::thread::spawn(move || {
                of_other.1.store(1, Ordering::Release);
                of_other.0.wake_if_asleep();
            });
            let is_there = || shared.1.load(Ordering::Acquire) == 1;
            while !is_there() {
                shared.0.take();
                shared.0.wait(None, is_there);
            }
            other.join().expect("it does not panic");
        });
    }
}
