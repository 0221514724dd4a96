//! Round robin over many, whose stacks are in no cache any more when it is their turn again.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use corosensei::{Coroutine, CoroutineResult};
use regrow_fiber::{Builder, Fiber, Runtime, State, yield_now};

use super::contest::{Contest, each_ns, no_runtime, no_stack, wrong};
use super::native::{OneStack, Stacks};
use crate::error::BenchError;
use crate::figure::Figure;

/// How large the stacks of both are.
const STACK_BYTES: usize = 16 << 10;
/// How far ahead the stack of a fiber is fetched.
const AHEAD: usize = 8;
/// How many are resumed in a turn, at least.
const RESUMES: usize = 200_000;

/// How many, how many times as quick as corosensei is asked, and how many turns each has.
const CASES: [(&str, usize, f64, usize); 3] =
    [("1,000", 1_000, 1.0, 40), ("100,000", 100_000, 1.0, 15), ("1,000,000", 1_000_000, 1.2, 7)];

pub(super) fn measure() -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    for (name, count, asked, rounds) in CASES {
        let what = format!("round robin over {name}");
        let mut fibers = fibers(count)?;
        // Dropped after the coroutines that stand on them.
        let stacks = Stacks::map(count, STACK_BYTES)?;
        let mut coroutines = coroutines(&stacks, count)?;
        let times = Contest::new(&what)
            .way("fibers", || resume_fibers(&mut fibers))
            .way("corosensei", || resume_coroutines(&mut coroutines))
            .run(rounds)?;
        figures.push(times.at_least("corosensei", asked));
        figures.extend(times.figures());
        drop((fibers, coroutines));
        figures.push(Figure::told(&format!("{what}, tasks that give way"), of_tasks(count)?, "ns"));
    }
    Ok(figures)
}

type Numbers = Fiber<usize, usize, ()>;

fn fibers(count: usize) -> Result<Vec<Numbers>, BenchError> {
    let fiber = |own: usize| {
        let built = Builder::new().stack_bytes(STACK_BYTES).build(move |suspender, mut input| {
            loop {
                input = suspender.suspend(input ^ own);
            }
        });
        built.map_err(no_stack)
    };
    (0..count).map(fiber).collect()
}

fn resume_fibers(fibers: &mut [Numbers]) -> Result<f64, BenchError> {
    let rounds = RESUMES.div_ceil(fibers.len());
    let (mut found, mut expected) = (0, 0);
    let begun = Instant::now();
    for round in 0..rounds {
        for number in 0..fibers.len() {
            if let Some(ahead) = fibers.get(number + AHEAD) {
                ahead.fetch();
            }
            if let State::Yielded(output) = fibers[number].resume(round) {
                found ^= output;
            }
            expected ^= round ^ number;
        }
    }
    let time = each_ns(begun, rounds * fibers.len());
    if found == expected { Ok(time) } else { Err(wrong("round robin")) }
}

type Coroutines = Vec<Coroutine<usize, usize, (), OneStack>>;

fn coroutines(stacks: &Stacks, count: usize) -> Result<Coroutines, BenchError> {
    let coroutine = |own: usize| {
        let stack = stacks.stack(own).ok_or_else(|| wrong("stacks"))?;
        Ok(Coroutine::with_stack(stack, move |suspender, mut input| {
            loop {
                input = suspender.suspend(input ^ own);
            }
        }))
    };
    (0..count).map(coroutine).collect()
}

fn resume_coroutines(coroutines: &mut Coroutines) -> Result<f64, BenchError> {
    let rounds = RESUMES.div_ceil(coroutines.len());
    let (mut found, mut expected) = (0, 0);
    let begun = Instant::now();
    for round in 0..rounds {
        for (number, coroutine) in coroutines.iter_mut().enumerate() {
            if let CoroutineResult::Yield(output) = coroutine.resume(round) {
                found ^= output;
            }
            expected ^= round ^ number;
        }
    }
    let time = each_ns(begun, rounds * coroutines.len());
    if found == expected { Ok(time) } else { Err(wrong("round robin")) }
}

/// Tasks of a runtime, each of which gives way again and again, and the one that measures, which does so too.
fn of_tasks(count: usize) -> Result<f64, BenchError> {
    let rounds = (5 * RESUMES).div_ceil(count).max(3);
    let run = Runtime::with_workers(1).run(move || {
        let begun = Rc::new(Cell::new(0_usize));
        for _ in 0..count {
            let begun = begun.clone();
            Builder::new().stack_bytes(STACK_BYTES).spawn_here(move || {
                begun.set(begun.get() + 1);
                loop {
                    yield_now();
                }
            });
        }
        while begun.get() < count {
            yield_now();
        }
        let start = Instant::now();
        for _ in 0..rounds {
            yield_now();
        }
        each_ns(start, rounds * count)
    });
    run.map_err(no_runtime)
}
