//! The processes that are there: one, and all below it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The numbers of a process and of all below it; empty when it is not there.
pub(crate) fn family(pid: u32) -> BTreeSet<u32> {
    let mut parents = parents();
    // A list of a folder that changes may leave one out: whether it is there, its own file says.
    parents.extend(parent_of(pid).map(|parent| (pid, parent)));
    below(pid, &parents)
}

/// Each process with its parent, as far as they are there while the list is read.
fn parents() -> BTreeMap<u32, u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter_map(|pid: u32| Some((pid, parent_of(pid)?))).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    // The name of a process need not be text.
    parent(&String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
}

/// The parent, in the text of `/proc/PID/stat`: behind the name, which may hold anything, and the state.
fn parent(stat: &str) -> Option<u32> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_whitespace().nth(1)?.parse().ok()
}

fn below(pid: u32, parents: &BTreeMap<u32, u32>) -> BTreeSet<u32> {
    let mut family = BTreeSet::new();
    if !parents.contains_key(&pid) {
        return family;
    }
    let mut found = vec![pid];
    while let Some(pid) = found.pop() {
        if family.insert(pid) {
            found.extend(parents.iter().filter(|(_, parent)| **parent == pid).map(|(child, _)| *child));
        }
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_all_below_a_process() {
        let parents = BTreeMap::from([(1, 0), (10, 1), (11, 10), (12, 11), (20, 1), (30, 30)]);
        assert_eq!(below(10, &parents), BTreeSet::from([10, 11, 12]));
        assert_eq!(below(30, &parents), BTreeSet::from([30]), "a circle ends");
        assert!(below(99, &parents).is_empty());
    }

    #[test]
    fn a_name_with_brackets_is_no_parent() {
        assert_eq!(parent("7 (a) 5 S 9) R 4 7 7"), Some(4));
        assert_eq!(parent("7 (a"), None);
    }

    #[test]
    fn a_process_whose_name_is_no_text_is_there() {
        use std::os::unix::ffi::OsStrExt;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let mut child = std::process::Command::new(&program).arg("60").spawn().unwrap();
        let found = (family(child.id()), family(std::process::id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.0.contains(&child.id()) && found.1.contains(&child.id()), "{found:?}");
    }

    #[test]
    fn the_calling_process_is_in_its_own_family() {
        assert!(family(std::process::id()).contains(&std::process::id()));
        assert!(family(u32::MAX).is_empty());
    }
}
