//! A replay with real processes: each creation of the trace is one, of the real program, in a pool of its own for each
//! policy.
//!
//! What the trace's processes did cannot be done again. Each program is started so that it does nothing (`perl -e 1`, else
//! `--version`), and is held when it is about to end, with its memory, until as many others have come as are to be alive.
//!
//! ```text
//!   call ──────────── main ─────────── about to end: held
//!     start-up             own work: measured in a ready body
//! ```
//!
//! Of a run in a ready body the start-up time is that from the call to `main`. Of the others, whose `main` is not noted, it is
//! that from the call to the moment of the hold without the program's own work: what that takes longer where the body was not
//! ready (pages, tables of the linker) is part of the start-up. A machine is not always equally fast: the own work is measured
//! anew every so many creations.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use regrow::{Child, Command, Creation as How, Pool, Stdio};
use regrow_pool::sim::{Costs, Point, ProgramCosts, Report, Sizes};
use regrow_pool::trace::Creation;
use regrow_sys::ptrace;

use super::ReplayError;
use crate::bench::{held_kib, median, now_ns};

/// How often each program of a turn is started in a ready body beside it, and how often by exec, to learn what that takes at
/// this moment.
const TIMES_READY: usize = 5;
const TIMES_EXEC: usize = 2;
/// A program that is not recycled at one of so many starts is not recycled at all.
const MOST_STARTS: usize = 200;
/// How many bodies are forked to learn what that costs.
const FORKS: usize = 7;
/// How long putting a body back may take.
const RESET_LIMIT: Duration = Duration::from_millis(100);
/// After how many creations each point is reported.
const EVERY: usize = 100;
/// After how many creations the next policy has its turn; a part of [`EVERY`].
const TURN: usize = 50;

/// The programs of a trace that are there, and what their starts cost.
pub(super) struct Programs<'a> {
    known: BTreeSet<&'a str>,
    by_exec: Pool,
    /// Those that can be recycled, each in a pool of its own, in which its own work is measured.
    kept: BTreeMap<&'a str, Kept>,
    executed: BTreeMap<&'a str, Times>,
    recycled: BTreeMap<&'a str, Times>,
    /// Creations of programs that are not there any more, which are left out.
    pub(super) absent: usize,
}

/// A program that can be recycled.
struct Kept {
    pool: Pool,
    /// From its first start until one was recycled, in microseconds.
    make_us: f64,
}

