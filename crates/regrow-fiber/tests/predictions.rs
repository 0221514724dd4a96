//! Which tasks run long is learned by where they are created: they run after the others, until they turn out to be short.
//!
//! A task is long here from twenty milliseconds on, so that a machine that is busy makes none long that is not.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use regrow_fiber::{
    Builder, JoinError, JoinHandle, Progress, Runtime, Step, channel, scope, set_long, sleep, spawn,
    spawn_here, spawn_step, yield_now,
};

const LONG_FROM: Duration = Duration::from_millis(20);

/// On one worker, with predictions.
fn run<T: 'static>(root: impl FnOnce() -> T + 'static) -> T {
    Runtime::with_workers(1).with_predictions().long_from(LONG_FROM).run(root).unwrap()
}

/// Uses the processor for so long as a task is long.
fn be_busy() {
    let begun = Instant::now();
    while begun.elapsed() < LONG_FROM + Duration::from_millis(5) {
        std::hint::spin_loop();
    }
}

/// What has run, in its order.
type Order = Rc<RefCell<Vec<&'static str>>>;

/// What a task does that is long or not, and notes its name at its end.
fn task(order: &Order, name: &'static str, is_long: bool) -> impl FnOnce() + 'static + use<> {
    let order = order.clone();
    move || {
        if is_long {
            be_busy();
        }
        order.borrow_mut().push(name);
    }
}

fn join_all(handles: impl IntoIterator<Item = JoinHandle<()>>) {
    handles.into_iter().for_each(|handle| handle.join().unwrap());
}

#[test]
fn tasks_of_two_places_are_told_apart() {
    let order = run(|| {
        let order = Order::default();
        let long = || spawn_here(task(&order, "long", true));
        let short = || spawn_here(task(&order, "short", false));
        (0..2).for_each(|_| join_all([long(), short()]));
        join_all([long(), short(), long(), short()]);
        order.take()
    });
    assert_eq!(order, ["long", "short", "long", "short", "short", "short", "long", "long"]);
}

/// What has run on any thread, in its order.
#[derive(Clone, Default)]
struct Ran(Arc<Mutex<Vec<&'static str>>>);

impl Ran {
    fn long(&self) -> impl FnOnce() + Send + 'static + use<> {
        let ran = self.clone();
        move || {
            be_busy();
            ran.0.lock().unwrap().push("long");
        }
    }

    fn short(&self) -> impl FnOnce() + Send + 'static + use<> {
        let ran = self.clone();
        move || ran.0.lock().unwrap().push("short")
    }

    /// Two long ones were started before a short one. The second time that is known.
    fn check(&self, round: usize) {
        let expected = [["long", "long", "short"], ["short", "long", "long"]];
        assert_eq!(std::mem::take(&mut *self.0.lock().unwrap()), expected[round]);
    }
}

#[test]
fn every_way_to_start_a_task_has_its_place() {
    run(|| {
        let ran = Ran::default();
        for round in 0..2 {
            let mut tasks: Vec<_> = (0..2).map(|_| spawn(ran.long())).collect();
            tasks.push(spawn(ran.short()));
            join_all(tasks);
            ran.check(round);
        }
        for round in 0..2 {
            let mut tasks: Vec<_> = (0..2).map(|_| Builder::new().spawn(ran.long())).collect();
            tasks.push(Builder::new().spawn(ran.short()));
            join_all(tasks);
            ran.check(round);
        }
        for round in 0..2 {
            scope(|scope| {
                (0..2).for_each(|_| drop(scope.spawn(ran.long())));
                scope.spawn(ran.short());
            });
            ran.check(round);
        }
        for round in 0..2 {
            scope(|scope| {
                (0..2).for_each(|_| drop(scope.spawn_as(Builder::new(), ran.long())));
                scope.spawn_as(Builder::new(), ran.short());
            });
            ran.check(round);
        }
    });
}

/// Does its work in one step, and then notes its name.
struct Machine {
    order: Order,
    name: &'static str,
    steps: u32,
    is_long: bool,
}

