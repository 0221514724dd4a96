//! Why a trace is not replayed.

use std::io;
use std::process::ExitStatus;

use regrow_pool::policy::{PolicyChoice, UnknownPolicy};
use regrow_pool::sim::SimError;
use regrow_pool::trace::TraceError;

use crate::error::BenchError;

/// Why a trace is not replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A file cannot be read.
    #[error("{path}: cannot be read")]
    Open {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// The file holds no trace.
    #[error("{path}")]
    Trace {
        /// The file.
        path: String,
        /// What is wrong with it.
        source: TraceError,
    },
    /// The file holds no table of costs.
    #[error("{path}: no table of costs")]
    Costs {
        /// The file.
        path: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// There is no such policy.
    #[error("--policy: there is no policy '{name}' (one of {})", PolicyChoice::NAMES.join(", "))]
    Policy {
        /// The name that the user gave.
        name: String,
    },
    /// The policy or the simulator did something illegal.
    #[error("policy {policy}")]
    Simulation {
        /// The policy.
        policy: String,
        /// What it was.
        source: SimError,
    },
    /// A program cannot be started, or held before its end.
    #[error("{program}: cannot be replayed")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// A process ended otherwise than the program does by exec.
    #[error("{program}: a process ended with {found}, not with {expected}")]
    Status {
        /// The program.
        program: String,
        /// How it ended.
        found: ExitStatus,
        /// How it ends by exec.
        expected: ExitStatus,
    },
    /// Only the simulator can keep to the recorded times.
    #[error("--existing recorded: real processes are replayed one after the other")]
    RecordedAreSimulated,
    /// The costs of this machine cannot be measured, or a program fails.
    #[error(transparent)]
    Bench(#[from] BenchError),
}

impl From<UnknownPolicy> for ReplayError {
    fn from(UnknownPolicy(name): UnknownPolicy) -> Self {
        Self::Policy { name }
    }
}
