//! Why a benchmark fails.

use std::ffi::OsString;
use std::io;

use regrow_collect::below::BelowError;
use regrow_daemon::client::ClientError;
use regrow_daemon::place::PlaceError;

use crate::programs::compiler::CompileError;
use crate::programs::mismatch::MismatchedRun;

/// Why a benchmark has no result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A run differed from the first one.
    #[error(transparent)]
    Differs(#[from] Box<MismatchedRun>),
    /// There is no such program.
    #[error("{}: there is no such program that can be executed", program.display())]
    NoProgram {
        /// The program as the user named it.
        program: OsString,
    },
    /// The prototype cannot be compiled.
    #[error("the prototype cannot be compiled")]
    Prototype(#[from] CompileError),
    /// A program does not start.
    #[error("{program}: cannot be started by {by}")]
    Start {
        /// The program as the user named it.
        program: String,
        /// What was to start it.
        by: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A run failed.
    #[error("{program}: {what}")]
    WrongRun {
        /// The program.
        program: String,
        /// How it ended, or how it was started.
        what: String,
    },
    /// Too few runs were recycled: the figures would be those of exec.
    #[error("{what}: {recycled} of {runs} runs were recycled")]
    NotRecycled {
        /// What was measured.
        what: String,
        /// How many were recycled.
        recycled: u64,
        /// How many there were.
        runs: u64,
    },
    /// The system refuses what the benchmark needs.
    #[error("{what}")]
    System {
        /// What the benchmark was about to do.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The whole machine may not be looked at.
    #[error(transparent)]
    Machine(#[from] regrow_machine::StartError),
    /// What the machine does cannot be collected.
    #[error(transparent)]
    Collect(#[from] regrow_machine::CollectError),
    /// What happens below a command cannot be collected.
    #[error(transparent)]
    Below(#[from] BelowError),
    /// There is no safe place for the daemon's socket.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The daemon was no help.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl BenchError {
    /// Makes an error of a step of a benchmark, for `map_err`.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// Checks that enough of the runs were recycled: else the figures would be those of exec.
///
/// # Errors
/// [`BenchError::NotRecycled`] when fewer than 95 of 100 were.
pub fn check_recycled(what: &str, recycled: u64, runs: u64) -> Result<(), BenchError> {
    if recycled.saturating_mul(100) >= runs.saturating_mul(LEAST_RECYCLED_PERCENT) {
        return Ok(());
    }
    Err(BenchError::NotRecycled { what: what.to_owned(), recycled, runs })
}

/// The least part of the runs that must be recycled, in percent.
const LEAST_RECYCLED_PERCENT: u64 = 95;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_recycled_runs_are_an_error() {
        assert!(check_recycled("a daemon", 95, 100).is_ok());
        let error = check_recycled("a daemon", 94, 100).expect_err("94 are too few");
        assert_eq!(error.to_string(), "a daemon: 94 of 100 runs were recycled");
    }
}
