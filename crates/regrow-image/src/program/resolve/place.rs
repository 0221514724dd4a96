//! The directory that relative paths begin at, and what exec asks of a file there.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, Access, AtFlags, CWD, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use super::error::ResolveError;

/// The working directory of an exec.
#[derive(Debug)]
pub(crate) struct StartDirectory {
    /// `None` is the caller's own.
    dir: Option<OwnedFd>,
}

impl StartDirectory {
    /// Opens a directory as `chdir` would enter it.
    pub(crate) fn open(cwd: Option<&Path>) -> Result<Self, ResolveError> {
        let Some(path) = cwd else { return Ok(Self { dir: None }) };
        let failed = |errno| ResolveError::WorkingDirectory { path: path.to_owned(), errno };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = fs::open(path, flags, Mode::empty()).map_err(failed)?;
        fs::accessat(&dir, c".", Access::EXEC_OK, AtFlags::EACCESS).map_err(failed)?;
        Ok(Self { dir: Some(dir) })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.dir.as_ref().map_or(CWD, AsFd::as_fd)
    }

    /// What exec checks before it reads a file: it is there, it is a regular file, the effective
    /// user may execute it, and its mount allows that (`may_open`, `path_noexec`).
    pub(crate) fn check_executable(&self, path: &Path) -> Result<(), Errno> {
        let stat = fs::statx(self.fd(), path, AtFlags::empty(), StatxFlags::TYPE)?;
        if FileType::from_raw_mode(stat.stx_mode.into()) != FileType::RegularFile {
            return Err(Errno::ACCESS);
        }
        fs::accessat(self.fd(), path, Access::EXEC_OK, AtFlags::EACCESS)
    }

    /// The same for an interpreter. The kernel takes an empty name for the working directory.
    pub(crate) fn check_interpreter(&self, path: &Path) -> Result<(), Errno> {
        if path.as_os_str().is_empty() { Err(Errno::ACCESS) } else { self.check_executable(path) }
    }

    /// Opens a regular file for reading. What is no regular file any more is refused without
    /// waiting for it.
    pub(crate) fn open_file(&self, path: &Path) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        fs::openat(self.fd(), path, flags, Mode::empty()).map(File::from)
    }
}
