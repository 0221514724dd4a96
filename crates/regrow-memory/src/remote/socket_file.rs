//! The file of the socket that a domain listens at.
//!
//! The socket listens before its file has the name that clients know, and takes that name in one step: at any moment the name is one socket's, which
//! listens or whose process has ended. What is no socket is never replaced. Domains name their files in a folder, and take them away, one at a time:
//! three that exchange names at once could leave the name to one that has been refused.

use std::fs::{Metadata, symlink_metadata};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use regrow_sys::file_lock::FileLock;
use rustix::fs::{CWD, Mode, RenameFlags, fchmod, link, renameat_with, unlink};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

use super::error::DomainError;

/// Clients that wait to be let in.
const BACKLOG: i32 = 64;
/// How often a name is tried for that others take and leave meanwhile.
const TRIES: u32 = 100;

/// See the module. The file goes with it, unless the name is another one's by then.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and number of the socket's file.
    identity: (u64, u64),
}

/// A connection to the domain at a path.
pub(super) fn call(path: &Path) -> Result<OwnedFd, DomainError> {
    let failed = failed("cannot connect to", path);
    let socket = socket().map_err(&failed)?;
    connect(&socket, &SocketAddrUnix::new(path).map_err(&failed)?).map_err(&failed)?;
    let (ours, theirs) = (rustix::process::geteuid(), socket_peercred(&socket).map_err(&failed)?.uid);
    if ours == theirs {
        Ok(socket)
    } else {
        Err(DomainError::User { theirs: theirs.as_raw(), ours: ours.as_raw() })
    }
}

/// Whether the process at the other side of a socket is of this user.
pub(super) fn is_own(socket: BorrowedFd<'_>) -> bool {
    socket_peercred(socket).is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

impl SocketFile {
    /// Listens at a path. A socket whose process was killed is replaced.
    pub(super) fn take(path: &Path) -> Result<(OwnedFd, SocketFile), DomainError> {
        let failed = failed("cannot listen at", path);
        let _alone = FileLock::of_folder_of(path).map_err(&failed)?;
        let (listener, aside) = listen_aside(path).map_err(&failed)?;
        // The name may be another one's for a moment after it is this one's.
        let file = symlink_metadata(&aside).map_err(|error| errno(&error));
        let named = name(&aside, path).and(file);
        // It is gone already, or has the deserted one that was replaced.
        let _ = unlink(&aside);
        let identity = identity(&named.map_err(&failed)?);
        Ok((listener, SocketFile { path: path.to_owned(), identity }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Without the lock it stays, as that of a process that was killed.
        let Ok(_alone) = FileLock::of_folder_of(&self.path) else { return };
        // Somebody may have removed it already, or has taken the name.
        if symlink_metadata(&self.path).is_ok_and(|file| identity(&file) == self.identity) {
            let _ = unlink(&self.path);
        }
    }
}

/// A socket that listens under a name that nobody knows, in the same folder.
fn listen_aside(path: &Path) -> Result<(OwnedFd, PathBuf), Errno> {
    path.file_name().ok_or(Errno::INVAL)?;
    // Short: a path of a socket has 107 bytes at most.
    let aside = path.with_file_name(format!(".{:05x}", random() & 0xf_ffff));
    let listener = socket()?;
    // The file has this mode from its beginning.
    fchmod(&listener, Mode::RUSR | Mode::WUSR)?;
    bind(&listener, &SocketAddrUnix::new(&aside)?)?;
    match listen(listener.as_fd(), BACKLOG) {
        Ok(()) => Ok((listener, aside)),
        Err(error) => {
            let _ = unlink(&aside);
            Err(error)
        }
    }
}

/// Gives the file of a socket that listens the name of a path, where that is free or deserted.
fn name(aside: &Path, path: &Path) -> Result<(), Errno> {
    for _ in 0..TRIES {
        match link(aside, path) {
            Err(Errno::EXIST) => {}
            other => return other,
        }
        if !is_deserted(path) {
            return Err(Errno::ADDRINUSE);
        }
        match renameat_with(CWD, aside, CWD, path, RenameFlags::EXCHANGE) {
            Ok(()) if is_deserted(aside) => return Ok(()),
            // Another one came first: it has its name again.
            Ok(()) => renameat_with(CWD, aside, CWD, path, RenameFlags::EXCHANGE)?,
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::ADDRINUSE)
}

/// Whether a path is a socket that nobody listens at. The kernel says the same of a file that is no socket.
fn is_deserted(path: &Path) -> bool {
    let is_socket = symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    is_socket && SocketAddrUnix::new(path).is_ok_and(|address| refuses(&address))
}

fn refuses(address: &SocketAddrUnix) -> bool {
    socket().is_ok_and(|socket| connect(&socket, address) == Err(Errno::CONNREFUSED))
}

fn socket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// A number that nobody guesses by accident.
pub(super) fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn failed(what: &'static str, path: &Path) -> impl Fn(Errno) -> DomainError {
    move |source| DomainError::Socket { what, path: path.to_owned(), source: source.into() }
}
