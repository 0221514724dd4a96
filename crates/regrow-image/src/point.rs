//! Snapshot points: where an image stops a program.

use std::fmt;

use regrow_abi::point;

/// A snapshot point, from shallow to deep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Point {
    /// After the kernel's exec, before the first instruction of the program or its loader.
    Entry,
    /// At the call of `main`, after dynamic linking, the start of the libc and the constructors.
    Main,
    /// Where a front end stops itself when it is prepared (`docs/warm.md`).
    Warm,
}

impl Point {
    /// The name of the point in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::Main => "main",
            Self::Warm => "warm",
        }
    }

    /// The agent's number of the point.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Entry => point::ENTRY,
            Self::Main => point::MAIN,
            Self::Warm => point::WARM,
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
