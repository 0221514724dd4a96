//! Tasks that are cancelled at odd moments.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use regrow_fiber::{JoinError, Receiver, Runtime, channel, select, sleep, spawn, spawn_here, yield_now};

/// A task is woken and cancelled before it runs again. What it looks at then is ready, so that it wakes itself; after its end it is nowhere in the queue.
#[test]
fn a_task_that_is_cancelled_looks_at_what_is_ready() {
    let others = Runtime::with_workers(1).run(|| {
        let (sender, receiver) = channel(1);
        let (to_ready, ready) = channel(1);
        to_ready.send(1).unwrap();
        let task = spawn(move || {
            assert_eq!(receiver.receive(), Ok(2));
            select(&[&ready], None)
        });
        sleep(Duration::from_millis(1));
        // It keeps the worker until both messages are there.
        let tells = std::thread::spawn(move || {
            sender.send(2).unwrap();
            task.cancel();
            task
        });
        let task = tells.join().unwrap();
        assert!(matches!(task.join(), Err(JoinError::Cancelled)));
        let others: Vec<_> = (0..10_u32).map(|number| spawn_here(move || number)).collect();
        yield_now();
        others.into_iter().map(|task| task.join().unwrap()).sum::<u32>()
    });
    assert_eq!(others.unwrap(), 45);
}

/// Waits when it is dropped, and then counts.
struct Slow(Arc<AtomicUsize>);

impl Drop for Slow {
    fn drop(&mut self) {
        sleep(Duration::from_millis(20));
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// What waits in a destructor waits to its end: that it is told to end once more must not end that.
#[test]
fn a_wait_in_a_destructor_is_not_cancelled() {
    for workers in [1, 3] {
        let ended = Arc::new(AtomicUsize::new(0));
        let counted = ended.clone();
        let run = Runtime::with_workers(workers).run(move || {
            let slow = [(); 4].map(|()| Slow(counted.clone()));
            let mut tasks: Vec<_> = slow
                .into_iter()
                .map(|slow| {
                    spawn(move || {
                        let _slow = slow;
                        sleep(Duration::from_secs(3600));
                    })
                })
                .collect();
            sleep(Duration::from_millis(5));
            let task = tasks.swap_remove(0);
            task.cancel();
            sleep(Duration::from_millis(5));
            task.cancel();
            assert!(matches!(task.join(), Err(JoinError::Cancelled)));
            // The others are told by the end of the runtime, time and again.
        });
        run.unwrap();
        assert_eq!(ended.load(Ordering::SeqCst), 4);
    }
}

/// While one task waits in a destructor, others on the same thread are cancelled nonetheless, as soon as it goes on.
#[test]
fn a_task_is_cancelled_beside_one_that_waits_in_a_destructor() {
    Runtime::with_workers(1)
        .run(|| {
            let ended = Arc::new(AtomicUsize::new(0));
            let slow = Slow(ended.clone());
            let first = spawn(move || {
                let _slow = slow;
                sleep(Duration::from_secs(3600));
            });
            let second = spawn(|| sleep(Duration::from_secs(3600)));
            sleep(Duration::from_millis(5));
            first.cancel();
            sleep(Duration::from_millis(5));
            second.cancel();
            assert!(matches!(second.join(), Err(JoinError::Cancelled)));
            assert!(matches!(first.join(), Err(JoinError::Cancelled)));
            assert_eq!(ended.load(Ordering::SeqCst), 1);
        })
        .unwrap();
}

/// Waits for a value when it is dropped, and then says so.
struct Stuck(Receiver<u8>, Arc<AtomicBool>);

impl Drop for Stuck {
    fn drop(&mut self) {
        let _ = self.0.receive();
        self.1.store(true, Ordering::SeqCst);
    }
}

/// A later worker, on another thread, hears what was meant for a task that was left, and does not run it.
#[test]
fn a_task_that_never_ends_is_left_and_nobody_wakes_it() {
    let (sender, receiver) = channel(1);
    let has_gone_on = Arc::new(AtomicBool::new(false));
    let stuck = Stuck(receiver, has_gone_on.clone());
    let first = std::thread::spawn(|| {
        Runtime::with_workers(1).run(move || {
            spawn(move || {
                let _stuck = stuck;
                sleep(Duration::from_secs(3600));
            });
            sleep(Duration::from_millis(5));
        })
    });
    first.join().unwrap().unwrap();
    Runtime::with_workers(1)
        .run(move || {
            let sends = std::thread::spawn(move || {
                sender.send(1).unwrap();
                sender
            });
            sleep(Duration::from_millis(20));
            sends.join().unwrap()
        })
        .unwrap();
    assert!(!has_gone_on.load(Ordering::SeqCst));
}
