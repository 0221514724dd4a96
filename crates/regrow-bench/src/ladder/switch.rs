//! A switch: one fiber and whoever resumes it, which pass a number there and back.

use std::time::Instant;

use corosensei::{Coroutine, CoroutineResult};
use regrow_fiber::{Fiber, State};

use super::contest::{Contest, each_ns, no_stack, wrong};
use super::others;
use crate::error::BenchError;
use crate::figure::Figure;

/// How often a number goes there and back in a turn.
const COUNT: usize = 100_000;
const ROUNDS: usize = 400;
/// A number that goes by the kernel takes so much longer that fewer do.
const FEW: usize = 500;

pub(super) fn measure() -> Result<Vec<Figure>, BenchError> {
    let times = Contest::new("switch")
        .way("fiber", of_fiber)
        .way("corosensei", of_corosensei)
        .way("generator-rs", || others::of_generator(COUNT))
        .way("ucontext", || others::of_ucontext(COUNT / 20))
        .way("tokio task", || others::of_tokio(COUNT / 10))
        .way("threads, by a futex", || others::of_threads(FEW))
        .run(ROUNDS)?;
    let mut figures = vec![times.at_least("corosensei", 1.3)];
    figures.extend(times.figures());
    figures.extend(others::of_programs()?);
    Ok(figures)
}

fn of_fiber() -> Result<f64, BenchError> {
    let mut fiber = Fiber::<usize, usize, ()>::new(|suspender, mut number| {
        loop {
            number = suspender.suspend(number + 1);
        }
    })
    .map_err(no_stack)?;
    let mut number = 0;
    let begun = Instant::now();
    for _ in 0..COUNT {
        number = match fiber.resume(number) {
            State::Yielded(number) => number,
            State::Returned(()) => 0,
        };
    }
    let time = each_ns(begun, 2 * COUNT);
    if number == COUNT { Ok(time) } else { Err(wrong("fiber")) }
}

fn of_corosensei() -> Result<f64, BenchError> {
    let mut fiber = Coroutine::<usize, usize, ()>::new(|suspender, mut number| {
        loop {
            number = suspender.suspend(number + 1);
        }
    });
    let mut number = 0;
    let begun = Instant::now();
    for _ in 0..COUNT {
        number = match fiber.resume(number) {
            CoroutineResult::Yield(number) => number,
            CoroutineResult::Return(()) => 0,
        };
    }
    let time = each_ns(begun, 2 * COUNT);
    if number == COUNT { Ok(time) } else { Err(wrong("corosensei")) }
}
