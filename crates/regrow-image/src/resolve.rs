//! From a program's name to the file that exec would run, and whether that file may be kept.
//!
//! [`find_program`] searches `PATH` as `execvp` and `posix_spawnp` of glibc do, which is what
//! [`std::process::Command`] uses on Linux:
//!
//! - A name with a slash is not searched. An empty name is not found.
//! - `PATH` is the child's when its environment was changed (`Command::env("PATH", …)`,
//!   `env_clear`, `env_remove`), else the caller's. Unset, it is [`DEFAULT_PATH`].
//! - An empty element is the working directory; the name is then given to exec without a slash.
//! - The working directory is the child's (`Command::current_dir`), for elements of `PATH`, for
//!   names with a slash, and for interpreters alike.
//! - The search goes on after `EACCES`, `ENOENT`, `ENOTDIR`, `ESTALE`, `ENODEV` and `ETIMEDOUT`,
//!   and stops at every other outcome, good or bad. At the end `EACCES` is remembered.
//! - A script whose interpreter is missing gives `ENOENT`, and so the search goes on; likewise a
//!   program whose loader is missing.
//! - An element longer than `PATH_MAX` counts as an empty one, and as nothing at the very end.
//!
//! `posix_spawnp` reports `ENOEXEC`. `execvp` hands such a file to `/bin/sh` instead; `Command`
//! takes it when `PATH` was changed and the name has no slash, or when a user, a group or a
//! `pre_exec` hook was set. Here the file is [`Found`], and reading it tells that it is neither a
//! script nor a program.
//!
//! [`open_executable`] opens the file that was found and says why it cannot be kept, if so, and
//! [`FileIdentity`] tells later whether it is still the same file.

mod access;
mod error;
mod place;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

pub use access::{Executable, FileIdentity, Refusal, open_executable};
pub use error::ResolveError;
pub(crate) use place::Place;

use crate::elf::ElfFacts;
use crate::script;

/// Where glibc searches when `PATH` is not set.
pub const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The kernel's `PATH_MAX`: glibc skips an element of `PATH` that is as long.
const PATH_MAX: usize = 4_096;

/// A program that the search stopped at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
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
) -> Result<Found, ResolveError> {
    if name.as_bytes().contains(&0) {
        return Err(ResolveError::NulByte { name: name.to_owned() });
    }
    let place = Place::open(cwd)?;
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match outcome(&place, &path) {
            Some(error) => Err(error),
            None => Ok(Found { path, earlier_dirs: Vec::new() }),
        };
    }
    if name.is_empty() {
        return Err(ResolveError::NotInPath { name: name.to_owned(), errno: Errno::NOENT });
    }
    search(&place, name, path_var.unwrap_or(OsStr::new(DEFAULT_PATH)))
}

fn search(place: &Place, name: &OsStr, path_var: &OsStr) -> Result<Found, ResolveError> {
    let mut earlier_dirs = Vec::new();
    let mut last_errno = Errno::NOENT;
    let mut denied = false;
    let mut elements = path_var.as_bytes().split(|&byte| byte == b':').peekable();
    while let Some(mut element) = elements.next() {
        if element.len() >= PATH_MAX {
            if elements.peek().is_none() {
                break;
            }
            element = b"";
        }
        // Joining the empty element gives the bare name.
        let dir = Path::new(OsStr::from_bytes(element));
        let path = joined(element, name);
        let Some(error) = outcome(place, &path) else { return Ok(Found { path, earlier_dirs }) };
        let Some(errno) = error.exec_errno().filter(|&errno| search_goes_on(errno)) else {
            return Err(error);
        };
        denied |= errno == Errno::ACCESS;
        last_errno = errno;
        earlier_dirs.push(if element.is_empty() { PathBuf::from(".") } else { dir.to_owned() });
    }
    let errno = if denied { Errno::ACCESS } else { last_errno };
    Err(ResolveError::NotInPath { name: name.to_owned(), errno })
}

/// The element, a slash, the name: an element that ends with a slash gets a second one, which a
/// script sees in its arguments.
fn joined(element: &[u8], name: &OsStr) -> PathBuf {
    let mut path = element.to_vec();
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name.as_bytes());
    PathBuf::from(OsStr::from_bytes(&path))
}

fn search_goes_on(errno: Errno) -> bool {
    use Errno as E;
    matches!(errno, E::ACCESS | E::NOENT | E::STALE | E::NOTDIR | E::NODEV | E::TIMEDOUT)
}

/// The error that exec of `path` gives before it looks further than a program's interpreter.
/// `None` also for what exec fails at later, and for what only exec can tell.
fn outcome(place: &Place, path: &Path) -> Option<ResolveError> {
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
