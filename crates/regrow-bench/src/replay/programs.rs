//! The programs of a trace that are on this machine, and what their starts cost.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use regrow::Pool;
use regrow_pool::sim::{Costs, ProgramCosts, Sizes};
use regrow_pool::trace::Creation;

use super::error::ReplayError;
use super::held::{HeldProcess, Statuses};
use super::start_times::{StartTimes, forked_us, mean_us, micros, times};
use crate::system::processes::held_kib;

/// How often each program of a turn starts in a ready body beside it, and how often by exec, so that it is known what that
/// takes at this moment.
const TIMES_READY: usize = 5;
const TIMES_EXEC: usize = 2;
/// A program that Regrow does not recycle within so many starts is one that it does not recycle at all.
const MOST_STARTS: usize = 200;

/// The programs of a trace that are on this machine, and what their starts cost.
pub(super) struct TracePrograms<'a> {
    known: BTreeSet<&'a str>,
    by_exec: Pool,
    /// The programs that Regrow recycles, each in a pool of its own, in which its own work is measured.
    kept: BTreeMap<&'a str, RecycledProgram>,
    executed: BTreeMap<&'a str, StartTimes>,
    recycled: BTreeMap<&'a str, StartTimes>,
    /// How each program ends.
    pub(super) statuses: Statuses,
    /// How many creations are left out, because their programs are not on this machine.
    pub(super) absent: usize,
}

/// A program that Regrow recycles.
struct RecycledProgram {
    pool: Pool,
    /// From its first start until Regrow recycled one, in microseconds.
    make_us: f64,
}

impl<'a> TracePrograms<'a> {
    pub(super) fn of(trace: &'a [Creation]) -> TracePrograms<'a> {
        let names: BTreeSet<&str> = trace.iter().map(|creation| creation.program.as_str()).collect();
        let known: BTreeSet<&str> = names.into_iter().filter(|name| Path::new(name).is_file()).collect();
        let absent = trace.iter().filter(|creation| !known.contains(creation.program.as_str())).count();
        let by_exec = Pool::builder().recycle(false).build();
        TracePrograms {
            known,
            by_exec,
            kept: BTreeMap::new(),
            executed: BTreeMap::new(),
            recycled: BTreeMap::new(),
            statuses: Statuses::default(),
            absent,
        }
    }

    /// The trace without what cannot be started.
    pub(super) fn there(&self, trace: &[Creation]) -> Vec<Creation> {
        trace.iter().filter(|creation| self.known.contains(creation.program.as_str())).cloned().collect()
    }

    /// Gets ready for a replay: forgets what was measured, and prepares each program that Regrow recycles in a pool of its own.
    pub(super) fn prepare(&mut self) -> Result<(), ReplayError> {
        (self.executed, self.recycled) = (BTreeMap::new(), BTreeMap::new());
        self.kept.clear();
        for &program in &self.known {
            self.statuses.learn(&self.by_exec, program)?;
            let pool = Pool::builder().timed(true).build();
            let began = Instant::now();
            for _ in 0..MOST_STARTS {
                let make_us = micros(began.elapsed());
                let (held, _) = HeldProcess::start(&pool, program)?;
                let is_recycled = held.child.creation().point().is_some();
                held.end(&self.statuses)?;
                if is_recycled {
                    self.kept.insert(program, RecycledProgram { pool, make_us });
                    break;
                }
            }
        }
        Ok(())
    }

    /// Adds to the costs what a start of each program took beside the replay, by exec and in a ready body, and what its image and
    /// a body hold. A cost is the mean, as in the sum of a replay, without the program's own work.
    pub(super) fn add_to(&self, costs: &mut Costs) -> Result<(), ReplayError> {
        for (&name, executed) in &self.executed {
            let recycled = self.recycled.get(name);
            let own_us = recycled.map_or(0.0, StartTimes::own_us);
            let whole_us = mean_us(&executed.to_end) - own_us;
            // A program that is not recycled costs the same each time.
            let ready_us = recycled.map_or(whole_us, |times| mean_us(&times.to_main));
            let kept = self.kept.get(name);
            let image_us = if kept.is_some() { forked_us(name, &self.statuses)? - own_us } else { whole_us };
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

    /// Measures what starts of the programs of these creations take at this moment. Returns how long each works by itself after
    /// `main`, in microseconds. A program that Regrow does not recycle is left out: its work is the same in every pool.
    pub(super) fn measure(&mut self, creations: &[Creation]) -> Result<BTreeMap<&'a str, f64>, ReplayError> {
        let names: BTreeSet<&str> = creations.iter().map(|creation| creation.program.as_str()).collect();
        let names: Vec<&'a str> = self.known.iter().copied().filter(|name| names.contains(name)).collect();
        let executed = times(&names.repeat(TIMES_EXEC), |_| Some(&self.by_exec), &self.statuses)?;
        let kept = |name: &str| self.kept.get(name).map(|kept| &kept.pool);
        let recycled = times(&names.repeat(TIMES_READY), kept, &self.statuses)?;
        let own_us = recycled.iter().map(|(&name, times)| (name, times.own_us())).collect();
        add(&mut self.executed, executed);
        add(&mut self.recycled, recycled);
        Ok(own_us)
    }
}

/// Adds times to those that are known.
fn add<'a>(known: &mut BTreeMap<&'a str, StartTimes>, more: BTreeMap<&'a str, StartTimes>) {
    for (name, times) in more {
        let known = known.entry(name).or_default();
        known.to_end.extend(times.to_end);
        known.to_main.extend(times.to_main);
    }
}
