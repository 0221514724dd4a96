//! What `regrow bench`, `regrow record` and `regrow replay` do. The command reads the flags, calls this crate and prints.
//!
//! ```text
//!   programs    posix_spawn and Regrow in turn, one program after the other
//!   daemon      what the daemon costs its clients
//!   pool        the policies on recorded traces, and 50 programs that run once
//!   ladder      fibers, tasks and state machines, and what people use for them
//!   memory      blocks of the memory service, and memory that the kernel maps
//!   sites       what it costs to see where processes are created
//!   resources   each resource made from nothing, and taken from the pool
//!   record      which processes a command creates, as a trace
//!   replay      a trace through policies: simulated, or with real processes
//!   plot        what a replay found, as SVG and PNG
//!
//!   figure, samples, machine, results, table     what all of them report with
//!   system      posix_spawn, floors of the machine, memory and CPU time of processes
//! ```
//!
//! A benchmark measures everything that it compares in one run, with the ways in turn. It checks what it ran (status,
//! output, how many runs were recycled), and fails when a run was not what it claims.

pub mod daemon;
pub mod error;
pub mod figure;
pub mod ladder;
pub mod machine;
pub mod memory;
pub mod plot;
pub mod pool;
pub mod predict;
pub mod programs;
mod quiet;
pub mod record;
pub mod replay;
pub mod resources;
pub mod results;
pub mod samples;
pub mod sites;
mod system;
pub mod table;
mod watched;
