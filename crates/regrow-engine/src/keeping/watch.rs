//! Notices that a file changes on disk, or that a mount puts another one in its place, without looking at it again: inotify, and the
//! kernel's word that the mounts have changed (`mounts.rs`).
//!
//! What is watched for a path is everything that decides what the path names: each symbolic link on the way (its own
//! inode: a link that is replaced is deleted), each directory (moved or deleted), and the file (written, replaced,
//! truncated, its mode changed). The kernel queues an event within the call that makes the change, so that one
//! non-blocking read before a spawn sees every change that was finished before it.
//!
//! A file that does not exist yet is watched for in its directory.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::ids::{ImageId, NameId};
use crate::keeping::mounts::{Mounts, OnMount};
use crate::way::{Step, Way};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init, remove_watch};

/// Who is told of a change: a row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Watcher {
    /// A name, which may resolve to another file.
    Name(NameId),
    /// An image, which was made of other contents.
    Image(ImageId),
}

/// A change concerns the watcher always, or only when it is of this name in the watched directory; a name that begins with `*`
/// stands for all that end so.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Interest {
    watcher: Watcher,
    name: Option<OsString>,
}

impl Interest {
    /// Whether it is in an event of this name: one without a name is of the watched file itself.
    fn is_in(&self, name: Option<&OsStr>) -> bool {
        match (self.name.as_deref().map(OsStr::as_bytes), name.map(OsStr::as_bytes)) {
            (Some([b'*', ending @ ..]), Some(name)) => name.ends_with(ending),
            (own, name) => own == name,
        }
    }
}

/// The watched files of a shard.
#[derive(Debug)]
pub struct Watch {
    inotify: OwnedFd,
    interests: HashMap<i32, HashSet<Interest>>,
    mounts: Mounts<Watcher>,
    /// The process that watches: a forked copy of it shares the inotify instance, and must not take watches from it.
    process: u32,
}

impl Watch {
    /// Starts watching nothing.
    ///
    /// # Errors
    /// As `inotify_init1(2)`: the user's limit of instances; as `open(2)` of the table of mounts.
    pub(crate) fn new(on_mount: OnMount) -> io::Result<Watch> {
        let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let mounts = Mounts::new(on_mount)?;
        Ok(Watch { inotify, interests: HashMap::new(), mounts, process: std::process::id() })
    }

    /// Tells `watcher` when what `path` names changes.
    ///
    /// # Errors
    /// When the path cannot be followed or the user's limit of watches is reached.
    pub fn add_file(&mut self, watcher: Watcher, path: &Path) -> io::Result<()> {
        let file = WatchFlags::MODIFY | WatchFlags::ATTRIB | WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
        let place = WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF | WatchFlags::ATTRIB;
        for step in Way::of(path).collect::<io::Result<Vec<Step>>>()? {
            let flags = if step.is_last { file } else { place };
            self.add(watcher, &step.place, flags | WatchFlags::DONT_FOLLOW, None)?;
        }
        Ok(())
    }

    /// Tells `watcher` when a file of this path appears, where its last component begins with `*` any that ends so. Does nothing
    /// where not even its directory exists.
    ///
    /// # Errors
    /// When the user's limit of watches is reached.
    pub fn add_absent(&mut self, watcher: Watcher, path: &Path) -> io::Result<()> {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        let appears = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        match self.add(watcher, directory, appears, Some(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => match directory.parent() {
                // The directory itself may appear first.
                Some(_) => self.add_absent(watcher, directory),
                None => Ok(()),
            },
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(()),
            other => other,
        }
    }

    /// Tells `watcher` when one of these files changes, or one appears at one of the names in `absent`.
    ///
    /// # Errors
    /// As [`Watch::add_file`] and [`Watch::add_absent`]: the earlier ones stay watched.
    pub fn add_all(&mut self, watcher: Watcher, files: &[PathBuf], absent: &[PathBuf]) -> io::Result<()> {
        files.iter().chain(absent).for_each(|path| self.mounts.add(watcher, path, way));
        files.iter().try_for_each(|file| self.add_file(watcher, file))?;
        absent.iter().try_for_each(|file| self.add_absent(watcher, file))
    }

    fn add(
        &mut self,
        watcher: Watcher,
        path: &Path,
        flags: WatchFlags,
        name: Option<&OsStr>,
    ) -> io::Result<()> {
        let watch = add_watch(&self.inotify, path, flags | WatchFlags::MASK_ADD)?;
        let interest = Interest { watcher, name: name.map(OsStr::to_owned) };
        self.interests.entry(watch).or_default().insert(interest);
        Ok(())
    }

    /// Watches nothing for this one any more.
    pub fn remove(&mut self, watcher: Watcher) {
        self.remove_all(&HashSet::from([watcher]));
    }

    /// Watches nothing for anybody any more.
    pub fn clear(&mut self) {
        let all = self.interests.values().flatten().map(|interest| interest.watcher).collect();
        self.remove_all(&all);
        self.mounts.reopen();
    }

    /// Watches nothing for several of them any more.
    pub fn remove_all(&mut self, watchers: &HashSet<Watcher>) {
        if std::process::id() != self.process {
            return;
        }
        self.mounts.remove_all(watchers);
        let inotify = &self.inotify;
        self.interests.retain(|&watch, interests| {
            interests.retain(|interest| !watchers.contains(&interest.watcher));
            if interests.is_empty() {
                let _ = remove_watch(inotify, watch);
            }
            !interests.is_empty()
        });
    }

    /// What is readable when there is an event that nobody has read.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// Those whose files changed since the last call. One system call when nothing did.
    pub fn changed(&mut self) -> HashSet<Watcher> {
        self.changed_after(|| ())
    }

    /// The same; something is done before what has happened is read, if something has.
    pub(crate) fn changed_after(&mut self, before: impl FnOnce()) -> HashSet<Watcher> {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let table = self.mounts.table();
        let mut ready = [PollFd::new(&self.inotify, PollFlags::IN), PollFd::new(&table, PollFlags::PRI)];
        let polled = rustix::io::retry_on_intr(|| poll(&mut ready, Some(&at_once)));
        let [files, mounts] = ready.map(|one| polled.is_err() || !one.revents().is_empty());
        if files || mounts {
            before();
        }
        let mut watchers = if files { self.changed_files() } else { HashSet::new() };
        if mounts {
            self.mounts.note_change();
        }
        watchers.extend(self.mounts.changed());
        watchers
    }

    /// The mounts.
    pub(crate) fn mounts(&mut self) -> &mut Mounts<Watcher> {
        &mut self.mounts
    }

    fn changed_files(&self) -> HashSet<Watcher> {
        let mut watchers = HashSet::new();
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        while let Ok(event) = reader.next() {
            let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_owned());
            if event.events().contains(rustix::fs::inotify::ReadFlags::QUEUE_OVERFLOW) {
                watchers.extend(self.interests.values().flatten().map(|interest| interest.watcher));
                continue;
            }
            let interests = self.interests.get(&event.wd()).into_iter().flatten();
            // What happens to other entries of a directory on the way is no change.
            let concerned = interests.filter(|interest| interest.is_in(name.as_deref()));
            watchers.extend(concerned.map(|interest| interest.watcher));
        }
        watchers
    }
}

