//! Where a model of creation sites is kept while nobody uses it: one file for a user.
//!
//! ```text
//!   $XDG_STATE_HOME/regrow/sites, or ~/.local/state/regrow/sites      the user's alone
//!     model              what was learned
//!     model.new          is written, then renamed to `model`
//!     model.damaged-1    a file that could not be read, set aside
//!     lock               whoever writes holds it
//! ```
//!
//! Several processes may learn at once: whoever saves takes in what the others have saved meanwhile. A file that cannot be read is set aside,
//! and learning begins anew. Whoever reads while another one writes finds the one file or the other.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use regrow_sites::{DecodeError, Model};
use regrow_sys::file_lock::FileLock;
use regrow_sys::own_folder::{self, OwnFolderError};
use rustix::fs::{OFlags, RenameFlags};
use rustix::io::Errno;

/// The folder in the folder of all state.
const FOLDER: &str = "sites";
const MODEL: &str = "model";
const NEW: &str = "model.new";
const DAMAGED: &str = "model.damaged";
const LOCK: &str = "lock";
/// A larger file is no model: the largest has less.
const MOST_BYTES: u64 = 16 << 20;
/// So many files are set aside; one more takes the place of the last.
const MOST_DAMAGED: u32 = 8;
/// How long a save waits for others where nobody says.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a model cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// Nothing names the user's folder.
    #[error("neither XDG_STATE_HOME nor HOME names a folder")]
    NoHome,
    /// The folder cannot be used.
    #[error(transparent)]
    Folder(#[from] OwnFolderError),
    /// Somebody else writes all the time, or is stopped while it writes.
    #[error("{}: others have held it locked for {} s", path.display(), waited.as_secs_f64())]
    Locked {
        /// The file.
        path: PathBuf,
        /// For so long.
        waited: Duration,
    },
    /// The system refuses.
    #[error("{}: {what}: {source}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// What was attempted.
        what: &'static str,
        /// What it says.
        source: io::Error,
    },
}

/// Why a file cannot be read as a model.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// Its bytes are no model.
    #[error(transparent)]
    Bytes(#[from] DecodeError),
    /// It is too large to be one.
    #[error("it has more than {MOST_BYTES} bytes")]
    TooLarge,
    /// It is a folder, a pipe, or a symbolic link.
    #[error("it is no regular file")]
    NoFile,
}

/// A file that was set aside.
#[derive(Debug)]
pub struct SetAside {
    /// Where it is.
    pub path: PathBuf,
    /// Why it cannot be read.
    pub why: Unreadable,
}

/// What was read.
#[derive(Debug)]
pub struct Loaded {
    /// The model; one that knows nothing when there was no file, or none that can be read.
    pub model: Model,
    /// The file, if it could not be read.
    pub set_aside: Option<SetAside>,
}

/// The folder in which a model is kept.
#[derive(Debug, Clone)]
pub struct Kept {
    folder: PathBuf,
    patience: Duration,
}

impl Kept {
    /// The calling user's. The folder is made if it is missing.
    ///
    /// # Errors
    /// [`KeptError::NoHome`], or [`KeptError::Folder`] when it cannot be made or others may write to it.
    pub fn of_user() -> Result<Kept, KeptError> {
        Kept::at(own_folder::state().ok_or(KeptError::NoHome)?.join(FOLDER))
    }

    /// In this folder, which is made if it is missing.
    ///
    /// # Errors
    /// [`KeptError::Folder`] when it cannot be made or others may write to it.
    pub fn at(folder: PathBuf) -> Result<Kept, KeptError> {
        own_folder::make(&folder)?;
        own_folder::check(&folder, rustix::process::geteuid().as_raw())?;
        Ok(Kept { folder, patience: PATIENCE })
    }

