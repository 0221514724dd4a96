//! The registry of keepers: which processes of the caller keep a body of a pool, wherever that body is: in a table, lent, being
//! made or being dropped.
//!
//! Each pool has a registry of its own. A forked copy of the caller makes its own pool, with an empty registry, so that it never
//! waits for a lock that a thread of the other process holds.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use regrow_sys::raw;

/// The keepers of a pool. Clones are the same registry.
#[derive(Clone, Debug, Default)]
pub struct Keepers(Arc<Mutex<BTreeSet<i32>>>);

impl Keepers {
    /// Whether a process is the keeper of a body, or uses its memory, as far as the kernel tells.
    #[must_use]
    pub fn is_of_a_body(&self, pid: i32) -> bool {
        let keepers = self.lock();
        keepers.contains(&pid) || keepers.iter().any(|&keeper| raw::share_memory(keeper, pid) == Some(true))
    }

    pub(crate) fn insert(&self, keeper: i32) {
        self.lock().insert(keeper);
    }

    pub(crate) fn remove(&self, keeper: i32) {
        self.lock().remove(&keeper);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<i32>> {
        // A set of numbers is whole wherever somebody has panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keeper_is_known_to_all_clones_until_it_is_removed() {
        let keepers = Keepers::default();
        let clone = keepers.clone();
        // A number that no process has.
        keepers.insert(i32::MAX);
        assert!(clone.is_of_a_body(i32::MAX));
        assert!(!Keepers::default().is_of_a_body(i32::MAX), "another pool's");
        clone.remove(i32::MAX);
        assert!(!keepers.is_of_a_body(i32::MAX));
    }

    #[test]
    fn a_process_that_shares_a_keepers_memory_is_of_its_body() {
        let keepers = Keepers::default();
        let own = std::process::id().cast_signed();
        assert!(!keepers.is_of_a_body(own));
        keepers.insert(own);
        assert!(keepers.is_of_a_body(own) && !keepers.is_of_a_body(1));
    }
}
