//! Tasks of a runtime: started, joined, cancelled, waiting for one another, on one worker and on several.

use std::cell::{Cell, RefCell};
use std::panic::catch_unwind;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use regrow_fiber::{
    Builder, JoinError, Mutex, ReceiveError, Runtime, SendError, StackError, TrySendError, block_on, channel,
    scope, select, sleep, spawn, spawn_here, yield_now,
};

/// On one worker, and on three.
fn run<T: 'static>(root: impl Fn() -> T + Clone + 'static) -> [T; 2] {
    [1, 3].map(|workers| Runtime::with_workers(workers).run(root.clone()).expect("it runs"))
}

#[test]
fn tasks_have_results() {
    let results = run(|| {
        let handles: Vec<_> = (0..1000_u64).map(|number| spawn(move || number * 2)).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).sum::<u64>()
    });
    assert_eq!(results, [999_000; 2]);
}

#[test]
fn tasks_that_stay_share_what_threads_must_not() {
    run(|| {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let handles = [1, 2, 3].map(|number| {
            let seen = seen.clone();
            spawn_here(move || {
                for round in 0..3 {
                    seen.borrow_mut().push(round * 10 + number);
                    yield_now();
                }
            })
        });
        handles.into_iter().for_each(|handle| handle.join().unwrap());
        let seen = seen.take();
        assert_eq!(seen, [1, 2, 3, 11, 12, 13, 21, 22, 23]);
    });
}

#[test]
fn a_panic_is_the_result_of_its_task_alone() {
    run(|| {
        let panics = spawn(|| std::panic::resume_unwind(Box::new("thrown")));
        let lives = spawn(|| 5);
        assert!(matches!(panics.join(), Err(JoinError::Panicked(payload)) if payload.is::<&str>()));
        assert_eq!(lives.join().unwrap(), 5);
    });
    let root = catch_unwind(|| Runtime::with_workers(2).run(|| std::panic::resume_unwind(Box::new(7_u8))));
    let caught = root.map(|result: Result<(), _>| result.is_ok()).unwrap_err();
    assert_eq!(caught.downcast_ref(), Some(&7_u8));
}

#[test]
fn values_come_in_order_and_every_one_of_them() {
    for capacity in [1, 2, 100] {
        let received = run(move || {
            let (sender, receiver) = channel(capacity);
            let senders: Vec<_> = (0..4_u32)
                .map(|from| {
                    let sender = sender.clone();
                    spawn(move || (0..1000_u32).for_each(|number| sender.send((from, number)).unwrap()))
                })
                .collect();
            drop(sender);
            let receivers: Vec<_> = (0..3)
                .map(|_| {
                    let receiver = receiver.clone();
                    spawn(move || receiver.iter().collect::<Vec<_>>())
                })
                .collect();
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            receivers.into_iter().map(|receiver| receiver.join().unwrap()).collect::<Vec<_>>()
        });
        for received in received {
            for of_one in &received {
                for from in 0..4 {
                    let numbers: Vec<u32> =
                        of_one.iter().filter(|value| value.0 == from).map(|value| value.1).collect();
                    assert!(numbers.is_sorted());
                }
            }
            let mut all: Vec<(u32, u32)> = received.into_iter().flatten().collect();
            all.sort_unstable();
            let expected: Vec<(u32, u32)> =
                (0..4).flat_map(|from| (0..1000).map(move |number| (from, number))).collect();
            assert!(all == expected);
        }
    }
}

