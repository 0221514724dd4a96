//! Where the launchers of `regrow env` stand.
//!
//! ```text
//!   $XDG_STATE_HOME/regrow/env, or ~/.local/state/regrow/env      the user's alone, as the daemon's place is
//!     learned.json    which programs gain
//!     asked           when the daemon was asked for its figures
//!     0123456789abcdef/     for one PATH
//!       [b]in/        the launchers; this folder stands at the front of PATH
//!       bin/          empty
//!       cc/TARGET/VERSION/     launchers for what gcc executes by full path, each with a link `.NAME` to the program
//!       client        the file that all launchers are names of
//!       stamp         what the launchers were made from
//! ```
//!
//! A script that walks through `PATH` by itself (`IFS=:; for folder in $PATH`, as `configure` does to write the paths of
//! tools into files) has the shell expand each folder as a pattern. `[b]in` is a pattern, and `bin` is what it names: the script finds an
//! empty folder there and goes on to the program itself. Whoever executes a program takes the name as it stands.
//!
//! Invariant: no folder is used that is another user's, or that others may write to.

use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use regrow_abi::client::ENV_FOLDER;
use regrow_sys::own_folder::{self, OwnFolderError};

/// The name of the launchers' folder.
const LAUNCHERS: &str = "[b]in";
/// The name that a shell makes of it.
const EXPANDED: &str = "bin";
/// The name of the folder for gcc.
const COMPILERS: &str = "cc";
/// Names of the files.
const CLIENT: &str = "client";
const STAMP: &str = "stamp";
const LEARNED: &str = "learned.json";
const ASKED: &str = "asked";

