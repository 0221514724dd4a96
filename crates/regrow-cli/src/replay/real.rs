//! A replay with real processes: each creation of the trace is one, of the real program, in a pool of its own for each
//! policy.
//!
//! What the trace's processes did cannot be done again. Each program is started so that it does nothing (`perl -e 1`, else
//! `--version`), and is held when it is about to end, with its memory, until as many others have come as are to be alive.
//!
//! ```text
//!   call ──────────── main ─────────── about to end: held
//!     start-up             own work: measured in a ready body, and taken off
//! ```
//!
//! The start-up time is that from the call to the moment of the hold without the program's own work, which is the same however
//! it was started. What its work takes longer where it was not recycled (pages, tables of the linker) is part of the start-up.
//! A machine is not always equally fast: the own work is measured anew every so many creations.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use regrow::{Child, Command, Creation as How, Pool, Stdio};
use regrow_pool::sim::{Costs, Point, ProgramCosts, Report, Sizes};
use regrow_pool::trace::Creation;
use regrow_sys::ptrace;

use super::ReplayError;
use crate::bench::now_ns;

/// How often each program is started to learn its costs.
const TIMES: usize = 21;
/// How often it is started to learn how long it works at this moment.
const TIMES_AGAIN: usize = 5;
/// How many bodies are forked to learn what that costs.
const FORKS: usize = 7;
/// How long a body is given to be put back before the next of these starts.
const REST: Duration = Duration::from_millis(1);
/// How long putting a body back may take.
const RESET_LIMIT: Duration = Duration::from_millis(100);
/// After how many creations each point is reported.
const EVERY: usize = 100;

/// The programs of a trace that are there, and how they are started.
pub(super) struct Programs<'a> {
    known: BTreeSet<&'a str>,
    /// Those that can be recycled, each in a pool of its own, in which its own work is measured.
    kept: BTreeMap<&'a str, Pool>,
    /// Creations of programs that are not there any more, which are left out.
    pub(super) absent: usize,
}

impl<'a> Programs<'a> {
    pub(super) fn of(trace: &'a [Creation]) -> Programs<'a> {
        let names: BTreeSet<&str> = trace.iter().map(|creation| creation.program.as_str()).collect();
        let known: BTreeSet<&str> = names.into_iter().filter(|name| Path::new(name).is_file()).collect();
        let absent = trace.iter().filter(|creation| !known.contains(creation.program.as_str())).count();
        Programs { known, kept: BTreeMap::new(), absent }
    }

    /// The trace without what cannot be started.
    pub(super) fn there(&self, trace: &[Creation]) -> Vec<Creation> {
        trace.iter().filter(|creation| self.known.contains(creation.program.as_str())).cloned().collect()
    }

    /// Measures what a start of each program costs, by exec and in a ready body, and what its image and a body hold.
    pub(super) fn measure(&mut self, costs: &mut Costs) -> Result<(), ReplayError> {
        let by_exec = Pool::builder().recycle(false).build();
        for &program in &self.known {
            let kept = Pool::builder().timed(true).build();
            let (to_end_us, _) = medians_us(&by_exec, program, TIMES)?;
            // A program that is not recycled costs the same each time.
            let began = Instant::now();
            let is_kept = kept.prepare(&command(&kept, program)).is_ok();
            let make_us = micros(began.elapsed());
            let (ready_to_end_us, ready_us) =
                if is_kept { medians_us(&kept, program, TIMES)? } else { (to_end_us, to_end_us) };
            let own_us = ready_to_end_us - ready_us;
            let whole_us = (to_end_us - own_us).max(ready_us);
            let image_us = if is_kept { forked_us(program)? - own_us } else { whole_us };
            let mut held: Vec<u64> = kept.idle_keepers().into_iter().map(held_kib).collect();
            held.sort_unstable();
            let body_kib = held.first().copied().unwrap_or(0);
            let sizes = Sizes {
                image_kib: held.last().copied().unwrap_or(0),
                copied_kib: body_kib.saturating_sub(costs.body_kib),
                zeroed_kib: 0,
            };
            let known = ProgramCosts {
                sizes,
                whole_us: Some(whole_us),
                image_us: Some(image_us.max(ready_us)),
                ready_us: Some(ready_us),
                make_us: is_kept.then_some(make_us),
                own_us,
            };
            costs.programs.insert(program.to_owned(), known);
            if is_kept {
                self.kept.insert(program, kept);
            }
        }
        Ok(())
    }

    /// What each program of these creations works by itself from its `main` on, at this moment, in microseconds. One that
    /// cannot be recycled counts with all it does, as it is the same in every pool.
    fn own_us<'b>(&self, creations: &'b [Creation]) -> Result<BTreeMap<&'b str, f64>, ReplayError> {
        let names: BTreeSet<&str> = creations.iter().map(|creation| creation.program.as_str()).collect();
        let kept = names.into_iter().filter_map(|name| Some((name, self.kept.get(name)?)));
        let own = kept.map(|(name, pool)| {
            medians_us(pool, name, TIMES_AGAIN).map(|(to_end_us, ready_us)| (name, to_end_us - ready_us))
        });
        own.collect()
    }
}

/// What a program is given so that it does nothing.
fn arguments(program: &str) -> &'static [&'static str] {
    match Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default() {
        "dash" | "sh" => &["-c", ":"],
        "perl" => &["-e", "1"],
        "lighttpd" => &["-v"],
        name if name.starts_with("python") => &["-c", "pass"],
        _ => &["--version"],
    }
}

