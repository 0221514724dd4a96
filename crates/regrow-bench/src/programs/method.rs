//! The two methods of starting a program that are compared.

use std::fmt;

/// What starts a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpawnMethod {
    /// The C library's `posix_spawn`.
    PosixSpawn,
    /// A pool of Regrow's.
    Regrow,
}

impl SpawnMethod {
    /// Both, in the order in which they take turns.
    pub(super) const BOTH: [Self; 2] = [Self::PosixSpawn, Self::Regrow];

    /// Its name for the user.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::PosixSpawn => "posix_spawn",
            Self::Regrow => "Regrow",
        }
    }
}

impl fmt::Display for SpawnMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
