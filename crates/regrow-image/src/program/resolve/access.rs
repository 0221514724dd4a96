//! Whether a file may be kept as an image, and which file it is.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, Mode, StatVfsMountFlags, Statx, StatxFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::error::ResolveError;
use super::place::StartDirectory;
use crate::program::elf::{ElfError, ElfIdent};

/// `STATX_MNT_ID_UNIQUE` (Linux 6.8): an id that no later mount gets again.
const MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// The extended attribute that holds file capabilities.
const CAPABILITIES: &std::ffi::CStr = c"security.capability";

/// A moment of the clock that the kernel stamps changes of files with. It is behind the clock of the day by a tick, or by more where
/// the machine stood still; a change after this moment has no earlier stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(Timespec);

impl Stamp {
    /// This moment.
    #[must_use]
    pub fn now() -> Stamp {
        Stamp(clock_gettime(ClockId::RealtimeCoarse))
    }
}

/// Which file this is, and which content it has. A change of content, owner or mode changes the
/// change time, which no program can set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileIdentity {
    /// Device, as `major << 32 | minor`.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Time of the last change, whole seconds.
    pub ctime_s: i64,
    /// Time of the last change, nanoseconds beyond the second.
    pub ctime_ns: u32,
    /// Size in bytes.
    pub size: u64,
    /// The mount that the file was reached by: the same inode may be found executable by one
    /// mount and not by another. 0 before Linux 5.8.
    pub mnt_id: u64,
}

impl FileIdentity {
    /// Identity of an open file.
    ///
    /// # Errors
    ///
    /// What `statx` says.
    pub fn of_file(file: &File) -> Result<Self, Errno> {
        Ok(Self::from_statx(&fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted())?))
    }

    /// Identity of the file that a path leads to.
    ///
    /// # Errors
    ///
    /// What `statx` says.
    pub fn of_path(path: &Path) -> Result<Self, Errno> {
        Ok(Self::from_statx(&fs::statx(fs::CWD, path, AtFlags::empty(), wanted())?))
    }

    /// Whether the file last changed before a moment: what is read of it from then on is of this content, or of a file with
    /// another identity.
    #[must_use]
    pub fn changed_before(&self, moment: Stamp) -> bool {
        (self.ctime_s, i64::from(self.ctime_ns)) < (moment.0.tv_sec, moment.0.tv_nsec)
    }

    fn from_statx(stat: &Statx) -> Self {
        let has_mount = stat.stx_mask & (StatxFlags::MNT_ID | MNT_ID_UNIQUE).bits() != 0;
        Self {
            dev: u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor),
            ino: stat.stx_ino,
            ctime_s: stat.stx_ctime.tv_sec,
            ctime_ns: stat.stx_ctime.tv_nsec,
            size: stat.stx_size,
            mnt_id: if has_mount { stat.stx_mnt_id } else { 0 },
        }
    }
}

fn wanted() -> StatxFlags {
    StatxFlags::BASIC_STATS | StatxFlags::MNT_ID | MNT_ID_UNIQUE
}

/// Why a program is not kept as an image. It is started by exec instead, which succeeds or gives
/// the error that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileRefusal {
    /// The path does not lead to a file.
    #[error("cannot reach {}: {errno}", path.display())]
    Unreachable {
        /// The path.
        path: PathBuf,
        /// What the look-up says.
        errno: Errno,
    },
    /// It is a directory, a device, a socket or a pipe.
    #[error("{} is not a regular file", path.display())]
    NotRegular {
        /// The path.
        path: PathBuf,
    },
    /// Nothing on its mount may be executed.
    #[error("{} is on a mount without execution", path.display())]
    NoExecMount {
        /// The path.
        path: PathBuf,
    },
    /// The effective user may not execute it.
    #[error("{} is not executable", path.display())]
    NotExecutable {
        /// The path.
        path: PathBuf,
    },
    /// The effective user may execute but not read it: no image of it can be made, and the
    /// kernel keeps others from looking into its processes.
    #[error("{} is not readable: {errno}", path.display())]
    NotReadable {
        /// The path.
        path: PathBuf,
        /// What opening it says.
        errno: Errno,
    },
    /// Exec would change the effective user.
    #[error("{} is set-user-id", path.display())]
    SetUid {
        /// The path.
        path: PathBuf,
    },
    /// Exec would change the effective group.
    #[error("{} is set-group-id", path.display())]
    SetGid {
        /// The path.
        path: PathBuf,
    },
    /// Exec would add capabilities.
    #[error("{} has file capabilities", path.display())]
    FileCapabilities {
        /// The path.
        path: PathBuf,
    },
    /// Whether it has file capabilities cannot be told.
    #[error("cannot tell whether {} has file capabilities: {errno}", path.display())]
    UnknownCapabilities {
        /// The path.
        path: PathBuf,
        /// What reading the attribute says.
        errno: Errno,
    },
    /// It was replaced or changed while it was looked at.
    #[error("{} changes while it is looked at", path.display())]
    Changing {
        /// The path.
        path: PathBuf,
    },
    /// It is for another machine.
    #[error("{} is for another machine: {ident}", path.display())]
    ForeignArchitecture {
        /// The path.
        path: PathBuf,
        /// What it is for.
        ident: ElfIdent,
    },
    /// It is no program, or not one that can be read.
    #[error("{}: {error}", path.display())]
    Malformed {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        error: ElfError,
    },
}

