//! What a policy has learned, in the papers' terms.

use std::time::Duration;

use crate::ids::ProgramId;
use crate::learn::Basis;

/// What the policy has learned, in the papers' terms.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Learned {
    /// How long the policy keeps a shell or a region that nobody takes.
    pub t1: Option<Duration>,
    /// For each program how long the policy keeps its first body unused, what says so, and how many bodies are wanted.
    pub t2: Vec<(ProgramId, Duration, Basis, usize)>,
    /// How many shells are wanted.
    pub h1: usize,
    /// How many regions are wanted.
    pub h2: usize,
}
