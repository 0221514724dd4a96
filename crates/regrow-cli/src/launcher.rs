//! What a launcher does: a symbolic link to this command, which stands for the program of its own name.
//!
//! ```text
//!   git ─▶ …/regrow/bin/git ─▶ regrow      started under a name that is not its own
//!                                │ PATH, without every file that is a regrow
//!                                ▼
//!                              /usr/bin/git, run as `regrow run` does, argv[0] as it was
//! ```
//!
//! Invariant: what a launcher runs is never a regrow, be it by another link, through a link to a link, or by another copy
//! or version of this command. So two launchers never start one another.

#![allow(unsafe_code, reason = "the section in which the mark stands is named")]

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::run::shared::{self, Program};
use crate::run::{NOT_EXECUTABLE, NOT_FOUND};

/// The name under which this command is no launcher.
pub(crate) const OWN_NAME: &str = "regrow";
/// Where a program is looked for when there is no `PATH`, as the C library does.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// How much of a file is looked at for the mark. Notes stand behind the program headers.
const HEAD_BYTES: usize = 4096;

/// By which every copy and every version of this command is known: an ELF note.
#[repr(C, align(4))]
struct Mark {
    name_bytes: u32,
    content_bytes: u32,
    kind: u32,
    name: [u8; 8],
    content: [u8; 8],
}

#[used]
#[unsafe(link_section = ".note.regrow")]
static MARK: Mark =
    Mark { name_bytes: 7, content_bytes: 8, kind: 1, name: *b"Regrow\0\0", content: *b"launcher" };

impl Mark {
    fn is_in(&self, head: &[u8]) -> bool {
        let numbers = [self.name_bytes, self.content_bytes, self.kind].map(u32::to_ne_bytes);
        let mark = [numbers.as_flattened(), &self.name, &self.content].concat();
        head.windows(mark.len()).any(|window| window == mark)
    }
}

/// Why there is nothing that a launcher could run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Missing {
    /// There is no such file.
    #[error("{}: there is no such program in PATH but Regrow's launchers", name.display())]
    NotFound {
        /// The name of the launcher.
        name: OsString,
    },
    /// There is one that may not be executed.
    #[error("{}: {}", path.display(), io::Error::from_raw_os_error(libc::EACCES))]
    Denied {
        /// The first such file.
        path: PathBuf,
    },
}

impl Missing {
    /// Tells it, and returns the status that `env` would have.
    pub(crate) fn tell(&self) -> u8 {
        crate::complain(&self.to_string());
        match self {
            Self::NotFound { .. } => NOT_FOUND,
            Self::Denied { .. } => NOT_EXECUTABLE,
        }
    }
}

/// This very command, as the file system knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own(Option<(u64, u64)>);

impl Own {
    pub(crate) fn read() -> Self {
        Self(std::fs::metadata("/proc/self/exe").ok().map(|own| (own.dev(), own.ino())))
    }

    /// Whether it is the file of which this process is.
    pub(crate) fn is(self, file: &Metadata) -> bool {
        self.0 == Some((file.dev(), file.ino()))
    }

    /// Whether a file is this command, or a copy or another version of it. One that cannot be read is taken for none.
    pub(crate) fn is_regrow(self, path: &Path, file: &Metadata) -> bool {
        self.is(file) || (file.is_file() && has_mark(path).unwrap_or(false))
    }
}

fn has_mark(path: &Path) -> io::Result<bool> {
    let mut head = [0; HEAD_BYTES];
    let mut file = File::open(path)?;
    let mut length = 0;
    while let Some(rest) = head.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read(rest)? {
            0 => break,
            bytes => length += bytes,
        }
    }
    Ok(head.get(..length).is_some_and(|head| MARK.is_in(head)))
}

