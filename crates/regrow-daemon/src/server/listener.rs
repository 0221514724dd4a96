//! Where a daemon listens: a socket that it binds under a lock, or one that a service manager passes to it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use regrow_sys::file_lock::FileLock;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::error::{ServeError, system};
use crate::place::Place;
use crate::proof::Proof;

/// Clients that may wait to be accepted.
const BACKLOG: i32 = 256;

/// Where a daemon listens.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    /// It is there before the first client.
    proof: Proof,
    /// What is removed and unlocked at the end; nothing when somebody else made the socket.
    own: Option<(Place, FileLock)>,
}

impl Listener {
    /// Takes a place and listens there.
    ///
    /// # Errors
    /// [`ServeError::AlreadyThere`]: of two daemons that start at once, one gets this.
    pub fn bind(place: &Place) -> Result<Listener, ServeError> {
        use rustix::fs::{Mode, OFlags};
        let path = place.lock();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let lock = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)
            .map_err(system(path.display().to_string()))?;
        let lock = FileLock::take(lock, Duration::ZERO).map_err(|error| match error {
            Errno::WOULDBLOCK => ServeError::AlreadyThere { path: path.clone() },
            error => system(path.display().to_string())(error),
        })?;
        let path = place.socket();
        // Whoever holds the lock may remove what a daemon that was killed has left.
        let _ = std::fs::remove_file(&path);
        let named = |error: Errno| system(path.display().to_string())(error);
        let proof = proof()?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(named)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(&path).map_err(named)?).map_err(named)?;
        rustix::net::listen(&socket, BACKLOG).map_err(named)?;
        Ok(Listener { socket, proof, own: Some((place.clone(), lock)) })
    }

    /// A listening socket that a service manager has made.
    ///
    /// # Errors
    /// When it cannot be listened at, or set to not block.
    pub fn given(socket: OwnedFd) -> Result<Listener, ServeError> {
        rustix::io::ioctl_fionbio(&socket, true).map_err(system("the socket that was passed"))?;
        let proof = proof()?;
        // The kernel tells clients who has listened last: they look into that process (see `proof.rs`).
        rustix::net::listen(&socket, BACKLOG).map_err(system("the socket that was passed"))?;
        Ok(Listener { socket, proof, own: None })
    }

    /// What shows that a client may look into this process.
    pub(super) fn proof(&self) -> &Proof {
        &self.proof
    }
}

fn proof() -> Result<Proof, ServeError> {
    Proof::new().map_err(system("the proof for clients"))
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some((place, _lock)) = &self.own {
            let _ = std::fs::remove_file(place.socket());
        }
    }
}
