//! What test and worker tell each other, a line of JSON each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One case in one flavour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The flavour's name.
    pub flavour: String,
    /// The case's name.
    pub case: String,
    /// How many runs.
    pub runs: usize,
}

/// The result of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// How many runs there were.
    pub runs: usize,
    /// Runs in a kept address space, by how they were made and point: `recycled at main`.
    pub kept: BTreeMap<String, usize>,
    /// Runs by exec, by the reason's name.
    pub exec: BTreeMap<String, usize>,
    /// The reasons in full, for the reader.
    pub exec_details: BTreeMap<String, usize>,
    /// Bodies that were given up, by reason.
    pub given_up: BTreeMap<String, u64>,
    /// Bodies that were compared with their image.
    pub compared: u64,
    /// Why the case was left out, if it was.
    pub left_out: Option<String>,
    /// What went wrong, with the number of the run.
    pub failures: Vec<String>,
    /// How long it took.
    pub milliseconds: u64,
}

impl Report {
    /// Runs in a kept address space.
    pub fn kept_runs(&self) -> usize {
        self.kept.values().sum()
    }
}
