//! The lock of tasks, between threads.

use loom::sync::Arc;
use loom::thread;
use regrow_sync::Place;

use super::check;
use crate::mutex::Mutex;

#[test]
fn a_lock_is_had_by_one_at_a_time_and_nobody_waits_on() {
    check(3, [3], || {
        let shared = Arc::new((Mutex::new(0), Place::new()));
        let add = |shared: &(Mutex<i32>, Place)| {
            let mut value = shared.0.lock();
            shared.1.write();
            *value += 1;
            thread::yield_now();
            shared.1.write();
        };
        let others = [(); 2].map(|()| {
            let shared = shared.clone();
            thread::spawn(move || add(&shared))
        });
        add(&shared);
        others.into_iter().for_each(|other| other.join().expect("it does not panic"));
        *shared.0.lock()
    });
}

#[test]
fn who_tries_a_lock_has_it_or_not() {
    check(3, [1, 2], || {
        let lock = Arc::new(Mutex::new(0));
        let of_other = lock.clone();
        let other = thread::spawn(move || *of_other.lock() += 1);
        if let Some(mut value) = lock.try_lock() {
            *value += 1;
        }
        other.join().expect("it does not panic");
        *lock.lock()
    });
}
