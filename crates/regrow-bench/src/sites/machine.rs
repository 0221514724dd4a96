//! What a creation costs more while the whole machine is looked at.
//!
//! ```text
//!   turn without   create, wait, create, wait …
//!   turn with      the same; a thread collects     every creation must be told, with a place
//! ```
//!
//! Turns go by in the order A B B A. The difference is that of the medians of a pair of turns, and of all differences the median is the
//! figure. Beside it stands what the kernel itself counts for the programs, and the processor time of the collecting thread.

use std::io;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use regrow_machine::{Losses, Machine, MachineOptions};
use regrow_sites::Event;
use rustix::time::{ClockId, clock_gettime};

use super::creator::{self, Creator, TIMED, WARM, WAYS};
use crate::error::BenchError;
use crate::figure::Figure;
use crate::samples::{median, micros};

/// How many pairs of turns.
const PAIRS: usize = 16;
/// What a creation may cost more, in microseconds.
const ASKED_US: f64 = 5.0;
/// Where the kernel is told to count the time of programs.
const COUNT_TIME: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// Measures each way to create.
pub(super) fn measure(creator: &Creator) -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    for (name, way) in WAYS {
        figures.extend(compare(creator, name, way)?);
    }
    Ok(figures)
}

fn compare(creator: &Creator, name: &str, way: &str) -> Result<Vec<Figure>, BenchError> {
    let (mut without, mut more, mut collecting) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..PAIRS {
        let first = if pair % 2 == 0 { Some(creator.turn(way)?) } else { None };
        let with = watched(creator, way)?;
        let plain = first.map_or_else(|| creator.turn(way), Ok)?;
        without.push(plain);
        more.push(with.turn_us - plain);
        collecting.push(with.collector_us);
    }
    let counted = counted(creator, way)?;
    let title = |what: &str| format!("whole machine, {name}: {what}");
    Ok(vec![
        Figure::at_most(&title("more for each creation"), median(more), ASKED_US, "µs"),
        Figure::told(&title("without it"), median(without), "µs"),
        Figure::told(&title("in the kernel's programs, by its own count, for each creation"), counted, "µs"),
        Figure::told(
            &title("processor time of the collecting thread, for each creation"),
            median(collecting),
            "µs",
        ),
    ])
}

/// A turn that was looked at.
struct WatchedTurn {
    turn_us: f64,
    /// Processor time of the collecting thread, for each creation.
    collector_us: f64,
}

/// A turn while the machine is looked at; each of its creations must be told, with its place.
fn watched(creator: &Creator, way: &str) -> Result<WatchedTurn, BenchError> {
    let mut machine = Machine::start(&MachineOptions::default())?;
    let is_over = AtomicBool::new(false);
    let child = creator.command(way).stdin(Stdio::null()).spawn().map_err(creator::failed())?;
    let parent = child.id();
    let (turn, told) = std::thread::scope(|scope| {
        let collector = scope.spawn(|| collect(&mut machine, parent, &is_over));
        let turn = child.wait_with_output();
        is_over.store(true, Ordering::Relaxed);
        (turn, collector.join())
    });
    let turn_us = creator::read(&turn.map_err(creator::failed())?.stdout, way)?;
    let (mut told, collector_ns) =
        told.map_err(|_| BenchError::system("the collector has failed")(io::Error::other("it panicked")))??;
    let losses = machine.finish(&mut |event| told += u64::from(is_of(&event, parent)))?;
    check(told, &losses)?;
    #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
    let collector_us = micros(collector_ns) / (WARM + TIMED) as f64;
    Ok(WatchedTurn { turn_us, collector_us })
}

/// Collects until the turn is over: how many creations of a process were told with a place, and this thread's processor time.
fn collect(machine: &mut Machine, parent: u32, is_over: &AtomicBool) -> Result<(u64, u64), BenchError> {
    let mut told = 0;
    while !is_over.load(Ordering::Relaxed) {
        let mut count = |event: Event| told += u64::from(is_of(&event, parent));
        machine.collect(Duration::from_millis(50), &mut count)?;
    }
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Ok((told, time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()))
}

/// Whether a process has created, at a place that is known.
fn is_of(event: &Event, of: u32) -> bool {
    matches!(event, Event::Created { parent, site, .. } if parent.pid == of && site.frames[0].is_some())
}

fn check(told: u64, losses: &Losses) -> Result<(), BenchError> {
    let expected = WARM + TIMED;
    if told == expected {
        return Ok(());
    }
    let what = format!("{told} of {expected} creations were told with a place; {losses:?}");
    Err(BenchError::WrongRun { program: "a process that creates others".to_owned(), what })
}

/// The time in the kernel's programs for each creation, by the kernel's own count, in microseconds.
fn counted(creator: &Creator, way: &str) -> Result<f64, BenchError> {
    let counts =
        Counting::start().map_err(BenchError::system("the kernel does not count the time of programs"))?;
    let mut machine = Machine::start(&MachineOptions::default())?;
    let mut created = 0_u64;
    for _ in 0..10 {
        creator.turn(way)?;
        let mut count = |event| created += u64::from(matches!(event, Event::Created { .. }));
        machine.collect(Duration::ZERO, &mut count)?;
    }
    let time_ns = program_time_ns().map_err(BenchError::system("the kernel's count cannot be read"))?;
    drop(counts);
    machine.finish(&mut |_| ())?;
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let all = created.max(1) as f64;
    Ok(micros(time_ns) / all)
}

/// The kernel counts the time of programs until this is dropped; it was off before.
struct Counting(String);

impl Counting {
    fn start() -> io::Result<Self> {
        let before = std::fs::read_to_string(COUNT_TIME)?;
        std::fs::write(COUNT_TIME, "1")?;
        Ok(Self(before))
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        // It costs programs a little time: nothing else is changed by it.
        let _ = std::fs::write(COUNT_TIME, &self.0);
    }
}

/// The time in the programs that this process holds, in nanoseconds.
fn program_time_ns() -> io::Result<u64> {
    let mut time_ns = 0;
    for entry in std::fs::read_dir("/proc/self/fdinfo")? {
        // A descriptor may be gone.
        let Ok(text) = std::fs::read_to_string(entry?.path()) else { continue };
        let time =
            text.lines().find_map(|line| line.strip_prefix("run_time_ns:")?.trim().parse::<u64>().ok());
        time_ns += time.unwrap_or(0);
    }
    Ok(time_ns)
}
