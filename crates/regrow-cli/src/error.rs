//! Why the command fails, as one line for its user.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use regrow_bench::error::BenchError;
use regrow_bench::plot::error::PlotError;
use regrow_bench::record::RecordError;
use regrow_bench::replay::error::ReplayError;
use regrow_sys::disable::DisableError;

use crate::builtins::error::BuiltinsError;
use crate::link::error::LinkError;
use crate::log::LogError;

/// Why the command fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// `REGROW_DISABLE` cannot be used.
    #[error(transparent)]
    Disable(#[from] DisableError),
    /// The log filter cannot be used.
    #[error(transparent)]
    Log(#[from] LogError),
    /// There is no safe place for the daemon's socket.
    #[error(transparent)]
    Place(#[from] regrow_daemon::place::PlaceError),
    /// The daemon cannot serve.
    #[error(transparent)]
    Serve(#[from] regrow_daemon::server::ServeError),
    /// Memory cannot be served, or there is no such service.
    #[error(transparent)]
    Memory(#[from] regrow_memory::DomainError),
    /// The memory service cannot be made.
    #[error(transparent)]
    MemoryService(#[from] regrow_memory::ServiceError),
    /// The gateway cannot serve.
    #[error(transparent)]
    Gateway(#[from] regrow_web::error::WebError),
    /// Flags contradict one another.
    #[error("{0}")]
    Flags(&'static str),
    /// There is no user or group that a flag names.
    #[error("{flag}: there is no {name:?}")]
    NoAccount {
        /// The flag.
        flag: &'static str,
        /// The name.
        name: String,
        /// Why the system cannot tell.
        source: Option<io::Error>,
    },
    /// The daemon was no help.
    #[error(transparent)]
    Client(#[from] regrow_daemon::client::ClientError),
    /// The daemon cannot answer.
    #[error("{why}")]
    Refused {
        /// What it says.
        why: String,
    },
    /// The daemon's answer is not JSON.
    #[error("the daemon's answer cannot be read")]
    Answer(#[source] serde_json::Error),
    /// A launcher could not be made or removed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// There are no builtins.
    #[error(transparent)]
    Builtins(#[from] BuiltinsError),
    /// There are no launchers for `regrow env`.
    #[error(transparent)]
    Env(#[from] crate::env::place::EnvError),
    /// A benchmark has no result.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// A command is not recorded.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The machine may not be looked at.
    #[error(transparent)]
    Machine(#[from] regrow_machine::StartError),
    /// What the machine does cannot be collected.
    #[error(transparent)]
    Collect(#[from] regrow_machine::CollectError),
    /// A command cannot be watched.
    #[error(transparent)]
    Below(#[from] regrow_collect::below::BelowError),
    /// The library is not in its place.
    #[error(transparent)]
    DataFile(#[from] crate::data_file::DataFileError),
    /// A trace is not replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// There is no plot.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// A file could not be written.
    #[error("{}: cannot be written", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The results could not be printed.
    #[error("standard output: cannot be written")]
    Print(#[source] io::Error),
    /// There is no such program.
    #[error("{}: there is no such program that can be executed", program.display())]
    NoProgram {
        /// The program as the user named it.
        program: OsString,
    },
    /// The system refuses what the command needs.
    #[error("{what}")]
    System {
        /// What the command was about to do.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A value could not be written as JSON.
    #[error("the results cannot be written as JSON")]
    Json(#[source] serde_json::Error),
}

impl CliError {
    /// Makes an error of a step of the command, for `map_err`.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::chain;

    #[test]
    fn an_error_is_told_with_its_path_and_its_causes() {
        let source = io::Error::from_raw_os_error(libc::ENOSPC);
        let error = CliError::Write { path: PathBuf::from("/full/runs.jsonl"), source };
        assert_eq!(
            chain(&error),
            "/full/runs.jsonl: cannot be written: No space left on device (os error 28)"
        );
    }

    #[test]
    fn a_cause_is_told_once() {
        let source = io::Error::from_raw_os_error(libc::ENOTDIR);
        let what = "the socket".to_owned();
        let error = CliError::Serve(regrow_daemon::server::ServeError::System { what, source });
        assert_eq!(chain(&error), "the socket: Not a directory (os error 20)");
    }
}
