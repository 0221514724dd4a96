//! Short tasks that arrive while long ones run: how long each is there, with predictions and without.
//!
//! Without predictions the loop has its turn after 256 switches, however long these take. So that what is seen is not that alone, a further way has all tasks
//! say that they are long: they run in their order then, and the loop has its turn after each stretch.

use std::time::{Duration, Instant};

use regrow_fiber::{Runtime, set_long, sleep, spawn, yield_now};

use super::contest::{no_runtime, wrong};
use crate::error::BenchError;
use crate::figure::Figure;
use crate::samples::median;

/// How many there are, and what each uses of the processor.
const SHORT: usize = 200;
const SHORT_US: u64 = 50;
const LONG: usize = 20;
const LONG_US: u64 = 50_000;
/// Long ones give way so often.
const STRETCH_US: u64 = 500;
/// A short one arrives so often.
const EACH: Duration = Duration::from_millis(4);
/// What is asked of the predictions.
const ASKED: f64 = 2.0;
const ROUNDS: usize = 5;

/// Who says which tasks are long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Predictions,
    Nobody,
    LongOnes,
    All,
}

/// What a turn gives, in microseconds.
#[derive(Debug, Clone, Copy)]
struct Stay {
    mean: f64,
    p99: f64,
    /// When the last long one had ended.
    last: f64,
}

pub(super) fn measure() -> Result<Vec<Figure>, BenchError> {
    let ways = [
        ("predictions", Way::Predictions),
        ("in their order", Way::All),
        ("without predictions", Way::Nobody),
        ("long ones say so", Way::LongOnes),
    ];
    let mut turns: [Vec<Stay>; 4] = Default::default();
    for _ in 0..ROUNDS {
        for ((_, way), turns) in ways.iter().zip(&mut turns) {
            turns.push(turn_of(*way)?);
        }
    }
    let of = |way: usize, part: fn(&Stay) -> f64| median(turns[way].iter().map(part));
    let ratio = of(1, |turn| turn.mean) / of(0, |turn| turn.mean);
    let mut figures = vec![Figure::at_least(
        "200 short tasks while 20 long ones run, mean, by predictions against in their order",
        ratio,
        ASKED,
        "times as quick",
    )];
    for (number, (name, _)) in ways.iter().enumerate() {
        let named = |what: &str| format!("200 short tasks while 20 long ones run, {name}, {what}");
        figures.push(Figure::told(&named("mean"), of(number, |turn| turn.mean), "us"));
        figures.push(Figure::told(&named("99th percentile"), of(number, |turn| turn.p99), "us"));
        figures.push(Figure::told(&named("end of the last long one"), of(number, |turn| turn.last), "us"));
    }
    Ok(figures)
}

fn turn_of(way: Way) -> Result<Stay, BenchError> {
    let runtime = Runtime::with_workers(1);
    let runtime = if way == Way::Predictions { runtime.with_predictions() } else { runtime };
    let (mut times, longs, last) = runtime.run(move || all(way)).map_err(no_runtime)?;
    if times.len() != SHORT || longs != LONG {
        return Err(wrong("short tasks beside long ones"));
    }
    times.sort_by(f64::total_cmp);
    #[allow(clippy::cast_precision_loss, reason = "a count of tasks")]
    let mean = times.iter().sum::<f64>() / SHORT as f64;
    Ok(Stay { mean, p99: times[SHORT * 99 / 100], last })
}

/// Runs all of them: how long each short one was there, how many long ones have ended, and when the last.
fn all(way: Way) -> (Vec<f64>, usize, f64) {
    let begun = Instant::now();
    set_long(way == Way::All);
    let long: Vec<_> = (0..LONG)
        .map(|_| {
            spawn(move || {
                if matches!(way, Way::LongOnes | Way::All) {
                    set_long(true);
                }
                for _ in 0..LONG_US / STRETCH_US {
                    be_busy(STRETCH_US);
                    yield_now();
                }
                micros(begun)
            })
        })
        .collect();
    let mut short = Vec::with_capacity(SHORT);
    let mut arrives = begun;
    for _ in 0..SHORT {
        // As planned, whenever this comes to run.
        arrives += EACH;
        let early = arrives.saturating_duration_since(Instant::now());
        if !early.is_zero() {
            sleep(early);
        }
        let arrived = arrives;
        short.push(spawn(move || {
            if way == Way::All {
                set_long(true);
                yield_now();
            }
            be_busy(SHORT_US);
            micros(arrived)
        }));
    }
    let ended: Vec<f64> = long.into_iter().filter_map(|task| task.join().ok()).collect();
    let last = ended.iter().copied().fold(0.0, f64::max);
    let times = short.into_iter().filter_map(|task| task.join().ok()).collect();
    (times, ended.len(), last)
}

fn be_busy(time_us: u64) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_micros(time_us) {
        std::hint::spin_loop();
    }
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}
