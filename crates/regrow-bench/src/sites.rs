//! `regrow bench --sites`: what it costs to see where processes are created, and what is gained by knowing it.
//!
//! ```text
//!   preloaded    a creation with the library and without it, in turn
//!   machine      the whole machine by BPF: the same
//!   turnaround   short children beside endless loops, by each way to schedule them
//! ```

mod creator;
mod machine;
mod preloaded;
mod turnaround;

use crate::error::BenchError;
use crate::figure::Figure;
use creator::Creator;

/// Measures everything.
///
/// # Errors
/// [`BenchError`] where the machine may not be looked at, a process cannot be created, or a creation was not told.
pub fn measure() -> Result<Vec<Figure>, BenchError> {
    let creator = Creator::compile()?;
    let mut figures = preloaded::measure(&creator)?;
    figures.extend(machine::measure(&creator)?);
    figures.extend(turnaround::measure()?);
    Ok(figures)
}
