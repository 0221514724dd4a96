//! Create, run, end.

use std::time::Instant;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use regrow_fiber::{Builder, DEFAULT_STACK_BYTES, Fiber, State};

use super::contest::{Contest, each_ns, no_stack, wrong};
use crate::error::BenchError;
use crate::figure::Figure;

/// How many are created in a turn, one after the other; and all at once, so that each has a fresh stack.
const COUNT: usize = 5_000;
const AT_ONCE: usize = 500;
const ROUNDS: usize = 60;

pub(super) fn measure() -> Result<Vec<Figure>, BenchError> {
    let mut kept = DefaultStack::new(DEFAULT_STACK_BYTES).ok();
    let reused = Contest::new("create, run, end, stack reused")
        .way("fiber", one_by_one)
        .way("corosensei", move || by_corosensei(&mut kept))
        .run(ROUNDS)?;
    // A size that nothing else has here: no stack of it was used before.
    let mut bytes = 4 << 20;
    let fresh = Contest::new("create, run, end, fresh stack")
        .way("fiber", || fresh_ones(&mut bytes))
        .way("corosensei", fresh_by_corosensei)
        .run(4)?;
    let mut figures = vec![reused.at_least("corosensei", 1.0), fresh.at_least("corosensei", 2.0)];
    figures.extend(reused.figures());
    figures.extend(fresh.figures());
    Ok(figures)
}

fn one_by_one() -> Result<f64, BenchError> {
    let begun = Instant::now();
    let mut sum = 0;
    for number in 0..COUNT {
        let mut fiber = Fiber::<usize, (), usize>::new(move |_, input| input + number).map_err(no_stack)?;
        if let State::Returned(output) = fiber.resume(1) {
            sum += output;
        }
    }
    checked(begun, COUNT, sum)
}

fn by_corosensei(kept: &mut Option<DefaultStack>) -> Result<f64, BenchError> {
    let begun = Instant::now();
    let mut sum = 0;
    for number in 0..COUNT {
        let Some(stack) = kept.take() else { break };
        let mut fiber = Coroutine::<usize, (), usize>::with_stack(stack, move |_, input| input + number);
        if let CoroutineResult::Return(output) = fiber.resume(1) {
            sum += output;
        }
        *kept = Some(fiber.into_stack());
    }
    checked(begun, COUNT, sum)
}

/// Stacks of another size in each turn.
fn fresh_ones(bytes: &mut usize) -> Result<f64, BenchError> {
    *bytes <<= 1;
    let begun = Instant::now();
    let mut sum = 0;
    let mut fibers = Vec::with_capacity(AT_ONCE);
    for number in 0..AT_ONCE {
        let built =
            Builder::new().stack_bytes(*bytes).build::<usize, (), usize>(move |_, input| input + number);
        let mut fiber = built.map_err(no_stack)?;
        if let State::Returned(output) = fiber.resume(1) {
            sum += output;
        }
        fibers.push(fiber);
    }
    drop(fibers);
    checked(begun, AT_ONCE, sum)
}

fn fresh_by_corosensei() -> Result<f64, BenchError> {
    let begun = Instant::now();
    let mut sum = 0;
    let mut fibers = Vec::with_capacity(AT_ONCE);
    for number in 0..AT_ONCE {
        let stack =
            DefaultStack::new(DEFAULT_STACK_BYTES).map_err(BenchError::system("corosensei has no stack"))?;
        let mut fiber = Coroutine::<usize, (), usize>::with_stack(stack, move |_, input| input + number);
        if let CoroutineResult::Return(output) = fiber.resume(1) {
            sum += output;
        }
        fibers.push(fiber);
    }
    drop(fibers);
    checked(begun, AT_ONCE, sum)
}

fn checked(begun: Instant, count: usize, sum: usize) -> Result<f64, BenchError> {
    let time = each_ns(begun, count);
    if sum == count * (count + 1) / 2 { Ok(time) } else { Err(wrong("create, run, end")) }
}
