//! `regrow bench --sites`: what it costs to see where processes are created, and what is gained by scheduling them by it.
//!
//! ```text
//!   machine      the whole machine by BPF: creations with a collector and without one, in turn
//!   turnaround   short children beside endless loops, by each way to schedule them
//! ```

mod machine;
mod turnaround;

use crate::error::BenchError;
use crate::figure::Figure;

/// Measures everything.
///
/// # Errors
/// [`BenchError`] where the machine may not be looked at, a process cannot be created, or a creation was not told.
pub fn measure() -> Result<Vec<Figure>, BenchError> {
    let mut figures = machine::measure()?;
    figures.extend(turnaround::measure()?);
    Ok(figures)
}
