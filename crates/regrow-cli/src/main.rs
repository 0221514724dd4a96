//! The `regrow` command: `doctor`, `run` and `bench`.
//!
//! ```text
//!   main      flags, log, exit status
//!     doctor  the kernel probe and two real runs, as a table or as JSON
//!     run     a program out of a pool, standard descriptors passed through, a report of each run
//!     bench   two ways to start a program, in turn: times, CPU, memory, throughput
//! ```
//!
//! What is asked for goes to standard output, everything else to standard error, as `regrow: …`. Standard output and
//! error of `regrow run` are the program's.

mod bench;
mod cli;
mod doctor;
mod error;
mod run;
mod table;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use regrow_sys::disable::FeatureSet;
use tracing_subscriber::EnvFilter;

use crate::cli::{Action, Cli};
use crate::error::{CliError, chain};

/// The exit status of a command line that is wrong, and of `doctor` and `bench` when they could not be carried out.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, &args),
    };
    let failed = match cli.action {
        Action::Run(_) => run::REGROW_FAILED,
        Action::Doctor(_) | Action::Bench(_) => FAILED,
    };
    act(&cli).unwrap_or_else(|error| {
        complain(&chain(&error));
        ExitCode::from(failed)
    })
}

fn act(cli: &Cli) -> Result<ExitCode, CliError> {
    start_log(&cli.log)?;
    let disabled = FeatureSet::from_env()?;
    match &cli.action {
        Action::Doctor(args) => doctor::doctor(args, &disabled),
        Action::Run(args) => run::run(args),
        Action::Bench(args) => bench::bench(args),
    }
}

/// Prints help, or what is wrong with the command line.
fn usage(error: &clap::Error, args: &[OsString]) -> ExitCode {
    // Nothing is left to say when the terminal is gone.
    let _ = error.print();
    let verb = args.iter().find(|word| ["doctor", "run", "bench"].iter().any(|verb| word == verb));
    let is_run = verb.is_some_and(|verb| verb == "run");
    match error.exit_code() {
        0 => ExitCode::SUCCESS,
        _ if is_run => ExitCode::from(run::REGROW_FAILED),
        _ => ExitCode::from(FAILED),
    }
}

/// Writes a line about the command itself to standard error.
fn complain(text: &str) {
    // Nothing is left to say when standard error is gone.
    let _ = writeln!(std::io::stderr(), "regrow: {text}");
}

fn start_log(filter: &str) -> Result<(), CliError> {
    let parsed =
        EnvFilter::try_new(filter).map_err(|source| CliError::Log { filter: filter.to_owned(), source })?;
    tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(())
}
