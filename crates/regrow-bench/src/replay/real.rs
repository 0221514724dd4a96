//! A replay with real processes: each creation of the trace is one, of the real program, in a pool of its own for each
//! policy.
//!
//! Nobody can do again what the trace's processes did. Each program starts so that it does nothing (`perl -e 1`, else
//! `--version`), and stops when it is about to end, with its memory, until as many others have come as should be alive.
//!
//! The start-up time of a run in a ready body is that from the call to `main`. For every other run, whose `main` nobody notes, it
//! is the time from the call to the hold without the program's own work: what that work takes longer where the body was not ready
//! (pages, tables of the linker) belongs to the start-up. A machine is not always equally fast, so the own work is measured anew
//! every so many creations.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use regrow::{Creation as How, Pool};
use regrow_pool::sim::{SimPoint, SimReport};
use regrow_pool::trace::Creation;

use super::error::ReplayError;
use super::held::{HeldProcess, Statuses};
use super::live::LiveProcesses;
use super::programs::TracePrograms;
use super::result::{PolicyRun, ReplayMode};
use super::simulate::{Pauses, ReplaySetup};
use super::start_times::{micros, to_main};
use crate::samples::now_ns;
use crate::system::processes::held_kib;

/// After how many creations each point is reported.
const EVERY: usize = 100;
/// After how many creations the next policy has its turn; a part of [`EVERY`].
const TURN: usize = 50;
/// How many bodies of a program a pool may have beyond the processes that stay alive.
const SPARE_BODIES: usize = 8;

/// Replays a trace by every policy with every number of processes, each in a pool of its own.
pub(super) fn replay_really(
    setup: &ReplaySetup,
    trace: &[Creation],
    programs: &mut TracePrograms<'_>,
) -> Result<(Vec<PolicyRun>, Pauses), ReplayError> {
    let (mut runs, mut pauses) = (Vec::new(), Pauses::new());
    programs.prepare()?;
    for &existing in &setup.existing {
        let LiveProcesses::Exactly(number) = existing else { return Err(ReplayError::RecordedAreSimulated) };
        let in_a_pool = |policy: &String| -> Result<PolicyReplay, ReplayError> {
            let pool = Pool::builder()
                .policy(policy.parse()?)
                .budget_bytes(setup.budget_bytes)
                .max_bodies_per_program(number + SPARE_BODIES)
                .timed(true)
                .build();
            Ok(PolicyReplay::new(policy, pool))
        };
        let replays = setup.policies.iter().map(in_a_pool).collect::<Result<_, _>>()?;
        let replayed = run(replays, (trace, &mut *programs), number)?;
        pauses.insert(existing, replayed.pauses);
        let of_policy = |report| PolicyRun { existing, mode: ReplayMode::Real, report };
        runs.extend(replayed.reports.into_iter().map(of_policy));
    }
    Ok((runs, pauses))
}

/// A replay by one policy: its pool, and what it has noted so far.
struct PolicyReplay {
    policy: String,
    pool: Pool,
    alive: VecDeque<HeldProcess>,
    point: SimPoint,
    points: Vec<SimPoint>,
    kept_sum: u64,
}

impl PolicyReplay {
    /// A replay that has not begun.
    fn new(policy: &str, pool: Pool) -> PolicyReplay {
        let policy = policy.to_owned();
        PolicyReplay {
            policy,
            pool,
            alive: VecDeque::new(),
            point: SimPoint::default(),
            points: Vec::new(),
            kept_sum: 0,
        }
    }

    /// Makes the next creations, with so many processes alive. `own_us` says how long each program works by itself.
    fn turn(
        &mut self,
        creations: &[Creation],
        existing: usize,
        (own_us, statuses): (&BTreeMap<&str, f64>, &Statuses),
    ) -> Result<(), ReplayError> {
        for creation in creations {
            if self.alive.len() >= existing.max(1)
                && let Some(oldest) = self.alive.pop_front()
            {
                oldest.end(statuses)?;
            }
            let began_ns = now_ns();
            let (held, time) = HeldProcess::start(&self.pool, &creation.program)?;
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

    fn finish(self, statuses: &Statuses) -> Result<SimReport, ReplayError> {
        self.alive.into_iter().try_for_each(|held| held.end(statuses))?;
        let most_kept_bytes = self.points.iter().map(|point| point.kept_bytes).max().unwrap_or(0);
        Ok(SimReport { policy: self.policy, points: self.points, most_kept_bytes, actions: 0 })
    }
}

/// What replays that took turns noted.
struct RealReplay {
    reports: Vec<SimReport>,
    /// After how many creations of each the others had their turns, and how long those took on average.
    pauses: (usize, Duration),
}

/// Runs a trace in each pool, with so many processes alive in each. The pools take turns, each time in another order: a
/// machine that is slower for a while is slower for all of them.
fn run(
    mut replays: Vec<PolicyReplay>,
    (trace, programs): (&[Creation], &mut TracePrograms<'_>),
    existing: usize,
) -> Result<RealReplay, ReplayError> {
    let began = Instant::now();
    let mut in_turns = Duration::ZERO;
    for (number, creations) in trace.chunks(TURN).enumerate() {
        let own_us = programs.measure(creations)?;
        let count = replays.len().max(1);
        for index in 0..replays.len() {
            if let Some(replay) = replays.get_mut((number + index) % count) {
                let began = Instant::now();
                replay.turn(creations, existing, (&own_us, &programs.statuses))?;
                in_turns += began.elapsed();
            }
        }
        let done = number * TURN + creations.len();
        if done.is_multiple_of(EVERY) || done == trace.len() {
            replays.iter_mut().for_each(PolicyReplay::note);
        }
    }
    let count = |number: usize| u32::try_from(number.max(1)).unwrap_or(u32::MAX);
    let own = in_turns / count(replays.len());
    let pause = began.elapsed().saturating_sub(own) / count(trace.len().div_ceil(TURN));
    let reports =
        replays.into_iter().map(|replay| replay.finish(&programs.statuses)).collect::<Result<_, _>>()?;
    Ok(RealReplay { reports, pauses: (TURN, pause) })
}

fn count(point: &mut SimPoint, how: &How) {
    match how {
        How::Recycled { .. } => point.in_body += 1,
        How::ForkedBody { .. } => point.with_image += 1,
        How::Exec { .. } => point.from_nothing += 1,
    }
}

/// How much memory the pool holds while it is in no use.
fn kept_bytes(pool: &Pool) -> u64 {
    pool.idle_keepers().into_iter().filter_map(held_kib).sum::<u64>() * 1024
}
