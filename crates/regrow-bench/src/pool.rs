//! `regrow bench --pool`: the policies on recorded traces with real processes, and the papers' second experiment.
//!
//! ```text
//!   figures          of replays: time, memory, who beats whom, how far the simulator is off
//!   fifty_programs   50 programs, each started once
//!   budget           a budget that is lowered while runs go on
//! ```

mod budget;
mod fifty_programs;
mod figures;

use std::path::Path;

use regrow_pool::policy::PolicyChoice;

use self::figures::ALIVE;
use crate::figure::Figure;
use crate::replay::error::ReplayError;
use crate::replay::rounds::replay_both;

/// The traces, by their names in the folder.
const TRACES: [&str; 4] = ["web-1000", "make-1000", "git-1000", "python-1000"];
/// The trace that most is asked of.
const WEB: &str = TRACES[0];
/// How much memory a policy may keep.
const BUDGET_BYTES: u64 = 1 << 30;
/// How often each trace is replayed; of each hundred creations the median counts.
const ROUNDS: usize = 3;

/// Measures all figures with the traces of a folder. Calls `progress` with what comes next.
///
/// # Errors
/// [`ReplayError`] when a trace cannot be replayed, or a program fails.
pub fn measure(folder: &Path, progress: impl Fn(&str)) -> Result<Vec<Figure>, ReplayError> {
    let mut figures = Vec::new();
    for name in TRACES {
        let (policies, numbers) = (PolicyChoice::NAMES.len(), ALIVE.len());
        progress(&format!(
            "{name}: {policies} policies, {numbers} numbers of processes, {ROUNDS} times; some minutes"
        ));
        let rounds = replay_both(&folder.join(format!("{name}.csv")), &ALIVE, ROUNDS, BUDGET_BYTES)?;
        figures.extend(figures::points(name, &rounds));
        figures.extend(figures::of_trace(name, &rounds));
        if name == WEB {
            figures.extend(figures::of_web(&rounds));
        }
    }
    progress(&format!("{} programs, each once", fifty_programs::PROGRAMS));
    figures.extend(fifty_programs::measure()?);
    figures.extend(budget::measure()?);
    Ok(figures)
}