impl FileRefusal {
    /// The refusal of a file whose ELF facts cannot be read.
    #[must_use]
    pub fn from_elf(path: &Path, error: ElfError) -> Self {
        let path = path.to_owned();
        match error {
            ElfError::WrongMachine { ident } => Self::ForeignArchitecture { path, ident },
            error => Self::Malformed { path, error },
        }
    }
}

/// A file that may be kept as an image as far as its permissions go.
#[derive(Debug)]
pub struct Executable {
    /// The file, open for reading.
    pub file: File,
    /// Which file it is.
    pub identity: FileIdentity,
}

/// Opens a program and checks that exec of it would neither fail nor change credentials. `cwd`
/// is the working directory of the exec, the caller's own when `None`.
///
/// Set-id bits and capabilities count even where the kernel ignores them (a `nosuid` mount, a
/// task with `no_new_privs`), because that can change while the file does not.
///
/// # Errors
///
/// [`FileRefusal`]; a `cwd` that cannot be entered is [`FileRefusal::Unreachable`].
pub fn open_executable(path: &Path, cwd: Option<&Path>) -> Result<Executable, FileRefusal> {
    let place = StartDirectory::open(cwd).map_err(|error| match error {
        ResolveError::WorkingDirectory { path, errno } => FileRefusal::Unreachable { path, errno },
        _ => FileRefusal::Unreachable { path: path.to_owned(), errno: Errno::INVAL },
    })?;
    let unreachable = |errno| FileRefusal::Unreachable { path: path.to_owned(), errno };
    let before = fs::statx(place.fd(), path, AtFlags::empty(), wanted()).map_err(unreachable)?;
    if FileType::from_raw_mode(before.stx_mode.into()) != FileType::RegularFile {
        return Err(FileRefusal::NotRegular { path: path.to_owned() });
    }
    if place.check_executable(path).is_err() {
        return Err(not_executable(&place, path));
    }
    let not_readable = |errno| FileRefusal::NotReadable { path: path.to_owned(), errno };
    let file = place.open_file(path).map_err(not_readable)?;
    let after = fs::statx(&file, c"", AtFlags::EMPTY_PATH, wanted()).map_err(unreachable)?;
    let identity = FileIdentity::from_statx(&after);
    if identity != FileIdentity::from_statx(&before) {
        return Err(FileRefusal::Changing { path: path.to_owned() });
    }
    check_credentials(path, &file, Mode::from_raw_mode(after.stx_mode.into()))?;
    Ok(Executable { file, identity })
}

/// The mount is to blame where it forbids execution altogether.
fn not_executable(place: &StartDirectory, path: &Path) -> FileRefusal {
    let path_fd = fs::openat(place.fd(), path, fs::OFlags::PATH | fs::OFlags::CLOEXEC, Mode::empty());
    let mount = path_fd.and_then(fs::fstatvfs);
    let path = path.to_owned();
    match mount {
        Ok(mount) if mount.f_flag.contains(StatVfsMountFlags::NOEXEC) => FileRefusal::NoExecMount { path },
        _ => FileRefusal::NotExecutable { path },
    }
}

fn check_credentials(path: &Path, file: &File, mode: Mode) -> Result<(), FileRefusal> {
    if mode.contains(Mode::SUID) {
        return Err(FileRefusal::SetUid { path: path.to_owned() });
    }
    // Without execution for the group the bit asks for mandatory locking instead.
    if mode.contains(Mode::SGID | Mode::XGRP) {
        return Err(FileRefusal::SetGid { path: path.to_owned() });
    }
    match fs::fgetxattr_query(file, CAPABILITIES) {
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(()),
        Ok(_) => Err(FileRefusal::FileCapabilities { path: path.to_owned() }),
        Err(errno) => Err(FileRefusal::UnknownCapabilities { path: path.to_owned(), errno }),
    }
}
