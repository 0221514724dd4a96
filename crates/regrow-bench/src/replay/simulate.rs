//! A trace in the simulator, by each policy and with each number of processes.

use std::collections::BTreeMap;
use std::time::Duration;

use regrow_pool::sim::{self, Costs, Setup};
use regrow_pool::trace::Creation;

use super::error::ReplayError;
use super::live::LiveProcesses;
use super::result::{PolicyRun, ReplayMode};

/// For each number of processes, when a real replay paused: after so many creations, for so long, because the other policies
/// had their turns.
pub(super) type Pauses = BTreeMap<LiveProcesses, (usize, Duration)>;

/// Which policies a trace runs through, and how.
#[derive(Debug, Clone)]
pub struct ReplaySetup {
    /// The names of the policies.
    pub policies: Vec<String>,
    /// How many processes stay alive, a run for each.
    pub existing: Vec<LiveProcesses>,
    /// How much memory a policy may keep.
    pub budget_bytes: u64,
}

/// Simulates every policy with every number of processes.
pub(super) fn simulate(
    setup: &ReplaySetup,
    trace: &[Creation],
    costs: &Costs,
    pauses: &Pauses,
) -> Result<Vec<PolicyRun>, ReplayError> {
    let mut runs = Vec::new();
    for policy in &setup.policies {
        for &existing in &setup.existing {
            let choice = sim::choice(policy, costs)?;
            let simulated = Setup {
                existing: existing.into(),
                budget_bytes: setup.budget_bytes,
                pauses: pauses.get(&existing).copied(),
                ..Setup::new(trace, costs)
            };
            let cannot = |source| ReplayError::Simulation { policy: policy.clone(), source };
            let report = sim::run(&simulated, choice).map_err(cannot)?;
            runs.push(PolicyRun { existing, mode: ReplayMode::Simulated, report });
        }
    }
    Ok(runs)
}
