//! Which way a program goes: by a launcher, or as always, and why.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use regrow_sys::search;

use super::learned::{Learned, Verdict};
use super::programs::Candidate;
use crate::own_file::OwnFile;

/// The largest file that is looked through.
const MAX_BYTES: u64 = 16 << 20;
/// What a program holds that asks for `PATH`: the end of a string, because compilers share the ends of strings.
const ASKS_FOR_PATH: &[u8] = b"PATH\0";

/// Why a program has no launcher.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Alone {
    /// `PATH` has no such program.
    Missing,
    /// The first of two may be there to look for the second, as `ccache` and the shims of version managers are.
    Twice(PathBuf),
    /// The user has a launcher of this name.
    Launched,
    /// A script: it may look for itself or for another of its name.
    Script,
    /// It gets rights by its file.
    GetsRights,
    /// It may look for itself in `PATH`, and would find the launcher.
    AsksForPath,
    /// Nobody knows what it does.
    Unread,
    /// The daemon cannot keep it.
    Refused(String),
    /// A launcher costs more than it saves, in microseconds.
    Loses { costs_us: f64, saves_us: f64 },
}

impl fmt::Display for Alone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "PATH has no such program"),
            Self::Twice(other) => write!(f, "PATH has another of its name: {}", other.display()),
            Self::Launched => write!(f, "a launcher of yours stands for it"),
            Self::Script => write!(f, "it is no ELF program"),
            Self::GetsRights => write!(f, "it gets rights by its file"),
            Self::AsksForPath => write!(f, "it may look for itself in PATH"),
            Self::Unread => write!(f, "its file is too large or cannot be read"),
            Self::Refused(why) => write!(f, "the daemon cannot keep it: {why}"),
            Self::Loses { costs_us, saves_us } => {
                write!(f, "a launcher costs {costs_us:.0} µs more than exec, and saves {saves_us:.0} µs")
            }
        }
    }
}

/// A program, and which way it goes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice {
    pub(crate) name: &'static str,
    /// The first of its name in `PATH`.
    pub(crate) file: Option<PathBuf>,
    /// Why it has no launcher, if it has none.
    pub(crate) alone: Option<Alone>,
}

/// Chooses for one program.
pub(crate) fn choose(candidate: Candidate, path: &OsStr, own: OwnFile, learned: &Learned) -> Choice {
    let all = files(candidate.name, path);
    let Some((file, metadata)) = all.first() else {
        return Choice { name: candidate.name, file: None, alone: Some(Alone::Missing) };
    };
    let identity = |metadata: &Metadata| (metadata.dev(), metadata.ino());
    let other = all.iter().find(|(_, other)| identity(other) != identity(metadata));
    let alone = if own.is_regrow(file, metadata) {
        Some(Alone::Launched)
    } else if let Some((other, _)) = other {
        Some(Alone::Twice(other.clone()))
    } else {
        by_file(candidate, file, metadata).or_else(|| by_figures(metadata, learned))
    };
    Choice { name: candidate.name, file: Some(file.clone()), alone }
}

/// Whether `PATH` has several different programs of a name, and the first.
pub(crate) fn is_one_of_several(name: &str, path: &OsStr) -> Option<(PathBuf, bool)> {
    let all = files(name, path);
    let (first, metadata) = all.first()?;
    let other = all.iter().any(|(_, other)| (other.dev(), other.ino()) != (metadata.dev(), metadata.ino()));
    Some((first.clone(), other))
}

/// The programs of a name, in the order of `PATH`. Relative folders are other ones wherever a program changes its directory; the
/// launcher looks there when it runs.
fn files(name: &str, path: &OsStr) -> Vec<(PathBuf, Metadata)> {
    let folders = search::elements(path.as_bytes()).filter(|folder| folder.starts_with(b"/"));
    let files = folders.map(|folder| Path::new(OsStr::from_bytes(folder)).join(name));
    let is_program = |file: &Metadata| file.is_file() && file.permissions().mode() & 0o111 != 0;
    files
        .filter_map(|file| file.metadata().ok().filter(is_program).map(|metadata| (file, metadata)))
        .collect()
}

