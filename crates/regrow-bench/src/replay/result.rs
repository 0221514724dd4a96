//! What a replay found: as JSON, and as a table.

use regrow_pool::sim::{Costs, SimReport};
use serde::{Deserialize, Serialize};

use super::live::LiveProcesses;
use crate::table::{Alignment, TextTable, output_width};

/// Whether creations were simulated or real.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplayMode {
    /// In the simulator, with a table of costs.
    Simulated,
    /// With processes.
    Real,
}

impl ReplayMode {
    const fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Real => "real",
        }
    }
}

/// A trace run through one policy, with one number of processes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PolicyRun {
    /// How many processes stayed alive.
    pub existing: LiveProcesses,
    /// Whether it was simulated.
    pub mode: ReplayMode,
    /// What the policy spent and held.
    #[serde(flatten)]
    pub report: SimReport,
}

/// What a replay found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReplayResult {
    /// The name of the trace.
    pub trace: String,
    /// How many creations were left out because their programs are not on this machine.
    pub absent: usize,
    /// How many creations there were.
    pub creations: usize,
    /// How many programs there were.
    pub programs: usize,
    /// How much memory a policy might keep.
    pub budget_bytes: u64,
    /// The costs that the simulator used.
    pub costs: Costs,
    /// Which of the costs were measured on this machine.
    pub measured: Vec<String>,
    /// Each policy with each number of processes.
    pub runs: Vec<PolicyRun>,
}

/// A result as text: a line about the trace, and a table with a row for each run.
#[must_use]
pub fn describe(result: &ReplayResult) -> String {
    let mut table = TextTable::new(&[
        ("policy", Alignment::Left),
        ("mode", Alignment::Left),
        ("existing", Alignment::Right),
        ("time\nms", Alignment::Right),
        ("kept\nMiB", Alignment::Right),
        ("mean\nMiB", Alignment::Right),
        ("in a ready\nbody", Alignment::Right),
        ("with the\nimage", Alignment::Right),
        ("in a\nshell", Alignment::Right),
        ("from\nnothing", Alignment::Right),
    ]);
    for PolicyRun { existing, mode, report } in &result.runs {
        let end = report.end();
        table.row([
            report.policy.clone(),
            mode.name().to_owned(),
            existing.to_string(),
            format!("{:.1}", end.time_us / 1000.0),
            format!("{:.2}", mib(end.kept_bytes)),
            format!("{:.2}", mib(end.mean_kept_bytes)),
            end.in_body.to_string(),
            end.with_image.to_string(),
            end.in_shell.to_string(),
            end.from_nothing.to_string(),
        ]);
    }
    let absent = match result.absent {
        0 => String::new(),
        absent => format!(" ({absent} more of programs that are not here)"),
    };
    format!(
        "{}: {} creations of {} programs{absent}; a start with nothing kept costs {:.0} µs, in a ready body {:.0} µs\n\n{}",
        result.trace,
        result.creations,
        result.programs,
        result.costs.whole.us,
        result.costs.ready.us,
        table.render(output_width())
    )
}

/// Bytes as MiB.
#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
