//! How a process has ended that is no child of this one.
//!
//! ```text
//!   its parent has waited for it      PIDFD_GET_INFO tells (Linux 6.15), by a descriptor that was opened before
//!   it has ended, and nobody waited   the last field of /proc/PID/stat tells, to whoever may inspect it
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::raw;

/// Bytes that the kernel writes of a process at most: 52 numbers and a name.
const STAT_BYTES: usize = 2048;

/// A process of somebody else's whose end is waited for.
#[derive(Debug)]
pub struct Stranger {
    pid: i32,
    pidfd: OwnedFd,
    /// Its `/proc/PID/stat`, opened while it was there.
    stat: Option<OwnedFd>,
}

impl Stranger {
    /// A process by its number, which must not be used again meanwhile.
    ///
    /// # Errors
    /// As `pidfd_open(2)`.
    pub fn open(pid: i32) -> io::Result<Stranger> {
        Ok(Stranger { pid, pidfd: raw::pidfd_open(pid)?, stat: None })
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Opens what its status is read from. It can be done while the process runs, so that nobody waits for it.
    pub fn prepare(&mut self) {
        let path = format!("/proc/{}/stat", self.pid);
        let opened = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        // Of another process that has got the number since, the descriptor tells nothing: that of this one is hung up then.
        self.stat = opened.ok();
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    /// Whether it has ended, or ends in time.
    #[must_use]
    pub fn ends_within(&self, timeout: Duration) -> bool {
        raw::ends_within(self.pidfd.as_fd(), timeout)
    }

    /// Waits for its end, as long as it takes. True when its parent has waited for it already.
    pub fn wait(&self) -> bool {
        loop {
            let mut ready = [PollFd::new(&self.pidfd, PollFlags::IN)];
            match poll(&mut ready, None) {
                Ok(_) => return ready[0].revents().contains(PollFlags::HUP),
                Err(Errno::INTR) => {}
                // Without memory for the wait: the end is looked for again.
                Err(_) => std::thread::yield_now(),
            }
        }
    }

    /// Its wait status after [`Stranger::wait`]; `None` where the kernel does not tell as yet. It does when the parent has waited.
    #[must_use]
    pub fn status(&self, is_waited_for: bool) -> Option<i32> {
        if is_waited_for {
            return raw::pidfd_exit_code(self.pidfd.as_fd()).ok().flatten();
        }
        let told = self.stat.as_ref().and_then(|stat| exit_code(stat.as_fd()));
        match told {
            // To whoever must not know the kernel tells zero.
            Some(0) if !raw::may_inspect(self.pid) => None,
            Some(status) => Some(status),
            None => raw::pidfd_exit_code(self.pidfd.as_fd()).ok().flatten(),
        }
    }

    /// Its wait status, which its parent is about to wait for.
    #[must_use]
    pub fn status_soon(&self) -> Option<i32> {
        raw::pidfd_exit_status(self.pidfd.as_fd())
    }
}

/// Whether the kernel tells a status by a pidfd.
#[must_use]
pub fn is_told() -> bool {
    let own = raw::pidfd_open(std::process::id().cast_signed());
    own.is_ok_and(|own| raw::pidfd_exit_code(own.as_fd()).is_ok())
}

/// The last field of a process's `stat`.
fn exit_code(stat: BorrowedFd<'_>) -> Option<i32> {
    let mut text = [0; STAT_BYTES];
    let length = rustix::io::pread(stat, &mut text, 0).ok()?;
    let text = text.get(..length)?.trim_ascii_end();
    let last = text.rsplit(|&byte| byte == b' ').next()?;
    std::str::from_utf8(last).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn shell(script: &str) -> (Child, Stranger) {
        let child = Command::new("sh").args(["-c", script]).spawn().expect("it starts");
        let mut stranger = Stranger::open(child.id().cast_signed()).expect("it was not waited for");
        stranger.prepare();
        (child, stranger)
    }

    #[test]
    fn the_status_of_a_process_is_told_before_its_parent_has_waited_and_afterwards() {
        for (script, status) in [("exit 0", 0), ("exit 7", 7 << 8), ("kill -KILL $$", libc::SIGKILL)] {
            let (mut child, stranger) = shell(script);
            assert!(!stranger.wait(), "nobody has waited for it");
            assert!(stranger.has_ended());
            assert_eq!(stranger.status(false), Some(status), "{script}");
            child.wait().expect("a child");
            assert_eq!(exit_code(stranger.stat.as_ref().expect("opened").as_fd()), None, "it is gone");
            assert!(stranger.wait());
            if is_told() {
                assert_eq!((stranger.status(true), stranger.status(false)), (Some(status), Some(status)));
                assert_eq!(stranger.status_soon(), Some(status));
            }
        }
    }

    #[test]
    fn a_process_that_lives_has_not_ended() {
        let (mut child, stranger) = shell("read line");
        child.stdin.take();
        let (mut living, other) = {
            let child = Command::new("sleep").arg("60").spawn().expect("it starts");
            let pid = child.id().cast_signed();
            (child, Stranger::open(pid).expect("it lives"))
        };
        assert!(!other.has_ended() && other.pid() == living.id().cast_signed());
        living.kill().expect("a child");
        assert!(!other.wait());
        living.wait().expect("a child");
        child.wait().expect("a child");
        assert!(stranger.wait());
    }
}
