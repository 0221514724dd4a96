//! Where cgroups of version 2 are, and whether this process may make one.
//!
//! Two files tell: `/proc/self/mountinfo` where the hierarchy is mounted, `/proc/self/cgroup` where in it this
//! process is. In a container the mount may show only a part of the hierarchy.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::outcome::{TrialError, TrialResult, expect};

/// The place of this process in the hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct CgroupPlace {
    /// Where the hierarchy is mounted.
    pub mount: PathBuf,
    /// The directory of this process's own group; groups for bodies go below it.
    pub own: PathBuf,
}

impl CgroupPlace {
    /// Looks it up; `None` when the hierarchy is not mounted, or this process's group is not in the part that is.
    pub(super) fn find() -> Option<Self> {
        let mounts = fs::read("/proc/self/mountinfo").ok()?;
        let groups = fs::read("/proc/self/cgroup").ok()?;
        Self::from_texts(&mounts, &groups)
    }

    fn from_texts(mounts: &[u8], groups: &[u8]) -> Option<Self> {
        let group = lines(groups).find_map(|line| line.strip_prefix(b"0::"))?;
        // A process whose group was removed, or is out of sight of its namespace.
        let group = group.strip_suffix(b" (deleted)").map_or(Some(group), |_removed| None)?;
        lines(mounts).filter_map(parse_mount).find_map(|(root, mount)| {
            let below = Path::new(OsStr::from_bytes(group)).strip_prefix(&root).ok()?;
            let outside = below.components().any(|part| part == std::path::Component::ParentDir);
            let own = if below.as_os_str().is_empty() { mount.clone() } else { mount.join(below) };
            (!outside).then_some(Self { mount, own })
        })
    }
}

/// What the name of a trial's group begins with.
const TRIAL: &str = "regrow-probe-";
/// A group of this age is no trial's that is under way: a trial takes microseconds.
const LEFT_AFTER: Duration = Duration::from_secs(10);

/// Makes a group below this process's own, and removes it again.
pub(super) fn try_to_make_one(place: Option<&CgroupPlace>) -> TrialResult {
    let place = place.ok_or(TrialError::Errno(libc::ENOENT))?;
    remove_what_is_left(&place.own);
    let thread = rustix::thread::gettid().as_raw_nonzero();
    let path = place.own.join(format!("{TRIAL}{thread}"));
    fs::create_dir(&path)?;
    let processes = fs::read(path.join("cgroup.procs"));
    fs::remove_dir(&path)?;
    expect(processes?.is_empty())
}

/// Removes the groups of trials that were killed.
fn remove_what_is_left(own: &Path) {
    for entry in fs::read_dir(own).into_iter().flatten().flatten() {
        let is_trial = entry.file_name().as_bytes().starts_with(TRIAL.as_bytes());
        let made = || entry.metadata()?.modified();
        if is_trial && made().is_ok_and(|made| made.elapsed().is_ok_and(|age| age > LEFT_AFTER)) {
            // Another probe may have removed it.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n')
}

/// The root and the mount point of a line of `mountinfo` that mounts a hierarchy of version 2:
/// `36 35 0:30 /root /mount rw,relatime shared:9 - cgroup2 cgroup2 rw`.
fn parse_mount(line: &[u8]) -> Option<(PathBuf, PathBuf)> {
    let mut words = line.split(|&byte| byte == b' ');
    let (root, mount) = (words.nth(3)?, words.next()?);
    words.find(|word| *word == b"-")?;
    (words.next()? == b"cgroup2").then(|| (unescape(root), unescape(mount)))
}

/// Turns `\040` and the like back into the bytes that the kernel escapes.
fn unescape(word: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        match (first, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => out.push(first),
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &[u8] = b"\
22 1 254:0 / / rw,relatime - ext4 /dev/root rw
30 22 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 22 0:27 / /sys/fs/cgroup\\040two rw,relatime shared:9 - cgroup2 cgroup2 rw
";

    fn place(mount: &str, own: &str) -> CgroupPlace {
        CgroupPlace { mount: mount.into(), own: own.into() }
    }

    #[test]
    fn the_group_is_found_below_the_mount() {
        let groups = b"4:memory:/x\n0::/user.slice/a\n";
        let expected = place("/sys/fs/cgroup two", "/sys/fs/cgroup two/user.slice/a");
        assert_eq!(CgroupPlace::from_texts(MOUNTS, groups), Some(expected));
    }

    #[test]
    fn a_process_in_the_root_is_at_the_mount() {
        let expected = place("/sys/fs/cgroup two", "/sys/fs/cgroup two");
        assert_eq!(CgroupPlace::from_texts(MOUNTS, b"0::/\n"), Some(expected));
    }

    #[test]
    fn a_mount_of_a_part_holds_what_is_below_it() {
        let mounts = b"33 22 0:27 /docker/7 /sys/fs/cgroup ro - cgroup2 cgroup ro\n";
        let expected = place("/sys/fs/cgroup", "/sys/fs/cgroup/job");
        assert_eq!(CgroupPlace::from_texts(mounts, b"0::/docker/7/job\n"), Some(expected));
        assert_eq!(CgroupPlace::from_texts(mounts, b"0::/docker/8\n"), None);
    }

    #[test]
    fn without_a_hierarchy_or_a_group_in_it_there_is_no_place() {
        assert_eq!(CgroupPlace::from_texts(b"", b"0::/\n"), None);
        assert_eq!(CgroupPlace::from_texts(MOUNTS, b"4:memory:/x\n"), None);
        assert_eq!(CgroupPlace::from_texts(MOUNTS, b"0::/gone (deleted)\n"), None);
        assert_eq!(CgroupPlace::from_texts(MOUNTS, b"0::/../other\n"), None);
        assert_eq!(try_to_make_one(None), Err(TrialError::Errno(libc::ENOENT)));
    }
}
