//! Values that go into hands: tasks that wait for one while all else happens to them or to their channel.
//!
//! A hand is open on the worker that has used the channel first, so each channel is asked once whether it is empty.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use regrow_fiber::{
    JoinError, JoinHandle, ReceiveError, Receiver, Runtime, Sender, channel, select, set_long, sleep, spawn,
    spawn_here, yield_now,
};

/// On one worker: without predictions, with them, and where all tasks are long.
fn run(root: impl Fn() + Clone + 'static) {
    let predicts = Runtime::with_workers(1).with_predictions();
    for runtime in [Runtime::with_workers(1), predicts.clone(), predicts.long_from(Duration::ZERO)] {
        runtime.run(root.clone()).unwrap();
    }
}

/// A channel that is this worker's.
fn own_channel<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = channel(capacity);
    assert!(receiver.is_empty());
    (sender, receiver)
}

/// Starts a task on this worker, and comes back when it waits.
fn spawn_waiting<T: 'static>(function: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
    let is_there = Rc::new(Cell::new(false));
    let of_task = is_there.clone();
    let task = spawn_here(move || {
        of_task.set(true);
        function()
    });
    while !is_there.get() {
        sleep(Duration::from_micros(100));
    }
    task
}

/// Has all others run.
fn let_others_run() {
    (0..8).for_each(|_| yield_now());
}

/// Has the loop take what was told before any task runs.
fn let_the_loop_run() {
    set_long(true);
    yield_now();
    set_long(false);
}

/// Receives until it ends, and keeps what it has received.
fn takes(receiver: &Rc<Receiver<u32>>, taken: &Rc<RefCell<Vec<u32>>>) -> impl FnOnce() + 'static + use<> {
    let (receiver, taken) = (receiver.clone(), taken.clone());
    move || {
        while let Ok(value) = receiver.receive() {
            taken.borrow_mut().push(value);
        }
    }
}

#[test]
fn a_task_that_is_cancelled_leaves_its_hand() {
    run(|| {
        let (sender, receiver) = own_channel(1);
        let (receiver, taken) = (Rc::new(receiver), Rc::default());
        let task = spawn_waiting(takes(&receiver, &taken));
        task.cancel();
        assert!(matches!(task.join(), Err(JoinError::Cancelled)));
        sender.send(1).unwrap();
        assert_eq!((receiver.try_receive(), taken.take()), (Ok(1), vec![]));
        // The channel has hands as before.
        let task = spawn_waiting(takes(&receiver, &taken));
        sender.send(2).unwrap();
        let_others_run();
        drop(sender);
        assert!(task.join().is_ok() && taken.take() == [2]);
    });
}

/// It has received the value, and ends at its next wait.
#[test]
fn a_task_that_is_cancelled_behind_a_value_has_it() {
    run(|| {
        let (sender, receiver) = own_channel(1);
        let (receiver, taken) = (Rc::new(receiver), Rc::default());
        let task = spawn_waiting(takes(&receiver, &taken));
        sender.send(1).unwrap();
        assert!(receiver.is_empty(), "it is in the hand");
        task.cancel();
        let_the_loop_run();
        assert!(matches!(task.join(), Err(JoinError::Cancelled)));
        assert_eq!(taken.take(), [1]);
        sender.send(2).unwrap();
        assert_eq!(receiver.try_receive(), Ok(2));
    });
}

/// The task is told to end, and before it runs somebody sends.
#[test]
fn a_value_for_a_task_that_is_told_to_end_goes_to_others() {
    run(|| {
        let (sender, receiver) = own_channel(1);
        let (go, waits) = own_channel(1);
        let (receiver, taken) = (Rc::new(receiver), Rc::default());
        let task = spawn_here(takes(&receiver, &taken));
        let to_task = sender.clone();
        let sends = spawn_waiting(move || {
            let value = waits.receive().unwrap();
            to_task.send(value).unwrap();
        });
        go.send(7).unwrap();
        task.cancel();
        let_the_loop_run();
        assert!(matches!(task.join(), Err(JoinError::Cancelled)));
        assert!(sends.join().is_ok());
        let found = taken.take().into_iter().chain(receiver.try_receive()).collect::<Vec<u32>>();
        assert_eq!(found, [7]);
    });
}

/// Of two that wait the first one is cancelled: before the value comes, and behind it.
#[test]
fn a_task_whose_hand_was_closed_passes_its_turn_on() {
    for is_before in [true, false] {
        run(move || {
            let (sender, receiver) = own_channel(2);
            let (receiver, of_first, of_second) = (Rc::new(receiver), Rc::default(), Rc::default());
            let first = spawn_waiting(takes(&receiver, &of_first));
            let second = spawn_waiting(takes(&receiver, &of_second));
            if is_before {
                first.cancel();
                let_the_loop_run();
                sender.send(1).unwrap();
            } else {
                sender.send(1).unwrap();
                first.cancel();
                let_the_loop_run();
            }
            assert!(matches!(first.join(), Err(JoinError::Cancelled)));
            sender.send(2).unwrap();
            drop(sender);
            assert!(second.join().is_ok());
            let mut all = [of_first.take(), of_second.take()].concat();
            all.sort_unstable();
            assert_eq!(all, [1, 2]);
        });
    }
}

