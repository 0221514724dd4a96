//! Reads the files that a replay needs: the trace, and a table of costs.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use regrow_pool::sim::Costs;
use regrow_pool::trace::{self, Creation};

use super::error::ReplayError;

/// Reads a trace.
pub(super) fn read_trace(path: &Path) -> Result<Vec<Creation>, ReplayError> {
    let cannot = |source| ReplayError::Trace { path: path.display().to_string(), source };
    trace::read(open(path)?).map_err(cannot)
}

/// Reads a table of costs.
pub(super) fn read_costs(path: &Path) -> Result<Costs, ReplayError> {
    let cannot = |source| ReplayError::Costs { path: path.display().to_string(), source };
    serde_json::from_reader(open(path)?).map_err(cannot)
}

fn open(path: &Path) -> Result<BufReader<File>, ReplayError> {
    let cannot = |source| ReplayError::Open { path: path.display().to_string(), source };
    File::open(path).map(BufReader::new).map_err(cannot)
}