    /// How long it waits for others that write.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Kept {
        Kept { patience, ..self }
    }

    /// The file of the model.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.folder.join(MODEL)
    }

    /// Reads the model, within a budget of memory. A file that cannot be read as one is set aside.
    ///
    /// # Errors
    /// [`KeptError`] when the system refuses; a damaged file is no error.
    pub fn load(&self, budget_bytes: usize) -> Result<Loaded, KeptError> {
        match self.read(budget_bytes)? {
            Ok(model) => Ok(Loaded { model, set_aside: None }),
            Err(_) => {
                // Another process may have set it aside, or written another one: look again while nobody else does.
                let _lock = self.lock()?;
                self.read_or_set_aside(budget_bytes)
            }
        }
    }

    /// Writes the model, and takes in what others have saved since. A file that cannot be read is set aside.
    ///
    /// # Errors
    /// [`KeptError`]; the file is then as it was.
    pub fn save(&self, model: &mut Model) -> Result<Option<SetAside>, KeptError> {
        let _lock = self.lock()?;
        let Loaded { model: others, set_aside } = self.read_or_set_aside(model.budget_bytes())?;
        model.merge(&others);
        let new = self.folder.join(NEW);
        self.write(&new, &model.encode())?;
        std::fs::rename(&new, self.file()).map_err(system(&new, "cannot be renamed"))?;
        // The name is on the disk when the folder is.
        let folder = File::open(&self.folder).and_then(|folder| folder.sync_all());
        folder.map_err(system(&self.folder, "cannot be written to the disk"))?;
        Ok(set_aside)
    }

    /// Writes a file and has it on the disk; what is left of an earlier one that was not finished goes.
    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), KeptError> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(system(path, "cannot be removed")(error));
            }
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let written = file.and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        written.map_err(|error| {
            // What is not whole is of no use.
            let _ = std::fs::remove_file(path);
            system(path, "cannot be written")(error)
        })
    }

    /// Reads the file; a model that knows nothing when there is none.
    fn read(&self, budget_bytes: usize) -> Result<Result<Model, Unreadable>, KeptError> {
        let path = self.file();
        // A pipe is not waited for.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ok(Model::new(budget_bytes))),
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                return Ok(Err(Unreadable::NoFile));
            }
            Err(error) => return Err(system(&path, "cannot be opened")(error)),
        };
        if !file.metadata().map_err(system(&path, "cannot be looked at"))?.is_file() {
            return Ok(Err(Unreadable::NoFile));
        }
        let mut bytes = Vec::new();
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(system(&path, "cannot be read"))?;
        if bytes.len() as u64 > MOST_BYTES {
            return Ok(Err(Unreadable::TooLarge));
        }
        Ok(Model::decode_within(&bytes, budget_bytes).map_err(Unreadable::from))
    }

    /// Reads the file while nobody else writes.
    fn read_or_set_aside(&self, budget_bytes: usize) -> Result<Loaded, KeptError> {
        match self.read(budget_bytes)? {
            Ok(model) => Ok(Loaded { model, set_aside: None }),
            Err(why) => {
                let path = self.set_aside()?;
                tracing::warn!(file = ?self.file(), ?path, %why, "set aside: it cannot be read");
                let set_aside = Some(SetAside { path, why });
                Ok(Loaded { model: Model::new(budget_bytes), set_aside })
            }
        }
    }

    /// Gives the file a name that no other has.
    fn set_aside(&self) -> Result<PathBuf, KeptError> {
        let file = self.file();
        let name = |number: u32| self.folder.join(format!("{DAMAGED}-{number}"));
        for number in 1..MOST_DAMAGED {
            let path = name(number);
            let renamed = rustix::fs::renameat_with(
                rustix::fs::CWD,
                &file,
                rustix::fs::CWD,
                &path,
                RenameFlags::NOREPLACE,
            );
            match renamed {
                Ok(()) => return Ok(path),
                Err(Errno::EXIST) => {}
                // A file system that knows no such renaming.
                Err(Errno::INVAL | Errno::NOSYS) if path.symlink_metadata().is_ok() => {}
                Err(Errno::INVAL | Errno::NOSYS) => {
                    std::fs::rename(&file, &path).map_err(system(&file, "cannot be set aside"))?;
                    return Ok(path);
                }
                Err(error) => return Err(system(&file, "cannot be set aside")(error.into())),
            }
        }
        let last = name(MOST_DAMAGED);
        std::fs::rename(&file, &last).map_err(system(&file, "cannot be set aside"))?;
        Ok(last)
    }

    /// Waits until nobody else writes.
    fn lock(&self) -> Result<FileLock, KeptError> {
        let path = self.folder.join(LOCK);
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(flags)
            .open(&path);
        let file = file.map_err(system(&path, "cannot be opened"))?;
        FileLock::take(file.into(), self.patience).map_err(|error| match error {
            Errno::WOULDBLOCK => KeptError::Locked { path, waited: self.patience },
            error => system(&path, "cannot be locked")(error.into()),
        })
    }
}

/// An error of a step, for `map_err`.
fn system(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> KeptError {
    let path = path.to_owned();
    move |source| KeptError::System { path, what, source }
}
