//! `regrow bench --memory`: blocks of the memory service beside memory that the kernel maps.
//!
//! ```text
//!   alloc + touch + free   by the service and by mmap, touch, munmap in turn: threads at the same time, each with blocks of its own
//!   allocators             the same by jemalloc and mimalloc
//!   pairs                  alloc and free alone: what a client has kept, and what goes home to its zone each time
//!   slaves                 requests that go through a slave, one by one and in batches
//!   operations             messages, useful time and overhead of each: table 1
//!   domain                 1 MiB from process to process, by the service and by a pipe
//!   giving back            what the kernel takes for it by either advice, one by one and together, and the service by a call
//!   in Regrow      what a body's areas and pages and a request's body cost, beside the service (see `in_regrow`)
//!   idle                   processor time of this process while it has a service and nobody asks it
//! ```
//!
//! A touch writes to each page and reads what it wrote. The benchmark fails when a block is not home at the end.

mod allocators;
mod balance;
mod chess;
pub mod domain;
mod giving_back;
mod in_regrow;
mod operations;
mod programs;
mod random;
pub mod scaling;
mod slaves;
mod source;
mod subject;
mod turns;
mod worker;

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use regrow_memory::{Mode, Service, ServiceError, ServiceOptions};
use rustix::time::{ClockId, clock_gettime};

use crate::error::BenchError;
use crate::figure::Figure;
use crate::samples::median;

use chess::Chess;
use scaling::ScalingPoint;
use turns::{ROUNDS, joined, refused};
use worker::Worker;

/// How many pairs are timed at once.
const PAIRS: u32 = 200_000;
/// How long the service is left alone.
const IDLE: Duration = Duration::from_secs(10);

/// What is measured of a size: the name, pages, threads, how pages come, how many times as many as by the kernel are asked for.
struct Case {
    size: &'static str,
    pages: usize,
    threads: usize,
    mode: Mode,
    at_least: f64,
}

const CASES: [Case; 7] = [
    Case { size: "4 KiB", pages: 1, threads: 2, mode: Mode::Immediate, at_least: 30.0 },
    Case { size: "4 KiB", pages: 1, threads: 1, mode: Mode::Immediate, at_least: 12.0 },
    Case { size: "64 KiB", pages: 16, threads: 2, mode: Mode::Immediate, at_least: 10.0 },
    Case { size: "2 MiB", pages: 512, threads: 2, mode: Mode::Immediate, at_least: 10.0 },
    Case { size: "4 KiB", pages: 1, threads: 2, mode: Mode::Delayed, at_least: 3.2 },
    Case { size: "64 KiB", pages: 16, threads: 2, mode: Mode::Delayed, at_least: 3.2 },
    Case { size: "2 MiB", pages: 512, threads: 2, mode: Mode::Delayed, at_least: 3.2 },
];

/// Measures everything.
///
/// # Errors
/// [`BenchError`] where memory is refused, or a block is lost.
pub fn measure() -> Result<Vec<Figure>, BenchError> {
    let chess = Chess::find()?;
    let service = Service::new(&ServiceOptions::default()).map_err(refused)?;
    let mut figures = Vec::new();
    for case in &CASES {
        figures.extend(compare(&service, case)?);
    }
    figures.extend(allocators::measure(&service)?);
    figures.extend(pairs(&service)?);
    figures.extend(slaves::measure()?);
    figures.extend(operations::measure()?);
    figures.extend(domain::measure()?);
    figures.extend(giving_back::measure(&service)?);
    figures.extend(in_regrow::measure(&service)?);
    figures.extend(programs::measure(&service)?);
    let (rates, of_chess) = chess.measure()?;
    figures.extend(of_chess);
    figures.extend(balance::measure()?);
    figures.push(idle());
    figures.extend(scaling::measure(&rates)?);
    let lost: u64 = service.zones().iter().map(|zone| zone.own_pages - zone.free_pages).sum();
    if lost > 0 {
        return Err(BenchError::system("a block of the memory service is not home")(std::io::Error::other(
            format!("{lost} pages"),
        )));
    }
    Ok(figures)
}

