//! The `regrow` command.
//!
//! ```text
//!   dispatch  flags, log, exit status
//!     doctor  the kernel probe and two real runs, as a table or as JSON
//!     run     a program out of a pool, standard descriptors passed through, a report of each run
//!     web     a gateway that answers every request with a fresh process
//!     daemon  one pool for all programs of a user; stop ends it
//!     status, ls, show, top   what the daemon keeps
//!     completions, man        what the definition of the command line says, for shells and for man
//!     env     a command below which programs go through launchers
//!     link    launchers, which run a program by its plain name; unlink removes them
//!     sites   where a command creates processes: a live table, then files of several kinds
//!     schedule   a command below which processes are scheduled by what is predicted about them
//!     record, replay, bench   what regrow-bench measures, printed and written
//! ```
//!
//! The answer goes to standard output, everything else to standard error, as `regrow: …`. Standard output and error of
//! `regrow run` are the program's.

#![cfg_attr(not(test), no_main)]
#![allow(unsafe_code, reason = "the entry point is the C library's")]

mod bench;
mod builtins;
mod cli;
mod client_file;
mod completions;
mod daemon;
mod data_file;
mod detach;
mod dispatch;
mod doctor;
mod env;
mod error;
mod exit_status;
mod launcher;
mod link;
mod log;
mod manual;
mod memory;
mod message;
mod metrics;
mod output;
mod own_file;
mod pools;
mod program_search;
mod record;
mod replay;
mod run;
mod schedule;
mod sites;
mod status;
mod top;
mod values;
mod web;

/// The entry point is the C library's, not the standard library's, which would ignore `SIGPIPE` and open standard
/// descriptors that are closed: a program that `regrow run` executes must find both as they were.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code, reason = "the test harness has a `main` of its own"))]
extern "C" fn main() -> std::ffi::c_int {
    std::process::exit(dispatch::start().into())
}
