//! Why a launcher was not made or not removed.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use crate::own_file::OWN_NAME;

/// Why a launcher was not made or not removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    /// A launcher cannot have this name.
    #[error("{name:?}: {what}")]
    Name {
        /// The name.
        name: OsString,
        /// Why not.
        what: &'static str,
    },
    /// There is a file in the way.
    #[error("{}: it is there already and is no launcher", path.display())]
    Occupied {
        /// The file.
        path: PathBuf,
    },
    /// The file is no launcher.
    #[error("{}: is no launcher, left alone", path.display())]
    NoLauncher {
        /// The file.
        path: PathBuf,
    },
    /// There is no such launcher.
    #[error("{}: there is no such launcher", path.display())]
    NotThere {
        /// Where it would be.
        path: PathBuf,
    },
    /// Neither a flag nor the environment names the user's folder.
    #[error("--dir is needed: neither XDG_DATA_HOME nor HOME names a folder")]
    NoHome,
    /// The file of this command cannot be linked to.
    #[error("{}: it is not this command any more, or is not called {OWN_NAME}", path.display())]
    NotOurselves {
        /// Where the command was started from.
        path: PathBuf,
    },
    /// The system refuses.
    #[error("{}: {what}: {source}", path.display())]
    System {
        /// What it speaks of.
        path: PathBuf,
        /// What the command tried.
        what: &'static str,
        /// What it says.
        source: io::Error,
    },
}
