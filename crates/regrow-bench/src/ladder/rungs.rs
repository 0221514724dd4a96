//! The price of each rung: a small work from its creation to its end, beside what people use for the same. And a fresh process beside a copy of this
//! one, whose price follows what the process has in memory.

use std::io::{Read, Write};
use std::process::Command;
use std::time::{Duration, Instant};

use regrow::work::{self, Weight};
use regrow::{Point, Stats};
use regrow_fiber::Runtime;

use super::contest::{Contest, Times, each_ns, no_runtime, wrong};
use super::others;
use crate::error::{BenchError, check_recycled};
use crate::figure::Figure;

/// How many works of the light rungs make a turn, of a thread, and of those with processes.
const LIGHT: usize = 2_000;
const THREADS: usize = 40;
const PROCESSES: usize = 10;
const ROUNDS: usize = 60;

/// What the process has touched when it is copied.
const MEMORY: [(usize, f64); 2] = [(4 << 20, 1.5), (256 << 20, 10.0)];
const PAGE: usize = 4096;

/// The work: a small function.
#[regrow::fresh]
fn sum(one: u64, other: u64) -> u64 {
    one + other
}

pub(super) fn measure() -> Result<Vec<Figure>, BenchError> {
    let prepared = work::prepare();
    if !matches!(prepared, Ok(Point::Warm)) {
        return Err(BenchError::WrongRun {
            program: "ladder".to_owned(),
            what: format!("there is no image of this program for fresh processes: {prepared:?}"),
        });
    }
    await_image()?;
    let before = regrow::Pool::global().stats();
    let mut figures = Vec::new();
    for (bytes, asked) in MEMORY {
        figures.extend(beside_copies(bytes, asked)?);
    }
    figures.extend(prices()?);
    let after = regrow::Pool::global().stats();
    figures.push(recycled(&before, &after)?);
    Ok(figures)
}

/// A call of a function in a fresh process, and in a copy of this one with so much memory, by `fork`, a pipe and a wait.
fn beside_copies(bytes: usize, asked: f64) -> Result<Vec<Figure>, BenchError> {
    let mut memory = vec![1_u8; bytes];
    memory.iter_mut().step_by(PAGE).for_each(|byte| *byte = byte.wrapping_add(1));
    let what = format!("call to result, {} MiB touched", bytes >> 20);
    let times = Contest::new(&what)
        .way("fresh", || each(PROCESSES, |number| ours(Weight::Fresh, number)))
        .way("fork, pipe, wait", || each(PROCESSES, fork_pipe_wait))
        .way("a copy (work)", || each(PROCESSES, |number| ours(Weight::Fork, number)))
        .run(ROUNDS)?;
    std::hint::black_box(&memory);
    let mut figures = vec![times.at_least("fork, pipe, wait", asked)];
    figures.extend(times.figures());
    Ok(figures)
}

/// What a rung takes, and its counterpart.
fn prices() -> Result<Vec<Figure>, BenchError> {
    let light = |weight| move || in_runtime(move || each(LIGHT, |number| ours(weight, number)));
    let process = |weight| move || each(PROCESSES, |number| ours(weight, number));
    let rungs = [
        Contest::new("price of a step").way("ours", light(Weight::Step)).way("tokio task", tokio_tasks),
        Contest::new("price of a fiber")
            .way("ours", light(Weight::Fiber))
            .way("thread, std", || each(THREADS, std_thread)),
        Contest::new("price of a thread")
            .way("ours", || each(THREADS, |number| ours(Weight::Thread, number)))
            .way("thread, std", || each(THREADS, std_thread)),
        Contest::new("price of a copy")
            .way("ours", process(Weight::Fork))
            .way("fork, pipe, wait", || each(PROCESSES, fork_pipe_wait)),
        Contest::new("price of a fresh process")
            .way("ours", process(Weight::Fresh))
            .way("this program, posix_spawn", || each(PROCESSES, own_program)),
        Contest::new("price of a program")
            .way("ours", || each(PROCESSES, ours_program))
            .way("posix_spawn", || each(PROCESSES, std_program)),
    ];
    let times: Vec<Times<'_>> = rungs.into_iter().map(|rung| rung.run(ROUNDS)).collect::<Result<_, _>>()?;
    let mut figures = Vec::new();
    for (position, rung) in times.iter().enumerate() {
        figures.extend(rung.against_second(1.0));
        if let Some(before) = position.checked_sub(1).and_then(|before| times.get(before)) {
            let dearer = rung.own() / before.own();
            figures.push(Figure::at_least(
                &format!("{}, against the rung before", rung.what()),
                dearer,
                1.0,
                "times as dear",
            ));
        }
        figures.extend(rung.figures());
    }
    Ok(figures)
}

