//! `regrow bench --sites`: what it costs to see where processes are created.
//!
//! ```text
//!   machine   the whole machine by BPF: creations with a collector and without one, in turn
//! ```

mod machine;

use crate::error::BenchError;
use crate::figure::Figure;

/// Measures everything.
///
/// # Errors
/// [`BenchError`] where the machine may not be looked at, a process cannot be created, or a creation was not told.
pub fn measure() -> Result<Vec<Figure>, BenchError> {
    machine::measure()
}