#[test]
fn a_channel_between_threads_and_tasks() {
    let (to_tasks, from_thread) = channel(2);
    let (to_thread, from_tasks) = channel(2);
    let thread = std::thread::spawn(move || {
        (0..500_u32).for_each(|number| to_tasks.send(number).unwrap());
        drop(to_tasks);
        from_tasks.iter().sum::<u32>()
    });
    Runtime::with_workers(2)
        .run(move || {
            let workers: Vec<_> = (0..4)
                .map(|_| {
                    let (from, to) = (from_thread.clone(), to_thread.clone());
                    spawn(move || {
                        // More than both channels have room for is on its way at no time.
                        let own: Vec<u32> = from.iter().collect();
                        own.into_iter().for_each(|number| to.send(number * 2).unwrap());
                    })
                })
                .collect();
            drop((from_thread, to_thread));
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        })
        .unwrap();
    assert_eq!(thread.join().unwrap(), 499 * 500);
}

#[test]
fn a_closed_channel_says_so() {
    run(|| {
        let (sender, receiver) = channel(1);
        assert_eq!(receiver.try_receive(), Err(ReceiveError::Empty));
        sender.send(1).unwrap();
        assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
        drop(receiver.clone());
        let waits = spawn({
            let sender = sender.clone();
            move || sender.send(3)
        });
        yield_now();
        drop(receiver);
        assert_eq!(waits.join().unwrap(), Err(SendError(3)));
        assert_eq!(sender.try_send(4), Err(TrySendError::Closed(4)));
        let (sender, receiver) = channel::<u8>(1);
        let waits = spawn(move || receiver.receive());
        yield_now();
        drop(sender);
        assert_eq!(waits.join().unwrap(), Err(ReceiveError::Closed));
    });
}

#[test]
fn times_are_waited_for_in_their_order() {
    run(|| {
        let begun = Instant::now();
        let order = Arc::new(Mutex::new(Vec::new()));
        let tasks = [30, 10, 20].map(|time| {
            let order = order.clone();
            spawn(move || {
                sleep(Duration::from_millis(time));
                order.lock().push(time);
            })
        });
        let (_sender, receiver) = channel::<u8>(1);
        assert_eq!(receiver.receive_within(Duration::from_millis(5)), Err(ReceiveError::Empty));
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert!(begun.elapsed() >= Duration::from_millis(30));
        assert_eq!(order.lock().len(), 3);
        let slow = spawn(|| sleep(Duration::from_secs(3600)));
        let slow = slow.join_within(Duration::from_millis(1)).expect_err("it sleeps");
        slow.cancel();
        assert!(matches!(slow.join(), Err(JoinError::Cancelled)));
    });
}

/// Adds one when it is dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Drops what it has where it is cancelled, in every kind of wait.
#[test]
fn a_task_is_cancelled_in_every_wait() {
    run(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        let (sender, receiver) = channel::<u8>(1);
        let (full, kept) = channel::<u8>(1);
        full.send(1).unwrap();
        let lock = Arc::new(Mutex::new(0));
        let locked = lock.clone();
        let guard = locked.lock();
        let never = spawn(|| sleep(Duration::from_secs(3600)));
        let waits: Vec<Box<dyn FnOnce() + Send>> = vec![
            Box::new(|| sleep(Duration::from_secs(3600))),
            Box::new({
                let receiver = receiver.clone();
                move || {
                    let _ = receiver.receive();
                }
            }),
            Box::new({
                let full = full.clone();
                move || {
                    let _ = full.send(2);
                }
            }),
            Box::new({
                let lock = lock.clone();
                move || *lock.lock() += 1
            }),
            Box::new(move || drop(never.join())),
            Box::new(|| block_on(std::future::pending())),
            Box::new({
                let receiver = receiver.clone();
                move || {
                    let _ = select(&[&receiver], None);
                }
            }),
            Box::new(|| {
                loop {
                    yield_now();
                }
            }),
        ];
        let count = waits.len();
        let tasks: Vec<_> = waits
            .into_iter()
            .map(|wait| {
                let dropped = Dropped(drops.clone());
                spawn(move || {
                    let _dropped = dropped;
                    wait();
                })
            })
            .collect();
        sleep(Duration::from_millis(20));
        assert_eq!(drops.load(Ordering::SeqCst), 0);
        tasks.iter().for_each(regrow_fiber::JoinHandle::cancel);
        for task in tasks {
            assert!(matches!(task.join(), Err(JoinError::Cancelled)));
        }
        assert_eq!(drops.load(Ordering::SeqCst), count);
        // Nothing of theirs is left in a queue.
        drop(guard);
        assert_eq!(*lock.lock(), 0);
        sender.send(9).unwrap();
        assert_eq!(receiver.receive(), Ok(9));
        assert_eq!(kept.receive(), Ok(1));
        full.send(3).unwrap();
        assert_eq!(kept.receive(), Ok(3));
    });
}

