//! A run that differs from the first one, as the user reads it.

use std::fmt;
use std::process::ExitStatus;

use super::method::SpawnMethod;

/// A run that differs from the first one.
#[derive(Debug, thiserror::Error)]
#[error("{program}: run {run} by {method} ({how}) {mismatch}")]
pub struct MismatchedRun {
    /// The program.
    pub(super) program: String,
    /// The number of the run by this method, from 1.
    pub(super) run: u64,
    /// What started it.
    pub(super) method: SpawnMethod,
    /// How Regrow created its process.
    pub(super) how: String,
    /// What differs.
    pub(super) mismatch: Mismatch,
}

/// What differs from the first run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// It ended otherwise.
    Status { expected: ExitStatus, found: ExitStatus },
    /// It wrote something else.
    Output {
        /// `standard output` or `standard error`.
        stream: &'static str,
        /// Where the first differing byte is, in what all runs of one comparison wrote.
        offset: usize,
        /// What should stand there.
        expected: Vec<u8>,
        /// What stands there.
        found: Vec<u8>,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status { expected, found } => write!(f, "ended with {found}, not with {expected}"),
            Self::Output { stream, offset, expected, found } => {
                let (expected, found) = (expected.escape_ascii(), found.escape_ascii());
                write!(f, "{stream} differs at byte {offset}: \"{found}\", not \"{expected}\"")
            }
        }
    }
}
