//! Runs a command below which a preloaded library tells what happens to processes, and keeps all of it.

use std::process::{Command, ExitStatus};

use regrow_collect::below::{Below, Summary};
use regrow_sites::Event;
use regrow_sites_preload::LIBRARY;

use crate::error::BenchError;

/// What the hashes of scripts' files stand for.
pub(crate) type Scripts = Vec<(u64, String)>;

/// What was told below a command.
#[derive(Debug)]
pub(crate) struct Watched {
    /// How the command ended.
    pub(crate) status: ExitStatus,
    /// As they were told.
    pub(crate) events: Vec<Event>,
    /// Names of scripts.
    pub(crate) scripts: Scripts,
    summary: Summary,
}

impl Watched {
    /// Words of processes that were lost, so that something of what happened is not known.
    pub(crate) fn lost(&self) -> u64 {
        self.summary.dropped + self.summary.lost
    }
}

/// Runs a command to its end.
///
/// # Errors
/// [`BenchError::System`] where the library cannot be written, [`BenchError::Below`] where the command cannot be started or watched.
pub(crate) fn watch(command: &mut Command) -> Result<Watched, BenchError> {
    let folder = tempfile::tempdir().map_err(BenchError::system("a temporary folder cannot be made"))?;
    let library = folder.path().join("libregrow_sites.so");
    std::fs::write(&library, LIBRARY).map_err(BenchError::system("the library cannot be written"))?;
    let mut events = Vec::new();
    let mut scripts = Scripts::new();
    let run = |below: Below| {
        below.run(command, None, |below, some| {
            events.extend_from_slice(some);
            scripts.extend(below.take_scripts());
        })
    };
    let (status, summary) = Below::new(&library, None).and_then(run)?;
    Ok(Watched { status, events, scripts, summary })
}
