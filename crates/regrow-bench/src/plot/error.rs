//! Why there is no plot.

use std::io;
use std::path::PathBuf;

/// Why there is no plot.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// A file or the folder cannot be written.
    #[error("{}: cannot be written", path.display())]
    Write {
        /// The file or the folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The image cannot be encoded.
    #[error("{}: cannot be encoded", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// What the encoder said.
        source: png::EncodingError,
    },
    /// The library cannot draw it.
    #[error("{name}: cannot be drawn: {reason}")]
    Draw {
        /// The plot.
        name: String,
        /// What the library said.
        reason: String,
    },
}