/// A value is put into the hand of a task that waits; one that stops waiting at the same time loses none.
#[test]
fn a_task_that_stops_waiting_loses_no_value() {
    let received = run(|| {
        let (sender, receiver) = channel::<u32>(4);
        let total = Arc::new(AtomicUsize::new(0));
        let count = 3_000;
        let sends = spawn(move || {
            for number in 0..count {
                sender.send(number).unwrap();
                if number % 7 == 0 {
                    sleep(Duration::from_micros(u64::from(number % 50)));
                }
            }
        });
        let waits = |receiver: regrow_fiber::Receiver<u32>, total: Arc<AtomicUsize>| {
            move || {
                loop {
                    match receiver.receive_within(Duration::from_micros(30)) {
                        Ok(_) => total.fetch_add(1, Ordering::SeqCst),
                        Err(ReceiveError::Empty) => 0,
                        Err(ReceiveError::Closed) => break,
                    };
                }
            }
        };
        let patient: Vec<_> = (0..3).map(|_| spawn(waits(receiver.clone(), total.clone()))).collect();
        // Others are cancelled while they wait: what they were given goes to the next one.
        while !sends.has_ended() {
            let own = receiver.clone();
            let counted = total.clone();
            let short = spawn(move || {
                while own.receive().is_ok() {
                    counted.fetch_add(1, Ordering::SeqCst);
                }
            });
            sleep(Duration::from_micros(40));
            short.cancel();
            let _ = short.join();
        }
        drop(receiver);
        patient.into_iter().for_each(|task| task.join().unwrap());
        total.load(Ordering::SeqCst)
    });
    assert_eq!(received, [3_000; 2]);
}

/// Values of all sizes go into hands; each is dropped once, also those that nobody takes.
#[test]
fn values_of_every_size_are_given_once() {
    fn pass<T: Send + Clone + PartialEq + std::fmt::Debug + 'static>(value: &T) {
        let (there, from_here) = channel::<T>(1);
        let (back, from_there) = channel::<T>(1);
        let echo =
            spawn_here(move || from_here.iter().take_while(|value| back.send(value.clone()).is_ok()).count());
        for _ in 0..600 {
            there.send(value.clone()).unwrap();
            assert_eq!(from_there.receive().as_ref(), Ok(value));
        }
        drop(there);
        assert_eq!(echo.join().unwrap(), 600);
    }
    run(|| {
        pass(&());
        pass(&true);
        pass(&(1_u8, 2_u16));
        pass(&[3_u8; 7]);
        pass(&1.5_f64);
        pass(&Box::new(4));
        pass(&Some('c'));
        pass(&String::from("longer than a word"));
        pass(&[5_u128; 9]);
    });
    let drops = Arc::new(AtomicUsize::new(0));
    for workers in [1, 3] {
        let counted = drops.clone();
        Runtime::with_workers(workers)
            .run(move || {
                let (sender, receiver) = channel(2);
                let waits = spawn(move || receiver.iter().take(10).count());
                for _ in 0..12 {
                    yield_now();
                    let _ = sender.send(Dropped(counted.clone()));
                }
                assert_eq!(waits.join().unwrap(), 10);
            })
            .unwrap();
        assert_eq!(drops.swap(0, Ordering::SeqCst), 12);
    }
}

