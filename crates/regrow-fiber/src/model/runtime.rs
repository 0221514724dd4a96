//! Workers and tasks: a whole runtime, whose workers are threads of loom's. Beside it are other threads.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use loom::thread::spawn as thread;
use regrow_sync::thread::{current, park};
use regrow_sync::{AtomicBool, Ordering, Place};

use super::check;
use crate::channel::{channel, with_lock};
use crate::error::ReceiveError;
use crate::mutex::Mutex;
use crate::runtime::{Runtime, spawn, spawn_here, yield_now};

fn run<T: 'static>(workers: usize, root: impl FnOnce() -> T + 'static) -> T {
    Runtime::with_workers(workers).run(root).expect("there is memory for stacks")
}

/// Has fresh tasks begin, and run until they wait.
fn let_others_run() {
    (0..3).for_each(|_| yield_now());
}

#[test]
fn all_workers_end_with_the_root() {
    check(3, [7], || run(2, || 7));
}

/// The root keeps its worker from all else until the task has run: so the other worker must take it.
#[test]
fn a_task_is_run_by_a_worker_that_is_about_to_sleep() {
    check(2, [7], || {
        run(2, || {
            let shared = Arc::new((Place::new(), AtomicBool::new(false), current()));
            shared.0.write();
            let of_task = shared.clone();
            let task = spawn(move || {
                of_task.0.write();
                of_task.1.store(true, Ordering::Release);
                of_task.2.unpark();
                7
            });
            while !shared.1.load(Ordering::Acquire) {
                park();
            }
            shared.0.write();
            task.join().expect("it has a result")
        })
    });
}

#[test]
fn a_task_is_joined_whichever_worker_runs_it() {
    check(2, [7], || run(2, || spawn(|| 7).join().expect("it has a result")));
}

#[test]
fn tasks_of_two_workers_have_a_channel() {
    check(2, [vec![1, 2]], || {
        run(2, || {
            let (sender, receiver) = channel(1);
            spawn(move || (1..=2).for_each(|value| sender.send(value).expect("somebody receives")));
            receiver.iter().collect()
        })
    });
}

/// What the other worker runs waits for ever.
#[test]
fn what_waits_on_another_worker_ends_with_the_root() {
    check(3, [false], || {
        let (sender, receiver) = channel::<u8>(1);
        let shared = Arc::new((receiver, AtomicBool::new(false)));
        let of_task = shared.clone();
        run(2, move || {
            spawn(move || {
                let has_received = of_task.0.receive().is_ok();
                of_task.1.store(has_received, Ordering::SeqCst);
            });
        });
        drop(sender);
        shared.1.load(Ordering::SeqCst)
    });
}

#[test]
fn a_task_and_a_thread_have_a_channel() {
    check(3, [vec![1, 2]], || {
        let (sender, receiver) = channel(1);
        let place = Rc::new(Place::new());
        let of_other = place.clone();
        thread(move || {
            of_other.write();
            (1..=2).for_each(|value| sender.send(value).expect("somebody receives"));
        });
        run(1, move || {
            let first = receiver.receive().expect("it was sent");
            place.write();
            std::iter::once(first).chain(receiver.iter()).collect()
        })
    });
}

/// Two wait for room. When a value goes into the hand of the task, nobody takes it out of the channel: whoever waits has its turn nonetheless.
#[test]
fn values_for_a_task_that_waits_let_others_send() {
    check(2, [vec![0, 1, 2], vec![0, 2, 1]], || {
        let (sender, receiver) = channel(1);
        sender.send(0).expect("there is room");
        for value in [1, 2] {
            let sender = sender.clone();
            thread(move || sender.send(value).expect("somebody receives"));
        }
        drop(sender);
        run(1, move || receiver.iter().collect())
    });
}

/// The message that ends the first wait may come when the task waits for something else.
#[test]
fn what_comes_late_for_a_wait_does_not_end_the_next_one() {
    check(3, [true, false], || {
        let [(to_first, first), (to_second, second)] = [channel(1), channel(1)];
        thread(move || to_first.send(1).expect("somebody receives"));
        let open = to_second.clone();
        run(1, move || {
            let received = first.receive_within(Duration::ZERO);
            let thread = thread(move || to_second.send(2).expect("somebody receives"));
            assert_eq!(second.receive(), Ok(2));
            let is_in_time = received.is_ok();
            if !is_in_time {
                assert_eq!(first.receive(), Ok(1));
            }
            assert_eq!(first.receive(), Err(ReceiveError::Closed));
            thread.join().expect("it does not panic");
            drop(open);
            is_in_time
        })
    });
}

/// The task of the first one waits when it ends, and somebody wakes it: so late that its post is another worker's.
#[test]
fn a_later_runtime_hears_what_was_meant_for_another_one() {
    check(3, [2], || {
        let (sender, receiver) = channel(1);
        let receiver = Rc::new(receiver);
        let of_task = receiver.clone();
        let late = run(1, move || {
            spawn_here(move || of_task.receive());
            let_others_run();
            thread(move || sender.send(1).expect("somebody receives"))
        });
        let (to_later, later) = channel(1);
        let other = thread(move || to_later.send(2).expect("somebody receives"));
        let received = run(1, move || later.receive().expect("it was sent"));
        late.join().expect("it does not panic");
        other.join().expect("it does not panic");
        received
    });
}

