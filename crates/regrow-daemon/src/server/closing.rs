//! Closes the descriptors that clients send, where the loop does not wait for them.
//!
//! To close a file is a call to its file system (`flush`), which FUSE and NFS answer when they like. Pipes, sockets, terminals and the
//! like have no such call: these are closed at once, all others on threads.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{AtFlags, FileType, Statx, StatxFlags};

use super::workers::Workers;

/// Most threads that close something.
const THREADS: usize = 16;
/// With more that are not closed as yet, no further client is served.
const MOST_OPEN: usize = 1024;

/// Closes descriptors.
#[derive(Debug, Clone)]
pub(super) struct Closer {
    workers: Workers,
    /// Those that are handed over and not closed as yet.
    open: Arc<AtomicUsize>,
    /// The file system of what has no file: event counters, descriptors of processes and the like.
    anonymous: Option<(u32, u32)>,
}

impl Closer {
    pub(super) fn new() -> Closer {
        let counter = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC);
        let anonymous = counter.ok().and_then(|counter| look(&counter)).map(|found| device(&found));
        Closer { workers: Workers::new(THREADS, usize::MAX), open: Arc::default(), anonymous }
    }

    /// Closes descriptors that nobody else in this process has.
    pub(super) fn close(&self, descriptors: Vec<Arc<OwnedFd>>) {
        let slow: Vec<_> =
            descriptors.into_iter().filter(|descriptor| !self.is_closed_at_once(descriptor)).collect();
        if !slow.is_empty() {
            let count = slow.len();
            self.hand_over(count, move || drop(slow));
        }
    }

    /// Has a thread do something that closes so many descriptors.
    pub(super) fn hand_over(&self, count: usize, close: impl FnOnce() + Send + 'static) {
        let open = Arc::clone(&self.open);
        open.fetch_add(count, Ordering::Relaxed);
        self.workers.submit(move || {
            close();
            open.fetch_sub(count, Ordering::Relaxed);
        });
    }

    /// Whether so many are not closed that there must not be more.
    pub(super) fn is_behind(&self) -> bool {
        self.open.load(Ordering::Relaxed) > MOST_OPEN
    }

    /// Whether no file system is asked when a descriptor is closed.
    fn is_closed_at_once(&self, descriptor: &OwnedFd) -> bool {
        // Drivers of the kernel's own: memory (null, zero, random), and terminals.
        const MEMORY: u32 = 1;
        const TERMINALS: [u32; 2] = [4, 5];
        const PSEUDO_TERMINALS: std::ops::RangeInclusive<u32> = 136..=143;
        let Some(found) = look(descriptor) else { return false };
        match FileType::from_raw_mode(found.stx_mode.into()) {
            FileType::Fifo | FileType::Socket => true,
            FileType::CharacterDevice => {
                let major = found.stx_rdev_major;
                major == MEMORY || TERMINALS.contains(&major) || PSEUDO_TERMINALS.contains(&major)
            }
            _ => Some(device(&found)) == self.anonymous,
        }
    }
}

/// What is known of a file without asking its file system.
fn look(descriptor: impl AsFd) -> Option<Statx> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    rustix::fs::statx(descriptor, c"", flags, StatxFlags::empty()).ok()
}

fn device(found: &Statx) -> (u32, u32) {
    (found.stx_dev_major, found.stx_dev_minor)
}

/// Descriptors that a client has sent. At the end they are closed where nobody waits for it: whoever uses some of them must have let them
/// go by then.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) descriptors: Vec<Arc<OwnedFd>>,
    closer: Closer,
}

impl Held {
    pub(super) fn new(descriptors: impl IntoIterator<Item = OwnedFd>, closer: &Closer) -> Held {
        Held { descriptors: descriptors.into_iter().map(Arc::new).collect(), closer: closer.clone() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.closer.close(std::mem::take(&mut self.descriptors));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_has_no_file_system_behind_it_is_closed_at_once() {
        let closer = Closer::new();
        let (pipe, _other) = std::io::pipe().expect("a pipe");
        let (socket, _peer) = UnixStream::pair().expect("a pair");
        let null = File::open("/dev/null").expect("it is there");
        let counter = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).expect("a counter");
        for (name, descriptor) in
            [("pipe", pipe.into()), ("socket", socket.into()), ("null", null.into()), ("counter", counter)]
        {
            let descriptor: OwnedFd = descriptor;
            assert!(closer.is_closed_at_once(&descriptor), "{name}");
        }
        let file: OwnedFd = tempfile::tempfile().expect("a file").into();
        let folder: OwnedFd = File::open("/").expect("it is there").into();
        assert!(!closer.is_closed_at_once(&file) && !closer.is_closed_at_once(&folder));
    }

    #[test]
    fn everything_is_closed_that_is_held() {
        let closer = Closer::new();
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let file = tempfile::NamedTempFile::new().expect("a file");
        let lock = || File::open(file.path()).expect("it is there");
        let locked = lock();
        locked.lock().expect("nobody else has it");
        let other = lock();
        drop(Held::new([OwnedFd::from(writer), OwnedFd::from(locked)], &closer));
        assert_eq!(reader.read(&mut [0]).expect("it can be read"), 0);
        // The lock ends with its descriptor.
        other.lock().expect("it is closed");
        assert!(!closer.is_behind());
    }
}
