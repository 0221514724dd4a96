//! What shows a daemon that its client may look into it.
//!
//! ```text
//!   daemon: a secret in a memfd, as its descriptor 30
//!   client: /proc/DAEMON/fd/30 ── the kernel asks: may this process inspect that one? ──> the secret ──> in its first message
//! ```
//!
//! The kernel asks every security module. So a client that Landlock, AppArmor, a user namespace or a lack of capabilities keeps from the
//! daemon cannot send the secret. Nothing else tells that a process is in a Landlock domain.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use regrow_sys::caller::RandomWords;
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};

/// The number that the memfd has in the daemon.
const NUMBER: i32 = 30;
/// The name of the memfd.
const NAME: &str = "regrow-proof";
/// Words of the secret.
const WORDS: usize = 3;
/// Its bytes.
const BYTES: usize = WORDS * 8;

/// A secret that only those can read who may look into this process.
#[derive(Debug)]
pub(crate) struct Proof {
    secret: [[u8; 8]; WORDS],
    /// Read by clients alone.
    _readable: OwnedFd,
}

impl Proof {
    /// A secret that nobody knows as yet.
    ///
    /// # Errors
    /// When there is no memory or no randomness, or the number is taken: then no client could be served.
    pub(crate) fn new() -> io::Result<Proof> {
        let secret = RandomWords::new().take()?.map(u64::to_ne_bytes);
        let memfd = rustix::fs::memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::io::pwrite(&memfd, secret.as_flattened(), 0)?;
        rustix::fs::fcntl_add_seals(
            &memfd,
            SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL,
        )?;
        let readable = rustix::io::fcntl_dupfd_cloexec(&memfd, NUMBER)?;
        if readable.as_raw_fd() == NUMBER {
            Ok(Proof { secret, _readable: readable })
        } else {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("descriptor {NUMBER} is open")))
        }
    }

    /// Whether somebody knows the secret.
    pub(crate) fn is(&self, told: &[u8]) -> bool {
        told == self.secret.as_flattened()
    }
}

/// The secret of the daemon that listens at the other end of a socket; `None` where the kernel does not let this process look into it.
pub(crate) fn of_daemon(socket: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let pid = rustix::net::sockopt::socket_peercred(socket.as_fd()).ok()?.pid.as_raw_pid();
    let path = format!("/proc/{pid}/fd/{NUMBER}");
    // Another process may have the number of a daemon that is gone; what it has open may be anything.
    let link = rustix::fs::readlink(&path, Vec::new()).ok()?;
    if link.as_bytes() != format!("/memfd:{NAME} (deleted)").as_bytes() {
        return None;
    }
    let memfd = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut secret = vec![0; BYTES];
    let read = rustix::io::pread(&memfd, secret.as_mut_slice(), 0).ok()?;
    (read == BYTES).then_some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn who_may_look_into_a_daemon_knows_its_secret() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        assert_eq!(of_daemon(one.as_fd()), None);
        let proof = Proof::new().expect("a proof");
        let told = of_daemon(one.as_fd()).expect("the daemon is this process");
        assert!(proof.is(&told) && !proof.is(&[0; BYTES]) && !proof.is(&[]));
        assert_eq!(Proof::new().expect_err("the number is taken").kind(), io::ErrorKind::AlreadyExists);
        drop(proof);
        assert_eq!(of_daemon(one.as_fd()), None);
    }
}