#[test]
fn those_who_come_behind_an_open_hand_have_what_comes_behind() {
    Runtime::with_workers(1)
        .run(|| {
            let (sender, receiver) = own_channel(4);
            let (receiver, order) = (Rc::new(receiver), Rc::new(RefCell::new(Vec::new())));
            let tasks: Vec<_> = (0..4)
                .map(|number| {
                    let (receiver, order) = (receiver.clone(), order.clone());
                    spawn_waiting(move || {
                        let value = match number {
                            2 => {
                                assert_eq!(select(&[&*receiver], None), Some(0));
                                receiver.try_receive()
                            }
                            3 => receiver.receive_within(Duration::from_secs(3600)),
                            _ => receiver.receive(),
                        };
                        order.borrow_mut().push((number, value.unwrap()));
                    })
                })
                .collect();
            (0..4).for_each(|value| sender.send(value).unwrap());
            tasks.into_iter().for_each(|task| task.join().unwrap());
            assert_eq!(order.take(), [(0, 0), (1, 1), (2, 2), (3, 3)]);
        })
        .unwrap();
}

#[test]
fn deadlines_and_selections_beside_an_open_hand() {
    run(|| {
        let (sender, receiver) = own_channel(1);
        let (receiver, taken) = (Rc::new(receiver), Rc::<RefCell<Vec<u32>>>::default());
        let task = spawn_waiting(takes(&receiver, &taken));
        let short = Duration::from_millis(2);
        assert_eq!(receiver.receive_within(short), Err(ReceiveError::Empty));
        assert_eq!(select(&[&*receiver], Some(short)), None);
        assert_eq!(receiver.try_receive(), Err(ReceiveError::Empty));
        for value in 1..=3 {
            sender.send(value).unwrap();
            while taken.borrow().last() != Some(&value) {
                sleep(Duration::from_micros(100));
            }
            assert_eq!(receiver.receive_within(Duration::ZERO), Err(ReceiveError::Empty));
        }
        assert_eq!(taken.take(), [1, 2, 3]);
        // With a deadline before it, which ends first.
        let first = spawn_here({
            let receiver = receiver.clone();
            move || receiver.receive_within(short)
        });
        assert!(matches!(first.join(), Ok(Err(ReceiveError::Empty))));
        sender.send(4).unwrap();
        drop(sender);
        assert!(task.join().is_ok() && taken.take() == [4]);
    });
}

#[test]
fn the_last_sender_goes_while_hands_are_open() {
    run(|| {
        for count in [1, 3] {
            let (sender, receiver) = own_channel::<u32>(1);
            let (receiver, other) = (Rc::new(receiver), sender.clone());
            let tasks: Vec<_> = (0..count)
                .map(|_| {
                    let receiver = receiver.clone();
                    spawn_waiting(move || receiver.receive())
                })
                .collect();
            drop(other);
            let_others_run();
            assert!(tasks.iter().all(|task| !task.has_ended()));
            drop(sender);
            for task in tasks {
                assert!(matches!(task.join(), Ok(Err(ReceiveError::Closed))));
            }
        }
        // Behind the value that was the last one.
        let (sender, receiver) = own_channel(1);
        let task = spawn_waiting(move || (receiver.receive(), receiver.receive()));
        sender.send(5).unwrap();
        drop(sender);
        assert!(matches!(task.join(), Ok((Ok(5), Err(ReceiveError::Closed)))));
    });
}

#[test]
fn a_receiver_that_goes_behind_a_hand_closes_the_channel() {
    run(|| {
        let (sender, receiver) = own_channel(1);
        let task = spawn_waiting(move || receiver.receive());
        sender.send(1).unwrap();
        assert!(matches!(task.join(), Ok(Ok(1))));
        assert_eq!(sender.send(2).map_err(|error| error.0), Err(2));
    });
}

/// Senders wait while a task receives by its hand: each has its turn.
#[test]
fn values_by_hand_let_others_send() {
    run(|| {
        for capacity in [1, 2] {
            let (sender, receiver) = own_channel(capacity);
            let tasks: Vec<_> = (0..5_u32)
                .map(|from| {
                    let sender = sender.clone();
                    spawn_here(move || (0..40).for_each(|number| sender.send(from * 100 + number).unwrap()))
                })
                .collect();
            drop(sender);
            let mut values: Vec<u32> = receiver.iter().collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
            for from in 0..5 {
                let of_one = values.iter().filter(|value| **value / 100 == from).map(|value| value % 100);
                assert!(of_one.eq(0..40));
            }
            values.sort_unstable();
            assert!(
                values.into_iter().eq((0..5).flat_map(|from| (0..40).map(move |number| from * 100 + number)))
            );
        }
    });
}

