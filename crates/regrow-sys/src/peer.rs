//! Whose process is at the other end of a Unix socket, and what the kernel says that it may do.

#![allow(unsafe_code, reason = "a socket option that gives a descriptor")]

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::raw;

/// The lines of `/proc/PID/status` that say what a process may do.
const LINES: [&[u8]; 11] = [
    b"Uid:",
    b"Gid:",
    b"Groups:",
    b"CapInh:",
    b"CapPrm:",
    b"CapEff:",
    b"CapBnd:",
    b"CapAmb:",
    b"NoNewPrivs:",
    b"Seccomp:",
    b"Seccomp_filters:",
];

/// What a process may do, in the kernel's words: ids, capabilities, seccomp, security label. Processes with equal rights have equal
/// words. A Landlock domain is in none of them: see [`PeerProcess::has_rights`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights(Vec<u8>);

impl Rights {
    /// Those of the calling process.
    ///
    /// # Errors
    /// As reading `/proc/self/status`.
    pub fn own() -> io::Result<Rights> {
        Rights::read("self")
    }

    fn read(process: &str) -> io::Result<Rights> {
        let status = fs::read(format!("/proc/{process}/status"))?;
        let is_right = |line: &&[u8]| LINES.iter().any(|name| line.starts_with(name));
        let mut words: Vec<u8> =
            status.split_inclusive(|&byte| byte == b'\n').filter(is_right).flatten().copied().collect();
        // Without a module that gives labels there is nothing to be read.
        words.extend(fs::read(format!("/proc/{process}/attr/current")).unwrap_or_default());
        Ok(Rights(words))
    }
}

/// The process that has connected a socket.
#[derive(Debug)]
pub struct PeerProcess {
    pid: i32,
    pidfd: OwnedFd,
}

impl PeerProcess {
    /// That of a connected Unix socket.
    ///
    /// # Errors
    /// When it is in another PID namespace, or is gone.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<PeerProcess> {
        let pid = rustix::net::sockopt::socket_peercred(socket)?.pid.as_raw_pid();
        if pid == 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        let pidfd = match pidfd(socket) {
            // Linux before 6.5.
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => raw::pidfd_open(pid),
            other => other,
        }?;
        Ok(PeerProcess { pid, pidfd })
    }

    /// Whether the process has these rights, which are the caller's, and the caller may look into it. The kernel refuses the latter to
    /// whoever is in a Landlock domain that the process is not in.
    #[must_use]
    pub fn has_rights(&self, own: &Rights) -> bool {
        let is_so = Rights::read(&self.pid.to_string()).is_ok_and(|rights| rights == *own)
            && raw::may_inspect(self.pid);
        // Nobody else has had the number meanwhile.
        is_so && !raw::ends_within(self.pidfd.as_fd(), Duration::ZERO)
    }
}

/// A descriptor of the process that has connected a socket.
fn pidfd(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    const PEER_PIDFD: libc::c_int = 77;
    let mut fd: libc::c_int = -1;
    let mut bytes = libc::socklen_t::try_from(size_of_val(&fd)).unwrap_or_default();
    let to = (&raw mut fd).cast();
    // SAFETY: the kernel writes at most the bytes that are named, into a number that lives.
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, PEER_PIDFD, to, &raw mut bytes) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::process::Command;

    #[test]
    fn a_process_has_its_own_rights() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        let own = Rights::own().expect("they can be read");
        for line in LINES {
            assert!(own.0.windows(line.len()).any(|text| text == line), "{}", String::from_utf8_lossy(line));
        }
        assert!(PeerProcess::of(one.as_fd()).expect("this process").has_rights(&own));
        let Rights(mut words) = own;
        words.push(b'x');
        assert!(!PeerProcess::of(one.as_fd()).expect("this process").has_rights(&Rights(words)));
    }

    #[test]
    fn a_process_that_is_gone_has_none() {
        let mut child = Command::new("sleep").arg("600").spawn().expect("a child");
        let pid = i32::try_from(child.id()).expect("a number");
        let peer = PeerProcess { pid, pidfd: raw::pidfd_open(pid).expect("a pidfd") };
        let own = Rights::own().expect("they can be read");
        assert!(peer.has_rights(&own));
        child.kill().expect("it is ours");
        child.wait().expect("it ends");
        assert!(!peer.has_rights(&own));
        // The number can be another process's by then.
        let other = PeerProcess { pid: std::process::id().cast_signed(), pidfd: peer.pidfd };
        assert!(!other.has_rights(&own));
    }
}
