//! The collector below a command, without privilege: a preloaded library tells.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Command;

use regrow_collect::Scheduling;
use regrow_collect::below::{Below, BelowError, Summary};
use regrow_profile::traced::Told;
use regrow_sites_preload::LIBRARY;
use regrow_sys::raw;

use super::watch::{Collector, Teller};
use crate::data_file;
use crate::error::CliError;
use crate::exit_status::{NOT_EXECUTABLE, NOT_FOUND};
use crate::message::{chain, complain};

/// The file of the library.
const FILE: &str = "libregrow_sites.so";

/// A collection, with the library in its place.
pub(crate) fn start(scheduling: Option<Scheduling>) -> Result<Below, CliError> {
    Ok(Below::new(&data_file::put(FILE, LIBRARY)?, scheduling)?)
}

/// The signals that go on to a command, and those that it has of the terminal itself: this process holds them back, and the command does not.
pub(crate) struct HeldSignals {
    descriptor: OwnedFd,
    /// What was blocked before.
    before: u64,
}

impl HeldSignals {
    /// Called before there are threads, so that none of them takes one.
    pub(crate) fn hold() -> Result<HeldSignals, CliError> {
        let bit = |signal: i32| 1_u64 << (signal - 1);
        let set = [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT].map(bit).iter().sum();
        let (descriptor, before) =
            raw::signals_as_descriptor(set).map_err(CliError::system("signals cannot be waited for"))?;
        Ok(HeldSignals { descriptor, before })
    }

    /// Where they are read.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// A command that begins as this process did.
    pub(crate) fn command(&self, program: &OsStr, args: &[OsString]) -> Command {
        let mut command = Command::new(program);
        command.args(args);
        raw::begin_with_signal_mask(&mut command, self.before);
        command
    }
}

/// Of a command.
pub(super) fn collector(program: &OsStr, args: &[OsString]) -> Result<Collector, CliError> {
    let (below, signals) = (start(None)?, HeldSignals::hold()?);
    let mut command = signals.command(program, args);
    Ok(Box::new(move |mut tell: Teller| {
        let (status, summary) = below.run(&mut command, Some(signals.descriptor()), |below, events| {
            for event in events {
                tell(Told::Event(event.clone()));
            }
            for (hash, name) in below.take_scripts() {
                tell(Told::Script(hash, name));
            }
        })?;
        for line in describe(&summary) {
            complain(&line);
        }
        Ok(Some(status))
    }))
}

/// Tells why a command does not start, and gives the status that `env` would have.
pub(crate) fn not_started(error: &BelowError) -> u8 {
    complain(&chain(error));
    match error {
        BelowError::Start { source, .. } if source.kind() == std::io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    }
}

/// What the profile lacks, a line for each.
pub(crate) fn describe(summary: &Summary) -> Vec<String> {
    let lines = [
        (summary.dropped, "words of processes found no room, and are left out"),
        (summary.lost, "words were lost with processes that were killed"),
    ];
    lines.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_is_said_and_nothing_else() {
        assert!(describe(&Summary::default()).is_empty());
        let summary = Summary { dropped: 3, ..Summary::default() };
        assert_eq!(describe(&summary), ["3 words of processes found no room, and are left out"]);
    }
}