impl<'a> Programs<'a> {
    pub(super) fn of(trace: &'a [Creation]) -> Programs<'a> {
        let names: BTreeSet<&str> = trace.iter().map(|creation| creation.program.as_str()).collect();
        let known: BTreeSet<&str> = names.into_iter().filter(|name| Path::new(name).is_file()).collect();
        let absent = trace.iter().filter(|creation| !known.contains(creation.program.as_str())).count();
        let by_exec = Pool::builder().recycle(false).build();
        Programs {
            known,
            by_exec,
            kept: BTreeMap::new(),
            executed: BTreeMap::new(),
            recycled: BTreeMap::new(),
            absent,
        }
    }

    /// The trace without what cannot be started.
    pub(super) fn there(&self, trace: &[Creation]) -> Vec<Creation> {
        trace.iter().filter(|creation| self.known.contains(creation.program.as_str())).cloned().collect()
    }

    /// Gets ready for a replay: keeps each program that can be kept, in a pool of its own, and forgets what was measured.
    pub(super) fn prepare(&mut self) -> Result<(), ReplayError> {
        (self.executed, self.recycled) = (BTreeMap::new(), BTreeMap::new());
        self.kept.clear();
        for &program in &self.known {
            let pool = Pool::builder().timed(true).build();
            let began = Instant::now();
            for _ in 0..MOST_STARTS {
                let make_us = micros(began.elapsed());
                let (held, _) = Held::start(&pool, program)?;
                let is_recycled = held.child.creation().point().is_some();
                held.end()?;
                if is_recycled {
                    self.kept.insert(program, Kept { pool, make_us });
                    break;
                }
            }
        }
        Ok(())
    }

    /// Adds what a start of each program costs, by exec and in a ready body, as it was measured beside a replay, and what its
    /// image and a body hold. It is the mean, as in the sum of a replay, without the program's own work.
    pub(super) fn add_to(&self, costs: &mut Costs) -> Result<(), ReplayError> {
        for (&name, executed) in &self.executed {
            let recycled = self.recycled.get(name);
            let own_us = recycled.map_or(0.0, Times::own_us);
            let whole_us = mean_us(&executed.to_end) - own_us;
            // A program that is not recycled costs the same each time.
            let ready_us = recycled.map_or(whole_us, |times| mean_us(&times.to_main));
            let kept = self.kept.get(name);
            let image_us = if kept.is_some() { forked_us(name)? - own_us } else { whole_us };
            let known = ProgramCosts {
                sizes: self.sizes(name, costs.body_kib),
                whole_us: Some(whole_us.max(ready_us)),
                image_us: Some(image_us.max(ready_us)),
                ready_us: Some(ready_us),
                make_us: kept.map(|kept| kept.make_us),
                own_us,
            };
            costs.programs.insert(name.to_owned(), known);
        }
        Ok(())
    }

    /// What the image of a program and a body of it hold.
    fn sizes(&self, program: &str, tables_kib: u64) -> Sizes {
        let keepers = self.kept.get(program).map(|kept| kept.pool.idle_keepers()).unwrap_or_default();
        let mut held: Vec<u64> = keepers.into_iter().filter_map(held_kib).collect();
        held.sort_unstable();
        let body_kib = held.first().copied().unwrap_or(0);
        Sizes {
            image_kib: held.last().copied().unwrap_or(0),
            copied_kib: body_kib.saturating_sub(tables_kib),
            zeroed_kib: 0,
        }
    }

    /// Measures what starts of the programs of these creations take at this moment. Gives what each works by itself from its
    /// `main` on, in microseconds. One that cannot be recycled counts with all it does, as it is the same in every pool.
    fn measure(&mut self, creations: &[Creation]) -> Result<BTreeMap<&'a str, f64>, ReplayError> {
        let names: BTreeSet<&str> = creations.iter().map(|creation| creation.program.as_str()).collect();
        let names: Vec<&'a str> = self.known.iter().copied().filter(|name| names.contains(name)).collect();
        let executed = times(&names.repeat(TIMES_EXEC), |_| Some(&self.by_exec))?;
        let recycled = times(&names.repeat(TIMES_READY), |name| self.kept.get(name).map(|kept| &kept.pool))?;
        let own_us = recycled.iter().map(|(&name, times)| (name, times.own_us())).collect();
        add(&mut self.executed, executed);
        add(&mut self.recycled, recycled);
        Ok(own_us)
    }
}

/// Adds times to those that are known.
fn add<'a>(known: &mut BTreeMap<&'a str, Times>, more: BTreeMap<&'a str, Times>) {
    for (name, times) in more {
        let known = known.entry(name).or_default();
        known.to_end.extend(times.to_end);
        known.to_main.extend(times.to_main);
    }
}

