//! Finding the file that a process executes or has mapped, while the process is there or after it has ended.
//!
//! The kernel's own links come first (`/proc/PID/exe`, `/proc/PID/map_files`): they work for files that were deleted, and in any mount
//! namespace. Then the path, as the process saw it and as the collector does. What is opened is compared with what the kernel said.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::record::{FileIdentity, MappedFile};

/// Where a file was met.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Met {
    /// By this process.
    pub(crate) pid: u32,
    /// Mapped there; `None`: it is what the process executes.
    pub(crate) mapped: Option<(u64, u64)>,
}

impl Met {
    /// A file that a process executes.
    pub(crate) fn executed(pid: u32) -> Self {
        Self { pid, mapped: None }
    }

    /// A file that a process has mapped.
    pub(crate) fn mapped(pid: u32, mapping: &MappedFile) -> Self {
        Self { pid, mapped: Some((mapping.start, mapping.end)) }
    }

    /// The kernel's link to it.
    fn link(self) -> PathBuf {
        let Self { pid, mapped } = self;
        match mapped {
            None => PathBuf::from(format!("/proc/{pid}/exe")),
            Some((start, end)) => PathBuf::from(format!("/proc/{pid}/map_files/{start:x}-{end:x}")),
        }
    }

    /// A path as the process sees it.
    fn inside(self, path: &Path) -> PathBuf {
        let mut inside = PathBuf::from(format!("/proc/{}/root", self.pid));
        inside.push(path.strip_prefix("/").unwrap_or(path));
        inside
    }

    /// The name of the file, by the kernel's link.
    pub(crate) fn name(self) -> Option<PathBuf> {
        std::fs::read_link(self.link()).ok()
    }
}

/// Opens a file.
pub(crate) fn open(identity: &FileIdentity, path: Option<&Path>, met: Met) -> Option<File> {
    let linked = open_if(&met.link(), |metadata| may_be_same(identity, metadata));
    let at = |path: &Path| open_if(path, |metadata| is_same(identity, metadata));
    linked.or_else(|| at(&met.inside(path?))).or_else(|| at(path?))
}

/// Opens a regular file that is the right one. It is not waited for: a pipe may stand in its place.
fn open_if(path: &Path, is_right: impl Fn(&Metadata) -> bool) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let metadata = file.metadata().ok()?;
    (metadata.is_file() && is_right(&metadata)).then_some(file)
}

/// Whether a file is the one that the kernel spoke of.
fn is_same(identity: &FileIdentity, metadata: &Metadata) -> bool {
    metadata.ino() == identity.inode
        && metadata.size() == identity.size_bytes
        && has_ctime(identity, metadata)
}

/// The same for what the kernel's link leads to, unless that is the process's next program: the inode's number may be that of another layer
/// of a stacked file system, and the ctime changes when a name is removed.
fn may_be_same(identity: &FileIdentity, metadata: &Metadata) -> bool {
    metadata.size() == identity.size_bytes
        && (metadata.ino() == identity.inode || has_ctime(identity, metadata))
}

fn has_ctime(identity: &FileIdentity, metadata: &Metadata) -> bool {
    metadata.ctime() == identity.ctime_s && metadata.ctime_nsec() == i64::from(identity.ctime_ns)
}

/// What the kernel would say of a file.
pub(crate) fn identity_of(metadata: &Metadata) -> FileIdentity {
    let device = metadata.dev();
    FileIdentity {
        inode: metadata.ino(),
        ctime_s: metadata.ctime(),
        ctime_ns: u32::try_from(metadata.ctime_nsec()).unwrap_or(0),
        size_bytes: metadata.size(),
        device: (rustix::fs::major(device), rustix::fs::minor(device)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn own() -> (FileIdentity, PathBuf) {
        let path = std::env::current_exe().unwrap();
        (identity_of(&std::fs::metadata(&path).unwrap()), path)
    }

    #[test]
    fn a_file_is_found_by_each_of_its_ways() {
        let (identity, path) = own();
        let met = Met::executed(std::process::id());
        assert!(open(&identity, None, met).is_some(), "by the kernel's link");
        let gone = Met::executed(u32::MAX);
        assert!(open(&identity, None, gone).is_none());
        assert!(open(&identity, Some(&path), gone).is_some(), "by its path");
    }

    #[test]
    fn another_file_in_its_place_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::write(&path, "old").unwrap();
        let identity = identity_of(&std::fs::metadata(&path).unwrap());
        let gone = Met::executed(u32::MAX);
        assert!(open(&identity, Some(&path), gone).is_some());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "new").unwrap();
        assert!(open(&identity, Some(&path), gone).is_none(), "replaced");
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(open(&identity, Some(&path), gone).is_none(), "a pipe that nobody writes to");
    }
}