fn by_file(candidate: Candidate, file: &Path, metadata: &Metadata) -> Option<Alone> {
    const SET_USER_OR_GROUP: u32 = 0o6000;
    let mut capabilities = [0u8; 1];
    let has_capabilities = !matches!(
        rustix::fs::getxattr(file, c"security.capability", &mut capabilities),
        Err(rustix::io::Errno::NODATA | rustix::io::Errno::NOTSUP)
    );
    if metadata.mode() & SET_USER_OR_GROUP != 0 || has_capabilities {
        return Some(Alone::GetsRights);
    }
    if metadata.len() > MAX_BYTES {
        return Some(Alone::Unread);
    }
    let mut content = Vec::new();
    if File::open(file).and_then(|mut file| file.read_to_end(&mut content)).is_err() {
        return Some(Alone::Unread);
    }
    if !content.starts_with(b"\x7fELF") {
        return Some(Alone::Script);
    }
    (!candidate.reads_path && asks_for_path(&content)).then_some(Alone::AsksForPath)
}

/// Whether a program holds the name of the variable.
fn asks_for_path(content: &[u8]) -> bool {
    // The end is rare, so that most of the file is passed over by one comparison a byte.
    let ends = content.iter().enumerate().filter(|&(_, &byte)| byte == 0).map(|(at, _)| at);
    ends.into_iter().any(|at| content.get(..=at).is_some_and(|head| head.ends_with(ASKS_FOR_PATH)))
}

/// Why a program has no launcher by what has been learned of its file.
pub(crate) fn by_figures(metadata: &Metadata, learned: &Learned) -> Option<Alone> {
    match learned.verdict(metadata)? {
        Verdict::Gains => None,
        Verdict::Loses { costs_us, saves_us } => Some(Alone::Loses { costs_us, saves_us }),
        Verdict::Refused(why) => Some(Alone::Refused(why)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const TOOL: Candidate = Candidate { name: "tool", reads_path: false };

    /// Folders with a `tool` of each kind.
    fn folders() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let elf = fs::read("/bin/true").unwrap();
        let asking = [elf.as_slice(), b"\0THEPATH\0"].concat();
        let kinds: [(&str, &[u8], u32); 6] = [
            ("elf", &elf, 0o755),
            ("other", &elf, 0o755),
            ("asking", &asking, 0o755),
            ("script", b"#!/bin/sh\n", 0o755),
            ("setuid", &elf, 0o4755),
            ("plain", &elf, 0o644),
        ];
        for (folder, content, mode) in kinds {
            let file = root.path().join(folder).join("tool");
            fs::create_dir(file.parent().unwrap()).unwrap();
            fs::write(&file, content).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir(root.path().join("launcher")).unwrap();
        symlink(std::env::current_exe().unwrap(), root.path().join("launcher/tool")).unwrap();
        symlink("elf", root.path().join("again")).unwrap();
        root
    }

    fn chosen(candidate: Candidate, root: &Path, folders: &[&str]) -> Choice {
        let path = std::env::join_paths(folders.iter().map(|folder| root.join(folder))).unwrap();
        choose(candidate, &path, OwnFile::read(), &Learned::default())
    }

    #[test]
    fn a_program_goes_by_a_launcher_when_it_cannot_look_for_itself() {
        let root = folders();
        let root = root.path();
        let alone = |folders: &[&str]| chosen(TOOL, root, folders).alone;
        for right in [&["elf"][..], &["none", "plain", "elf"], &["elf", "again"], &["elf", "elf"]] {
            assert_eq!(alone(right), None, "{right:?}");
        }
        assert_eq!(chosen(TOOL, root, &["plain", "elf"]).file, Some(root.join("elf/tool")));
        assert_eq!(alone(&["elf", "other"]), Some(Alone::Twice(root.join("other/tool"))));
        assert_eq!(alone(&["script"]), Some(Alone::Script));
        assert_eq!(alone(&["setuid"]), Some(Alone::GetsRights));
        assert_eq!(alone(&["asking"]), Some(Alone::AsksForPath));
        assert_eq!(alone(&["launcher", "elf"]), Some(Alone::Launched));
        assert_eq!(alone(&["none", "plain"]), Some(Alone::Missing));
        let known = Candidate { reads_path: true, ..TOOL };
        assert_eq!(chosen(known, root, &["asking"]).alone, None);
    }

    #[test]
    fn compilers_of_the_system_may_look_for_themselves() {
        let gcc = fs::read("/usr/bin/gcc").unwrap();
        assert!(asks_for_path(&gcc));
        assert!(!asks_for_path(&fs::read("/bin/cat").unwrap()));
        assert!(!asks_for_path(b"PATH"));
        assert!(asks_for_path(b"PATH\0"));
    }
}
