//! Waits of threads and of futures.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use loom::sync::Arc;
use loom::thread;
use regrow_sync::{AtomicBool, Mutex, Ordering, Place};

use super::{ALL, check};
use crate::future::block_on;
use crate::task::Woken;
use crate::wait::{Wait, foreign_number};

#[test]
fn a_thread_that_waits_is_woken_and_sees_what_was_done_before() {
    check(ALL, [()], || {
        let place = Arc::new(Place::new());
        let wait = Wait::begin();
        let (waiter, of_other) = (wait.waiter(), place.clone());
        let other = thread::spawn(move || {
            of_other.write();
            waiter.wake();
        });
        assert_eq!(wait.end(None), Woken::Happened);
        place.write();
        other.join().expect("it does not panic");
    });
}

#[test]
fn a_thread_waits_until_it_is_woken_or_its_time_is_over() {
    check(ALL, ["happened", "timed out"], || {
        let wait = Wait::begin();
        let waiter = wait.waiter();
        let other = thread::spawn(move || waiter.wake());
        let woken = wait.end(Some(Instant::now()));
        // A later wait is not ended by what comes late for this one.
        let later = Wait::begin();
        other.join().expect("it does not panic");
        assert_eq!(later.end(Some(Instant::now())), Woken::TimedOut);
        if woken == Woken::Happened { "happened" } else { "timed out" }
    });
}

#[test]
fn no_two_waits_have_the_same_number() {
    check(ALL, [()], || {
        let other = thread::spawn(|| [foreign_number(), foreign_number()]);
        let own = [foreign_number(), foreign_number()];
        let other = other.join().expect("it does not panic");
        let all = std::collections::BTreeSet::from_iter(own.into_iter().chain(other));
        assert_eq!(all.len(), 4);
    });
}

/// Ready as soon as somebody says so.
struct Signal {
    is_set: AtomicBool,
    place: Place,
    waker: Mutex<Option<Waker>>,
}

impl Signal {
    fn set(&self) {
        self.place.write();
        self.is_set.store(true, Ordering::Release);
        let waker = self.waker.lock().expect("nobody panics there").take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Future for &Signal {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        *self.waker.lock().expect("nobody panics there") = Some(context.waker().clone());
        if !self.is_set.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        self.place.write();
        Poll::Ready(())
    }
}

#[test]
fn who_waits_for_a_future_is_woken_when_it_can_go_on() {
    check(3, [()], || {
        let signal =
            Arc::new(Signal { is_set: AtomicBool::new(false), place: Place::new(), waker: Mutex::new(None) });
        let of_other = signal.clone();
        let other = thread::spawn(move || of_other.set());
        block_on(&*signal);
        other.join().expect("it does not panic");
    });
}

/// A thread that it begins at the first poll wakes it.
struct Second {
    place: Arc<Place>,
    was_polled: bool,
}

impl Future for Second {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.was_polled {
            self.place.write();
            return Poll::Ready(());
        }
        self.was_polled = true;
        let (place, waker) = (self.place.clone(), context.waker().clone());
        thread::spawn(move || {
            place.write();
            waker.wake();
        });
        Poll::Pending
    }
}

#[test]
fn what_was_done_before_a_future_was_woken_is_seen_by_its_next_poll() {
    check(ALL, [()], || block_on(Second { place: Arc::new(Place::new()), was_polled: false }));
}