fn command(pool: &Pool, program: &str) -> Command {
    let mut command = pool.command(program);
    command.args(arguments(program)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.stop_at_exit(true);
    command
}

/// A process that is about to end, and is held there.
struct Held {
    child: Child,
    pid: i32,
}

impl Held {
    /// Starts a program and waits until it is about to end. Gives the time of that. One that was over before it could be
    /// held, which happens to an exec on a busy machine, does not count.
    fn start(pool: &Pool, program: &str) -> Result<(Held, Duration), ReplayError> {
        let mut command = command(pool, program);
        loop {
            let began = Instant::now();
            let started = command.spawn().and_then(|child| {
                let pid = child.id().cast_signed();
                ptrace::await_exit(pid).map(|()| Held { child, pid })
            });
            match started {
                Ok(held) => return Ok((held, began.elapsed())),
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::UnexpectedEof) => {}
                Err(source) => return Err(ReplayError::Start { program: program.to_owned(), source }),
            }
        }
    }

    fn end(mut self) -> Result<(), ReplayError> {
        let cannot = |source| ReplayError::Start { program: self.pid.to_string(), source };
        ptrace::let_exit(self.pid).map_err(cannot)?;
        self.child.wait().map(drop).map_err(cannot)
    }
}

/// From the call to the hold, and to `main` where the pool notes that (else to the hold): medians in microseconds.
fn medians_us(pool: &Pool, program: &str, times: usize) -> Result<(f64, f64), ReplayError> {
    let (mut to_end, mut to_main) = (Vec::with_capacity(times), Vec::with_capacity(times));
    for _ in 0..times {
        let began_ns = now_ns();
        let (held, time) = Held::start(pool, program)?;
        held.end()?;
        to_end.push(time);
        let entered_ns = pool.last_times(RESET_LIMIT).map_or(0, |times| times.times.main_ns);
        to_main.push(entered_ns.checked_sub(began_ns).map_or(time, Duration::from_nanos));
        std::thread::sleep(REST);
    }
    Ok((median_us(to_end), median_us(to_main)))
}

/// From the call to the hold in bodies that are forked because all others are in use: the median in microseconds.
fn forked_us(program: &str) -> Result<f64, ReplayError> {
    let kept = Pool::new();
    // What cannot be kept has been found before.
    let _ = kept.prepare(&command(&kept, program));
    let mut times = Vec::with_capacity(FORKS);
    let mut alive = Vec::with_capacity(FORKS + 1);
    for _ in 0..=FORKS {
        let (held, time) = Held::start(&kept, program)?;
        if matches!(held.child.creation(), How::ForkedBody { .. }) {
            times.push(time);
        }
        alive.push(held);
    }
    alive.into_iter().try_for_each(Held::end)?;
    Ok(median_us(times))
}

fn median_us(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |time| micros(*time))
}

/// Runs a trace in a pool, with so many processes alive.
pub(super) fn run(
    pool: &Pool,
    policy: &str,
    (trace, programs): (&[Creation], &Programs<'_>),
    existing: usize,
) -> Result<Report, ReplayError> {
    let mut alive: VecDeque<Held> = VecDeque::new();
    let (mut point, mut points, mut kept_sum) = (Point::default(), Vec::new(), 0u64);
    let mut own_us = BTreeMap::new();
    for (index, creation) in trace.iter().enumerate() {
        if index.is_multiple_of(EVERY) {
            own_us =
                programs.own_us(trace.get(index..(index + EVERY).min(trace.len())).unwrap_or_default())?;
        }
        if alive.len() >= existing.max(1)
            && let Some(oldest) = alive.pop_front()
        {
            oldest.end()?;
        }
        let (held, time) = Held::start(pool, &creation.program)?;
        count(&mut point, held.child.creation());
        alive.push_back(held);
        point.creations += 1;
        let own_us = own_us.get(creation.program.as_str()).copied().unwrap_or(0.0);
        point.time_us += (micros(time) - own_us).max(0.0);
        if point.creations.is_multiple_of(EVERY) || point.creations == trace.len() {
            point.kept_bytes = kept_bytes(pool);
            kept_sum += point.kept_bytes;
            point.mean_kept_bytes = kept_sum / (points.len() as u64 + 1);
            points.push(point);
        }
    }
    alive.into_iter().try_for_each(Held::end)?;
    let most_kept_bytes = points.iter().map(|point| point.kept_bytes).max().unwrap_or(0);
    Ok(Report { policy: policy.to_owned(), points, most_kept_bytes, actions: 0 })
}

fn count(point: &mut Point, how: &How) {
    match how {
        How::Recycled { .. } => point.in_body += 1,
        How::ForkedBody { .. } => point.with_image += 1,
        How::Exec { .. } => point.from_nothing += 1,
    }
}

/// Memory of what is kept and in no use.
fn kept_bytes(pool: &Pool) -> u64 {
    pool.idle_keepers().into_iter().map(held_kib).sum::<u64>() * 1024
}

/// What a process holds of memory: its share of anonymous and memory-file pages, and its page tables, in KiB.
fn held_kib(pid: i32) -> u64 {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let fields = read("smaps_rollup") + &read("status");
    let fields: BTreeMap<&str, u64> = fields.lines().filter_map(field).collect();
    ["Pss_Anon", "Pss_Shmem", "VmPTE"].iter().filter_map(|name| fields.get(name)).sum()
}

/// `Name:   12 kB`
fn field(line: &str) -> Option<(&str, u64)> {
    let (name, value) = line.split_once(':')?;
    Some((name, value.split_whitespace().next()?.parse().ok()?))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