/// A thread comes to a channel whose task has its hand open: it sends, or receives, or goes as the last one that sends.
#[test]
fn a_thread_comes_to_an_open_hand() {
    run(|| {
        let (sender, receiver) = own_channel(1);
        let to_thread = sender.clone();
        let task = spawn_waiting(move || receiver.iter().collect::<Vec<u32>>());
        thread::spawn(move || to_thread.send(1).unwrap()).join().unwrap();
        sender.send(2).unwrap();
        drop(sender);
        assert_eq!(task.join().unwrap(), [1, 2]);

        let (sender, receiver) = own_channel(1);
        let from_thread = receiver.clone();
        let task = spawn_waiting(move || receiver.receive());
        let thread = thread::spawn(move || from_thread.receive());
        sleep(Duration::from_millis(2));
        sender.send(1_u32).unwrap();
        sender.send(2).unwrap();
        let values = (task.join().unwrap(), thread.join().unwrap());
        assert!(matches!(values, (Ok(1), Ok(2)) | (Ok(2), Ok(1))), "{values:?}");

        let (sender, receiver) = own_channel::<u32>(1);
        let task = spawn_waiting(move || receiver.receive());
        thread::spawn(move || drop(sender)).join().unwrap();
        assert!(matches!(task.join(), Ok(Err(ReceiveError::Closed))));
    });
}

/// Two workers of one thread: the task belongs to the outer one.
#[test]
fn a_task_of_an_outer_runtime_is_given_values_by_an_inner_one() {
    run(|| {
        let (sender, receiver) = own_channel(1);
        let (back, from_task) = own_channel(1);
        let task = spawn_waiting(move || {
            back.send(receiver.receive().unwrap() + 1).unwrap();
            receiver.receive().unwrap()
        });
        let open = sender.clone();
        let inner = Runtime::with_workers(1).run(move || {
            // There is no room for the second one before the outer runtime goes on.
            let sends = spawn_waiting(move || (sender.send(1), sender.send(5)));
            let (own, of_own) = own_channel(1);
            let own_task = spawn_waiting(move || of_own.receive());
            own.send(3).unwrap();
            assert!(matches!(own_task.join(), Ok(Ok(3))) && !sends.has_ended());
        });
        inner.unwrap();
        assert_eq!(from_task.receive(), Ok(2));
        open.send(4).unwrap();
        assert!(matches!(task.join(), Ok(4)));
    });
}

#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The channel outlives the runtime, and goes to other workers and threads.
#[test]
fn a_runtime_ends_while_hands_are_open() {
    for workers in [1, 3] {
        let drops = Arc::new(AtomicUsize::new(0));
        let (sender, receiver) = channel(1);
        for _ in 0..3 {
            let (to_tasks, from_root) = (sender.clone(), receiver.clone());
            let counted = drops.clone();
            Runtime::with_workers(workers)
                .run(move || {
                    for _ in 0..3 {
                        let (receiver, own) = (from_root.clone(), own_channel::<Counted>(1));
                        spawn(move || drop(receiver.receive()));
                        spawn_waiting(move || own.1.receive().map(|value| (value, own.0)).is_ok());
                    }
                    to_tasks.send(Counted(counted.clone())).unwrap();
                    let (own, of_task) = own_channel(1);
                    spawn_waiting(move || drop(of_task.receive()));
                    // It ends behind the value, before its task runs.
                    own.send(Counted(counted)).unwrap();
                })
                .unwrap();
            drop(receiver.try_receive());
        }
        assert_eq!(drops.load(Ordering::SeqCst), 6);
        thread::spawn(move || sender.send(Counted(drops)).unwrap()).join().unwrap();
        assert!(receiver.receive().is_ok());
    }
}

/// Waits for a value when it is dropped, and says so.
struct Stuck(Receiver<u8>, Arc<AtomicBool>);

impl Drop for Stuck {
    fn drop(&mut self) {
        let has_received = self.0.receive().is_ok();
        self.1.store(has_received, Ordering::SeqCst);
    }
}

