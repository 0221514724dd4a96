//! Why a client gets no help of a daemon.

use std::io;

use rustix::io::Errno;

use crate::wire::WireError;

/// Why the daemon was no help.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no daemon at this place.
    #[error("{}: there is no daemon", path.display())]
    NoDaemon {
        /// The socket.
        path: std::path::PathBuf,
        /// Why it cannot be connected to.
        source: io::Error,
    },
    /// The connection is broken.
    #[error("the connection to the daemon is lost")]
    Lost(#[source] io::Error),
    /// The daemon is gone, and had begun to start the run.
    #[error("the daemon is gone, and whether the program has run is not known")]
    Unknown(#[source] Box<ClientError>),
    /// What the daemon says cannot be understood.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The daemon refuses.
    #[error("the daemon refuses: {0}")]
    Refused(String),
    /// The run that is asked for does not fit in a message.
    #[error("{what}: {have} where a message to the daemon holds {most}")]
    TooLarge {
        /// What does not.
        what: &'static str,
        /// How much there is.
        have: usize,
        /// How much fits.
        most: usize,
    },
    /// A property of the calling process cannot be read.
    #[error("{what} cannot be read")]
    Caller {
        /// Which.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl From<Errno> for ClientError {
    fn from(error: Errno) -> Self {
        Self::Lost(error.into())
    }
}
