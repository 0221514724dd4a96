//! Why a gateway cannot serve.

use std::io;
use std::path::PathBuf;

/// Why a gateway cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The gateway cannot listen at an address.
    #[error("{address} cannot be listened at")]
    Listen {
        /// The address, as the caller wrote it.
        address: String,
        /// The cause.
        source: io::Error,
    },
    /// The gateway cannot use a file or folder.
    #[error("{}: {what}", path.display())]
    Path {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// A setting makes no sense.
    #[error("{0}")]
    Setting(&'static str),
    /// The system refuses what every server needs.
    #[error("{what}")]
    System {
        /// What it refuses.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
}