/// What unwinds waits in a destructor, with its hand open or as it is cancelled: others are told to end meanwhile, and it comes to its end.
#[test]
fn a_destructor_waits_for_a_value() {
    for is_cancelled in [false, true] {
        run(move || {
            let (sender, receiver) = own_channel(1);
            let (open, other) = own_channel::<u8>(1);
            let has_received = Arc::new(AtomicBool::new(false));
            let stuck = Stuck(receiver, has_received.clone());
            let task = spawn_waiting(move || {
                let _stuck = stuck;
                if is_cancelled {
                    sleep(Duration::from_secs(3600));
                }
                std::panic::resume_unwind(Box::new(1_u8));
            });
            let beside = spawn_waiting(move || other.receive());
            if is_cancelled {
                task.cancel();
                let_the_loop_run();
                let_others_run();
                task.cancel();
            }
            let_others_run();
            beside.cancel();
            let_the_loop_run();
            assert!(!task.has_ended() && !beside.has_ended());
            sender.send(1).unwrap();
            let ended = task.join();
            assert_eq!(matches!(ended, Err(JoinError::Cancelled)), is_cancelled);
            assert!(has_received.load(Ordering::SeqCst));
            assert!(matches!(beside.join(), Err(JoinError::Cancelled)));
            drop(open);
        });
    }
}

/// A task that never ends keeps its stack. Nobody puts a value there: a later worker, of another thread, has its post.
#[test]
fn nothing_goes_into_the_hand_of_a_task_that_was_left() {
    let has_received = Arc::new(AtomicBool::new(false));
    let seen = has_received.clone();
    let left = thread::spawn(move || {
        Runtime::with_workers(1).run(move || {
            let (sender, receiver) = own_channel(1);
            let stuck = Stuck(receiver.clone(), seen);
            spawn_waiting(move || {
                let _stuck = stuck;
                std::panic::resume_unwind(Box::new(1_u8));
            });
            (sender, receiver)
        })
    });
    let (sender, receiver) = left.join().unwrap().unwrap();
    let received = Runtime::with_workers(1).run(move || {
        sender.send(1).unwrap();
        let_others_run();
        receiver.receive()
    });
    assert_eq!(received.unwrap(), Ok(1));
    assert!(!has_received.load(Ordering::SeqCst));
}

/// A task of one channel waits for another one next, and messages for its first waits come late.
#[test]
fn what_comes_late_for_a_hand_disturbs_no_other_wait() {
    for round in 0..200_u64 {
        let (to_first, first) = channel(1);
        let (to_second, second) = channel(1);
        let run = Runtime::with_workers(1).run(move || {
            assert!(first.is_empty() && second.is_empty());
            let open = to_second.clone();
            let waits = spawn_here(move || {
                assert!(select(&[&first, &second], None).is_some());
                let values: Vec<u64> = (0..2).map(|_| first.receive().unwrap()).collect();
                (values, second.receive(), first.receive())
            });
            if round % 2 == 0 {
                let_others_run();
            }
            let sends = thread::spawn(move || (0..2).for_each(|value| to_first.send(value).unwrap()));
            let_others_run();
            open.send(round).unwrap();
            let ended = waits.join().unwrap();
            sends.join().unwrap();
            drop(to_second);
            ended
        });
        assert_eq!(run.unwrap(), (vec![0, 1], Ok(round), Err(ReceiveError::Closed)));
    }
}

/// Tasks that receive are cancelled at all moments, by their own worker and by a thread: each value is received once, or is left.
#[test]
fn cancelled_tasks_lose_no_value_and_have_none_twice() {
    const VALUES: u32 = 4_000;
    for (workers, has_thread) in [(1, false), (1, true), (2, true)] {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let all = taken.clone();
        let rest = Runtime::with_workers(workers).run(move || {
            let (sender, receiver) = own_channel(1);
            let sends = spawn(move || (0..VALUES).for_each(|value| sender.send(value).unwrap()));
            let mut round = 0_u32;
            while !sends.has_ended() {
                round += 1;
                let tasks: Vec<_> = (0..1 + round % 3)
                    .map(|_| {
                        let (receiver, taken) = (receiver.clone(), taken.clone());
                        spawn(move || {
                            while let Ok(value) = receiver.receive() {
                                taken.lock().unwrap().push(value);
                            }
                        })
                    })
                    .collect();
                (0..round % 11).for_each(|_| yield_now());
                if has_thread && round.is_multiple_of(2) {
                    let cancels: Vec<_> = tasks.iter().map(regrow_fiber::JoinHandle::canceller).collect();
                    thread::spawn(move || cancels.iter().for_each(regrow_fiber::Canceller::cancel));
                } else {
                    tasks.iter().for_each(regrow_fiber::JoinHandle::cancel);
                }
                if round.is_multiple_of(5) {
                    let_the_loop_run();
                }
                for task in tasks {
                    assert!(matches!(task.join(), Err(JoinError::Cancelled) | Ok(())));
                }
            }
            receiver.iter().collect::<Vec<u32>>()
        });
        let mut values = [std::mem::take(&mut *all.lock().unwrap()), rest.unwrap()].concat();
        values.sort_unstable();
        assert!(values.into_iter().eq(0..VALUES));
    }
}
