//! Where the daemon's socket is.
//!
//! `$XDG_RUNTIME_DIR/regrow.sock`; without that variable `/run/user/UID/regrow.sock`, or `/tmp/regrow-UID/regrow.sock`.
//! The folder must be the user's own and nobody else's to write, else whoever may write there could put a socket of
//! theirs in its place.

use std::path::{Path, PathBuf};

use regrow_sys::own_folder::{self, OwnFolderError};

/// The name of the socket.
const SOCKET: &str = "regrow.sock";
/// The name of the file that a daemon holds locked as long as it lives.
const LOCK: &str = "regrow.lock";

/// Why there is no place for a socket.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The folder cannot be used.
    #[error(transparent)]
    Folder(#[from] OwnFolderError),
}

/// A folder in which the user's daemon has its socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    folder: PathBuf,
}

impl Place {
    /// The place of the calling user; the folder is made if it is missing and is ours to make.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn of_user() -> Result<Place, PlaceError> {
        Ok(Place { folder: own_folder::runtime(own_folder::named_runtime().as_deref())? })
    }

    /// A place in a folder that is `user`'s alone.
    ///
    /// # Errors
    /// [`PlaceError::Folder`] when it is not, or cannot be looked at.
    pub fn at(folder: PathBuf, user: u32) -> Result<Place, PlaceError> {
        own_folder::check(&folder, user)?;
        Ok(Place { folder })
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.join(SOCKET)
    }

    /// The file that a daemon holds locked.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.folder.join(LOCK)
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let user = rustix::process::geteuid().as_raw();
        let path = folder.path().to_owned();
        assert!(Place::at(path.clone(), user).is_ok());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o770)).expect("it is ours");
        let error = Place::at(path.clone(), user).expect_err("the group may write");
        assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).expect("it is ours");
        assert!(matches!(
            Place::at(path.clone(), user + 1),
            Err(PlaceError::Folder(OwnFolderError::Unsafe { .. }))
        ));
        let link = path.join("link");
        std::os::unix::fs::symlink(&path, &link).expect("it is ours");
        assert!(matches!(Place::at(link, user), Err(PlaceError::Folder(OwnFolderError::Unsafe { .. }))));
        assert!(matches!(
            Place::at(path.join("none"), user),
            Err(PlaceError::Folder(OwnFolderError::Folder { .. }))
        ));
    }
}
