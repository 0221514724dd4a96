//! What can go wrong in the command itself, as one line for its user.

use std::error::Error;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use regrow_sys::disable::DisableError;

/// Why the command could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// `REGROW_DISABLE` cannot be used.
    #[error(transparent)]
    Disable(#[from] DisableError),
    /// The log filter cannot be used.
    #[error("--log or REGROW_LOG: {filter:?} is no level and no filter")]
    Log {
        /// The filter.
        filter: String,
        /// What is wrong with it.
        source: tracing_subscriber::filter::ParseError,
    },
    /// A word of the log filter is neither a level nor a module of Regrow.
    #[error(
        "--log or REGROW_LOG: {word:?} is no level (off, error, warn, info, debug, trace) and no module of Regrow"
    )]
    LogLevel {
        /// The word.
        word: String,
    },
    /// There is no safe place for the daemon's socket.
    #[error(transparent)]
    Place(#[from] regrow_daemon::place::PlaceError),
    /// The daemon cannot serve.
    #[error(transparent)]
    Serve(#[from] regrow_daemon::server::ServeError),
    /// The gateway cannot serve.
    #[error(transparent)]
    Gateway(#[from] regrow_web::error::WebError),
    /// What the gateway is asked for makes no sense.
    #[error("{0}")]
    Web(&'static str),
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
    Link(#[from] crate::link::LinkError),
    /// A command cannot be followed.
    #[error("the command cannot be followed")]
    Follow(#[from] regrow_sys::follow::FollowError),
    /// A trace cannot be written.
    #[error(transparent)]
    Trace(#[from] regrow_pool::trace::TraceError),
    /// A trace cannot be replayed.
    #[error(transparent)]
    Replay(#[from] crate::replay::ReplayError),
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
    /// Something that the command needs of the system failed.
    #[error("{what}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("{program}: cannot be started by {by}")]
    Start {
        /// The program as the user named it.
        program: String,
        /// The way in which it was to be started.
        by: &'static str,
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

/// The error and what it comes from, in one line. A cause that the error has told is not told again.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            // Writing to a string does not fail.
            let _ = write!(text, ": {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

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
