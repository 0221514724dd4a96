//! Why there are no builtins.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// Why there are no builtins.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuiltinsError {
    /// There is no builtin of this name.
    #[error("{}: there is no builtin for it; there are some for {known}", name.display())]
    NoBuiltin {
        /// The name.
        name: OsString,
        /// Those that there are.
        known: &'static str,
    },
    /// Neither a flag nor the environment names the user's folder.
    #[error("neither XDG_DATA_HOME nor HOME names a folder for the library")]
    NoHome,
    /// The system refuses.
    #[error("{}: {what}: {source}", path.display())]
    System {
        /// What it speaks of.
        path: PathBuf,
        /// What the command tried.
        what: &'static str,
        /// What it says.
        source: io::Error,
    },
}
