//! The methods of starting a program that are compared.

use std::fmt;

/// What starts a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpawnMethod {
    /// The C library's `posix_spawn`.
    PosixSpawn,
    /// A pool of Regrow's.
    Regrow,
    /// A pool of Regrow's in which a body serves one run.
    SingleUse,
}

impl SpawnMethod {
    /// All, in the order in which they take turns.
    pub(super) const ALL: [Self; 3] = [Self::PosixSpawn, Self::Regrow, Self::SingleUse];

    /// Those that are compared, with single use or without.
    pub(super) fn compared(single_use: bool) -> &'static [Self] {
        if single_use { &Self::ALL } else { &[Self::PosixSpawn, Self::Regrow] }
    }

    /// Its name for the user.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::PosixSpawn => "posix_spawn",
            Self::Regrow => "Regrow",
            Self::SingleUse => "Regrow, single use",
        }
    }
}

impl fmt::Display for SpawnMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
