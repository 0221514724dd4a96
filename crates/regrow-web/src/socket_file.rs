//! A socket in the file system: who may connect, and its end.
//!
//! ```text
//!  a file without a listener: removed ── bind ── owner, group, mode ── listen ── … ── removed
//! ```
//!
//! The kernel refuses every connection before `listen`. So nobody connects before the file has its owner and its mode. Until then the file looks as one
//! without a listener does: gateways that start at once do this one after another, by the lock of the folder.

use std::fs::Permissions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use regrow_sys::file_lock::FileLock;
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid, chownat, openat};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use tokio::net::UnixListener;

use crate::error::WebError;
use crate::settings::SocketRights;

/// How many connections wait until the gateway accepts them.
const BACKLOG: i32 = 1024;
/// The mode of a socket that is somebody's, if nobody says another: owner and group may connect.
const SHARED_MODE: u32 = 0o660;

/// A socket in the file system. Its file is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode of the file.
    identity: (u64, u64),
}

impl SocketFile {
    /// Listens at a path. Replaces a socket that has no listener.
    pub(crate) fn open(path: &Path, rights: &SocketRights) -> Result<(UnixListener, Self), WebError> {
        let cannot = |source| WebError::Listen { address: path.display().to_string(), source };
        // A folder that cannot be locked can still be the place of a socket.
        let alone = FileLock::of_folder_of(path).ok();
        remove_dead(path).map_err(cannot)?;
        let (socket, file) = bound(path).map_err(cannot)?;
        let listens =
            grant(path, rights).and_then(|()| listen(&socket, BACKLOG).map_err(|error| cannot(error.into())));
        // Where there is an error the file goes, for which it takes the lock itself.
        drop(alone);
        listens?;
        Ok((UnixListener::from_std(socket.into()).map_err(cannot)?, file))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _alone = FileLock::of_folder_of(&self.path).ok();
        // Another gateway may listen at this path by now.
        if std::fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.identity)
        {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket that has no listener.
fn remove_dead(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket
        && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// A socket with a file, at which nobody listens yet.
fn bound(path: &Path) -> io::Result<(OwnedFd, SocketFile)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    let found = std::fs::symlink_metadata(path)?;
    let file = SocketFile { path: path.to_owned(), identity: (found.dev(), found.ino()) };
    Ok((socket, file))
}

/// Gives the file of a socket its owner, its group and its mode. Follows no link that somebody puts in its place.
fn grant(path: &Path, rights: &SocketRights) -> Result<(), WebError> {
    let cannot = |what| move |source: io::Error| WebError::Path { path: path.to_owned(), what, source };
    let Some(mode) = rights.mode.or_else(|| rights.is_somebodys().then_some(SHARED_MODE)) else {
        return Ok(());
    };
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty())
        .map_err(|error| cannot("the socket cannot be opened")(error.into()))?;
    if rights.is_somebodys() {
        let (owner, group) = (rights.owner.map(Uid::from_raw), rights.group.map(Gid::from_raw));
        chownat(&file, "", owner, group, AtFlags::EMPTY_PATH)
            .map_err(|error| cannot("the socket cannot have this owner and this group")(error.into()))?;
    }
    // The kernel changes no mode by a descriptor that only names a file, but by its path in /proc.
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    std::fs::set_permissions(name, Permissions::from_mode(mode))
        .map_err(cannot("the socket cannot have this mode"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::getgid;

    fn rights(group: Option<u32>, mode: Option<u32>) -> SocketRights {
        SocketRights { owner: None, group, mode }
    }

    fn mode_of(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).expect("a socket").permissions().mode() & 0o7777
    }

    #[tokio::test]
    async fn a_socket_has_the_mode_that_its_settings_say() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        for (rights, mode) in [
            (rights(None, Some(0o600)), 0o600),
            (rights(None, Some(0o666)), 0o666),
            (rights(Some(getgid().as_raw()), None), SHARED_MODE),
            (rights(Some(getgid().as_raw()), Some(0o620)), 0o620),
        ] {
            let (_listener, _file) = SocketFile::open(&path, &rights).expect("a socket");
            assert_eq!(mode_of(&path), mode, "{rights:?}");
            assert!(UnixStream::connect(&path).is_ok());
        }
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_socket_is_replaced_only_if_nobody_listens_and_removed_only_by_its_owner() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let (listener, file) = SocketFile::open(&path, &SocketRights::default()).expect("a socket");
        let second = SocketFile::open(&path, &SocketRights::default()).expect_err("it has a listener");
        assert!(second.to_string().contains("socket cannot be listened at"), "{second}");
        drop(listener);
        let (_other, others) =
            SocketFile::open(&path, &SocketRights::default()).expect("a dead one is replaced");
        if others.identity != file.identity {
            drop(file);
            assert!(path.exists());
        }
        drop(others);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn one_of_gateways_that_start_at_once_listens_in_place_of_a_dead_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        for _ in 0..100 {
            drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket that dies"));
            let start = || SocketFile::open(&path, &rights(None, Some(0o600)));
            let runtime = tokio::runtime::Handle::current();
            let started: Vec<_> = std::thread::scope(|scope| {
                let enter = || {
                    let _inside = runtime.enter();
                    start()
                };
                let threads: Vec<_> = (0..3).map(|_| scope.spawn(enter)).collect();
                threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
            });
            assert_eq!(started.iter().filter(|one| one.is_ok()).count(), 1, "{started:?}");
            assert!(UnixStream::connect(&path).is_ok());
        }
    }

    #[test]
    fn the_rights_of_a_file_that_a_link_names_do_not_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "").expect("a file");
        let before = mode_of(&file);
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        let _ = grant(&link, &rights(None, Some(0o777)));
        assert_eq!(mode_of(&file), before);
    }
}
