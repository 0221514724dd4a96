//! Notices that a mount changes which file a path names: no event of inotify tells of one.
//!
//! The kernel makes `/proc/self/mountinfo` ready to `poll` within each call that mounts, unmounts or remounts. Then every path that
//! somebody depends on is looked up again, and whoever depends on one that names another file, or that may be executed no more, is told.
//! Who must not wait for what was mounted looks nothing up: whoever depends on a path that leads over a changed mount point is told.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::hash::Hash;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::StatVfsMountFlags;

/// What a path names: device and inode, and how it is mounted. `None`: nothing.
type Place = Option<(u64, u64, StatVfsMountFlags)>;

/// What is done for a path when the mounts have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnMount {
    /// It is looked up.
    LookUp,
    /// It has changed when a changed mount point is on its way.
    TakeAsChanged,
}

/// A path, when it was looked up last.
#[derive(Debug)]
struct Depended<W> {
    place: Place,
    /// Every directory, link and file on its way, where it is not looked up again.
    way: Vec<PathBuf>,
    watchers: HashSet<W>,
}

/// The mounts of this process, and the paths that somebody of type `W` depends on.
#[derive(Debug)]
pub(crate) struct Mounts<W> {
    table: File,
    on_mount: OnMount,
    /// The mounts when they were last looked at.
    seen: Arc<str>,
    /// They have changed since the paths were looked up.
    is_untold: bool,
    /// The mounts when somebody was last told.
    told: Arc<str>,
    paths: HashMap<PathBuf, Depended<W>>,
}

impl<W: Copy + Eq + Hash> Mounts<W> {
    /// Nobody depends on anything.
    ///
    /// # Errors
    /// As `open(2)` of `/proc/self/mountinfo`.
    pub(crate) fn new(on_mount: OnMount) -> io::Result<Mounts<W>> {
        let (table, seen) = (table()?, read());
        let told = Arc::clone(&seen);
        Ok(Mounts { table, on_mount, seen, is_untold: false, told, paths: HashMap::new() })
    }

    /// Has `watcher` depend on what a path names, or on that it names nothing. `way` gives the directories, links and files on its way.
    pub(crate) fn add(&mut self, watcher: W, path: &Path, way: fn(&Path) -> Vec<PathBuf>) {
        // Of all names that end so it is the directory that can become another one.
        let is_pattern = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"*"));
        let path = if is_pattern { path.parent().unwrap_or(path) } else { path };
        match self.paths.get_mut(path) {
            Some(depended) => {
                depended.watchers.insert(watcher);
            }
            None => {
                let (place, way) = match self.on_mount {
                    OnMount::LookUp => (place(path), Vec::new()),
                    OnMount::TakeAsChanged => (None, way(path)),
                };
                let watchers = HashSet::from([watcher]);
                self.paths.insert(path.to_owned(), Depended { place, way, watchers });
            }
        }
    }

    /// Has several of them depend on nothing.
    pub(crate) fn remove_all(&mut self, gone: &HashSet<W>) {
        self.paths.retain(|_, Depended { watchers, .. }| {
            watchers.retain(|watcher| !gone.contains(watcher));
            !watchers.is_empty()
        });
    }

    /// Looks at the mounts of the namespace in which this process is, which may be another one than before.
    pub(crate) fn reopen(&mut self) {
        if let Ok(table) = table() {
            self.table = table;
        }
        self.note_change();
    }

    /// What is ready to `poll` when the mounts have changed: with `PRI`, until it is asked.
    pub(crate) fn table(&self) -> BorrowedFd<'_> {
        self.table.as_fd()
    }

    /// Notes that the table was ready.
    pub(crate) fn note_change(&mut self) {
        self.seen = read();
        self.is_untold = true;
    }

    /// The mounts when they were last looked at, for [`Mounts::is_same_since`].
    pub(crate) fn seen(&self) -> Arc<str> {
        Arc::clone(&self.seen)
    }

    /// Whether no mount has changed above any of these files, from when the mounts were seen so up to this moment.
    pub(crate) fn is_same_since(&mut self, then: &str, files: &[PathBuf]) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut ready = [PollFd::new(&self.table, PollFlags::PRI)];
        if rustix::io::retry_on_intr(|| poll(&mut ready, Some(&at_once))) != Ok(0) {
            self.note_change();
        }
        if *self.seen == *then {
            return true;
        }
        let points = changed_points(then, &self.seen);
        let is_below = |path: &Path| points.iter().any(|point| path.starts_with(point));
        !files.iter().any(|file| is_below(file) || file.canonicalize().map_or(true, |real| is_below(&real)))
    }

    /// After a change of the mounts: those of whose paths one names something else.
    pub(crate) fn changed(&mut self) -> HashSet<W> {
        let mut changed = HashSet::new();
        if !std::mem::take(&mut self.is_untold) {
            return changed;
        }
        let before = std::mem::replace(&mut self.told, Arc::clone(&self.seen));
        let points = match self.on_mount {
            OnMount::LookUp => Vec::new(),
            OnMount::TakeAsChanged => changed_points(&before, &self.seen),
        };
        for (path, depended) in &mut self.paths {
            let is_changed = match self.on_mount {
                OnMount::LookUp => {
                    let before = std::mem::replace(&mut depended.place, place(path));
                    before != depended.place
                }
                OnMount::TakeAsChanged => points.iter().any(|point| depended.leads_over(point)),
            };
            if is_changed {
                changed.extend(depended.watchers.iter().copied());
            }
        }
        changed
    }
}