/// Why there are no launchers to be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EnvError {
    /// The command has other rights than the user who has started it.
    #[error("the command runs with the rights of another user")]
    OtherRights,
    /// There is no `PATH` to put a folder in front of.
    #[error("PATH is not set")]
    NoPath,
    /// Nothing names the user's folder.
    #[error("neither XDG_STATE_HOME nor HOME names a folder")]
    NoHome,
    /// The folder's name would be read as something else.
    #[error("{}: a folder of this name cannot stand in PATH", path.display())]
    Name {
        /// The folder.
        path: PathBuf,
    },
    /// A folder cannot be made, or is not the user's alone.
    #[error(transparent)]
    Folder(#[from] OwnFolderError),
    /// A launcher could not be made.
    #[error(transparent)]
    Launcher(#[from] crate::link::error::LinkError),
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

impl EnvError {
    /// An error of a step, for `map_err`.
    pub(crate) fn system(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::System { path, what, source }
    }
}

/// The folder of all that `regrow env` keeps for a user.
#[derive(Debug, Clone)]
pub(crate) struct EnvPlace {
    base: PathBuf,
}

impl EnvPlace {
    /// The calling user's. Nothing is made yet.
    pub(crate) fn of_user() -> Result<EnvPlace, EnvError> {
        let base = own_folder::state().ok_or(EnvError::NoHome)?.join("env");
        if base.as_os_str().as_bytes().iter().any(|byte| b":*?[]\\\n".contains(byte)) {
            return Err(EnvError::Name { path: base });
        }
        Ok(EnvPlace { base })
    }

    /// What stands for one `PATH`. With `all`, what has been learned is not asked.
    pub(crate) fn for_path(&self, path: &OsStr, all: bool) -> EnvFolder {
        let mut hasher = DefaultHasher::new();
        (path.as_bytes(), all).hash(&mut hasher);
        EnvFolder { root: self.base.join(format!("{:016x}", hasher.finish())) }
    }

    /// A `PATH` without any folder of launchers of ours.
    pub(crate) fn without_ours(&self, path: &OsStr) -> OsString {
        let is_ours = |element: &&[u8]| Path::new(OsStr::from_bytes(element)).starts_with(&self.base);
        let rest: Vec<&[u8]> =
            path.as_bytes().split(|&byte| byte == b':').filter(|element| !is_ours(element)).collect();
        OsStr::from_bytes(&rest.join(&b':')).to_owned()
    }

    /// The folder of the launcher that is measured, and the file that it is a name of.
    pub(crate) fn measured(&self) -> (PathBuf, PathBuf) {
        (self.base.join("price"), self.base.join(CLIENT))
    }

    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    pub(crate) fn learned(&self) -> PathBuf {
        self.base.join(LEARNED)
    }

    pub(crate) fn asked(&self) -> PathBuf {
        self.base.join(ASKED)
    }

    /// Makes the folder that everything stands in.
    pub(crate) fn make(&self) -> Result<(), EnvError> {
        own_folder::make(&self.base)?;
        check(&self.base)
    }
}

/// The folder for one `PATH`.
#[derive(Debug, Clone)]
pub(crate) struct EnvFolder {
    root: PathBuf,
}

impl EnvFolder {
    /// What stands at the front of `PATH`.
    pub(crate) fn launchers(&self) -> PathBuf {
        self.root.join(LAUNCHERS)
    }

    /// What stands in `COMPILER_PATH`.
    pub(crate) fn compilers(&self) -> PathBuf {
        self.root.join(COMPILERS)
    }

    /// The file that all launchers are names of.
    pub(crate) fn client(&self) -> PathBuf {
        self.root.join(CLIENT)
    }

    pub(crate) fn stamp(&self) -> PathBuf {
        self.root.join(STAMP)
    }

    /// Makes the folders.
    pub(crate) fn make(&self) -> Result<(), EnvError> {
        own_folder::make(&self.launchers())?;
        own_folder::make(&self.compilers())?;
        Ok(own_folder::make(&self.root.join(EXPANDED))?)
    }

    /// Makes a folder below that for gcc.
    pub(crate) fn make_below(&self, folder: &Path) -> Result<(), EnvError> {
        own_folder::make(folder)?;
        check(folder)
    }

    /// Looks whether the folders are the user's alone.
    pub(crate) fn check(&self) -> Result<(), EnvError> {
        self.root.parent().map_or(Ok(()), check)?;
        check(&self.root)?;
        check(&self.launchers())
    }
}

fn check(folder: &Path) -> Result<(), EnvError> {
    Ok(own_folder::check(folder, rustix::process::geteuid().as_raw())?)
}

/// The name of the link beside a launcher that leads to its program.
pub(crate) fn link_name(name: &OsStr) -> OsString {
    OsStr::from_bytes(&[b".", name.as_bytes()].concat()).to_owned()
}

/// The program of a launcher for gcc, by the launcher's path.
pub(crate) fn compiler_of(launcher: &Path) -> Option<PathBuf> {
    let folder = launcher.parent()?;
    if folder.ancestors().nth(2)?.file_name() != Some(OsStr::new(COMPILERS)) {
        return None;
    }
    let place = EnvPlace::of_user().ok()?;
    let is_ours = folder.starts_with(&place.base) && check(folder).is_ok();
    let link = folder.join(link_name(launcher.file_name()?));
    is_ours.then(|| std::fs::read_link(link).ok())?
}

/// Whether a launcher of `regrow env` was started by its full path: its program has its own path for a name.
pub(crate) fn is_found_by_path(argv0: &Path) -> bool {
    folder_of(argv0).is_some() || compiler_of(argv0).is_some()
}

/// The folder of launchers that a file stands in by this path, if it stands in one of `regrow env`.
pub(crate) fn folder_of(launcher: &Path) -> Option<&Path> {
    debug_assert!(
        ENV_FOLDER.strip_prefix(b"/") == Some(&[LAUNCHERS.as_bytes(), b"/"].concat()[..]),
        "the client knows the folder"
    );
    launcher.parent().filter(|folder| folder.file_name() == Some(OsStr::new(LAUNCHERS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_ours_is_taken_out_of_path_wherever_it_stands() {
        let place = EnvPlace { base: "/s/regrow/env".into() };
        let without = |path: &str| place.without_ours(OsStr::new(path)).into_string().unwrap();
        assert_eq!(without("/s/regrow/env/0/[b]in:/bin::/usr/bin"), "/bin::/usr/bin");
        assert_eq!(without("/bin:/s/regrow/env/0/[b]in"), "/bin");
        assert_eq!(without("/s/regrow/environment:/bin"), "/s/regrow/environment:/bin");
        assert_eq!(without(""), "");
    }

    #[test]
    fn a_launcher_is_known_by_its_folder() {
        let folder = EnvPlace { base: "/s".into() }.for_path(OsStr::new("/bin"), false).launchers();
        assert_eq!(folder_of(&folder.join("sed")), Some(folder.as_path()));
        assert_eq!(folder_of(Path::new("/home/u/bin/sed")), None);
        assert_eq!(folder_of(Path::new("sed")), None);
    }

    #[test]
    fn each_path_has_a_folder_of_its_own() {
        let place = EnvPlace { base: "/s".into() };
        let of = |path: &str, all| place.for_path(OsStr::new(path), all).root;
        assert_eq!(of("/bin", false), of("/bin", false));
        assert_ne!(of("/bin", false), of("/bin:/usr/bin", false));
        assert_ne!(of("/bin", false), of("/bin", true));
    }
}