/// What a program is given so that it does nothing.
fn arguments(program: &str) -> &'static [&'static str] {
    match Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default() {
        "dash" | "sh" => &["-c", ":"],
        "perl" => &["-e", "1"],
        "lighttpd" => &["-v"],
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

/// Times of the starts of a program.
#[derive(Default)]
struct Times {
    /// From the call to the hold.
    to_end: Vec<Duration>,
    /// From the call to `main`, where the pool notes that.
    to_main: Vec<Duration>,
}

impl Times {
    /// The program's own work, in microseconds.
    fn own_us(&self) -> f64 {
        micros(median(self.to_end.iter().copied())) - micros(median(self.to_main.iter().copied()))
    }
}

/// Starts programs in this order, those of them that have a pool.
fn times<'a, 'p>(
    order: &[&'a str],
    pool_of: impl Fn(&str) -> Option<&'p Pool>,
) -> Result<BTreeMap<&'a str, Times>, ReplayError> {
    let mut times: BTreeMap<&str, Times> = BTreeMap::new();
    // A run's way to `main` is looked at before the next of its program: its body has been put back then, without a pause
    // that no trace has.
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for &name in order {
        let Some(pool) = pool_of(name) else { continue };
        let times = times.entry(name).or_default();
        if let Some(before_ns) = last.insert(name, 0) {
            times.to_main.extend(to_main(pool, before_ns, RESET_LIMIT));
        }
        last.insert(name, now_ns());
        let (held, time) = Held::start(pool, name)?;
        held.end()?;
        times.to_end.push(time);
    }
    for (name, began_ns) in last {
        if let (Some(pool), Some(times)) = (pool_of(name), times.get_mut(name)) {
            times.to_main.extend(to_main(pool, began_ns, RESET_LIMIT));
        }
    }
    Ok(times)
}

/// How long the last run was on its way to `main`; looked at when its body has been put back, or after the limit.
fn to_main(pool: &Pool, began_ns: u64, limit: Duration) -> Option<Duration> {
    let main_ns = pool.last_times(limit)?.times.main_ns;
    main_ns.checked_sub(began_ns).map(Duration::from_nanos)
}

/// From the call to the hold in bodies that are forked because all others are in use: the mean in microseconds.
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
    Ok(mean_us(&times))
}

fn mean_us(times: &[Duration]) -> f64 {
    let count = u32::try_from(times.len()).unwrap_or(u32::MAX).max(1);
    micros(times.iter().sum::<Duration>() / count)
}

/// A replay under way: a pool with its policy, and what came of it so far.
pub(super) struct Replay {
    policy: String,
    pool: Pool,
    alive: VecDeque<Held>,
    point: Point,
    points: Vec<Point>,
    kept_sum: u64,
}

impl Replay {
    /// A replay in this pool that has not begun.
    pub(super) fn new(policy: &str, pool: Pool) -> Replay {
        let policy = policy.to_owned();
        Replay {
            policy,
            pool,
            alive: VecDeque::new(),
            point: Point::default(),
            points: Vec::new(),
            kept_sum: 0,
        }
    }

    /// Starts what is created next, with so many processes alive. `own_us` says how long each program works by itself.
    fn turn(
        &mut self,
        creations: &[Creation],
        existing: usize,
        own_us: &BTreeMap<&str, f64>,
    ) -> Result<(), ReplayError> {
        for creation in creations {
            if self.alive.len() >= existing.max(1)
                && let Some(oldest) = self.alive.pop_front()
            {
                oldest.end()?;
            }
            let began_ns = now_ns();
            let (held, time) = Held::start(&self.pool, &creation.program)?;
            count(&mut self.point, held.child.creation());
            let to_main = matches!(held.child.creation(), How::Recycled { .. })
                .then(|| to_main(&self.pool, began_ns, Duration::ZERO))
                .flatten();
            self.alive.push_back(held);
            self.point.creations += 1;
            let own_us = own_us.get(creation.program.as_str()).copied().unwrap_or(0.0);
            self.point.time_us += to_main.map_or((micros(time) - own_us).max(0.0), micros);
        }
        Ok(())
    }

    fn note(&mut self) {
        self.point.kept_bytes = kept_bytes(&self.pool);
        self.kept_sum += self.point.kept_bytes;
        self.point.mean_kept_bytes = self.kept_sum / (self.points.len() as u64 + 1);
        self.points.push(self.point);
    }

    fn finish(self) -> Result<Report, ReplayError> {
        self.alive.into_iter().try_for_each(Held::end)?;
        let most_kept_bytes = self.points.iter().map(|point| point.kept_bytes).max().unwrap_or(0);
        Ok(Report { policy: self.policy, points: self.points, most_kept_bytes, actions: 0 })
    }
}

/// What came of the replays that took turns.
pub(super) struct Replayed {
    pub(super) reports: Vec<Report>,
    /// After how many creations of each the others had their turns, and how long those took, on the average.
    pub(super) pauses: (usize, Duration),
}

/// Runs a trace in each of the pools, with so many processes alive in each. They take turns, each time in another order: a
/// machine that is slower for a while is so for all of them.
pub(super) fn run(
    mut replays: Vec<Replay>,
    (trace, programs): (&[Creation], &mut Programs<'_>),
    existing: usize,
) -> Result<Replayed, ReplayError> {
    let began = Instant::now();
    let mut in_turns = Duration::ZERO;
    for (number, creations) in trace.chunks(TURN).enumerate() {
        let own_us = programs.measure(creations)?;
        let count = replays.len().max(1);
        for index in 0..replays.len() {
            if let Some(replay) = replays.get_mut((number + index) % count) {
                let began = Instant::now();
                replay.turn(creations, existing, &own_us)?;
                in_turns += began.elapsed();
            }
        }
        let done = number * TURN + creations.len();
        if done.is_multiple_of(EVERY) || done == trace.len() {
            replays.iter_mut().for_each(Replay::note);
        }
    }
    let count = |number: usize| u32::try_from(number.max(1)).unwrap_or(u32::MAX);
    let own = in_turns / count(replays.len());
    let pause = began.elapsed().saturating_sub(own) / count(trace.len().div_ceil(TURN));
    let reports = replays.into_iter().map(Replay::finish).collect::<Result<_, _>>()?;
    Ok(Replayed { reports, pauses: (TURN, pause) })
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
    pool.idle_keepers().into_iter().filter_map(held_kib).sum::<u64>() * 1024
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
