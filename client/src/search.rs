//! Which program a launcher stands for: the first of its name in `PATH` that is no launcher and no regrow, behind the first launcher.
//!
//! Launchers are known by identity (they are links to the file of this process), and all others of their kind by their mark.

use core::ffi::CStr;

use regrow_abi::client::{COMMAND, COMPILERS, ENV_FOLDER};
use regrow_client::buffer::Path;
use regrow_client::mark::{has_mark, is_program};
use regrow_client::sys::{self, Stat};

use crate::start::Start;

/// What this process was started as.
pub enum StartedAs {
    /// A launcher of this name.
    Launcher(&'static [u8]),
    /// The command itself.
    Command,
    /// What its caller must know.
    Unknown,
}

/// The last part of a path.
fn name_of(path: &'static [u8]) -> &'static [u8] {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => path.get(at + 1..).unwrap_or_default(),
        None => path,
    }
}

/// The file of this process, and as what it was started: by the path that the kernel executed. Where that is something else (a script
/// whose interpreter this is) or no name (`/proc/self/exe`), by `argv[0]`.
pub fn started_as(start: &Start) -> (Option<Stat>, StartedAs) {
    let own = sys::stat(c"/proc/self/exe".as_ptr().cast());
    let executed = start.executed.to_bytes();
    let is_no_name = executed.starts_with(b"/proc/") || executed.starts_with(b"/dev/fd/");
    let is_own = |path: &CStr| {
        let found = sys::stat(path.as_ptr().cast());
        matches!((own, found), (Some(own), Some(found)) if own.identity == found.identity)
    };
    let name = if !is_no_name && is_own(start.executed) {
        name_of(executed)
    } else {
        name_of(start.arg(0).unwrap_or_default())
    };
    let started_as = match name {
        b"" | b"." | b".." => StartedAs::Unknown,
        COMMAND => StartedAs::Command,
        name => StartedAs::Launcher(name),
    };
    (own, started_as)
}

/// Whether a launcher of `regrow env` was started by its full path: whoever looks for the paths of programs has found it in the place of its
/// program, which has its own path for a name.
pub fn is_found_by_path(start: &Start) -> bool {
    let (folder, _) = parts(start.executed.to_bytes());
    let is_ours =
        folder.ends_with(ENV_FOLDER) || folder.windows(COMPILERS.len()).any(|part| part == COMPILERS);
    is_ours && start.arg(0) == Some(start.executed.to_bytes())
}

/// The folder of a path with its slash, and the name.
fn parts(path: &'static [u8]) -> (&'static [u8], &'static [u8]) {
    let name = name_of(path);
    (path.strip_suffix(name).unwrap_or_default(), name)
}

/// Finds the program of a launcher for gcc, which has a link to it beside itself.
pub fn program_beside(start: &Start, own: Stat, to: &mut Path) -> Option<()> {
    let (folder, name) = parts(start.executed.to_bytes());
    let mut link = Path::new();
    for part in [folder, b".", name, b"\0"] {
        link.put(part);
    }
    let mut target = [0; 1024];
    let length = usize::try_from(sys::read_link(link.pointer(), &mut target)).ok()?;
    to.put(target.get(..length).filter(|target| link.is_whole() && target.len() < 1024)?);
    to.put(&[0]);
    let found = sys::stat(to.pointer()).filter(|found| found.identity != own.identity)?;
    is_program(&found, to).then_some(())
}

/// Finds the program of a name or path, by the rules of `execvp`. That of a launcher stands behind this launcher: what stands in front may have
/// started it. One that `PATH` does not have was started by its own path, and looks everywhere. Where anything is unusual, there is none: the
/// full command looks.
pub fn program(name: &[u8], start: &Start, own: Stat, is_launcher: bool, to: &mut Path) -> Option<()> {
    if name.contains(&b'/') {
        to.put(name);
        to.put(&[0]);
        let found =
            sys::stat(to.pointer()).filter(|found| to.is_whole() && found.identity != own.identity)?;
        return is_program(&found, to).then_some(());
    }
    let path = start.variables.path?;
    let mut has_launcher = false;
    for folder in path.split(|&byte| byte == b':') {
        to.clear();
        // An empty entry is the current directory.
        to.put(if folder.is_empty() { b"." } else { folder });
        to.put(b"/");
        to.put(name);
        to.put(&[0]);
        if !to.is_whole() {
            return None;
        }
        let Some(found) = sys::stat(to.pointer()) else { continue };
        let looks_for_launcher = is_launcher && !has_launcher;
        if found.identity == own.identity || looks_for_launcher && found.is_file() && has_mark(to) {
            has_launcher = true;
        } else if !looks_for_launcher && is_program(&found, to) {
            return Some(());
        }
    }
    if is_launcher && !has_launcher { program(name, start, own, false, to) } else { None }
}
