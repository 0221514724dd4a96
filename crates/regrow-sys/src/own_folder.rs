//! Folders that are the user's alone: where Regrow keeps state, and the check that nobody else can write there.
//!
//! Whoever may write to such a folder could put a file or a socket of theirs in place of ours.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OwnFolderError {
    /// The folder cannot be made or looked at.
    #[error("{}: {what}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What was attempted.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The folder is not the user's alone.
    #[error("{}: {what}", path.display())]
    Unsafe {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The folder that the environment names is not fit.
    #[error("XDG_RUNTIME_DIR names {0}")]
    Named(#[source] Box<OwnFolderError>),
}

impl OwnFolderError {
    /// Whether there is no such folder.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Folder { source, .. } => source.kind() == io::ErrorKind::NotFound,
            Self::Unsafe { .. } => false,
            Self::Named(error) => error.is_missing(),
        }
    }
}

/// The folder of all state that Regrow keeps for the calling user: `$XDG_STATE_HOME/regrow` or `~/.local/state/regrow`; `None` when the
/// environment names neither. Nothing is made.
#[must_use]
pub fn state() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")))?;
    Some(state.join("regrow"))
}

/// The folder that the environment names for what lives as long as the user's session: `$XDG_RUNTIME_DIR`.
#[must_use]
pub fn named_runtime() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The folder of what lives as long as the calling user's processes: the one that is `named`; without a name `/run/user/UID`, or
/// `/tmp/regrow-UID`, which is made if it is missing. It is the user's alone.
///
/// # Errors
/// [`OwnFolderError`].
pub fn runtime(named: Option<&Path>) -> Result<PathBuf, OwnFolderError> {
    let user = rustix::process::geteuid().as_raw();
    if let Some(folder) = named {
        check(folder, user).map_err(|error| OwnFolderError::Named(Box::new(error)))?;
        return Ok(folder.to_owned());
    }
    let mut folder = PathBuf::from(format!("/run/user/{user}"));
    if !folder.is_dir() {
        folder = PathBuf::from(format!("/tmp/regrow-{user}"));
        make(&folder)?;
    }
    check(&folder, user)?;
    Ok(folder)
}

/// Makes a folder with those above it, for the calling user alone. One that is there stays as it is.
///
/// # Errors
/// [`OwnFolderError::Folder`].
pub fn make(folder: &Path) -> Result<(), OwnFolderError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|source| {
        let what = "the folder cannot be made";
        OwnFolderError::Folder { path: folder.to_owned(), what, source }
    })
}

/// Checks that a folder is `user`'s alone.
///
/// # Errors
/// [`OwnFolderError::Unsafe`] when it is not; [`OwnFolderError::Folder`] when it cannot be looked at.
pub fn check(folder: &Path, user: u32) -> Result<(), OwnFolderError> {
    let path = || folder.to_owned();
    let metadata = folder.symlink_metadata().map_err(|source| {
        let what = "the folder cannot be looked at";
        OwnFolderError::Folder { path: path(), what, source }
    })?;
    let what = if !metadata.is_dir() {
        "it is no folder"
    } else if metadata.uid() != user {
        "it is another user's"
    } else if metadata.permissions().mode() & 0o022 != 0 {
        "others may write to it"
    } else {
        return Ok(());
    };
    Err(OwnFolderError::Unsafe { path: path(), what })
}