impl Step for Machine {
    type Output = ();

    fn step(&mut self) -> Progress<()> {
        if self.is_long {
            be_busy();
        }
        self.order.borrow_mut().push(self.name);
        self.steps -= 1;
        if self.steps == 0 { Progress::Done(()) } else { Progress::More }
    }
}

#[test]
fn machines_without_a_stack_are_long_and_short_as_well() {
    let order = run(|| {
        let order = Order::default();
        let machine = |name, steps, is_long| Machine { order: order.clone(), name, steps, is_long };
        let long = || spawn_step(machine("long", 1, true));
        let short = || spawn_step(machine("short", 3, false));
        join_all([long(), long()]);
        order.borrow_mut().clear();
        join_all([long(), short(), long()]);
        // One that turns out long gives way as well.
        join_all([spawn_step(machine("turned", 2, true)), short()]);
        order.take()
    });
    assert_eq!(order[..5], ["short", "short", "short", "long", "long"]);
    assert_eq!(order[5..], ["turned", "short", "short", "short", "turned"]);
}

#[test]
fn a_place_that_changes_its_ways_is_learned_anew() {
    run(|| {
        let order = Order::default();
        let changes = |is_long| spawn_here(task(&order, "changes", is_long));
        let short = || spawn_here(task(&order, "short", false));
        for round in 0..2 {
            (0..8).for_each(|_| changes(true).join().unwrap());
            order.borrow_mut().clear();
            join_all([changes(true), short()]);
            assert_eq!(order.take(), ["short", "changes"], "{round}");
            (0..8).for_each(|_| changes(false).join().unwrap());
            order.borrow_mut().clear();
            join_all([changes(false), short()]);
            assert_eq!(order.take(), ["changes", "short"], "{round}");
        }
    });
}

/// Gives way often, and notes its name.
fn gives_way(order: &Order, name: &'static str) -> JoinHandle<()> {
    let order = order.clone();
    spawn_here(move || {
        (0..100).for_each(|_| yield_now());
        order.borrow_mut().push(name);
    })
}

#[test]
fn a_wrong_prediction_is_taken_back() {
    let order = run(|| {
        let order = Order::default();
        let (sender, receiver) = channel::<()>(1);
        // It has been long, and waits now.
        let waits = |is_long: bool| {
            let (receiver, order) = (receiver.clone(), order.clone());
            spawn_here(move || {
                if is_long {
                    return be_busy();
                }
                receiver.receive().unwrap();
                (0..50).for_each(|_| yield_now());
                order.borrow_mut().push("waited");
            })
        };
        join_all([waits(true), waits(true)]);
        let waited = waits(false);
        sleep(Duration::from_millis(1));
        let gives_way = gives_way(&order, "gave way");
        sender.send(()).unwrap();
        join_all([waited, gives_way]);
        order.take()
    });
    assert_eq!(order, ["waited", "gave way"]);
}

#[test]
fn a_task_that_turns_out_long_runs_after_the_others() {
    let order = run(|| {
        let order = Order::default();
        let own = order.clone();
        let turns = spawn_here(move || {
            be_busy();
            yield_now();
            own.borrow_mut().push("long");
        });
        join_all([turns, gives_way(&order, "gave way")]);
        order.take()
    });
    assert_eq!(order, ["gave way", "long"]);
}

/// A site that was short has so many tasks that few are looked at; when they are slow, all are.
#[test]
fn long_tasks_that_nobody_looks_at_are_found() {
    let order = run(|| {
        let order = Order::default();
        let may_be_long = |is_long: bool| {
            let order = order.clone();
            spawn_here(move || {
                if is_long {
                    // Short stretches, but many of them.
                    (0..4000).for_each(|_| {
                        let begun = Instant::now();
                        while begun.elapsed() < Duration::from_micros(500) {
                            std::hint::spin_loop();
                        }
                        yield_now();
                    });
                    order.borrow_mut().push("long");
                }
            })
        };
        for _ in 0..100 {
            may_be_long(false).join().unwrap();
        }
        let long = may_be_long(true);
        // After a round of switches it is looked at, and gives way to others from then on.
        sleep(Duration::from_millis(400));
        join_all([gives_way(&order, "gave way")]);
        let is_running = !long.has_ended();
        long.cancel();
        assert!(is_running && long.join().is_err());
        order.take()
    });
    assert_eq!(order, ["gave way"]);
}

