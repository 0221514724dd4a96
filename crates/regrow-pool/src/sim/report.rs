//! What a simulation gives: figures along the way and at the end, or why it cannot go on.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::inventory::Illegal;

/// The figures after some creations.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SimPoint {
    /// How many creations there have been.
    pub creations: usize,
    /// Time spent on creating them, in microseconds.
    pub time_us: f64,
    /// Bytes that are kept.
    pub kept_bytes: u64,
    /// The mean of the kept bytes since the beginning.
    pub mean_kept_bytes: u64,
    /// How many were created in a ready body.
    pub in_body: usize,
    /// How many found their image.
    pub with_image: usize,
    /// How many found neither, but a shell.
    pub in_shell: usize,
    /// How many found nothing.
    pub from_nothing: usize,
}

/// The result of a simulation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SimReport {
    /// The name of the policy.
    pub policy: String,
    /// A point every so many creations, and one at the end.
    pub points: Vec<SimPoint>,
    /// The most bytes that the policy kept at a time.
    pub most_kept_bytes: u64,
    /// How many actions the policy took.
    pub actions: usize,
}

impl SimReport {
    /// The last point.
    #[must_use]
    pub fn end(&self) -> SimPoint {
        self.points.last().copied().unwrap_or_default()
    }
}

/// A simulation cannot go on: an event or an action was illegal, which is a fault of the policy or of the simulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("at creation {number} of the trace, {at:?} after its beginning")]
pub struct SimError {
    /// The number of the creation, from 1.
    pub number: usize,
    /// The simulated time.
    pub at: Duration,
    /// What was illegal.
    #[source]
    pub illegal: Illegal,
}
