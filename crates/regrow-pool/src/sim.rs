//! A deterministic simulator: runs a recorded sequence of creations through a policy, with a table of costs.
//!
//! ```text
//!                 ┌── exits of the oldest, so that a number of processes stays alive, as in the papers;
//!  trace ──> Run ─┤   or at the times that were recorded
//!                 ├── creations: from a ready body, else as much of it as is kept
//!                 ├── what becomes ready in the background, ticks
//!                 └──> Pool ──> actions ──> background work
//!  every 100 creations: time spent, bytes kept
//! ```
//!
//! A creation takes what its costs say, and while it takes that, the clock goes on. Where the number of processes is
//! given, creations follow one another at once; where the recorded times are followed, a creation waits for its own.

mod costs;
mod run;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::{Done, Event};
use crate::policy::{AdaptiveSettings, Choice};
use crate::state::Illegal;
use crate::trace::Creation;

pub use costs::{Background, Costs, Linear, ProgramCosts, Sharing, Sizes};

/// Which processes are alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// This many: before a further one is created, the oldest ends. At least one.
    Exactly(usize),
    /// As it was recorded.
    Recorded,
}

/// What is simulated.
#[derive(Debug, Clone)]
pub struct Setup<'a> {
    /// The sequence.
    pub trace: &'a [Creation],
    /// What things cost.
    pub costs: &'a Costs,
    /// Which processes are alive.
    pub existing: Existing,
    /// Most bytes that may be kept.
    pub budget_bytes: u64,
    /// After how many creations each point is reported.
    pub every: usize,
    /// Whether all programs are known before the first creation, and made ready as far as the policy wants that.
    pub announced: bool,
    /// After so many creations there is none for so long, as where several policies take turns on one machine.
    pub pauses: Option<(usize, Duration)>,
}

impl<'a> Setup<'a> {
    /// One process at a time, no budget, a point every 100 creations, nothing known before.
    #[must_use]
    pub fn new(trace: &'a [Creation], costs: &'a Costs) -> Setup<'a> {
        Setup {
            trace,
            costs,
            existing: Existing::Exactly(1),
            budget_bytes: u64::MAX,
            every: 100,
            announced: false,
            pauses: None,
        }
    }
}

/// What was reported after some creations.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Point {
    /// How many there have been.
    pub creations: usize,
    /// Time spent on creating them, in microseconds.
    pub time_us: f64,
    /// Bytes that are kept.
    pub kept_bytes: u64,
    /// Bytes that were kept on the average since the beginning.
    pub mean_kept_bytes: u64,
    /// How many were created in a ready body.
    pub in_body: usize,
    /// How many found their image.
    pub with_image: usize,
    /// How many found neither, but a shell.
    pub in_shell: usize,
    /// How many found nothing.
    pub from_nothing: usize,
}

/// What came of a simulation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The name of the policy.
    pub policy: String,
    /// A point every so many creations, and one at the end.
    pub points: Vec<Point>,
    /// The most bytes that were kept at a time.
    pub most_kept_bytes: u64,
    /// How many actions the policy took.
    pub actions: usize,
}

impl Report {
    /// The last point.
    #[must_use]
    pub fn end(&self) -> Point {
        self.points.last().copied().unwrap_or_default()
    }
}

/// A simulation cannot go on: an event or an action was illegal, which is a fault of the policy or of the simulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("at creation {number} of the trace, {at:?} after its beginning")]
pub struct SimError {
    /// The number of the creation, from 1.
    pub number: usize,
    /// The simulated time.
    pub at: Duration,
    /// What was illegal.
    #[source]
    pub illegal: Illegal,
}

/// Runs a trace.
///
/// # Errors
/// [`SimError`].
pub fn run(setup: &Setup<'_>, policy: Choice) -> Result<Report, SimError> {
    run_with(setup, policy, |_, _, _, _| {})
}

/// Runs a trace and shows each event, with the pool after it and what was done.
///
/// # Errors
/// [`SimError`].
pub fn run_with(
    setup: &Setup<'_>,
    policy: Choice,
    see: impl FnMut(Duration, &Event, &crate::Pool, &[Done]),
) -> Result<Report, SimError> {
    run::Simulation::new(setup, policy, see).run()
}

/// `adaptive`, told what shells, regions and pages save by these costs.
#[must_use]
pub fn adaptive_for(costs: &Costs) -> Choice {
    let region_us_per_kib = costs.region_saves_us_per_kib + costs.region_saves_us / 64.0;
    let region_saves = micros(region_us_per_kib * 1000.0).as_micros();
    Choice::AdaptiveWith(AdaptiveSettings {
        shell_saves: micros(costs.shell_saves_us),
        region_saves_ns_per_kib: u64::try_from(region_saves).unwrap_or(0),
        fault_ns_per_kib: u64::try_from(micros(costs.fault_us_per_kib * 1000.0).as_micros()).unwrap_or(0),
        ..AdaptiveSettings::default()
    })
}

/// A number of microseconds as a time.
fn micros(us: f64) -> Duration {
    Duration::from_secs_f64(us.max(0.0) / 1e6)
}

/// The first of two names is that of a policy, told what these costs say.
///
/// # Errors
/// [`crate::UnknownPolicy`].
pub fn choice(name: &str, costs: &Costs) -> Result<Choice, crate::UnknownPolicy> {
    match name.parse()? {
        Choice::Adaptive => Ok(adaptive_for(costs)),
        other => Ok(other),
    }
}
