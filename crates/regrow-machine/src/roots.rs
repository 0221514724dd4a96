//! The processes that are there: one, and all below it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The numbers of a process and of all below it; empty when it is not there.
pub(crate) fn family(pid: u32) -> BTreeSet<u32> {
    below(pid, &parents())
}

/// Each process with its parent, as far as they are there while the list is read.
fn parents() -> BTreeMap<u32, u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let with_parent = |pid: u32| Some((pid, parent(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?));
    processes.filter_map(with_parent).collect()
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
    fn the_calling_process_is_in_its_own_family() {
        assert!(family(std::process::id()).contains(&std::process::id()));
        assert!(family(u32::MAX).is_empty());
    }
}