/// Two tasks that pass a value to and fro do not keep a third one waiting.
#[test]
fn two_that_pass_a_value_keep_nobody_waiting() {
    let longest = Runtime::with_workers(1).run(|| {
        let passes = Rc::new(Cell::new(0_u64));
        let (there, from_here) = channel::<u64>(1);
        let (back, from_there) = channel::<u64>(1);
        let echo =
            spawn_here(move || from_here.iter().take_while(|number| back.send(*number).is_ok()).count());
        let own = passes.clone();
        let calls = spawn_here(move || {
            loop {
                there.send(own.get()).unwrap();
                own.set(from_there.receive().unwrap() + 1);
            }
        });
        let longest = (0..100).map(|_| {
            let before = passes.get();
            yield_now();
            passes.get() - before
        });
        let longest = longest.max();
        assert!(passes.get() > 100);
        calls.cancel();
        assert!(matches!(calls.join(), Err(JoinError::Cancelled)));
        assert!(echo.join().is_ok());
        longest
    });
    let longest = longest.unwrap();
    // The loop has its turn after 256 switches, and the third task its own behind it.
    assert!(longest.is_some_and(|longest| longest <= 600), "{longest:?}");
}

/// A channel that one worker's tasks have used alone goes to other threads, at every moment.
#[test]
fn a_channel_goes_to_other_threads_while_its_tasks_wait() {
    for round in 0..300_u32 {
        let (there, from_here) = channel::<u32>(1);
        let (back, from_there) = channel::<u32>(1);
        let sum = Runtime::with_workers(1).run(move || {
            let echo =
                spawn_here(move || from_here.iter().take_while(|number| back.send(*number).is_ok()).count());
            let mut sum = 0;
            for number in 0..round % 7 {
                there.send(number).unwrap();
                sum += from_there.receive().unwrap();
            }
            // The echo waits with its hand open, or is about to.
            if round % 2 == 0 {
                yield_now();
            }
            let thread = std::thread::spawn(move || {
                (0..20).for_each(|number| there.send(number).unwrap());
            });
            sum += (0..20).map(|_| from_there.receive().unwrap()).sum::<u32>();
            assert_eq!(from_there.receive(), Err(ReceiveError::Closed));
            thread.join().unwrap();
            assert_eq!(echo.join().unwrap(), (20 + round % 7) as usize);
            sum
        });
        assert_eq!(sum.unwrap(), 190 + (0..round % 7).sum::<u32>());
    }
}

/// Tasks of several workers and threads send and receive, some of them for a short time, some until they are cancelled.
#[test]
fn tasks_and_threads_share_the_ends_of_a_channel() {
    for capacity in [1, 3] {
        let (sender, receiver) = channel::<u32>(capacity);
        let received = Arc::new(Mutex::new(Vec::new()));
        let takes = |receiver: regrow_fiber::Receiver<u32>, received: Arc<Mutex<Vec<u32>>>| {
            move || {
                loop {
                    match receiver.receive_within(Duration::from_micros(200)) {
                        Ok(number) => received.lock().push(number),
                        Err(ReceiveError::Empty) => {}
                        Err(ReceiveError::Closed) => break,
                    }
                }
            }
        };
        let threads: Vec<_> = (0..2_u32)
            .map(|from| {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    (0..500).for_each(|number| sender.send(from * 1000 + number).unwrap());
                })
            })
            .chain((0..2).map(|_| std::thread::spawn(takes(receiver.clone(), received.clone()))))
            .collect();
        let all = received.clone();
        Runtime::with_workers(2)
            .run(move || {
                let mut tasks: Vec<_> = (2..5_u32)
                    .map(|from| {
                        let sender = sender.clone();
                        spawn(move || {
                            (0..500).for_each(|number| sender.send(from * 1000 + number).unwrap());
                        })
                    })
                    .collect();
                drop(sender);
                let waits = (0..3).map(|_| {
                    let (receiver, all) = (receiver.clone(), all.clone());
                    spawn(move || receiver.iter().for_each(|number| all.lock().push(number)))
                });
                tasks.extend(waits.collect::<Vec<_>>());
                for _ in 0..50 {
                    let receiver = receiver.clone();
                    let all = all.clone();
                    let short = spawn(move || {
                        let taken: Vec<u32> = (0..3).map_while(|_| receiver.receive().ok()).collect();
                        all.lock().extend(taken);
                    });
                    yield_now();
                    drop(short);
                }
                drop(receiver);
                tasks.into_iter().for_each(|task| task.join().unwrap());
                // Those that were let go have ended, too: the channel is closed.
                while Arc::strong_count(&all) > 2 {
                    yield_now();
                }
            })
            .unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut numbers = std::mem::take(&mut *received.lock());
        numbers.sort_unstable();
        let expected: Vec<u32> =
            (0..5).flat_map(|from| (0..500).map(move |number| from * 1000 + number)).collect();
        assert!(numbers == expected, "{} values", numbers.len());
    }
}

