//! A descriptor by which the kernel tells that memory is short: a trigger on the stalls that it counts (PSI, Linux 5.2).
//!
//! The kernel watches, and only while tasks stall. Who polls the descriptor for `POLLPRI` without a timeout uses no processor time.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, Mode, OFlags, access, open};
use rustix::io::{read, write};

/// Tasks waited for memory for 200 ms of two seconds together: a tenth of the time, as [`super::is_memory_short`] has it. A window of two
/// seconds is what the kernel allows to a process without rights (Linux 6.6).
const TRIGGER: &[u8] = b"some 200000 2000000\0";

/// The longest list of control groups that is read.
const GROUPS: usize = 8192;

/// The machine's stalls.
const MACHINE: &str = "/proc/pressure/memory";

/// Triggers on the stalls of the machine, and of this process's control group, where it is not the root: as many as the kernel gives.
///
/// # Errors
/// It gives none: `ENOENT` or `EOPNOTSUPP` of a kernel without such counts, `EPERM` or `EACCES` where this process has no right to them.
pub fn triggers() -> io::Result<Vec<OwnedFd>> {
    let machine = trigger(Path::new(MACHINE));
    let group = own_group().and_then(|group| trigger(&group).ok());
    match (machine, group) {
        (Ok(machine), group) => Ok([Some(machine), group].into_iter().flatten().collect()),
        (Err(_), Some(group)) => Ok(vec![group]),
        (Err(error), None) => Err(error),
    }
}

// By system calls alone: a thread that the C library does not know asks, too ([`crate::bare_thread`]).
fn trigger(path: &Path) -> io::Result<OwnedFd> {
    let file = open(path, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    if write(&file, TRIGGER)? == TRIGGER.len() { Ok(file) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// The stalls of the control group of this process (version 2); `None` where that is the root, whose stalls are the machine's.
fn own_group() -> Option<PathBuf> {
    let file = open("/proc/self/cgroup", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let (mut text, mut length) = ([0u8; GROUPS], 0);
    while let Ok(more @ 1..) = read(&file, text.get_mut(length..)?) {
        length += more;
    }
    let own = std::str::from_utf8(text.get(..length)?).ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
    let files = roots.map(|root| root.join(path).join("memory.pressure"));
    files.into_iter().find(|file| !path.is_empty() && access(file, Access::EXISTS).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    #[test]
    fn triggers_say_nothing_while_nothing_stalls_or_the_kernel_says_why_there_are_none() {
        match triggers() {
            Ok(triggers) => {
                assert!(!triggers.is_empty());
                let mut fds: Vec<_> = triggers.iter().map(|fd| PollFd::new(fd, PollFlags::PRI)).collect();
                poll(&mut fds, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }))
                    .expect("they can be polled");
                assert!(fds.iter().all(|fd| !fd.revents().contains(PollFlags::ERR)), "they are triggers");
            }
            Err(error) => assert!(error.raw_os_error().is_some(), "{error}"),
        }
    }

    #[test]
    fn what_is_no_file_of_stalls_gives_no_trigger() {
        assert!(trigger(Path::new("/proc/pressure/no-such-resource")).is_err());
        assert!(trigger(Path::new("/proc/self/cgroup")).is_err(), "it cannot be written");
    }
}
