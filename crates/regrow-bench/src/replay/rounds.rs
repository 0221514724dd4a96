//! A trace replayed several times by every policy, with real processes and in the simulator.

use std::path::Path;

use regrow_pool::policy::PolicyChoice;
use regrow_pool::sim::{SimPoint, SimReport};

use super::costs;
use super::error::ReplayError;
use super::live::LiveProcesses;
use super::programs::TracePrograms;
use super::real::replay_really;
use super::simulate::{ReplaySetup, simulate};
use super::trace_file::read_trace;
use crate::samples::median;

/// The rounds of a trace.
pub(crate) struct ReplayRounds {
    /// The number of processes, and the same run with real processes and in the simulator.
    pairs: Vec<(usize, SimReport, SimReport)>,
}

impl ReplayRounds {
    /// The end of the real rounds: of each stretch of the trace the median time, of the memory the median.
    pub(crate) fn real(&self, policy: &str, existing: usize) -> Option<SimPoint> {
        self.median(policy, existing, |(_, real, _)| real)
    }

    /// The same of the simulated rounds.
    pub(crate) fn simulated(&self, policy: &str, existing: usize) -> Option<SimPoint> {
        self.median(policy, existing, |(_, _, simulated)| simulated)
    }

    fn median(
        &self,
        policy: &str,
        existing: usize,
        which: fn(&(usize, SimReport, SimReport)) -> &SimReport,
    ) -> Option<SimPoint> {
        let rounds = self.pairs.iter().filter(|pair| pair.0 == existing && pair.1.policy == policy);
        let rounds: Vec<&[SimPoint]> = rounds.map(|pair| which(pair).points.as_slice()).collect();
        let last = rounds.iter().map(|points| points.len()).min()?.checked_sub(1)?;
        let mut end = rounds.first()?.get(last).copied()?;
        end.time_us =
            (0..=last).map(|index| median(rounds.iter().map(|points| took_us(points, index)))).sum();
        let ends = || rounds.iter().filter_map(|points| points.get(last));
        end.kept_bytes = median(ends().map(|point| point.kept_bytes));
        end.mean_kept_bytes = median(ends().map(|point| point.mean_kept_bytes));
        end.in_body = median(ends().map(|point| point.in_body));
        Some(end)
    }
}

/// How long the creations took between this point and the one before.
fn took_us(points: &[SimPoint], index: usize) -> f64 {
    let at = |index: usize| points.get(index).map_or(0.0, |point| point.time_us);
    at(index) - index.checked_sub(1).map_or(0.0, at)
}

/// Replays a trace by every policy, really and simulated, in rounds that each begin with another policy. Each round measures
/// the costs anew: a machine is not always equally fast.
pub(crate) fn replay_both(
    trace: &Path,
    existing: &[usize],
    rounds: usize,
    budget_bytes: u64,
) -> Result<ReplayRounds, ReplayError> {
    let recorded = read_trace(trace)?;
    let mut programs = TracePrograms::of(&recorded);
    let there = programs.there(&recorded);
    let mut replayed = ReplayRounds { pairs: Vec::new() };
    let mut policies = PolicyChoice::NAMES.map(str::to_owned).to_vec();
    for round in 0..rounds {
        policies.rotate_left(usize::from(round > 0) * 2);
        for &number in existing {
            let existing = vec![LiveProcesses::Exactly(number)];
            let setup = ReplaySetup { policies: policies.clone(), existing, budget_bytes };
            let (mut costs, _) = costs::measure()?;
            let (real, pauses) = replay_really(&setup, &there, &mut programs)?;
            programs.add_to(&mut costs)?;
            let simulated = simulate(&setup, &there, &costs, &pauses)?;
            let pairs = real.into_iter().zip(simulated);
            replayed.pairs.extend(pairs.map(|(real, simulated)| (number, real.report, simulated.report)));
        }
    }
    Ok(replayed)
}
