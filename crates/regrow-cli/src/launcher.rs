//! A launcher: a symbolic link to this command, or a client that hands over to it, which runs the program of its own name.
//!
//! ```text
//!   git ─▶ …/regrow/bin/git ─▶ regrow      started under a name that is not its own
//!                                │ PATH, without every file that is a regrow
//!                                ▼
//!                              /usr/bin/git, run as `regrow run` does, argv[0] as it was
//! ```
//!
//! A launcher looks in `PATH` behind the first launcher of its name: what stands in front of it may be what has started it, in the belief
//! that it is the next program of that name. Where there is nothing behind, it looks in all of `PATH`.
//!
//! Invariant: a launcher never runs a regrow: no other link, no link to a link, no other copy or version of this command. So
//! two launchers never start one another.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::env::place::{compiler_of, is_found_by_path};
use crate::log;
use crate::own_file::{OWN_NAME, OwnFile};
use crate::program_search::find_behind;
use crate::run::shared::{self, ProgramName};

/// The name of the launcher that started this process, if one did.
///
/// It is the last part of the path that the kernel executed. Where that is something else (a script whose interpreter this
/// is) or no name (`/proc/self/exe`), it is the last part of `argv[0]`.
pub(crate) fn started_as(args: &[OsString]) -> Option<OsString> {
    let executed = executed();
    let argv0 = args.first().map(Path::new).unwrap_or(Path::new(""));
    let is_own = |path: &Path| path.metadata().is_ok_and(|file| OwnFile::read().is(&file));
    name_of(executed, argv0, is_own)
}

/// The path that the kernel executed.
fn executed() -> &'static Path {
    Path::new(OsStr::from_bytes(rustix::param::linux_execfn().to_bytes()))
}

fn name_of(executed: &Path, argv0: &Path, is_own: impl FnOnce(&Path) -> bool) -> Option<OsString> {
    let is_no_name = ["/proc", "/dev/fd"].iter().any(|folder| executed.starts_with(folder));
    let (by_kernel, by_caller) = (executed.file_name().filter(|_| !is_no_name), argv0.file_name());
    let own = Some(OsStr::new(OWN_NAME));
    if by_kernel == own && by_caller == own {
        return None;
    }
    let name = if by_kernel.is_some() && is_own(executed) { by_kernel } else { by_caller };
    name.filter(|&name| Some(name) != own).map(OsStr::to_owned)
}

/// Runs the program that the launcher of this name stands for. Returns the exit status of the command.
pub(crate) fn run(name: &OsStr, args: &[OsString]) -> u8 {
    if let Ok(filter) = std::env::var("REGROW_LOG") {
        // A wrong filter is no reason to not run what the user has typed.
        let _ = log::start(&filter);
    }
    let (argv0, rest) = args.split_first().map_or((name, &[][..]), |(first, rest)| (first.as_os_str(), rest));
    let compiler = compiler_of(Path::new(argv0));
    let by_path = is_found_by_path(Path::new(argv0));
    match compiler.map_or_else(|| find_behind(name), Ok) {
        Ok(file) => {
            // Who looks for a program's path and executes that has found the launcher of `regrow env` in the program's place.
            let argv0 = if by_path { file.as_os_str() } else { argv0 };
            let program = ProgramName {
                file: file.as_os_str(),
                argv0,
                preload: OsStr::new(""),
                single_use: false,
                slice: None,
            };
            shared::run_as(program, rest, false)
        }
        Err(missing) => missing.tell(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(executed: &str, argv0: &str, is_own: bool) -> Option<String> {
        let name = name_of(Path::new(executed), Path::new(argv0), |_| is_own);
        name.map(|name| name.to_str().unwrap().to_owned())
    }

    #[test]
    fn the_name_is_that_of_the_file_which_the_kernel_executed() {
        assert_eq!(started("/home/u/bin/git", "git", true).as_deref(), Some("git"));
        assert_eq!(started("bin/git", "what the caller likes", true).as_deref(), Some("git"));
        assert_eq!(started("/home/u/bin/sh", "-sh", true).as_deref(), Some("sh"));
        assert_eq!(started("/usr/bin/regrow", "regrow", true), None);
        assert_eq!(started("/usr/bin/regrow", "pool of u", true), None);
        assert_eq!(started("", "", true), None);
    }

    #[test]
    fn where_the_kernel_executed_something_else_the_caller_says_the_name() {
        assert_eq!(started("./script", "/home/u/bin/perl", false).as_deref(), Some("perl"));
        assert_eq!(started("./regrow", "/home/u/bin/perl", false).as_deref(), Some("perl"));
        assert_eq!(started("/proc/self/exe", "regrow", true), None);
        assert_eq!(started("/dev/fd/3", "git", true).as_deref(), Some("git"));
    }
}
