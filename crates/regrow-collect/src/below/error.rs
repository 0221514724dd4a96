//! Why a command cannot be watched.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use crate::scheduling::SchedulingError;

/// Why a command cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum BelowError {
    /// The channel cannot be made.
    #[error("{}: the channel to the processes cannot be made", path.display())]
    Channel {
        /// Its folder or file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The command cannot be started.
    #[error("{}: it cannot be started", program.display())]
    Start {
        /// The program.
        program: OsString,
        /// Why.
        source: io::Error,
    },
    /// The command's end cannot be waited for.
    #[error("process {pid}: its end cannot be waited for")]
    Wait {
        /// The command's process.
        pid: u32,
        /// Why.
        source: io::Error,
    },
    /// Children cannot be scheduled.
    #[error(transparent)]
    Scheduling(#[from] SchedulingError),
}
