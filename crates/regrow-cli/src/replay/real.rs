//! A replay with real processes: each creation of the trace is one, of the real program, in a pool of its own for each
//! policy.
//!
//! What the trace's processes did cannot be done again. Each program is started so that it does nothing (`perl -e 1`, else
//! `--version`), and its time is that from the call to the moment when it is about to end. There it is held, with its memory,
//! until as many others have come as are to be alive. So a start is measured whole, and alike for every way of starting.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::time::{Duration, Instant};

use regrow::{Child, Command, Creation as How, Pool, Stdio};
use regrow_pool::sim::{Costs, Point, ProgramCosts, Report, Sizes};
use regrow_pool::trace::Creation;
use regrow_sys::ptrace;

use super::ReplayError;

/// How often each program is started to learn its costs.
const TIMES: usize = 21;
/// How long a body is given to be put back before the next of these starts.
const REST: Duration = Duration::from_millis(1);
/// After how many creations each point is reported.
const EVERY: usize = 100;

/// The programs of a trace that are there, and how they are started.
pub(super) struct Programs<'a> {
    known: BTreeSet<&'a str>,
    /// Creations of programs that are not there any more, which are left out.
    pub(super) absent: usize,
}

impl<'a> Programs<'a> {
    pub(super) fn of(trace: &'a [Creation]) -> Programs<'a> {
        let names: BTreeSet<&str> = trace.iter().map(|creation| creation.program.as_str()).collect();
        let known: BTreeSet<&str> = names.into_iter().filter(|name| Path::new(name).is_file()).collect();
        let absent = trace.iter().filter(|creation| !known.contains(creation.program.as_str())).count();
        Programs { known, absent }
    }

    /// The trace without what cannot be started.
    pub(super) fn there(&self, trace: &[Creation]) -> Vec<Creation> {
        trace.iter().filter(|creation| self.known.contains(creation.program.as_str())).cloned().collect()
    }

    /// Measures what a start of each program costs, by exec and in a ready body, and what its image and a body hold.
    pub(super) fn measure(&self, costs: &mut Costs) -> Result<(), ReplayError> {
        let by_exec = Pool::builder().recycle(false).build();
        for &program in &self.known {
            let kept = Pool::new();
            let whole_us = median_us(&by_exec, program)?;
            // A program that is not recycled costs the same each time.
            let ready_us = match kept.prepare(&command(&kept, program)) {
                Ok(_) => median_us(&kept, program)?,
                Err(_) => whole_us,
            };
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
                image_us: Some((ready_us + costs.add_body_us).min(whole_us)),
                ready_us: Some(ready_us.min(whole_us)),
            };
            costs.programs.insert(program.to_owned(), known);
        }
        Ok(())
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
    /// Starts a program and waits until it is about to end. Gives the time of that.
    fn start(pool: &Pool, program: &str) -> Result<(Held, Duration), ReplayError> {
        let cannot = |source| ReplayError::Start { program: program.to_owned(), source };
        let mut command = command(pool, program);
        let mut began = Instant::now();
        let mut child = command.spawn();
        while child.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::Interrupted) {
            // It was over before it could be held, which happens on a busy machine: that one does not count.
            began = Instant::now();
            child = command.spawn();
        }
        let child = child.map_err(cannot)?;
        let pid = child.id().cast_signed();
        ptrace::await_exit(pid).map_err(cannot)?;
        Ok((Held { child, pid }, began.elapsed()))
    }

    fn end(mut self) -> Result<(), ReplayError> {
        let cannot = |source| ReplayError::Start { program: self.pid.to_string(), source };
        ptrace::let_exit(self.pid).map_err(cannot)?;
        self.child.wait().map(drop).map_err(cannot)
    }
}

fn median_us(pool: &Pool, program: &str) -> Result<f64, ReplayError> {
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let (held, time) = Held::start(pool, program)?;
        held.end()?;
        times.push(time);
        std::thread::sleep(REST);
    }
    times.sort_unstable();
    Ok(times.get(TIMES / 2).map_or(0.0, |time| micros(*time)))
}

/// Runs a trace in a pool, with so many processes alive.
pub(super) fn run(
    pool: &Pool,
    policy: &str,
    trace: &[Creation],
    existing: usize,
) -> Result<Report, ReplayError> {
    let mut alive: VecDeque<Held> = VecDeque::new();
    let (mut point, mut points, mut kept_sum) = (Point::default(), Vec::new(), 0u64);
    for creation in trace {
        if alive.len() >= existing.max(1)
            && let Some(oldest) = alive.pop_front()
        {
            oldest.end()?;
        }
        let (held, time) = Held::start(pool, &creation.program)?;
        count(&mut point, held.child.creation());
        alive.push_back(held);
        point.creations += 1;
        point.time_us += micros(time);
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
