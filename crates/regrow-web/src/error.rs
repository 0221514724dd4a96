//! Why a gateway cannot serve.

use std::ffi::OsString;
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
    /// There is no program of this name.
    #[error("{}: there is no such program that can be executed", program.display())]
    NoProgram {
        /// The program as the settings name it.
        program: OsString,
    },
    /// The application cannot be imported.
    #[error("{name} cannot be loaded: {why}")]
    Application {
        /// Its name, `MODULE:NAME`.
        name: String,
        /// The last words of the interpreter.
        why: String,
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