#[test]
fn long_tasks_have_their_turn_while_others_run() {
    run(|| {
        let is_over = Rc::new(Cell::new(0));
        let long = || {
            let is_over = is_over.clone();
            spawn_here(move || {
                be_busy();
                is_over.set(is_over.get() + 1);
            })
        };
        let by_hand = || {
            let is_over = is_over.clone();
            spawn_here(move || {
                set_long(true);
                yield_now();
                is_over.set(is_over.get() + 1);
            })
        };
        let machine = || {
            let order = Order::default();
            spawn_step(Machine { order, name: "machine", steps: 1, is_long: true })
        };
        join_all([long(), long(), machine(), machine()]);
        is_over.set(0);
        let waits_for = |count: u32| {
            let is_over = is_over.clone();
            spawn_here(move || {
                while is_over.get() < count {
                    yield_now();
                }
            })
        };
        let machine = machine();
        join_all([waits_for(4), waits_for(4), long(), long(), long(), by_hand()]);
        while !machine.has_ended() {
            yield_now();
        }
    });
}

#[test]
fn what_a_task_says_of_itself_comes_before_predictions() {
    let order = run(|| {
        let order = Order::default();
        let says = |is_long: bool, is_busy: bool, name| {
            let order = order.clone();
            spawn_here(move || {
                set_long(is_long);
                if is_busy {
                    be_busy();
                }
                yield_now();
                sleep(Duration::ZERO);
                yield_now();
                order.borrow_mut().push(name);
            })
        };
        join_all([says(true, false, "long"), gives_way(&order, "gave way")]);
        // It runs long, and goes on as if it did not.
        join_all([says(false, true, "short"), gives_way(&order, "gave way")]);
        order.take()
    });
    assert_eq!(order, ["gave way", "long", "short", "gave way"]);
}

#[test]
fn without_predictions_tasks_run_in_their_order() {
    let order = Runtime::with_workers(1).long_from(LONG_FROM).run(|| {
        let order = Order::default();
        let long = || spawn_here(task(&order, "long", true));
        let short = || spawn_here(task(&order, "short", false));
        (0..3).for_each(|_| join_all([long(), short()]));
        order.take()
    });
    assert_eq!(order.unwrap(), ["long", "short", "long", "short", "long", "short"]);
}

/// Workers take long tasks from one another that have not begun, and each learns for itself.
#[test]
fn several_workers_lose_no_task() {
    let runtime = Runtime::with_workers(3).with_predictions().long_from(Duration::from_micros(100));
    let (sum, dropped) = runtime
        .run(|| {
            let long = |number: u64| {
                spawn(move || {
                    for _ in 0..4 {
                        let begun = Instant::now();
                        while begun.elapsed() < Duration::from_micros(60) {
                            std::hint::spin_loop();
                        }
                        yield_now();
                    }
                    number
                })
            };
            let short = |number: u64| spawn(move || number);
            let mut sum = 0;
            for round in 0..40 {
                let numbers = round * 30..(round + 1) * 30;
                let tasks: Vec<_> = numbers
                    .map(|number| if number % 3 == 0 { long(number) } else { short(number) })
                    .collect();
                sum += tasks.into_iter().map(|task| task.join().unwrap()).sum::<u64>();
            }
            // What is long and has not begun ends with the root.
            let left: Vec<_> = (0..100).map(long).collect();
            yield_now();
            (sum, left)
        })
        .unwrap();
    assert_eq!(sum, 1199 * 1200 / 2);
    for task in dropped {
        assert!(matches!(task.join(), Ok(_) | Err(JoinError::Cancelled)));
    }
}
