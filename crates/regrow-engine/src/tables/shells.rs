//! The table of shells: those that wait for a run, and those that have been used and can be put back.

use std::collections::BTreeMap;

use regrow_abi::task::Task;
use regrow_body::Shell;

use crate::ids::ShellId;

/// A shell, and what its keeper inherited from the caller.
#[derive(Debug)]
pub(crate) struct ShellSlot {
    pub(crate) shell: Shell,
    pub(crate) then: Task,
}

/// The shells of a shard, of type `S`.
#[derive(Debug)]
pub(crate) struct Shells<S = ShellSlot> {
    waiting: BTreeMap<ShellId, S>,
    used: Vec<S>,
}

impl<S> Default for Shells<S> {
    fn default() -> Self {
        Shells { waiting: BTreeMap::new(), used: Vec::new() }
    }
}

impl<S> Shells<S> {
    /// Adds a shell that waits for a run.
    pub(crate) fn insert(&mut self, id: ShellId, slot: S) {
        self.waiting.insert(id, slot);
    }

    /// Takes a waiting shell out.
    pub(crate) fn remove(&mut self, id: ShellId) -> Option<S> {
        self.waiting.remove(&id)
    }

    /// A waiting shell.
    pub(crate) fn get(&self, id: ShellId) -> Option<&S> {
        self.waiting.get(&id)
    }

    /// The ids of the waiting shells, oldest first.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ShellId> {
        self.waiting.keys().copied()
    }

    /// The waiting shells.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &S> {
        self.waiting.values()
    }

    /// All shells, waiting or used.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &S> {
        self.waiting.values().chain(&self.used)
    }

    /// Keeps a shell that a run has used: it can be put back.
    pub(crate) fn push_used(&mut self, slot: S) {
        self.used.push(slot);
    }

    /// Takes a used shell out.
    pub(crate) fn pop_used(&mut self) -> Option<S> {
        self.used.pop()
    }

    /// Whether no used shell is there.
    pub(crate) fn no_used(&self) -> bool {
        self.used.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_shell_is_not_offered_to_a_run() {
        let mut shells: Shells<&str> = Shells::default();
        let id = ShellId::new(1);
        shells.insert(id, "task");
        assert_eq!((shells.ids().next(), shells.get(id)), (Some(id), Some(&"task")));
        let slot = shells.remove(id).expect("it waits");
        shells.push_used(slot);
        assert_eq!((shells.ids().next(), shells.waiting().count(), shells.iter().count()), (None, 0, 1));
        assert!(!shells.no_used());
        assert_eq!((shells.pop_used(), shells.pop_used()), (Some("task"), None));
        assert!(shells.no_used());
    }
}
