//! What shows a daemon that its client may look into it.
//!
//! ```text
//!   daemon: a secret in a memfd, as its descriptor 30, or the next that is free
//!   client: /proc/DAEMON/fd/30 ── the kernel asks: may this process inspect that one? ──> the secret ──> in its first message
//! ```
//!
//! The kernel asks every security module. So a client that Landlock, AppArmor, a user namespace or a lack of capabilities keeps from the
//! daemon cannot send the secret. Nothing else tells that a process is in a Landlock domain.

use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use regrow_abi::client::{PROOF_BYTES, PROOF_NUMBERS};
use regrow_sys::caller::RandomWords;
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;

/// The numbers of which the memfd has the first in the daemon that is free.
const NUMBERS: RangeInclusive<i32> = PROOF_NUMBERS;
/// The name of the memfd.
const NAME: &str = "regrow-proof";
/// Words of the secret.
const WORDS: usize = 3;
/// Its bytes.
const BYTES: usize = WORDS * 8;
const _: () = assert!(BYTES == PROOF_BYTES);

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
    /// When there is no memory or no randomness, or all the numbers are taken: then no client could be served.
    pub(crate) fn new() -> io::Result<Proof> {
        let secret = RandomWords::new().take()?.map(u64::to_ne_bytes);
        let memfd = rustix::fs::memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::io::pwrite(&memfd, secret.as_flattened(), 0)?;
        rustix::fs::fcntl_add_seals(
            &memfd,
            SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL,
        )?;
        let readable = rustix::io::fcntl_dupfd_cloexec(&memfd, *NUMBERS.start())?;
        if NUMBERS.contains(&readable.as_raw_fd()) {
            Ok(Proof { secret, _readable: readable })
        } else {
            let text = format!("descriptors {} to {} are open", NUMBERS.start(), NUMBERS.end());
            Err(io::Error::new(io::ErrorKind::AlreadyExists, text))
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
    let name = format!("/memfd:{NAME} (deleted)");
    for number in NUMBERS {
        let path = format!("/proc/{pid}/fd/{number}");
        // What the daemon was started with may have the first numbers; those of another process that has its number may be anything.
        match rustix::fs::readlink(&path, Vec::new()) {
            Ok(link) if link.as_bytes() == name.as_bytes() => return read(&path),
            Ok(_) | Err(Errno::NOENT) => {}
            Err(_) => return None,
        }
    }
    None
}

fn read(path: &str) -> Option<Vec<u8>> {
    let memfd = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
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
        let taken = rustix::io::fcntl_dupfd_cloexec(&one, *NUMBERS.start()).expect("a descriptor");
        let proof = Proof::new().expect("a proof");
        let told = of_daemon(one.as_fd()).expect("the daemon is this process");
        assert!(proof.is(&told) && !proof.is(&[0; BYTES]) && !proof.is(&[]));
        let all: Vec<_> = NUMBERS.map(|start| rustix::io::fcntl_dupfd_cloexec(&one, start)).collect();
        assert_eq!(Proof::new().expect_err("they are taken").kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(of_daemon(one.as_fd()).as_deref(), Some(told.as_slice()));
        drop((taken, proof, all));
        assert_eq!(of_daemon(one.as_fd()), None);
    }
}
