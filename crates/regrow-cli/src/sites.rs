//! `regrow sites`: where a command creates processes, and what they cost.
//!
//! ```text
//!   collector, in a thread ──Told──> Watch ──> Profile ──> live view, while the command runs
//!                                                 └──────> Outputs: the table, JSON, CSV, pprof, HTML
//! ```
//!
//! A collector is a function that runs a command, tells events, and gives the command's status. What it is given and what it gives is all that
//! this part knows of it.

pub(crate) mod below;
mod estimate;
mod live;
pub(crate) mod machine;
mod outputs;
mod spool;
mod table;
mod traced;
mod watch;

use std::error::Error;

use regrow_bench::record::RecordError;
use regrow_collect::below::BelowError;
use regrow_profile::{Profile, Report, Symbols};

use self::outputs::Outputs;
use self::watch::{Collector, Watched};
use crate::cli::sites::{OutputArgs, SitesArgs};
use crate::error::CliError;
use crate::exit_status::{self, FAILED, NOT_EXECUTABLE, NOT_FOUND};
use crate::message::{chain, complain};

/// Carries out the command.
pub(crate) fn sites(args: &SitesArgs) -> Result<u8, CliError> {
    // Before the command runs: a file that cannot be written fails at once.
    let outputs = Outputs::create(&args.output)?;
    let (title, collector) = match choose(args) {
        Ok(chosen) => chosen,
        Err(error @ CliError::Machine(_)) => return Ok(told(&error, FAILED)),
        Err(error) => return Err(error),
    };
    let Watched { profile, status } = watch::watch(collector, &title, &args.output, !args.no_live)?;
    match status {
        Ok(status) => {
            show(&profile, &title, &args.output, outputs, status.is_some())?;
            Ok(status.map_or(0, exit_status::of_run))
        }
        Err(CliError::Record(error @ RecordError::NotFound { .. })) => Ok(told(&error, NOT_FOUND)),
        Err(CliError::Record(error @ RecordError::NotExecutable { .. })) => Ok(told(&error, NOT_EXECUTABLE)),
        Err(CliError::Below(error @ BelowError::Start { .. })) => Ok(below::not_started(&error)),
        Err(error) => Err(error),
    }
}

/// What is looked at, in words, and how.
fn choose(args: &SitesArgs) -> Result<(String, Collector), CliError> {
    match &args.program {
        Some(program) => {
            let words = std::iter::once(program).chain(&args.args);
            let title = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
            let collector = if args.trace {
                traced::collector(program, &args.args)
            } else {
                below::collector(program, &args.args)?
            };
            Ok((title, collector))
        }
        None => Ok((machine::title(&args.machine), machine::collector(&args.machine)?)),
    }
}

/// Makes what was asked for of a profile. `has_command`: standard output is a command's.
fn show(
    profile: &Profile,
    title: &str,
    how: &OutputArgs,
    outputs: Outputs,
    has_command: bool,
) -> Result<(), CliError> {
    let savings = estimate::savings();
    let report = Report::new(title, profile, &mut Symbols::default(), &savings, how.sort.into());
    outputs.write(&report, how.limit, has_command)
}

fn told(error: &dyn Error, status: u8) -> u8 {
    complain(&chain(error));
    status
}
