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
    /// The least that recycles a process (see [`super::prototype`]).
    Prototype,
}

/// How many methods there are.
pub(super) const METHODS: usize = 4;

impl SpawnMethod {
    /// All, in the order in which they take turns.
    pub(super) const ALL: [Self; METHODS] =
        [Self::PosixSpawn, Self::Regrow, Self::SingleUse, Self::Prototype];

    /// Those that are compared, with single use and the prototype or without.
    pub(super) fn compared(single_use: bool, prototype: bool) -> Vec<Self> {
        let is_compared = |method: &Self| match method {
            Self::PosixSpawn | Self::Regrow => true,
            Self::SingleUse => single_use,
            Self::Prototype => prototype,
        };
        Self::ALL.into_iter().filter(is_compared).collect()
    }

    /// Its name for the user.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::PosixSpawn => "posix_spawn",
            Self::Regrow => "Regrow",
            Self::SingleUse => "Regrow, single use",
            Self::Prototype => "the prototype",
        }
    }
}

impl fmt::Display for SpawnMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
