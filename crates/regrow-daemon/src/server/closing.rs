//! Closes the descriptors that clients send, where the loop does not wait for them.
//!
//! To close a file is a call to its file system (`flush`), which FUSE and NFS answer when they like. Pipes, sockets, terminals and the
//! like have no such call, nor have files on a disk of this machine: these are closed at once, all others on threads.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, MemfdFlags, Statx, StatxFlags};

use super::workers::Workers;

/// Most threads that close something.
const THREADS: usize = 16;
/// With more that are not closed as yet, no further client is served.
const MOST_OPEN: usize = 1024;
/// Most disks that are known.
const MOST_DISKS: usize = 16;
/// How long what a thread has seen of a disk holds: another file system can be mounted from it.
const VALID: Duration = Duration::from_secs(1);

/// Closes descriptors.
#[derive(Debug, Clone)]
pub(super) struct Closer {
    workers: Workers,
    /// Those that are handed over and not closed as yet.
    open: Arc<AtomicUsize>,
    /// The file systems of what has no path: event counters, descriptors of processes and the like; memory files.
    pathless: Vec<Device>,
    /// The disks on which no process has a file system, and when that was seen.
    disks: Arc<Mutex<Vec<(Device, Instant)>>>,
}

/// Major and minor number of a file system's device.
type Device = (u32, u32);

impl Closer {
    pub(super) fn new() -> Closer {
        let counter = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).ok();
        let memory = rustix::fs::memfd_create("regrow-device", MemfdFlags::CLOEXEC).ok();
        let pathless = [counter, memory].into_iter().flatten().filter_map(look).map(|found| device(&found));
        Closer {
            workers: Workers::new(THREADS, usize::MAX),
            open: Arc::default(),
            pathless: pathless.collect(),
            disks: Arc::default(),
        }
    }

    /// Closes descriptors that nobody else in this process has.
    pub(super) fn close(&self, descriptors: Vec<Arc<OwnedFd>>) {
        let slow: Vec<_> =
            descriptors.into_iter().filter(|descriptor| !self.is_closed_at_once(descriptor)).collect();
        if !slow.is_empty() {
            let count = slow.len();
            let disks = Arc::clone(&self.disks);
            self.hand_over(count, move || {
                slow.iter().for_each(|descriptor| note_disk(descriptor, &disks));
                drop(slow);
            });
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
            _ => self.pathless.contains(&device(&found)) || self.is_on_disk(&found),
        }
    }

    /// Whether a file lies on a disk that a thread has looked at lately.
    fn is_on_disk(&self, found: &Statx) -> bool {
        let disks = self.disks.lock().unwrap_or_else(PoisonError::into_inner);
        disks.iter().any(|(disk, seen)| *disk == device(found) && seen.elapsed() < VALID)
    }
}

/// Notes that no process has the file system of a descriptor, if it lies on a disk and that is so. Takes as long as the file system wants.
///
/// Only disks have numbers that nobody without privileges can have given to another file system meanwhile: FUSE, NFS, and all that has no disk, share
/// the major number 0.
fn note_disk(descriptor: &OwnedFd, disks: &Mutex<Vec<(Device, Instant)>>) {
    /// Also where it has a disk.
    const FUSE: rustix::fs::FsWord = 0x6573_5546;
    let Some(found) = look(descriptor).filter(|found| found.stx_dev_major != 0) else { return };
    if rustix::fs::fstatfs(descriptor).is_ok_and(|answer| answer.f_type != FUSE) {
        let mut disks = disks.lock().unwrap_or_else(PoisonError::into_inner);
        disks.retain(|(disk, seen)| *disk != device(&found) && seen.elapsed() < VALID);
        disks.truncate(MOST_DISKS - 1);
        disks.push((device(&found), Instant::now()));
    }
}

/// What is known of a file without asking its file system.
fn look(descriptor: impl AsFd) -> Option<Statx> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    rustix::fs::statx(descriptor, c"", flags, StatxFlags::empty()).ok()
}

fn device(found: &Statx) -> Device {
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
        let memory = rustix::fs::memfd_create("memory", MemfdFlags::CLOEXEC).expect("memory");
        assert!(closer.is_closed_at_once(&memory));
        let file: OwnedFd = tempfile::tempfile().expect("a file").into();
        let folder: OwnedFd = File::open("/proc").expect("it is there").into();
        assert!(!closer.is_closed_at_once(&file) && !closer.is_closed_at_once(&folder));
    }

    #[test]
    fn a_file_on_a_disk_is_closed_at_once_when_a_thread_has_looked_at_the_disk() {
        let closer = Closer::new();
        let file: OwnedFd = File::open(std::env::current_exe().expect("a path")).expect("it is there").into();
        let has_disk = look(&file).expect("it is a file").stx_dev_major != 0;
        assert!(!closer.is_closed_at_once(&file));
        note_disk(&file, &closer.disks);
        assert_eq!(closer.is_closed_at_once(&file), has_disk, "this program's file has a disk: {has_disk}");
        // What nobody has looked at for a while may be another file system.
        closer.disks.lock().expect("no panic").iter_mut().for_each(|(_, seen)| *seen -= VALID);
        assert!(!closer.is_closed_at_once(&file));
        // The file systems without a disk are never noted.
        let other: OwnedFd = File::open("/proc/self/stat").expect("it is there").into();
        note_disk(&other, &closer.disks);
        assert!(!closer.is_closed_at_once(&other));
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
