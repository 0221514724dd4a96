//! A row of the table of variables.

use std::fmt;

/// Which names a row of the table speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One name.
    Name(&'static str),
    /// All names that begin so.
    Prefix(&'static str),
}

impl Pattern {
    /// Does it speak of this name?
    #[must_use]
    pub fn matches(self, name: &[u8]) -> bool {
        match self {
            Self::Name(own) => own.as_bytes() == name,
            Self::Prefix(prefix) => name.starts_with(prefix.as_bytes()),
        }
    }

    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Name(text) | Self::Prefix(text) => text,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => out.write_str(name),
            Self::Prefix(prefix) => write!(out, "{prefix}*"),
        }
    }
}

/// What a variable does before `main`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It changes the state of memory, which an image keeps.
    State,
    /// It prints, writes files or ends the program, which every run must do anew: an image at
    /// `main` cannot give that. See [`acts_before_main`](super::acts_before_main).
    Acts,
}

/// One row of the table of variables.
#[derive(Clone, Copy, Debug)]
pub struct KeyVariable {
    /// The names.
    pub pattern: Pattern,
    /// Which code reads them.
    pub who_reads: &'static str,
    /// What it uses them for, and when.
    pub why: &'static str,
    /// What follows from it.
    pub effect: Effect,
}
