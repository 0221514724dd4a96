//! One byte over a channel, and back over another one; beside it a byte that a fiber is resumed with, and that it hands back.

use std::time::Instant;

use regrow_fiber::{Fiber, Runtime, State, channel, spawn_here};

use super::contest::{Contest, each_ns, no_runtime, no_stack, wrong};
use super::others;
use crate::error::BenchError;
use crate::figure::Figure;

const COUNT: usize = 100_000;
const ROUNDS: usize = 100;

pub(super) fn measure() -> Result<Vec<Figure>, BenchError> {
    let times = Contest::new("one byte over a channel and back")
        .way("tasks", of_tasks)
        .way("a fiber that is resumed", by_resume)
        .way("tokio tasks", || others::over_tokio(COUNT / 10))
        .way("threads, std", || others::over_threads(500))
        .run(ROUNDS)?;
    let mut figures =
        vec![Figure::at_most("one byte over a channel and back, two tasks", times.own(), 6.0, "ns")];
    figures.extend(times.figures());
    Ok(figures)
}

/// No channel: the switch itself hands the byte over, as in the letters.
fn by_resume() -> Result<f64, BenchError> {
    let mut echo = Fiber::<u8, u8, ()>::new(|suspender, mut byte| {
        loop {
            byte = suspender.suspend(byte.wrapping_add(1));
        }
    })
    .map_err(no_stack)?;
    let mut byte = 0;
    let begun = Instant::now();
    for _ in 0..COUNT {
        if let State::Yielded(next) = echo.resume(byte) {
            byte = next;
        }
    }
    let time = each_ns(begun, COUNT);
    if usize::from(byte) == COUNT % 256 { Ok(time) } else { Err(wrong("a fiber that is resumed")) }
}

fn of_tasks() -> Result<f64, BenchError> {
    let run = Runtime::with_workers(1).run(|| {
        let (there, from_here) = channel::<u8>(1);
        let (back, from_there) = channel::<u8>(1);
        let echo = spawn_here(move || {
            let mut count = 0_usize;
            while let Ok(byte) = from_here.receive() {
                count += 1;
                if back.send(byte.wrapping_add(1)).is_err() {
                    break;
                }
            }
            count
        });
        let mut byte = 0_u8;
        let begun = Instant::now();
        for _ in 0..COUNT {
            let _ = there.send(byte);
            byte = from_there.receive().unwrap_or(0);
        }
        let time = each_ns(begun, COUNT);
        drop(there);
        (time, byte, echo.join().ok())
    });
    let (time, byte, count) = run.map_err(no_runtime)?;
    if count == Some(COUNT) && usize::from(byte) == COUNT % 256 { Ok(time) } else { Err(wrong("channel")) }
}
