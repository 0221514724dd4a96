//! A deterministic simulator: runs a recorded sequence of creations through a policy, with a table of costs.
//!
//! ```text
//!                 ┌── exits of the oldest, so that a number of processes stays alive, as in the papers;
//!  trace ──> Run ─┤   or at the times that were recorded
//!                 ├── creations: from a ready body, else as much of it as is kept
//!                 ├── what becomes ready in the background, ticks
//!                 └──> Planner ──> actions ──> background work
//!  every 100 creations: time spent, bytes kept
//! ```
//!
//! A creation takes the time that the costs say, and the clock goes on meanwhile. With a given number of processes,
//! creations follow one another at once; with the recorded times, each creation waits for its own.

mod costs;
mod report;
mod run;
mod setup;

use std::time::Duration;

use crate::event::{Done, Event};
use crate::planner::Planner;
use crate::policy::{AdaptiveSettings, PolicyChoice, UnknownPolicy};
use costs::micros;

pub use costs::{Background, Costs, Linear, ProgramCosts, Sharing, Sizes};
pub use report::{SimError, SimPoint, SimReport};
pub use setup::{Existing, Setup};

/// Runs a trace.
///
/// # Errors
/// [`SimError`].
pub fn run(setup: &Setup<'_>, policy: PolicyChoice) -> Result<SimReport, SimError> {
    run_with(setup, policy, |_, _, _, _| {})
}

/// Runs a trace and shows each event, with the pool after it and what was done.
///
/// # Errors
/// [`SimError`].
pub fn run_with(
    setup: &Setup<'_>,
    policy: PolicyChoice,
    see: impl FnMut(Duration, &Event, &Planner, &[Done]),
) -> Result<SimReport, SimError> {
    run::Simulation::new(setup, policy, see).run()
}

/// `adaptive`, which takes from these costs what shells, regions and pages save.
#[must_use]
pub fn adaptive_for(costs: &Costs) -> PolicyChoice {
    let region_us_per_kib = costs.region_saves_us_per_kib + costs.region_saves_us / 64.0;
    let region_saves = micros(region_us_per_kib * 1000.0).as_micros();
    PolicyChoice::AdaptiveWith(AdaptiveSettings {
        shell_saves: micros(costs.shell_saves_us),
        region_saves_ns_per_kib: u64::try_from(region_saves).unwrap_or(0),
        fault_ns_per_kib: u64::try_from(micros(costs.fault_us_per_kib * 1000.0).as_micros()).unwrap_or(0),
        ..AdaptiveSettings::default()
    })
}

/// The policy of this name, which takes from these costs what things save.
///
/// # Errors
/// [`UnknownPolicy`].
pub fn choice(name: &str, costs: &Costs) -> Result<PolicyChoice, UnknownPolicy> {
    match name.parse()? {
        PolicyChoice::Adaptive => Ok(adaptive_for(costs)),
        other => Ok(other),
    }
}