impl<W> Depended<W> {
    /// Whether what is mounted there decides what the path names.
    fn leads_over(&self, point: &Path) -> bool {
        point == Path::new("/") || self.way.iter().any(|place| place == point)
    }
}

/// The mount points of the lines that only one of two tables has.
fn changed_points<'a>(one: &'a str, other: &'a str) -> Vec<PathBuf> {
    let lines = |text: &'a str| text.lines().collect::<HashSet<&str>>();
    lines(one).symmetric_difference(&lines(other)).filter_map(|line| mount_point(line)).collect()
}

/// The mount point of a line, in which the kernel writes blanks and backslashes as octal numbers.
fn mount_point(line: &str) -> Option<PathBuf> {
    const FIELD: usize = 4;
    let text = line.split(' ').nth(FIELD)?.as_bytes();
    let mut point = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let octal = after.get(..3).filter(|_| *first == b'\\');
        let code = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        point.push(code.unwrap_or(*first));
        rest = if code.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    Some(PathBuf::from(OsString::from_vec(point)))
}

fn read() -> Arc<str> {
    // Bytes of a name that are no text differ in the same way in each reading.
    String::from_utf8_lossy(&std::fs::read("/proc/self/mountinfo").unwrap_or_default()).into()
}

fn table() -> io::Result<File> {
    File::open("/proc/self/mountinfo")
}

