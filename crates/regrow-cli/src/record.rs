//! `regrow record`: writes the trace of a command, and ends with the command's status.

use std::fs::File;

use regrow_bench::record::{RecordError, Recorded, Recording};

use crate::cli::measure::RecordArgs;
use crate::error::CliError;
use crate::exit_status::{self, NOT_EXECUTABLE, NOT_FOUND};
use crate::message::{chain, complain};

/// Carries out the command.
pub(crate) fn record(args: &RecordArgs) -> Result<u8, CliError> {
    match recorded(args) {
        Ok(recorded) => {
            complain(&recorded.summary);
            Ok(exit_status::of_run(recorded.status))
        }
        Err(CliError::Record(error @ RecordError::NotFound { .. })) => Ok(told(&error, NOT_FOUND)),
        Err(CliError::Record(error @ RecordError::NotExecutable { .. })) => Ok(told(&error, NOT_EXECUTABLE)),
        Err(error) => Err(error),
    }
}

fn recorded(args: &RecordArgs) -> Result<Recorded, CliError> {
    let recording = Recording::find(&args.program, &args.args)?;
    // Before the command runs: a file that cannot be written fails at once.
    let cannot_write = |source| CliError::Write { path: args.output.clone(), source };
    let file = File::create(&args.output).map_err(cannot_write)?;
    Ok(if args.sites {
        recording.run_with_sites(args.limit, &file)?
    } else {
        recording.run(args.limit, &file)?
    })
}

fn told(error: &RecordError, status: u8) -> u8 {
    complain(&chain(error));
    status
}