/// The name of the launcher that this process was started as, if it was.
///
/// It is the last part of the path that the kernel was told to execute, or that of `argv[0]` where the kernel executed
/// something else (a script of which this is the interpreter) or a path that is no name (`/proc/self/exe`).
pub(crate) fn started_as(args: &[OsString]) -> Option<OsString> {
    let executed = Path::new(OsStr::from_bytes(rustix::param::linux_execfn().to_bytes()));
    let argv0 = args.first().map(Path::new).unwrap_or(Path::new(""));
    let is_own = |path: &Path| path.metadata().is_ok_and(|file| Own::read().is(&file));
    name_of(executed, argv0, is_own)
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

/// Runs the program that the launcher of this name stands for. Returns the status that the command is to end with.
pub(crate) fn run(name: &OsStr, args: &[OsString]) -> u8 {
    if let Ok(filter) = std::env::var("REGROW_LOG") {
        // A wrong filter is no reason to not run what the user has typed.
        let _ = crate::start_log(&filter);
    }
    let (argv0, rest) = args.split_first().map_or((name, &[][..]), |(first, rest)| (first.as_os_str(), rest));
    match program(name) {
        Ok(file) => {
            shared::run_as(Program { file: file.as_os_str(), argv0, preload: OsStr::new("") }, rest, false)
        }
        Err(missing) => missing.tell(),
    }
}

/// What is to be run when a user asks for a program that is, by its path or by `PATH`, a launcher of this very command;
/// `None` when it is not.
pub(crate) fn behind(program_or_name: &OsStr) -> Option<Result<PathBuf, Missing>> {
    let name = Path::new(program_or_name).file_name().filter(|&name| name != OWN_NAME)?;
    let own = Own::read();
    let is_launcher = if program_or_name.as_bytes().contains(&b'/') {
        Path::new(program_or_name).metadata().is_ok_and(|file| own.is(&file))
    } else {
        let path = std::env::var_os("PATH");
        let first = find(name, path.as_deref(), |_, _| false);
        first.is_ok_and(|(_, file)| own.is(&file))
    };
    is_launcher.then(|| program(name))
}

/// The program of this name that is no regrow.
pub(crate) fn program(name: &OsStr) -> Result<PathBuf, Missing> {
    let own = Own::read();
    let path = std::env::var_os("PATH");
    find(name, path.as_deref(), |path, file| own.is_regrow(path, file)).map(|(path, _)| path)
}

/// The first file of this name that can be executed, in the order of `execvp`, without those that are skipped.
fn find(
    name: &OsStr,
    path: Option<&OsStr>,
    skip: impl Fn(&Path, &Metadata) -> bool,
) -> Result<(PathBuf, Metadata), Missing> {
    let mut denied = None;
    for folder in path.unwrap_or(OsStr::new(DEFAULT_PATH)).as_bytes().split(|&byte| byte == b':') {
        // An empty entry is the working directory. The path has a slash, so that nobody looks for it in PATH again.
        let folder = if folder.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(folder)) };
        let candidate = folder.join(name);
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
        Some(path) => Err(Missing::Denied { path }),
        None => Err(Missing::NotFound { name: name.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

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

    #[test]
    fn a_copy_of_the_command_is_known_by_its_mark_and_no_other_file_is() {
        let own = std::env::current_exe().unwrap();
        assert!(has_mark(&own).unwrap(), "the tests are linked as the command is");
        assert!(!has_mark(Path::new("/bin/true")).unwrap());
        assert!(!has_mark(Path::new("/dev/null")).unwrap());
        let mut head = fs::read(&own).unwrap();
        head.truncate(64);
        assert!(!MARK.is_in(&head));
    }

    /// A folder with files of the name `tool`: one that is a program, one that may not be executed, and so on.
    fn folders() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (folder, mode) in [("program", 0o755), ("denied", 0o644)] {
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

    fn found(root: &Path, folders: &[&str]) -> Result<PathBuf, Missing> {
        let path: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
        let path = std::env::join_paths(path).unwrap();
        let own = Own::read();
        let name = OsStr::new("tool");
        find(name, Some(&path), |path, file| own.is_regrow(path, file)).map(|(path, _)| path)
    }

    #[test]
    fn every_regrow_is_passed_over_wherever_it_stands() {
        let root = folders();
        let root = root.path();
        let program = Ok(root.join("program/tool"));
        let all = ["launcher", "second", "copy", "none", "denied", "folder", "program", "launcher"];
        assert_eq!(found(root, &all), program);
        let not_found = Err(Missing::NotFound { name: "tool".into() });
        assert_eq!(found(root, &["launcher", "second", "copy", "none"]), not_found);
    }

    #[test]
    fn what_may_not_be_executed_is_told_when_there_is_nothing_else() {
        let root = folders();
        let root = root.path();
        let denied = |folder: &str| Err(Missing::Denied { path: root.join(folder).join("tool") });
        assert_eq!(found(root, &["launcher", "denied", "folder"]), denied("denied"));
        assert_eq!(found(root, &["folder"]), denied("folder"));
        let text = found(root, &["denied"]).unwrap_err().to_string();
        assert!(text.ends_with("/denied/tool: Permission denied (os error 13)"), "{text}");
    }

    #[test]
    fn no_path_and_an_empty_one_are_those_of_the_c_library() {
        let by = |path: Option<&str>| find(OsStr::new("sh"), path.map(OsStr::new), |_, _| false);
        assert_eq!(by(None).unwrap().0, Path::new("/bin/sh"));
        assert_eq!(by(Some("")).unwrap_err(), Missing::NotFound { name: "sh".into() });
        let own = Path::new("Cargo.toml");
        let here = find(own.as_os_str(), Some(OsStr::new(":/nonexistent")), |_, _| false);
        assert_eq!(here.unwrap_err(), Missing::Denied { path: "./Cargo.toml".into() });
    }

    #[test]
    fn only_launchers_stand_for_something_else() {
        let root = folders();
        let name = |folder: &str| root.path().join(folder).join("tool").into_os_string();
        assert_eq!(behind(&name("program")), None);
        assert_eq!(behind(&name("none")), None);
        assert_eq!(behind(OsStr::new("sh")), None);
        assert_eq!(behind(OsStr::new("")), None);
        let nothing = Some(Err(Missing::NotFound { name: "tool".into() }));
        assert_eq!(behind(&name("launcher")), nothing);
        assert_eq!(behind(&name("second")), nothing);
    }
}
