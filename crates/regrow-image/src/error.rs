//! Why no image could be made.

use std::ffi::CString;
use std::io;
use std::time::Duration;

use regrow_sys::maps::ReadMapsError;

/// Why no image could be made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// The program's state at the point is not fit to be given to later runs.
    #[error("refused: {0}")]
    Refused(String),
    /// The traced process ended.
    #[error("the program ended during {step}")]
    Died {
        /// When.
        step: &'static str,
    },
    /// The program could not be started.
    #[error("starting {path:?}: {source}")]
    Exec {
        /// Its path.
        path: CString,
        /// Why.
        source: io::Error,
    },
    /// A step of the tracing failed.
    #[error("{step}: {source}")]
    Tracing {
        /// Which.
        step: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The mappings of the traced process could not be read.
    #[error(transparent)]
    Maps(#[from] ReadMapsError),
    /// The seed did not start.
    #[error("the seed did not start within {0:?}")]
    SeedSilent(Duration),
}

impl MakeError {
    /// For `map_err`: an error of this step.
    pub(crate) fn tracing(step: &'static str) -> impl FnOnce(io::Error) -> MakeError {
        move |source| MakeError::Tracing { step, source }
    }
}

/// Refuses a program whose state at the point is not fit to be given to later runs.
pub(crate) fn refuse<T>(what: impl Into<String>) -> Result<T, MakeError> {
    Err(MakeError::Refused(what.into()))
}
