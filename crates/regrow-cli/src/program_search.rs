//! The program that a launcher stands for: the first of its name in `PATH` that is no regrow, behind the first that is one.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use regrow_sys::search;
use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::exit_status::{NOT_EXECUTABLE, NOT_FOUND};
use crate::message::complain;
use crate::own_file::{OWN_NAME, OwnFile};

/// Why a launcher has nothing to run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MissingProgram {
    /// There is no such file.
    #[error("{}: there is no such program in PATH but Regrow's launchers", name.display())]
    NotFound {
        /// The name of the launcher.
        name: OsString,
    },
    /// There is a file that may not be executed.
    #[error("{}: {}", path.display(), io::Error::from_raw_os_error(libc::EACCES))]
    Denied {
        /// The first such file.
        path: PathBuf,
    },
}

impl MissingProgram {
    /// Tells it, and returns the status that `env` would have.
    pub(crate) fn tell(&self) -> u8 {
        complain(&self.to_string());
        match self {
            Self::NotFound { .. } => NOT_FOUND,
            Self::Denied { .. } => NOT_EXECUTABLE,
        }
    }
}

/// The program behind a launcher. `None` where `program_or_name` names, by its path or through `PATH`, no launcher of this very
/// command.
pub(crate) fn behind(program_or_name: &OsStr) -> Option<Result<PathBuf, MissingProgram>> {
    let name = Path::new(program_or_name).file_name().filter(|&name| name != OWN_NAME)?;
    let own = OwnFile::read();
    let is_launcher = if program_or_name.as_bytes().contains(&b'/') {
        Path::new(program_or_name).metadata().is_ok_and(|file| own.is(&file))
    } else {
        let path = std::env::var_os("PATH");
        let first = find(name, path.as_deref(), |_, _| false);
        first.is_ok_and(|(_, file)| own.is(&file))
    };
    is_launcher.then(|| find_behind(name))
}

/// The program of this name that is no regrow, behind the first that is one if there is such a program.
pub(crate) fn find_behind(name: &OsStr) -> Result<PathBuf, MissingProgram> {
    let path = std::env::var_os("PATH");
    find_behind_in(name, path.as_deref())
}

fn find_behind_in(name: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, MissingProgram> {
    let own = OwnFile::read();
    let has_passed_one = Cell::new(false);
    let is_regrow = |path: &Path, file: &Metadata| {
        let is_one = own.is_regrow(path, file);
        has_passed_one.set(has_passed_one.get() || is_one);
        is_one
    };
    find(name, path, |path, file| is_regrow(path, file) || !has_passed_one.get())
        .or_else(|_| find(name, path, is_regrow))
        .map(|(path, _)| path)
}

/// The first file of this name that can be executed, in the order of `execvp`, without those that `skip` names.
fn find(
    name: &OsStr,
    path: Option<&OsStr>,
    skip: impl Fn(&Path, &Metadata) -> bool,
) -> Result<(PathBuf, Metadata), MissingProgram> {
    let mut denied = None;
    for candidate in search::candidates(name.as_bytes(), path.map(OsStr::as_bytes)) {
        // The path has a slash, so that nobody looks for it in PATH again.
        let folder: &[u8] = if candidate.directory.is_empty() { b"." } else { candidate.directory };
        let candidate = Path::new(OsStr::from_bytes(folder)).join(name);
        let Ok(file) = candidate.metadata() else { continue };
        if skip(&candidate, &file) {
            continue;
        }
        if file.is_file() && accessat(CWD, &candidate, Access::EXEC_OK, AtFlags::EACCESS).is_ok() {
            return Ok((candidate, file));
        }
        denied.get_or_insert(candidate);
    }
    match denied {
        Some(path) => Err(MissingProgram::Denied { path }),
        None => Err(MissingProgram::NotFound { name: name.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A folder with files of the name `tool`: one that is a program, one that may not be executed, and so on.
    fn folders() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (folder, mode) in [("program", 0o755), ("again", 0o755), ("denied", 0o644)] {
            let file = root.path().join(folder).join("tool");
            fs::create_dir(file.parent().unwrap()).unwrap();
            fs::write(&file, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir_all(root.path().join("folder/tool")).unwrap();
        fs::create_dir(root.path().join("launcher")).unwrap();
        symlink(std::env::current_exe().unwrap(), root.path().join("launcher/tool")).unwrap();
        fs::create_dir(root.path().join("second")).unwrap();
        symlink(root.path().join("launcher/tool"), root.path().join("second/tool")).unwrap();
        fs::create_dir(root.path().join("copy")).unwrap();
        fs::copy(std::env::current_exe().unwrap(), root.path().join("copy/tool")).unwrap();
        root
    }

    fn found(root: &Path, folders: &[&str]) -> Result<PathBuf, MissingProgram> {
        let path: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
        let path = std::env::join_paths(path).unwrap();
        find_behind_in(OsStr::new("tool"), Some(&path))
    }

    #[test]
    fn every_regrow_is_passed_over_wherever_it_stands() {
        let root = folders();
        let root = root.path();
        let program = Ok(root.join("program/tool"));
        let all = ["launcher", "second", "copy", "none", "denied", "folder", "program", "launcher"];
        assert_eq!(found(root, &all), program);
        let not_found = Err(MissingProgram::NotFound { name: "tool".into() });
        assert_eq!(found(root, &["launcher", "second", "copy", "none"]), not_found);
        assert_eq!(found(root, &["again", "launcher", "program"]), program, "behind the first launcher");
        let again = Ok(root.join("again/tool"));
        assert_eq!(found(root, &["again", "launcher"]), again, "there is nothing behind it");
        assert_eq!(found(root, &["again", "program"]), again);
    }

    #[test]
    fn what_may_not_be_executed_is_told_when_there_is_nothing_else() {
        let root = folders();
        let root = root.path();
        let denied = |folder: &str| Err(MissingProgram::Denied { path: root.join(folder).join("tool") });
        assert_eq!(found(root, &["launcher", "denied", "folder"]), denied("denied"));
        assert_eq!(found(root, &["folder"]), denied("folder"));
        let text = found(root, &["denied"]).unwrap_err().to_string();
        assert!(text.ends_with("/denied/tool: Permission denied (os error 13)"), "{text}");
    }

    #[test]
    fn no_path_and_an_empty_one_are_those_of_the_c_library() {
        let by = |path: Option<&str>| find(OsStr::new("sh"), path.map(OsStr::new), |_, _| false);
        assert_eq!(by(None).unwrap().0, Path::new("/bin/sh"));
        assert_eq!(by(Some("")).unwrap_err(), MissingProgram::NotFound { name: "sh".into() });
        let own = Path::new("Cargo.toml");
        let here = find(own.as_os_str(), Some(OsStr::new(":/nonexistent")), |_, _| false);
        assert_eq!(here.unwrap_err(), MissingProgram::Denied { path: "./Cargo.toml".into() });
    }

    #[test]
    fn only_launchers_stand_for_something_else() {
        let root = folders();
        let name = |folder: &str| root.path().join(folder).join("tool").into_os_string();
        assert_eq!(behind(&name("program")), None);
        assert_eq!(behind(&name("none")), None);
        assert_eq!(behind(OsStr::new("sh")), None);
        assert_eq!(behind(OsStr::new("")), None);
        let nothing = Some(Err(MissingProgram::NotFound { name: "tool".into() }));
        assert_eq!(behind(&name("launcher")), nothing);
        assert_eq!(behind(&name("second")), nothing);
    }
}
