//! What to simulate.

use std::time::Duration;

use crate::trace::Creation;

use super::costs::Costs;

/// Which processes are alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// This many: before a further one is created, the oldest ends. At least one.
    Exactly(usize),
    /// As it was recorded.
    Recorded,
}

/// What to simulate.
#[derive(Debug, Clone)]
pub struct Setup<'a> {
    /// The sequence.
    pub trace: &'a [Creation],
    /// The table of costs.
    pub costs: &'a Costs,
    /// Which processes are alive.
    pub existing: Existing,
    /// Most bytes that may be kept.
    pub budget_bytes: u64,
    /// After how many creations each point is reported.
    pub every: usize,
    /// Whether the policy knows all programs before the first creation, and makes ready what it wants of them.
    pub announced: bool,
    /// After so many creations comes a pause of this length, as when several policies take turns on one machine.
    pub pauses: Option<(usize, Duration)>,
}

impl<'a> Setup<'a> {
    /// One process at a time, no budget, a point every 100 creations, no program known before.
    #[must_use]
    pub fn new(trace: &'a [Creation], costs: &'a Costs) -> Setup<'a> {
        Setup {
            trace,
            costs,
            existing: Existing::Exactly(1),
            budget_bytes: u64::MAX,
            every: 100,
            announced: false,
            pauses: None,
        }
    }
}