#[test]
fn what_is_left_when_the_root_ends_is_cancelled() {
    let drops = Arc::new(AtomicUsize::new(0));
    for workers in [1, 3] {
        let counted = drops.clone();
        Runtime::with_workers(workers)
            .run(move || {
                for number in 0..100 {
                    let dropped = Dropped(counted.clone());
                    spawn(move || {
                        let _dropped = dropped;
                        sleep(Duration::from_secs(3600));
                    });
                    if number % 10 == 0 {
                        yield_now();
                    }
                }
            })
            .unwrap();
        assert_eq!(drops.swap(0, Ordering::SeqCst), 100);
    }
}

#[test]
fn tasks_of_a_scope_borrow_and_end_with_it() {
    run(|| {
        let mut numbers = vec![1, 2, 3, 4, 5, 6];
        let total = AtomicUsize::new(0);
        scope(|scope| {
            for chunk in numbers.chunks_mut(2) {
                let total = &total;
                scope.spawn(move || {
                    sleep(Duration::from_millis(1));
                    chunk.iter_mut().for_each(|number| *number *= 10);
                    total.fetch_add(chunk.len(), Ordering::SeqCst);
                });
            }
        });
        assert_eq!((numbers, total.into_inner()), (vec![10, 20, 30, 40, 50, 60], 6));
        let words = String::from("borrowed");
        assert_eq!(scope(|scope| scope.spawn(|| words.len()).join().unwrap()), 8);
        // A panic of the block cancels the tasks, and waits for them.
        let ended = AtomicUsize::new(0);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        struct End<'a>(&'a AtomicUsize);
                        impl Drop for End<'_> {
                            fn drop(&mut self) {
                                self.0.fetch_add(1, Ordering::SeqCst);
                            }
                        }
                        let _end = End(&ended);
                        sleep(Duration::from_secs(3600));
                    });
                }
                sleep(Duration::from_millis(5));
                std::panic::resume_unwind(Box::new(1));
            })
        }));
        assert!(caught.is_err());
        assert_eq!(ended.into_inner(), 3);
    });
}

#[test]
fn a_scope_whose_task_is_cancelled_ends_whole() {
    run(|| {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let task = spawn(move || {
            let numbers = [1_usize, 2, 3];
            scope(|scope| {
                for number in &numbers {
                    let counted = &counted;
                    scope.spawn(move || {
                        sleep(Duration::from_millis(2));
                        counted.fetch_add(*number, Ordering::SeqCst);
                    });
                }
                sleep(Duration::from_secs(3600));
            });
        });
        sleep(Duration::from_millis(10));
        task.cancel();
        assert!(matches!(task.join(), Err(JoinError::Cancelled)));
        assert_eq!(count.load(Ordering::SeqCst), 6);
    });
}

