//! Why a daemon does not serve.

use std::io;

/// Why a daemon does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another one serves this place.
    #[error("{}: a daemon is there already", path.display())]
    AlreadyThere {
        /// The file that it holds locked.
        path: std::path::PathBuf,
    },
    /// A step of its start, or its loop, failed.
    #[error("{what}: {source}")]
    System {
        /// What failed.
        what: String,
        /// Why.
        source: io::Error,
    },
}

pub(super) fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> ServeError {
    move |source| ServeError::System { what: what.into(), source: source.into() }
}
