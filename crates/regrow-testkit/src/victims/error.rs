//! What can be wrong with the victims or their harness, as opposed to what a victim finds.

use std::io;
use std::path::PathBuf;

/// The victims cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum VictimsError {
    /// A file cannot be used.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The manifest is not what is expected.
    #[error("{path}: {source}")]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// Why.
        source: Box<toml::de::Error>,
    },
    /// A case names a program that there is not.
    #[error("case {case}: there is no program {program:?}")]
    UnknownProgram {
        /// The case.
        case: String,
        /// Its program.
        program: String,
    },
    /// Two cases have one name.
    #[error("there are two cases {case:?}")]
    TwiceNamed {
        /// The name.
        case: String,
    },
    /// A case ends by a signal that the harness does not know.
    #[error("case {case}: no signal is called {signal:?}")]
    UnknownSignal {
        /// The case.
        case: String,
        /// The signal.
        signal: String,
    },
    /// A program is not there.
    #[error(
        "{path} is not built: run `make victims`, or tests/victims/build.sh DIR and set REGROW_VICTIMS_DIR to DIR"
    )]
    NotBuilt {
        /// Where it should be.
        path: PathBuf,
    },
    /// No flavour has this name.
    #[error("no flavour is called {0:?}")]
    UnknownFlavour(String),
    /// No case has this name.
    #[error("no case is called {0:?}")]
    UnknownCase(String),
    /// The test cannot talk to a worker process.
    #[error("{step} a worker: {source}")]
    Worker {
        /// What was tried.
        step: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// A line between test and worker is not what it should be.
    #[error("a line that is none: {line:?}: {source}")]
    Line {
        /// The line.
        line: String,
        /// Why.
        source: serde_json::Error,
    },
    /// The calling process cannot be changed for a run's world.
    #[error("{step}: {source}")]
    Caller {
        /// Which step.
        step: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}