#[test]
fn several_channels_are_waited_for_at_once() {
    run(|| {
        let (to_first, first) = channel::<u32>(1);
        let (to_second, second) = channel::<u32>(1);
        assert_eq!(select(&[&first, &second], Some(Duration::from_millis(1))), None);
        // Neither is closed before all was received.
        let open = (to_first.clone(), to_second.clone());
        let sends = spawn(move || {
            for number in 0..100 {
                if number % 3 == 0 { to_first.send(number).unwrap() } else { to_second.send(number).unwrap() }
            }
        });
        let mut seen = Vec::new();
        while seen.len() < 100 {
            let chosen = [&first, &second][select(&[&first, &second], None).unwrap()];
            seen.push(chosen.receive().unwrap());
        }
        sends.join().unwrap();
        drop(open);
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..100));
        // A closed one is ready.
        assert_eq!(select(&[&first], None), Some(0));
        assert_eq!(first.receive(), Err(ReceiveError::Closed));
    });
}

#[test]
fn futures_and_tasks_wait_for_one_another() {
    run(|| {
        let task = spawn(|| {
            sleep(Duration::from_millis(5));
            6
        });
        let product = block_on(async { task.await.unwrap() * 7 });
        assert_eq!(product, 42);
    });
    // Outside of a runtime, too.
    let (sender, receiver) = channel(1);
    let thread = std::thread::spawn(move || {
        Runtime::with_workers(2).run(move || sender.send(spawn(|| 1).join().unwrap()).unwrap()).unwrap();
    });
    assert_eq!(receiver.receive(), Ok(1));
    thread.join().unwrap();
}

#[test]
fn where_there_is_no_runtime_a_task_says_so() {
    assert!(matches!(spawn(|| 1).join(), Err(JoinError::NoRuntime)));
    assert!(matches!(spawn_here(|| 1).join(), Err(JoinError::NoRuntime)));
    run(|| {
        let task = Builder::new().stack_bytes(1).spawn(|| 1);
        assert!(matches!(task.join(), Err(JoinError::Stack(StackError::Size { bytes: 1, .. }))));
    });
}

#[test]
fn a_lock_is_had_by_one_at_a_time() {
    let totals = run(|| {
        let lock = Arc::new(Mutex::new(0_u64));
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let lock = lock.clone();
                spawn(move || {
                    for _ in 0..200 {
                        let mut value = lock.lock();
                        let before = *value;
                        yield_now();
                        *value = before + 1;
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        *lock.lock()
    });
    assert_eq!(totals, [4000; 2]);
}

#[test]
fn more_workers_than_there_are_numbers_for_are_refused() {
    let refused = Runtime::with_workers(100_000).run(|| ());
    assert_eq!(refused.unwrap_err().to_string(), "a process has 4096 workers of runtimes at most");
    assert_eq!(Runtime::with_workers(2).run(|| 5).unwrap(), 5);
}

/// What a task that has not begun has may start others when it is dropped.
#[test]
fn tasks_that_are_started_at_the_end_are_dropped() {
    struct Starts;
    impl Drop for Starts {
        fn drop(&mut self) {
            assert!(spawn_here(|| 1).join_within(Duration::ZERO).is_err());
        }
    }
    run(|| {
        for _ in 0..10 {
            let starts = Starts;
            spawn_here(move || drop(starts));
        }
    });
}

#[test]
fn tasks_run_on_every_worker() {
    let threads = Runtime::with_workers(3).run(|| {
        let seen = Arc::new(std::sync::Mutex::new(std::collections::BTreeSet::new()));
        // They wait for one another as threads do: each needs a worker of its own.
        let barrier = Arc::new(std::sync::Barrier::new(3));
        let tasks = [(); 3].map(|()| {
            let (seen, barrier) = (seen.clone(), barrier.clone());
            spawn(move || {
                barrier.wait();
                seen.lock().unwrap().insert(format!("{:?}", std::thread::current().id()));
            })
        });
        tasks.into_iter().for_each(|task| task.join().unwrap());
        seen.lock().unwrap().len()
    });
    assert_eq!(threads.unwrap(), 3);
}
