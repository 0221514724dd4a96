//! Looks a program up for somebody who must not wait for a file system: on a thread of its own, before the shard does.
//!
//! A file system that another process or machine answers for (FUSE, NFS and the like) can keep a caller waiting for as long as it wants,
//! and tells nobody of its changes. A shard that is told to ([`Settings::local_files_only`](crate::settings::Settings)) keeps nothing that
//! lies there, and looks at no file before somebody has seen by a [`Lookup`] that it does not.

use std::collections::HashSet;
use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};

use regrow_sys::strings::Strings;
use rustix::fs::{FsWord, StatFs};

use crate::run::creation::Fallback;
use crate::run::program::{self, Name};
use crate::run::request::Request;
use crate::way::Way;

/// The file systems that this machine's kernel answers for by itself, by the numbers of `statfs(2)`. Of one that lies over another one, such
/// as overlayfs, what is below is not seen.
const LOCAL: [FsWord; 25] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x794c_7630, // overlayfs
    0x7371_7368, // squashfs
    0xe0f5_e1e2, // EROFS
    0xf2f5_2010, // F2FS
    0x2fc1_2fc1, // ZFS
    0xca45_1a4e, // bcachefs
    0x9fa0,      // procfs
    0x6265_6572, // sysfs
    0x1cd1,      // devpts
    0x6367_7270, // cgroup2
    0x0027_e0eb, // cgroup
    0x9660,      // ISO 9660
    0x1501_3346, // UDF
    0x4d44,      // FAT
    0x2011_bab0, // exFAT
    0x7366_746e, // NTFS
    0x5265_4973, // ReiserFS
    0x3153_464a, // JFS
    0x3434,      // NILFS
    0x28cd_3d45, // cramfs
];

/// What is to be looked up.
#[derive(Debug)]
pub struct Lookup {
    /// The request without what has nothing to do with files.
    request: Request,
}

impl Lookup {
    /// Of a request's program.
    pub(crate) fn of(request: &Request) -> Lookup {
        let mut env = Strings::new();
        if let Some(path) = request.env_value(b"PATH") {
            // It is the value of an entry, which ends at its NUL byte.
            let _ = env.push(&[b"PATH=", path]);
        }
        Lookup {
            request: Request {
                arg0: request.arg0.clone(),
                current_dir: request.current_dir.clone(),
                env,
                ..Request::new(CString::clone(&request.program))
            },
        }
    }

    /// Looks it up. Takes as long as the file systems want.
    ///
    /// # Errors
    /// Why the program is started by exec.
    pub fn carry_out(&self) -> Result<(), Fallback> {
        let name = Name::of(&self.request)?;
        let resolved = program::resolve(&self.request, &name)?;
        are_local(&resolved.files, &resolved.absent)
    }
}

/// Whether these files, and the folders in which these names are looked for, lie on file systems of this machine with all that leads to
/// them.
pub(crate) fn are_local(files: &[PathBuf], absent: &[PathBuf]) -> Result<(), Fallback> {
    let mut seen = HashSet::new();
    for path in files.iter().map(PathBuf::as_path).chain(absent.iter().filter_map(|name| name.parent())) {
        match is_local(path, &mut seen) {
            Ok(true) => {}
            Ok(false) => {
                tracing::debug!(path = %path.display(), "not kept: another process or machine answers for its file system");
                return Err(Fallback::RemoteFiles);
            }
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "not kept: what leads to it cannot be looked at");
                return Err(Fallback::ResolveError);
            }
        }
    }
    Ok(())
}

/// Whether a path, and everything on its way, lies on file systems of this machine. `seen` has the places of which that is known.
fn is_local(path: &Path, seen: &mut HashSet<PathBuf>) -> io::Result<bool> {
    for step in Way::of(path) {
        let step = match step {
            Ok(step) => step,
            // What is not there keeps nobody waiting; what leads to it was looked at.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                break;
            }
            Err(error) => return Err(error),
        };
        if step.is_link || seen.contains(&step.place) {
            continue;
        }
        if !is_of_local_kind(&rustix::fs::statfs(&step.place)?) {
            return Ok(false);
        }
        seen.insert(step.place);
    }
    Ok(true)
}

fn is_of_local_kind(file_system: &StatFs) -> bool {
    LOCAL.contains(&file_system.f_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(program: &str, path: &str) -> Result<(), Fallback> {
        let mut request = Request::new(CString::new(program).expect("no NUL"));
        request.env.push(&[b"PATH=", path.as_bytes()]).expect("no NUL");
        request.env.push(&[b"OTHER=x"]).expect("no NUL");
        Lookup::of(&request).carry_out()
    }

    #[test]
    fn what_is_on_this_machine_is_found() {
        assert_eq!(lookup("sh", "/nowhere:/usr/bin:/bin"), Ok(()));
        assert_eq!(lookup("/proc/self/root/bin/sh", ""), Ok(()));
        assert_eq!(lookup("sh", "/nowhere"), Err(Fallback::ResolveError));
    }

    #[test]
    fn links_are_followed_and_circles_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = |name: &str, to: &str| {
            std::os::unix::fs::symlink(to, folder.path().join(name)).expect("a link");
            folder.path().join(name)
        };
        let local = |path: &Path| is_local(path, &mut HashSet::new());
        assert!(local(&link("up", "../../bin/sh")).expect("it can be followed"));
        assert!(local(&folder.path().join("nothing/there")).expect("nothing is in the way"));
        assert!(local(&link("dangling", "/nowhere/at/all")).expect("nothing is in the way"));
        link("one", "two");
        assert!(local(&link("two", "one")).is_err());
    }

    #[test]
    fn what_others_answer_for_is_not_of_this_machine() {
        // FUSE, NFS, 9P, CIFS and autofs.
        for foreign in [0x6573_5546, 0x6969, 0x0102_1997, 0xff53_4d42, 0x0187] {
            assert!(!LOCAL.contains(&foreign), "{foreign:#x}");
        }
    }
}
