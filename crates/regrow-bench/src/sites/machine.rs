//! What a creation costs more while the whole machine is looked at.
//!
//! ```text
//!   turn without   create, wait, create, wait …
//!   turn with      the same; a thread collects     every creation must be told, with a place
//! ```
//!
//! Turns go by in the order A B B A. The difference is that of the medians of a pair of turns, and of all differences the median is the
//! figure. Beside it stands what the kernel itself counts for the programs, and the processor time of the collecting thread.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use regrow_machine::{Losses, Machine, MachineOptions};
use regrow_sites::Event;
use rustix::time::{ClockId, clock_gettime};

use crate::error::BenchError;
use crate::figure::Figure;
use crate::programs::list::compile_static;
use crate::samples::{median, micros, now_ns};
use crate::system::native::{PosixSpawn, Spawned, fork};

/// How many pairs of turns.
const PAIRS: usize = 16;
/// How many creations of a turn are timed, and how many come before them.
const TIMED: usize = 400;
const WARM: usize = 50;
/// What a creation may cost more, in microseconds.
const ASKED_US: f64 = 5.0;
/// Where the kernel is told to count the time of programs.
const COUNT_TIME: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// A way to create a process that ends at once.
enum Way<'a> {
    Fork,
    Spawn(&'a PosixSpawn),
}

impl Way<'_> {
    /// Creates one and waits for it; how long it took, in nanoseconds.
    fn once(&self) -> io::Result<u64> {
        let begun_ns = now_ns();
        let child = match self {
            Self::Fork => Spawned::child(fork(|| {})?),
            Self::Spawn(program) => program.spawn()?,
        };
        let status = child.wait()?;
        let took_ns = now_ns() - begun_ns;
        if status.success() { Ok(took_ns) } else { Err(io::Error::other(status.to_string())) }
    }

    /// The median of a turn, in microseconds.
    fn turn(&self) -> io::Result<f64> {
        for _ in 0..WARM {
            self.once()?;
        }
        let times: Vec<u64> = (0..TIMED).map(|_| self.once()).collect::<io::Result<_>>()?;
        Ok(micros(median(times)))
    }
}

/// Measures both ways.
pub(super) fn measure() -> Result<Vec<Figure>, BenchError> {
    let failed = || BenchError::system("a process cannot be created");
    let folder = tempfile::tempdir().map_err(BenchError::system("a temporary folder cannot be made"))?;
    let program = compile_static(folder.path())
        .map_err(|why| BenchError::system("a program cannot be compiled")(io::Error::other(why)))?;
    let spawn = spawn(&program).map_err(failed())?;
    let mut figures = Vec::new();
    for (name, way) in
        [("fork, exit, wait", Way::Fork), ("posix_spawn of a static program, exit, wait", Way::Spawn(&spawn))]
    {
        figures.extend(compare(name, &way)?);
    }
    Ok(figures)
}

fn spawn(program: &Path) -> io::Result<PosixSpawn> {
    let null =
        || -> io::Result<OwnedFd> { Ok(File::options().read(true).write(true).open("/dev/null")?.into()) };
    PosixSpawn::new(program, &[OsString::from("static")], [null()?, null()?, null()?])
}

fn compare(name: &str, way: &Way<'_>) -> Result<Vec<Figure>, BenchError> {
    let failed = || BenchError::system("a process cannot be created");
    let (mut without, mut more, mut collecting) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..PAIRS {
        let first = if pair % 2 == 0 { Some(way.turn().map_err(failed())?) } else { None };
        let with = watched(way)?;
        let plain = first.map_or_else(|| way.turn(), Ok).map_err(failed())?;
        without.push(plain);
        more.push(with.turn_us - plain);
        collecting.push(with.collector_us);
    }
    let counted = counted(way)?;
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
fn watched(way: &Way<'_>) -> Result<WatchedTurn, BenchError> {
    let mut machine = Machine::start(&MachineOptions::default())?;
    let is_over = AtomicBool::new(false);
    let (turn, told) = std::thread::scope(|scope| {
        let collector = scope.spawn(|| collect(&mut machine, &is_over));
        let turn = way.turn();
        is_over.store(true, Ordering::Relaxed);
        (turn, collector.join())
    });
    let turn_us = turn.map_err(BenchError::system("a process cannot be created"))?;
    let (mut told, collector_ns) =
        told.map_err(|_| BenchError::system("the collector has failed")(io::Error::other("it panicked")))??;
    let losses = machine.finish(&mut |event| told += u64::from(is_own(&event)))?;
    check(told, &losses)?;
    #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
    let collector_us = micros(collector_ns) / (WARM + TIMED) as f64;
    Ok(WatchedTurn { turn_us, collector_us })
}

/// Collects until the turn is over: how many creations of this process were told with a place, and the thread's processor time.
fn collect(machine: &mut Machine, is_over: &AtomicBool) -> Result<(u64, u64), BenchError> {
    let mut told = 0;
    while !is_over.load(Ordering::Relaxed) {
        machine.collect(Duration::from_millis(50), &mut |event| told += u64::from(is_own(&event)))?;
    }
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Ok((told, time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()))
}

/// Whether this process has created, at a place that is known.
fn is_own(event: &Event) -> bool {
    matches!(event, Event::Created { parent, site, .. } if parent.pid == std::process::id() && site.frames[0].is_some())
}

fn check(told: u64, losses: &Losses) -> Result<(), BenchError> {
    let expected = (WARM + TIMED) as u64;
    if told == expected {
        return Ok(());
    }
    let what = format!("{told} of {expected} creations were told with a place; {losses:?}");
    Err(BenchError::WrongRun { program: "a process that creates others".to_owned(), what })
}

/// The time in the kernel's programs for each creation, by the kernel's own count, in microseconds.
fn counted(way: &Way<'_>) -> Result<f64, BenchError> {
    let counts =
        Counting::start().map_err(BenchError::system("the kernel does not count the time of programs"))?;
    let mut machine = Machine::start(&MachineOptions::default())?;
    let failed = || BenchError::system("a process cannot be created");
    let mut ignore = |_| ();
    let mut own = 0_u64;
    for _ in 0..10 {
        way.turn().map_err(failed())?;
        machine
            .collect(Duration::ZERO, &mut |event| own += u64::from(matches!(event, Event::Created { .. })))?;
    }
    let time_ns = program_time_ns().map_err(BenchError::system("the kernel's count cannot be read"))?;
    drop(counts);
    machine.finish(&mut ignore)?;
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let all = own.max(1) as f64;
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
