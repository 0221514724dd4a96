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
#[derive(Clone, Debug)]
pub struct Rights {
    words: Vec<u8>,
    /// A security module gives labels.
    has_label: bool,
    /// The signals that the process ignores, which are no right.
    ignored: u64,
}

impl PartialEq for Rights {
    fn eq(&self, other: &Rights) -> bool {
        self.words == other.words
    }
}

impl Eq for Rights {}

impl Rights {
    /// Those of the calling process.
    ///
    /// # Errors
    /// As reading `/proc/self/status`.
    pub fn own() -> io::Result<Rights> {
        Rights::read("self", true)
    }

    fn read(process: &str, with_label: bool) -> io::Result<Rights> {
        let status = read_at_once(&format!("/proc/{process}/status"))?;
        let mut rights = Rights { words: Vec::with_capacity(512), has_label: false, ignored: 0 };
        for line in status.split_inclusive(|&byte| byte == b'\n') {
            if LINES.iter().any(|name| line.starts_with(name)) {
                rights.words.extend_from_slice(line);
            } else if let Some(mask) = line.strip_prefix(b"SigIgn:") {
                let mask = std::str::from_utf8(mask).map_err(|_| io::ErrorKind::InvalidData)?;
                rights.ignored =
                    u64::from_str_radix(mask.trim(), 16).map_err(|_| io::ErrorKind::InvalidData)?;
            }
        }
        if with_label {
            // Without a module that gives labels there is nothing to be read, of no process.
            let label = fs::read(format!("/proc/{process}/attr/current"));
            rights.has_label = !label.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL));
            rights.words.extend(label.unwrap_or_default());
        }
        Ok(rights)
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
        self.look(own).is_some()
    }

    /// The signals that the process ignores, if it [has these rights](PeerProcess::has_rights).
    #[must_use]
    pub fn look(&self, own: &Rights) -> Option<u64> {
        let rights = Rights::read(&self.pid.to_string(), own.has_label).ok()?;
        let is_so = rights == *own && raw::may_inspect(self.pid);
        (is_so && self.is_there()).then_some(rights.ignored)
    }

    /// Its control groups, as the kernel lists them to the caller; `None` when it is gone.
    #[must_use]
    pub fn cgroup(&self) -> Option<Vec<u8>> {
        let listed = read_at_once(&format!("/proc/{}/cgroup", self.pid)).ok()?;
        self.is_there().then_some(listed)
    }

    /// It has not ended: nobody else has had its number meanwhile.
    fn is_there(&self) -> bool {
        !raw::ends_within(self.pidfd.as_fd(), Duration::ZERO)
    }
}

/// Reads a short file of `/proc`, which the kernel gives out in one piece.
fn read_at_once(path: &str) -> io::Result<Vec<u8>> {
    use rustix::fs::{Mode, OFlags};
    const PIECE: usize = 4096;
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut content = vec![0; PIECE];
    let mut length = 0;
    loop {
        let got = rustix::io::read(&file, content.get_mut(length..).unwrap_or_default())?;
        length += got;
        if length < content.len() {
            content.truncate(length);
            return Ok(content);
        }
        content.resize(length + PIECE, 0);
    }
}

/// The namespaces that are compared: by which request a descriptor of a process gives one, and its name in `/proc`.
const NAMESPACES: [(libc::c_ulong, &str); 9] = [
    (0xff01, "cgroup"),
    (0xff02, "ipc"),
    (0xff03, "mnt"),
    (0xff04, "net"),
    (0xff05, "pid"),
    (0xff06, "pid_for_children"),
    (0xff08, "time_for_children"),
    (0xff09, "user"),
    (0xff0a, "uts"),
];

/// The namespaces of the calling process. They are held open: the kernel then has at hand what it compares.
#[derive(Debug)]
pub struct Namespaces(Vec<OwnNamespace>);

#[derive(Debug)]
struct OwnNamespace {
    request: libc::c_ulong,
    name: &'static str,
    inode: u64,
    /// That of the namespace, from Linux 6.11 on.
    _held: Option<OwnedFd>,
}

impl Namespaces {
    /// Those of the calling process.
    ///
    /// # Errors
    /// When `/proc` does not name one of them. A kernel without one of them has no such file, for nobody.
    pub fn own() -> io::Result<Namespaces> {
        use std::os::unix::fs::MetadataExt;
        let own = raw::pidfd_open(std::process::id().cast_signed())?;
        let mut all = Vec::new();
        for (request, name) in NAMESPACES {
            match fs::metadata(format!("/proc/self/ns/{name}")) {
                Ok(found) => {
                    let held = namespace(own.as_fd(), request).ok();
                    all.push(OwnNamespace { request, name, inode: found.ino(), _held: held });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Namespaces(all))
    }

    /// Whether a process is in the same ones.
    #[must_use]
    pub fn are_of(&self, process: &PeerProcess) -> bool {
        use std::os::unix::fs::MetadataExt;
        let inode = |own: &OwnNamespace| match namespace(process.pidfd.as_fd(), own.request) {
            Ok(other) => rustix::fs::fstat(&other).map(|found| found.st_ino).ok(),
            // An older kernel.
            Err(_) => {
                fs::metadata(format!("/proc/{}/ns/{}", process.pid, own.name)).map(|found| found.ino()).ok()
            }
        };
        self.0.iter().all(|own| inode(own) == Some(own.inode)) && process.is_there()
    }
}

/// A namespace of a process, as a descriptor.
fn namespace(pidfd: BorrowedFd<'_>, request: libc::c_ulong) -> io::Result<OwnedFd> {
    // SAFETY: the request takes no argument, and gives a descriptor.
    let fd = unsafe { libc::ioctl(pidfd.as_raw_fd(), request, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
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
            assert!(
                own.words.windows(line.len()).any(|text| text == line),
                "{}",
                String::from_utf8_lossy(line)
            );
        }
        assert!(PeerProcess::of(one.as_fd()).expect("this process").has_rights(&own));
        let mut others = own;
        others.words.push(b'x');
        assert!(!PeerProcess::of(one.as_fd()).expect("this process").has_rights(&others));
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
