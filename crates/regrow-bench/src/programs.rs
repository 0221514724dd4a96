//! `regrow bench`: programs started by `posix_spawn` and by Regrow in turn.
//!
//! ```text
//!   list ──▶ session ──▶ measure ──▶ result, report    one program after the other
//!               ├── runner, method, output, mismatch    starts and checks runs by all methods
//!               ├── prototype, compiler                 the least that recycles a process, where it is asked for
//!               ├── timing                              the inside of a run, as the library tells it
//!               └── throughput                          several clients
//! ```
//!
//! One run of the benchmark takes all its figures, the floors of the machine too, in turn. It checks every run, and a run
//! that differs from the first one is an error.

pub mod compiler;
pub mod list;
pub mod measure;
mod method;
pub mod mismatch;
mod output;
mod prototype;
pub mod report;
pub mod result;
mod runner;
pub mod session;
pub mod throughput;
mod timing;
