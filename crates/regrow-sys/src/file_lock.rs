//! A lock of a file or of a folder, which ends when its holder says so.
//!
//! The kernel keeps a `flock` until the last copy of the descriptor is closed, and a process that is forked has one of each until it executes
//! something. So whoever lets go unlocks, and does not only close.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;

/// How long a folder may be locked by others. Any program can lock a folder that it can read.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a lock of others is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What is locked is this one's until it is dropped.
#[derive(Debug)]
pub struct FileLock(OwnedFd);

impl FileLock {
    /// Locks a file. Waits for others as long as `patience` says.
    ///
    /// # Errors
    /// [`Errno::WOULDBLOCK`] where others have it for longer; what the kernel says where it cannot be locked.
    pub fn take(file: OwnedFd, patience: Duration) -> Result<FileLock, Errno> {
        let began = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) if began.elapsed() < patience => thread::sleep(LOOK_EVERY),
                Err(Errno::INTR) => {}
                taken => return taken.map(|()| FileLock(file)),
            }
        }
    }

    /// Locks the folder that a path is in, for who names files there that others of the program name as well, each after a look at what has
    /// the name. Waits for others for two seconds at most.
    ///
    /// # Errors
    /// As [`FileLock::take`]; what the kernel says where the folder cannot be read.
    pub fn of_folder_of(path: &Path) -> Result<FileLock, Errno> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let file = open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        FileLock::take(file, PATIENCE)
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_lock_ends_though_a_forked_copy_has_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        let file = File::create(&path).expect("it is made");
        // The descriptor of a forked copy is of the same description.
        let copy = file.try_clone().expect("a descriptor");
        let lock = FileLock::take(file.into(), Duration::ZERO).expect("it is free");
        let again = || FileLock::take(File::open(&path).expect("it is there").into(), Duration::ZERO);
        assert_eq!(again().expect_err("it is locked"), Errno::WOULDBLOCK);
        drop(lock);
        drop(again().expect("it is free again"));
        drop(copy);
    }

    #[test]
    fn a_folder_is_locked_until_the_lock_is_dropped() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("name");
        let lock = FileLock::of_folder_of(&path).expect("it is free");
        let other = || {
            let folder = File::open(folder.path()).expect("it is there");
            FileLock::take(folder.into(), Duration::ZERO)
        };
        assert_eq!(other().expect_err("it is locked"), Errno::WOULDBLOCK);
        drop(lock);
        assert!(other().is_ok());
        assert!(FileLock::of_folder_of(&folder.path().join("absent/name")).is_err());
    }
}
