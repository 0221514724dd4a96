//! `regrow bench --sites`: what it costs to see where processes are created, and what is gained by knowing it.
//!
//! ```text
//!   preloaded    a creation with the library and without it, in turn
//!   machine      the whole machine by BPF: the same
//!   turnaround   short children beside endless loops, by each way to schedule them
//!   prediction   processor times of what make, git, Python and a browser create, against the program alone
//!   tables       average running times by program and place: the paper's tables 1 to 3
//! ```

mod creator;
mod machine;
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
    let workloads = Workloads::new()?;
    figures.extend(prediction::measure(&workloads)?);
    figures.extend(tables::measure(&workloads)?);
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn zz_try() {
        let w = Workloads::new().unwrap();
        let what = std::env::var("ZZ").unwrap();
        if what.contains('p') {
            println!("{}", crate::figure::describe(&prediction::measure(&w).unwrap()));
        }
        if what.contains('t') {
            println!("{}", crate::figure::describe(&tables::measure(&w).unwrap()));
        }
        if what.contains('c') {
            let c = Creator::compile().unwrap();
            println!("{}", crate::figure::describe(&preloaded::measure(&c).unwrap()));
            println!("{}", crate::figure::describe(&machine::measure(&c).unwrap()));
        }
    }
}
