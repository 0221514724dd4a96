//! A million fibers, and a million tasks, that wait at once: each has its own memory, and no more than a page and some.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use regrow_fiber::{Builder, Fiber, ReceiveError, Runtime, State, channel, yield_now};

const COUNT: usize = 1_000_000;
/// What a fiber that waits has of memory at most: 1.1 pages and 200 bytes.
const MOST_BYTES: usize = 4096 * 11 / 10 + 200;

/// One test at a time: either takes more than four gigabytes.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("own status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}

#[test]
fn a_million_fibers_wait_at_once() {
    let _turn = alone();
    let mut fibers: Vec<Fiber<usize, usize, ()>> = Vec::with_capacity(COUNT);
    let before = resident_bytes();
    fibers.extend((0..COUNT).map(|number| {
        let fiber = Builder::new().stack_bytes(16 << 10).build(move |suspender, mut input| {
            loop {
                input = suspender.suspend(input + number);
            }
        });
        fiber.expect("there is memory")
    }));
    for round in 0..2 {
        for (number, fiber) in fibers.iter_mut().enumerate() {
            assert_eq!(fiber.resume(round), State::Yielded(round + number));
        }
    }
    // The list of them is not theirs.
    let of_list = COUNT * size_of::<Fiber<usize, usize, ()>>();
    let each = (resident_bytes() - before - of_list) / COUNT;
    assert!(each <= MOST_BYTES, "{each} bytes each");
}

#[test]
fn a_million_tasks_wait_at_once() {
    let _turn = alone();
    let count = Runtime::with_workers(1).run(|| {
        let count = Rc::new(Cell::new(0_usize));
        let (sender, receiver) = channel::<()>(1);
        let tasks: Vec<_> = (0..COUNT)
            .map(|_| {
                let (count, receiver) = (count.clone(), receiver.clone());
                Builder::new().stack_bytes(16 << 10).spawn_here(move || {
                    assert_eq!(receiver.receive(), Err(ReceiveError::Closed));
                    count.set(count.get() + 1);
                })
            })
            .collect();
        yield_now();
        drop(sender);
        tasks.into_iter().for_each(|task| task.join().expect("it ends"));
        count.get()
    });
    assert_eq!(count.expect("it runs"), COUNT);
}
