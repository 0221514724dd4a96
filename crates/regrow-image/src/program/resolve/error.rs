//! Why a program cannot be found, or a script not be followed.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// Why exec of a name or path would fail, or why it cannot be foretold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The name has a NUL, which no path can hold.
    #[error("{name:?} holds a NUL byte")]
    NulByte {
        /// The name.
        name: OsString,
    },
    /// The working directory of the exec cannot be entered.
    #[error("cannot enter the directory {}: {errno}", path.display())]
    WorkingDirectory {
        /// The directory.
        path: PathBuf,
        /// What `chdir` says.
        errno: Errno,
    },
    /// No element of `PATH` has a program of this name that can be executed.
    #[error("cannot find {name:?} in PATH: {errno}")]
    NotInPath {
        /// The name.
        name: OsString,
        /// What `posix_spawnp` says.
        errno: Errno,
    },
    /// The file is not there or cannot be executed.
    #[error("cannot execute {}: {errno}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What exec says.
        errno: Errno,
    },
    /// A script begins with `#!` but names no interpreter.
    #[error("{} is a script without an interpreter", script.display())]
    NoInterpreter {
        /// The script.
        script: PathBuf,
    },
    /// The interpreter of a script, or the loader of a program, is not there or cannot be
    /// executed.
    #[error("cannot execute {}, the interpreter of {}: {errno}", interpreter.display(), script.display())]
    Interpreter {
        /// The script or program.
        script: PathBuf,
        /// Its interpreter.
        interpreter: PathBuf,
        /// What exec says.
        errno: Errno,
    },
    /// The interpreters of a script are scripts, and too many of them.
    #[error("too many scripts are interpreters of one another, from {} on", path.display())]
    TooDeep {
        /// The first script.
        path: PathBuf,
    },
    /// The file can be executed but not read, so that only exec can tell what it is.
    #[error("cannot read {}: {errno}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What opening or reading it says.
        errno: Errno,
    },
}

impl ResolveError {
    /// The error number that exec or `posix_spawnp` gives. `None` when the call is not made at
    /// all ([`ResolveError::NulByte`]) or its outcome is not known
    /// ([`ResolveError::Unreadable`]).
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        self.exec_errno().map(Errno::raw_os_error)
    }

    /// The same error as [`std::process::Command`] gives it. `None` when exec must be asked.
    #[must_use]
    pub fn to_io_error(&self) -> Option<io::Error> {
        match self {
            Self::NulByte { .. } => {
                Some(io::Error::new(io::ErrorKind::InvalidInput, "nul byte found in provided data"))
            }
            _ => self.errno().map(io::Error::from_raw_os_error),
        }
    }

    pub(crate) fn exec_errno(&self) -> Option<Errno> {
        match self {
            Self::NulByte { .. } | Self::Unreadable { .. } => None,
            Self::WorkingDirectory { errno, .. }
            | Self::NotInPath { errno, .. }
            | Self::File { errno, .. }
            | Self::Interpreter { errno, .. } => Some(*errno),
            Self::NoInterpreter { .. } => Some(Errno::NOEXEC),
            Self::TooDeep { .. } => Some(Errno::LOOP),
        }
    }
}
