//! A lock of a folder, for who names files there that others of the program name as well, each after a look at what has the name.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;

/// How long a folder may be locked by others, and how often it is looked at meanwhile. Any program can lock a folder that it can read.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The folder is this one's until it is dropped.
#[derive(Debug)]
pub struct FolderLock(OwnedFd);

impl FolderLock {
    /// Takes the lock of the folder that a path is in. Waits for others for two seconds at most.
    ///
    /// # Errors
    /// [`Errno::WOULDBLOCK`] where others have it for longer; what the kernel says where the folder cannot be read.
    pub fn take(path: &Path) -> Result<FolderLock, Errno> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let file = open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let end = Instant::now() + PATIENCE;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < end => thread::sleep(LOOK_EVERY),
                taken => return taken.map(|()| FolderLock(file)),
            }
        }
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // A forked copy of this process holds the file until it executes something.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}
