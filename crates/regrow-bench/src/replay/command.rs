//! One replay, as `regrow replay` asks for it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use regrow_pool::policy::PolicyChoice;
use regrow_pool::sim::Costs;
use regrow_pool::trace::Creation;

use super::costs;
use super::error::ReplayError;
use super::programs::TracePrograms;
use super::real::replay_really;
use super::result::ReplayResult;
use super::simulate::{Pauses, simulate};
use super::trace_file::{read_costs, read_trace};

pub use super::simulate::ReplaySetup;

/// A replay whose files have been read.
#[derive(Debug)]
pub struct ReplayPlan {
    name: String,
    recorded: Vec<Creation>,
    given_costs: Option<Costs>,
    setup: ReplaySetup,
}

impl ReplayPlan {
    /// Reads the trace and the table of costs, and checks the names of the policies.
    ///
    /// # Errors
    /// [`ReplayError`] when a file cannot be read, or there is no such policy.
    pub fn read(trace: &Path, costs: Option<&Path>, setup: ReplaySetup) -> Result<Self, ReplayError> {
        for name in &setup.policies {
            name.parse::<PolicyChoice>()?;
        }
        let recorded = read_trace(trace)?;
        let given_costs = costs.map(read_costs).transpose()?;
        let name = PathBuf::from(trace.file_stem().unwrap_or_default()).display().to_string();
        Ok(Self { name, recorded, given_costs, setup })
    }

    /// Replays the trace: with real processes, in the simulator, or both.
    ///
    /// # Errors
    /// [`ReplayError`] when a program cannot be started, or a policy does something illegal.
    pub fn replay(self, real: bool, simulated: bool) -> Result<ReplayResult, ReplayError> {
        let (mut costs, mut measured) = match self.given_costs {
            Some(costs) => (costs, Vec::new()),
            None => costs::measure()?,
        };
        let (mut trace, mut absent) = (self.recorded.clone(), 0);
        let (mut runs, mut pauses) = (Vec::new(), Pauses::new());
        if real {
            let mut programs = TracePrograms::of(&self.recorded);
            (trace, absent) = (programs.there(&self.recorded), programs.absent);
            measured.push("programs");
            (runs, pauses) = replay_really(&self.setup, &trace, &mut programs)?;
            programs.add_to(&mut costs)?;
        }
        if simulated {
            runs.extend(simulate(&self.setup, &trace, &costs, &pauses)?);
        }
        let programs: BTreeSet<&str> = trace.iter().map(|creation| creation.program.as_str()).collect();
        Ok(ReplayResult {
            trace: self.name,
            absent,
            creations: trace.len(),
            programs: programs.len(),
            budget_bytes: self.setup.budget_bytes,
            costs,
            measured: measured.into_iter().map(str::to_owned).collect(),
            runs,
        })
    }
}
