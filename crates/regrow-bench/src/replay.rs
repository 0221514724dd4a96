//! `regrow replay`: runs a recorded sequence of creations through policies, with a number of processes kept alive, and tells
//! what each policy spends and holds.
//!
//! ```text
//!   TRACE ──> command ──> for each policy, each number of processes ──┬─> simulate ──> result
//!                         costs: a file, else measured here ──────────┘
//!                                                                     └─> real: processes ──> result
//!   rounds    the same several times, for `regrow bench --pool`
//! ```

pub mod command;
mod costs;
pub mod error;
mod held;
pub mod live;
mod programs;
mod real;
pub mod result;
pub mod rounds;
mod simulate;
mod start_times;
mod trace_file;