/// Those that a reader of the screen wants: points of figures 6 and 7 are there to be drawn.
#[must_use]
pub fn shown(figures: &[Figure]) -> Vec<Figure> {
    figures.iter().filter(|figure| ScalingPoint::of_name(figure.name()).is_none()).cloned().collect()
}

/// Whether the simulator of figures 6 and 7 is as near to what was measured as it is to be. The figures are good as they are, but for those that it says.
///
/// # Errors
/// [`BenchError::WrongRun`].
pub fn check(figures: &[Figure]) -> Result<(), BenchError> {
    match figures.iter().find(|figure| scaling::is_verdict(figure) && figure.holds() == Some(false)) {
        None => Ok(()),
        Some(figure) => Err(BenchError::WrongRun {
            program: figure.name().to_owned(),
            what: format!("is off by {} %", figure.measured()),
        }),
    }
}

fn compare(service: &Service, case: &Case) -> Result<[Figure; 3], BenchError> {
    let &Case { size, pages, threads, mode, at_least } = case;
    let barrier = Barrier::new(threads);
    let rates = thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|_| {
                let worker = Worker::new(service.client(), mode, pages);
                scope.spawn(|| work(worker, &barrier))
            })
            .collect();
        started.into_iter().map(joined).collect::<Result<Vec<[f64; 2]>, BenchError>>()
    })?;
    let [ours, theirs] = [0, 1].map(|side| rates.iter().map(|rates| rates[side]).sum::<f64>());
    let how = match mode {
        Mode::Immediate => "immediate",
        Mode::Delayed => "delayed",
    };
    let by = if threads == 1 { "one thread" } else { "two threads" };
    let name = format!("{size}, {by}, {how}");
    let against = format!("{name}: alloc, touch, free, against mmap, touch, munmap");
    Ok([
        Figure::at_least(&against, ours / theirs, at_least, "times"),
        Figure::told(&format!("{name}: by the service"), ours, "1/s"),
        Figure::told(&format!("{name}: by mmap"), theirs, "1/s"),
    ])
}

/// The turns of a thread, and the medians of its rates: by the service, and by the kernel. Whatever fails, it comes to every barrier.
fn work(mut worker: Worker, barrier: &Barrier) -> Result<[f64; 2], BenchError> {
    let mut rates = [Vec::new(), Vec::new()];
    let mut failed = Ok(());
    for _ in 0..ROUNDS {
        for (rates, by_service) in rates.iter_mut().zip([true, false]) {
            barrier.wait();
            if failed.is_ok() {
                failed = worker.turn(by_service).map(|rate| rates.push(rate));
            }
            barrier.wait();
        }
    }
    failed.map(|()| rates.map(median))
}

fn pairs(service: &Service) -> Result<[Figure; 2], BenchError> {
    let mut client = service.client();
    let mut kept = Vec::new();
    let mut home = Vec::new();
    for _ in 0..ROUNDS {
        kept.push(per_pair(|| client.alloc(1, Mode::Immediate).map(|block| client.free(black_box(block))))?);
        home.push(per_pair(|| client.alloc_zeroed(1, Mode::Delayed).map(|block| drop(black_box(block))))?);
    }
    Ok([
        Figure::at_most("a pair of alloc and free, inline, hot", median(kept), 60.0, "ns"),
        Figure::told("the same by the zone each time, and zeroed", median(home), "ns"),
    ])
}

fn per_pair(mut pair: impl FnMut() -> Result<(), ServiceError>) -> Result<f64, BenchError> {
    let begun = Instant::now();
    for _ in 0..PAIRS {
        pair().map_err(refused)?;
    }
    Ok(begun.elapsed().as_secs_f64() * 1e9 / f64::from(PAIRS))
}

/// Processor time of this process while the keepers of services look for the last time, and nobody asks the service for anything.
fn idle() -> Figure {
    let spent = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    };
    let before = spent();
    thread::sleep(IDLE);
    // The two calls and the sleep take some microseconds themselves.
    let ms = (spent() - before).as_micros() / 1000;
    let ms = u32::try_from(ms).unwrap_or(u32::MAX);
    Figure::at_most("a service that is idle for 10 s: processor time", f64::from(ms), 0.0, "ms")
}