/// Whoever has received the value has it: also a task that was cancelled when it had it in its hand. Then the other one sees the end.
#[test]
fn a_task_that_is_cancelled_loses_no_value() {
    check(2, [(true, false), (false, true)], || {
        let (sender, receiver) = channel(1);
        let receiver = Rc::new(receiver);
        thread(move || sender.send(7).expect("somebody receives"));
        let seen = Rc::new(Cell::new(false));
        let (of_task, from_root, kept) = (seen.clone(), receiver.clone(), receiver.clone());
        let has_received = run(1, move || {
            let task = spawn_here(move || of_task.set(receiver.receive() == Ok(7)));
            let_others_run();
            thread(move || task.cancel());
            from_root.receive() == Ok(7)
        });
        drop(kept);
        (has_received, seen.get())
    });
}

/// Of three who receive, the second one is cancelled, also when it was woken just now to look: then the third one is woken.
#[test]
fn a_task_that_is_cancelled_leaves_the_value_to_others() {
    check(2, [true, false], || {
        let (sender, receiver) = channel(2);
        let (open, receiver) = (Rc::new(sender.clone()), Rc::new(receiver));
        let seen = Rc::new(Cell::new(false));
        let (of_second, back, kept) = (seen.clone(), open.clone(), receiver.clone());
        run(1, move || {
            let [from_first, from_second] = [receiver.clone(), receiver.clone()];
            let first = spawn_here(move || from_first.receive().is_ok());
            let_others_run();
            let second = spawn_here(move || {
                let value = from_second.receive().expect("the channel is open");
                of_second.set(true);
                // The third one has it in any case.
                back.try_send(value).expect("there is room");
            });
            let_others_run();
            thread(move || (7..=8).for_each(|value| sender.send(value).expect("somebody receives")));
            thread(move || second.cancel());
            assert!(receiver.receive().is_ok() && first.join().is_ok_and(|is_there| is_there));
        });
        drop((kept, open));
        seen.get()
    });
}

/// The hand of the task is open, and both its worker and a thread send. Nobody but the worker puts anything there.
#[test]
fn a_worker_and_a_thread_come_to_an_open_hand() {
    check(2, [vec![1, 2], vec![2, 1]], || {
        run(1, || {
            let (sender, receiver) = with_lock(1, false);
            assert!(receiver.is_empty());
            let place = Arc::new(Place::new());
            let (of_task, to_others) = (place.clone(), sender.clone());
            let task = spawn_here(move || {
                let see = |&value: &i32| {
                    if value == 2 {
                        of_task.write()
                    }
                };
                (0..2).map(|_| receiver.receive().inspect(see)).collect::<Result<Vec<_>, _>>()
            });
            let_others_run();
            thread(move || {
                place.write();
                to_others.send(2).expect("somebody receives");
            });
            sender.send(1).expect("somebody receives");
            task.join().expect("it has a result").expect("both were sent")
        })
    });
}

/// The hand of the task is open when a thread sends and another one cancels it: it has the value, or somebody else may have it.
#[test]
fn a_task_that_is_cancelled_with_an_open_hand_loses_no_value() {
    check(2, [true, false], || {
        let seen = Rc::new(Cell::new(false));
        let of_task = seen.clone();
        let left = run(1, move || {
            let (sender, receiver) = with_lock(1, false);
            assert!(receiver.is_empty());
            let (receiver, open) = (Rc::new(receiver), sender.clone());
            let from_task = receiver.clone();
            let task = spawn_here(move || of_task.set(from_task.receive() == Ok(7)));
            let_others_run();
            let thread = thread(move || sender.send(7).expect("somebody receives"));
            task.cancel();
            let has_ended = task.join().is_ok();
            thread.join().expect("it does not panic");
            drop(open);
            (has_ended, receiver.try_receive())
        });
        assert_eq!(left, (seen.get(), if seen.get() { Err(ReceiveError::Closed) } else { Ok(7) }));
        seen.get()
    });
}

/// Two tasks wait for room, and the first one is cancelled, also when it was woken just now: then the second one has the room.
#[test]
fn a_task_that_is_cancelled_leaves_the_room_to_others() {
    check(1, [true, false], || {
        let (sender, receiver) = channel(1);
        sender.send(0).expect("there is room");
        let sender = Rc::new(sender);
        let seen = Rc::new(Cell::new(false));
        let (of_task, of_others) = (seen.clone(), sender.clone());
        run(1, move || {
            let from_first = of_others.clone();
            let first = spawn_here(move || of_task.set(from_first.send(1).is_ok()));
            let_others_run();
            let second = spawn_here(move || of_others.send(2).is_ok());
            let_others_run();
            thread(move || while receiver.receive() != Ok(2) {});
            thread(move || first.cancel());
            second.join().expect("there is room for it")
        });
        drop(sender);
        seen.get()
    });
}

/// Two tasks wait for a lock, and the first one is cancelled, also when it was woken just now: then the second one has its turn.
#[test]
fn a_task_that_is_cancelled_passes_its_turn_at_a_lock_on() {
    check(2, [true, false], || {
        let lock: &'static Mutex<()> = Box::leak(Box::new(Mutex::new(())));
        let guard = lock.lock();
        let seen = Rc::new(Cell::new(false));
        let of_task = seen.clone();
        run(1, move || {
            let first = spawn_here(move || {
                drop(lock.lock());
                of_task.set(true);
            });
            let_others_run();
            let second = spawn_here(move || drop(lock.lock()));
            let_others_run();
            thread(move || drop(guard));
            thread(move || first.cancel());
            second.join().expect("it has the lock");
        });
        seen.get()
    });
}
