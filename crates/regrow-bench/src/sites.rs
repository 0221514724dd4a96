//! `regrow bench --sites`: what it costs to see where processes are created, and what is gained by knowing it.
//!
//! ```text
//!   preloaded    a creation with the library and without it, in turn
//!   machine      the whole machine by BPF: the same
//!   turnaround   short children beside endless loops, by each way to schedule them
//!   pool         creations from a ready body, with sites and without, in the simulator
//!   prediction   processor times of what make, git, Python and a browser create, against the program alone
//!   desktop      music while pages load, with and without scheduling: the paper's table 4
//!   tables       average running times by program and place: the paper's tables 1 to 3
//! ```

mod creator;
mod desktop;
mod machine;
mod pool;
mod prediction;
mod preloaded;
mod tables;
mod turnaround;
mod workloads;

use crate::error::BenchError;
use crate::figure::Figure;
use creator::Creator;
use workloads::Workloads;

/// Measures everything.
///
/// # Errors
/// [`BenchError`] where the machine may not be looked at, a process cannot be created, or a creation was not told.
pub fn measure() -> Result<Vec<Figure>, BenchError> {
    let creator = Creator::compile()?;
    let mut figures = preloaded::measure(&creator)?;
    figures.extend(machine::measure(&creator)?);
    figures.extend(turnaround::measure()?);
    figures.extend(pool::measure()?);
    let workloads = Workloads::new()?;
    figures.extend(prediction::measure(&workloads)?);
    figures.extend(tables::measure(&workloads)?);
    figures.extend(desktop::measure(&workloads)?);
    Ok(figures)
}