fn place(path: &Path) -> Place {
    let found = path.metadata().ok()?;
    let mounted = rustix::fs::statvfs(path).map_or(StatVfsMountFlags::empty(), |mounted| mounted.f_flag);
    Some((found.dev(), found.ino(), mounted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn changed(mounts: &mut Mounts<i32>) -> HashSet<i32> {
        mounts.note_change();
        mounts.changed()
    }

    /// A way that nobody looks at.
    fn no_way(_: &Path) -> Vec<PathBuf> {
        Vec::new()
    }

    #[test]
    fn nobody_is_told_without_a_change_of_the_mounts() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        let mut mounts = Mounts::new(OnMount::LookUp).expect("a table of mounts");
        mounts.add(1, &file, no_way);
        fs::write(&file, "").expect("written");
        assert_eq!(mounts.changed(), HashSet::new());
        mounts.reopen();
        assert_eq!(mounts.changed(), HashSet::from([1]));
    }

    #[test]
    fn a_mount_concerns_the_files_below_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let real = dir.path().canonicalize().expect("its name");
        let file = real.join("file");
        let link = real.join("link");
        fs::write(&file, "").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        let mut mounts = Mounts::<i32>::new(OnMount::LookUp).expect("a table of mounts");
        let now = mounts.seen();
        assert!(mounts.is_same_since(&now, &[file.clone(), real.join("absent")]));
        let over = |place: &Path| format!("{now}9 1 0:1 / {} rw - tmpfs none rw\n", place.display());
        for changed in [&file, &real] {
            assert!(!mounts.is_same_since(&over(changed), &[PathBuf::from("/"), link.clone()]));
        }
        assert!(mounts.is_same_since(&over(&real.join("other")), &[file, link]));
    }

    #[test]
    fn who_must_not_wait_is_told_of_every_mount_on_the_way_and_looks_nothing_up() {
        let mut mounts = Mounts::new(OnMount::TakeAsChanged).expect("a table of mounts");
        // Were a path looked up, it would name nothing before and after.
        mounts.add(1, Path::new("/no/link"), |_| {
            ["/no", "/no/link", "/other/file"].map(PathBuf::from).to_vec()
        });
        mounts.add(2, Path::new("/no/thing"), |_| vec![PathBuf::from("/no")]);
        let now = mounts.seen();
        let mut mounted = |place: &str| {
            mounts.seen = format!("{now}9 1 0:1 / {place} rw - fuse none rw\n").into();
            mounts.is_untold = true;
            let told = mounts.changed();
            mounts.told = Arc::clone(&now);
            assert_eq!(mounts.changed(), HashSet::new(), "it was told");
            told
        };
        assert_eq!(mounted("/no"), HashSet::from([1, 2]));
        assert_eq!(mounted("/"), HashSet::from([1, 2]));
        assert_eq!(mounted("/other/file"), HashSet::from([1]));
        assert_eq!(mounted("/other"), HashSet::new(), "it is not on the way that was found");
        assert_eq!(mounted("/no/thing/else"), HashSet::new());
    }

    #[test]
    fn a_mount_point_is_read_back_as_it_is() {
        let point = |name: &str| mount_point(&format!("36 35 98:0 / {name} rw,noatime - ext3 /dev/root rw"));
        assert_eq!(point("/mnt"), Some(PathBuf::from("/mnt")));
        assert_eq!(point(r"/a\040b\134c\"), Some(PathBuf::from("/a b\\c\\")));
        assert_eq!(mount_point("36 35"), None);
        assert_eq!(changed_points("a b c d /x\na b c d /y\n", "a b c d /y\n"), [PathBuf::from("/x")]);
    }

    #[test]
    fn only_who_depends_on_a_path_that_names_something_else_is_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let (one, other, absent) =
            (dir.path().join("one"), dir.path().join("other"), dir.path().join("absent"));
        fs::write(&one, "").expect("written");
        fs::write(&other, "").expect("written");
        let mut mounts = Mounts::new(OnMount::LookUp).expect("a table of mounts");
        mounts.add(1, &one, no_way);
        mounts.add(2, &other, no_way);
        mounts.add(3, &absent, no_way);
        mounts.add(4, &dir.path().join("*.pth"), no_way);
        mounts.add(5, &one, no_way);
        assert_eq!(changed(&mut mounts), HashSet::new());
        // A rename does to the name what a mount does.
        fs::rename(&other, &one).expect("renamed");
        assert_eq!(changed(&mut mounts), HashSet::from([1, 2, 5]));
        assert_eq!(changed(&mut mounts), HashSet::new(), "it was told");
        fs::write(&absent, "").expect("written");
        mounts.remove_all(&HashSet::from([5]));
        assert_eq!(changed(&mut mounts), HashSet::from([3]));
        let kept = dir.path().with_extension("kept");
        fs::rename(dir.path(), &kept).expect("renamed");
        fs::create_dir(dir.path()).expect("made");
        assert_eq!(changed(&mut mounts), HashSet::from([1, 3, 4]), "2 had lost its file before");
        fs::remove_dir_all(kept).expect("removed");
    }
}