fn in_runtime(turn: impl FnOnce() -> Result<f64, BenchError> + 'static) -> Result<f64, BenchError> {
    Runtime::with_workers(1).run(turn).map_err(no_runtime)?
}

/// So many, one after the other; what each takes.
fn each(count: usize, mut one: impl FnMut(u64) -> Result<u64, BenchError>) -> Result<f64, BenchError> {
    let begun = Instant::now();
    for number in 0..count as u64 {
        if one(number)? != number + 5 {
            return Err(wrong("a rung"));
        }
    }
    Ok(each_ns(begun, count))
}

/// A work of this weight. A fresh process is one that was recycled.
fn ours(weight: Weight, number: u64) -> Result<u64, BenchError> {
    let done = work::run(weight, sum::call(number, 5));
    done.map_err(|died| BenchError::WrongRun { program: weight.name().to_owned(), what: died.to_string() })
}

fn fork_pipe_wait(number: u64) -> Result<u64, BenchError> {
    let failed = BenchError::system("a process is not copied");
    let run = || {
        let (mut reader, mut writer) = std::io::pipe()?;
        let pid =
            regrow_sys::copy::fork(|| i32::from(writer.write_all(&sum(number, 5).to_ne_bytes()).is_err()))?;
        drop(writer);
        let mut bytes = [0; 8];
        reader.read_exact(&mut bytes)?;
        regrow_sys::raw::wait_pid(pid, false)?;
        Ok(u64::from_ne_bytes(bytes))
    };
    run().map_err(failed)
}

fn std_thread(number: u64) -> Result<u64, BenchError> {
    std::thread::spawn(move || sum(number, 5)).join().map_err(|_| wrong("a thread"))
}

fn tokio_tasks() -> Result<f64, BenchError> {
    others::tokio_spawned(LIGHT, |number| sum(number, 5))
}

/// How many of the processes of the engine's were recycled: nearly all, or nothing was measured.
fn recycled(before: &Stats, after: &Stats) -> Result<Figure, BenchError> {
    let runs = after.total() - before.total();
    let recycled = after.recycled.total() - before.recycled.total();
    check_recycled("the ladder", recycled, runs)?;
    #[allow(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^52")]
    let share = recycled as f64 * 100.0 / runs.max(1) as f64;
    Ok(Figure::told("fresh processes and programs that were recycled", share, "%"))
}

/// This program, executed for something small.
fn own_program(number: u64) -> Result<u64, BenchError> {
    let program = std::env::current_exe().and_then(|path| Command::new(path).arg("--version").output());
    let output = program.map_err(BenchError::system("this program does not start"))?;
    if output.status.success() { Ok(number + 5) } else { Err(wrong("this program")) }
}

const PROGRAM: &str = "/bin/true";

/// How long there may be no image of the program.
const PATIENCE: Duration = Duration::from_secs(10);

/// The first ones execute the program, until its image is there.
fn await_image() -> Result<(), BenchError> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let work = work::spawn(Weight::Program, regrow::Command::new(PROGRAM));
        let recycled = work.creation().is_some_and(|creation| creation.point().is_some());
        work.join().map_err(|_| wrong("a program"))?;
        if recycled {
            return Ok(());
        }
    }
    Err(wrong("a program that is to be recycled"))
}

fn ours_program(number: u64) -> Result<u64, BenchError> {
    match work::run(Weight::Program, regrow::Command::new(PROGRAM)) {
        Ok(output) if output.status.success() => Ok(number + 5),
        _ => Err(wrong("a program")),
    }
}

fn std_program(number: u64) -> Result<u64, BenchError> {
    let output = Command::new(PROGRAM).output().map_err(BenchError::system("a program does not start"))?;
    if output.status.success() { Ok(number + 5) } else { Err(wrong("a program")) }
}
