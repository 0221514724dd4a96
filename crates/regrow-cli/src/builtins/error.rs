//! Why there are no builtins.

use std::ffi::OsString;

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
    /// The library is not in its place.
    #[error(transparent)]
    File(#[from] crate::data_file::DataFileError),
}