/// The places on the way of a path that may name nothing, as far as something is there.
fn way(path: &Path) -> Vec<PathBuf> {
    // Nothing is mounted where nothing is.
    Way::of(path).map_while(Result::ok).map(|step| step.place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn image(number: u64) -> Watcher {
        Watcher::Image(ImageId::new(number))
    }

    fn watched(path: &Path) -> Watch {
        let mut watch = Watch::new(OnMount::LookUp).expect("an inotify instance");
        watch.add_file(image(7), path).expect("the path exists");
        assert!(watch.changed().is_empty());
        watch
    }

    #[test]
    fn every_way_to_change_a_file_is_noticed() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("real/prog");
        fs::create_dir(dir.path().join("real")).expect("made");
        symlink("real", dir.path().join("link")).expect("made");
        let path = dir.path().join("link/prog");
        let other = dir.path().join("other");
        type Change<'a> = &'a dyn Fn();
        let changes: &[(&str, Change<'_>)] = &[
            ("written in place", &|| fs::write(&file, "b").expect("written")),
            ("replaced", &|| {
                fs::write(&other, "c").expect("written");
                fs::rename(&other, &file).expect("renamed");
            }),
            ("mode", &|| fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("changed")),
            ("deleted", &|| fs::remove_file(&file).expect("deleted")),
            ("a link on the way", &|| {
                fs::remove_file(dir.path().join("link")).expect("deleted");
                symlink("real", dir.path().join("link")).expect("made");
            }),
            ("a directory on the way", &|| {
                fs::rename(dir.path().join("real"), dir.path().join("moved")).expect("moved");
                fs::rename(dir.path().join("moved"), dir.path().join("real")).expect("moved");
            }),
        ];
        for (what, change) in changes {
            fs::write(&file, "a").expect("written");
            let mut watch = watched(&path);
            change();
            assert_eq!(watch.changed(), HashSet::from([image(7)]), "{what}");
        }
    }

    #[test]
    fn a_file_that_appears_is_noticed_and_others_are_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut watch = Watch::new(OnMount::LookUp).expect("an inotify instance");
        watch.add_absent(image(3), &dir.path().join("tool")).expect("watched");
        watch.add_absent(image(4), &dir.path().join("sub/dir/tool")).expect("watched");
        watch.add_absent(image(6), &dir.path().join("*.pth")).expect("watched");
        watch.add_file(image(5), &dir.path().join("noise")).expect_err("it is not there");
        watch.add_file(image(5), dir.path()).expect("watched");
        let noise = dir.path().join("noise");
        fs::write(&noise, "").expect("written");
        fs::set_permissions(&noise, fs::Permissions::from_mode(0o600)).expect("changed");
        assert!(watch.changed().is_empty());
        fs::write(dir.path().join("tool"), "").expect("written");
        assert_eq!(watch.changed(), HashSet::from([image(3)]));
        fs::write(dir.path().join("extra.pth"), "").expect("written");
        assert_eq!(watch.changed(), HashSet::from([image(6)]));
        fs::create_dir(dir.path().join("sub")).expect("made");
        assert_eq!(watch.changed(), HashSet::from([image(4)]));
    }

    #[test]
    fn a_forgotten_watcher_is_told_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("prog");
        fs::write(&file, "a").expect("written");
        let mut watch = watched(&file);
        watch.add_file(image(8), &file).expect("watched");
        watch.remove(image(7));
        fs::write(&file, "b").expect("written");
        assert_eq!(watch.changed(), HashSet::from([image(8)]));
    }
}
