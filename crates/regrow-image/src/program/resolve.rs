//! From a program's name to the file that exec would run, and whether that file may be kept.
//!
//! [`find_program`] searches `PATH` as `execvp` and `posix_spawnp` of glibc do ([`regrow_sys::search`]), which is what
//! [`std::process::Command`] uses on Linux:
//!
//! - `PATH` is the child's when its environment was changed (`Command::env("PATH", …)`,
//!   `env_clear`, `env_remove`), else the caller's.
//! - The working directory is the child's (`Command::current_dir`), for elements of `PATH`, for
//!   names with a slash, and for interpreters alike.
//! - A script whose interpreter is missing gives `ENOENT`, and so the search goes on; likewise a
//!   program whose loader is missing.
//!
//! `posix_spawnp` reports `ENOEXEC`. `execvp` hands such a file to `/bin/sh` instead; `Command`
//! takes it when `PATH` was changed and the name has no slash, or when a user, a group or a
//! `pre_exec` hook was set. Here the file is [`FoundProgram`], and reading it tells that it is neither a
//! script nor a program.
//!
//! [`open_executable`] opens the file that was found and says why it cannot be kept, if so, and
//! [`FileIdentity`] tells later whether it is still the same file.

mod access;
pub(crate) mod error;
pub(crate) mod place;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use regrow_sys::search;
use rustix::io::Errno;

pub use access::{Executable, FileIdentity, FileRefusal, Stamp, open_executable};
pub use error::ResolveError;
use place::StartDirectory;

use crate::program::elf::ElfFacts;
use crate::program::script;

/// A program that the search stopped at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundProgram {
    /// The path that exec is given. A relative one is relative to the working directory.
    pub path: PathBuf,
    /// The elements of `PATH` before the one that holds the program, the empty one as `.`. A
    /// file of the name that appears in one of them would be run instead.
    pub earlier_dirs: Vec<PathBuf>,
}

/// Searches `name` in `path_var` as `posix_spawnp` does; `cwd` is the working directory of the
/// exec, the caller's own when `None`.
///
/// # Errors
///
/// The error that `posix_spawnp` would give: see [`ResolveError::errno`].
pub fn find_program(
    name: &OsStr,
    path_var: Option<&OsStr>,
    cwd: Option<&Path>,
) -> Result<FoundProgram, ResolveError> {
    if name.as_bytes().contains(&0) {
        return Err(ResolveError::NulByte { name: name.to_owned() });
    }
    let place = StartDirectory::open(cwd)?;
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match outcome(&place, &path) {
            Some(error) => Err(error),
            None => Ok(FoundProgram { path, earlier_dirs: Vec::new() }),
        };
    }
    let mut earlier_dirs = Vec::new();
    let mut last_errno = Errno::NOENT;
    let mut denied = false;
    for candidate in search::candidates(name.as_bytes(), path_var.map(OsStr::as_bytes)) {
        let path = candidate.path();
        let Some(error) = outcome(&place, &path) else { return Ok(FoundProgram { path, earlier_dirs }) };
        let Some(errno) = error.exec_errno().filter(|errno| search::goes_on(errno.raw_os_error())) else {
            return Err(error);
        };
        denied |= errno == Errno::ACCESS;
        last_errno = errno;
        let directory: &[u8] = if candidate.directory.is_empty() { b"." } else { candidate.directory };
        earlier_dirs.push(PathBuf::from(OsStr::from_bytes(directory)));
    }
    let errno = if denied { Errno::ACCESS } else { last_errno };
    Err(ResolveError::NotInPath { name: name.to_owned(), errno })
}

/// The error that exec of `path` gives before it looks further than a program's interpreter.
/// `None` also for what exec fails at later, and for what only exec can tell.
fn outcome(place: &StartDirectory, path: &Path) -> Option<ResolveError> {
    let program = match script::final_program(place, path) {
        Ok(program) => program,
        Err(ResolveError::Unreadable { .. } | ResolveError::NoInterpreter { .. }) => return None,
        Err(error) => return Some(error),
    };
    let file = place.open_file(&program).ok()?;
    let loader = ElfFacts::read_interpreter(&file).ok()??;
    let errno = place.check_interpreter(&loader).err()?;
    Some(ResolveError::Interpreter { script: program, interpreter: loader, errno })
}
