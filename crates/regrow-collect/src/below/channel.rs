//! The file that a collection shares with the processes below a command, in memory: a folder of the user's alone has it.
//!
//! A collector that is killed leaves its folder. It has the file locked while it lives, so that a later one sees which folders are nobody's, and
//! removes them.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use regrow_abi::sites::{CHANNEL_BYTES, Channel};
use regrow_sys::raw::SharedMapping;
use rustix::fs::{Access, FlockOperation, access, flock};
use rustix::process::geteuid;
use tempfile::TempDir;

use super::error::BelowError;

/// Where files stand in memory.
const IN_MEMORY: &str = "/dev/shm";
const PREFIX: &str = "regrow-sites-";
const FILE: &str = "channel";

/// The file; see the module.
#[derive(Debug)]
pub(super) struct ChannelFile {
    path: PathBuf,
    mapping: SharedMapping,
    /// Holds the lock.
    _file: File,
    /// Removed with the value.
    _folder: TempDir,
}

impl ChannelFile {
    /// Makes a channel that nobody reads as yet.
    pub(super) fn create() -> Result<ChannelFile, BelowError> {
        let in_memory = PathBuf::from(IN_MEMORY);
        let is_writable = access(&in_memory, Access::WRITE_OK | Access::EXEC_OK).is_ok();
        ChannelFile::create_in(&if is_writable { in_memory } else { std::env::temp_dir() })
    }

    fn create_in(parent: &Path) -> Result<ChannelFile, BelowError> {
        remove_left(parent);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| BelowError::Channel { path, source }
        };
        let own = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix(PREFIX).permissions(own).tempdir_in(parent);
        let folder = folder.map_err(failed(parent))?;
        let path = folder.path().join(FILE);
        let create = || -> io::Result<(File, SharedMapping)> {
            let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            file.set_len(CHANNEL_BYTES as u64)?;
            let mapping = SharedMapping::new(file.as_fd(), CHANNEL_BYTES)?;
            Ok((file, mapping))
        };
        let (file, mapping) = create().map_err(failed(&path))?;
        let _ = Channel::create(mapping.words());
        Ok(ChannelFile { path, mapping, _file: file, _folder: folder })
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What is in it; `None` where a process has destroyed its mark.
    pub(super) fn channel(&self) -> Option<Channel<'_>> {
        Channel::open(self.mapping.words())
    }
}

/// Removes the folders of this user's collectors that are no more.
fn remove_left(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_named_so = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        if is_named_so && is_left(&entry.path()) {
            // Somebody else may remove it as well.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether a folder is this user's, and nobody has its file locked. A folder without a file may be about to get one.
fn is_left(folder: &Path) -> bool {
    let is_own = |metadata: std::fs::Metadata| metadata.is_dir() && metadata.uid() == geteuid().as_raw();
    let file = || File::open(folder.join(FILE)).ok();
    folder.symlink_metadata().is_ok_and(is_own)
        && file().is_some_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_with_its_collector_or_by_a_later_one() {
        let parent = tempfile::tempdir().expect("a folder");
        let names = || std::fs::read_dir(parent.path()).expect("it is there").count();
        let first = ChannelFile::create_in(parent.path()).expect("it is made");
        assert_eq!(first.path().metadata().expect("a file").mode() & 0o777, 0o600);
        assert_eq!(first.path().parent().expect("a folder").metadata().expect("it").mode() & 0o777, 0o700);
        let second = ChannelFile::create_in(parent.path()).expect("it is made");
        assert_eq!(names(), 2, "each has its own");
        drop(second);
        assert_eq!(names(), 1);
        // As if it was killed: its lock is gone, and its folder is there.
        let ChannelFile { _file, _folder, mapping, path } = first;
        drop((_file, mapping, path));
        let left = _folder.keep();
        let third = ChannelFile::create_in(parent.path()).expect("it is made");
        assert!(!left.exists() && third.path().exists() && names() == 1);
        assert!(third.channel().is_some_and(|channel| !channel.is_collecting()));
    }

    #[test]
    fn a_folder_of_another_kind_is_left_alone() {
        let parent = tempfile::tempdir().expect("a folder");
        let other = parent.path().join("regrow-sites-of-mine");
        std::fs::create_dir(&other).expect("it is made");
        std::fs::write(parent.path().join("regrow-sites-file"), "text").expect("it is written");
        let made = ChannelFile::create_in(parent.path()).expect("it is made");
        assert!(other.exists() && parent.path().join("regrow-sites-file").exists() && made.path().exists());
        let nowhere = ChannelFile::create_in(&parent.path().join("none")).expect_err("there is no folder");
        assert!(nowhere.to_string().contains("none"), "{nowhere}");
    }
}
