//! The pool that requests are answered from, and the pools whose place it has taken.
//!
//! ```text
//!  reload   a pool is made beside the current one ── its images are there ──> it is the current one
//!           the one before gives back what is idle ── the processes end that were under way ──> it is dropped
//! ```

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use regrow::Pool;

/// The pools of a gateway.
pub(crate) struct Pools {
    current: RefCell<Pool>,
    /// Each with the groups of the processes that were under way when another took its place.
    replaced: RefCell<Vec<(Pool, HashSet<i32>)>>,
    is_making: Cell<bool>,
}

/// As long as it lives, a pool is made whose processes nobody knows yet.
pub(crate) struct MakingGuard<'p>(&'p Cell<bool>);

impl Pools {
    pub(crate) fn new(pool: Pool) -> Self {
        Self { current: RefCell::new(pool), replaced: RefCell::default(), is_making: Cell::new(false) }
    }

    /// The pool that the next process comes from.
    pub(crate) fn current(&self) -> Pool {
        self.current.borrow().clone()
    }

    /// Says that somebody makes another pool.
    pub(crate) fn making(&self) -> MakingGuard<'_> {
        self.is_making.set(true);
        MakingGuard(&self.is_making)
    }

    /// Whether somebody makes another pool. A child of the gateway may then be one of that pool.
    pub(crate) fn is_making(&self) -> bool {
        self.is_making.get()
    }

    /// Has a pool take the place of the current one. `under_way` are the groups of the processes that may be of the current one.
    pub(crate) fn replace(&self, pool: Pool, under_way: &HashSet<i32>) {
        let old = self.current.replace(pool);
        old.clear();
        self.replaced.borrow_mut().push((old, under_way.clone()));
        self.drop_unused(under_way);
    }

    /// Drops the pools none of whose processes is under way.
    pub(crate) fn drop_unused(&self, under_way: &HashSet<i32>) {
        self.replaced.borrow_mut().retain(|(_, groups)| !groups.is_disjoint(under_way));
    }

    /// Whether a child of the gateway is one of a pool's.
    pub(crate) fn is_used(&self, process: i32) -> bool {
        self.current.borrow().is_used_by(process)
            || self.replaced.borrow().iter().any(|(pool, _)| pool.is_used_by(process))
    }
}

impl Drop for MakingGuard<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pools() -> Pools {
        Pools::new(Pool::builder().recycle(false).build())
    }

    #[test]
    fn a_pool_that_is_replaced_stays_as_long_as_a_process_of_its_time() {
        let pools = pools();
        let another = || Pool::builder().recycle(false).build();
        pools.replace(another(), &HashSet::from([7]));
        pools.drop_unused(&HashSet::from([7, 8]));
        assert_eq!(pools.replaced.borrow().len(), 1);
        pools.replace(another(), &HashSet::from([7, 8]));
        assert_eq!(pools.replaced.borrow().len(), 2);
        pools.drop_unused(&HashSet::from([8]));
        assert_eq!(pools.replaced.borrow().len(), 1);
        pools.drop_unused(&HashSet::new());
        assert!(pools.replaced.borrow().is_empty());
        pools.replace(another(), &HashSet::new());
        assert!(pools.replaced.borrow().is_empty());
    }

    #[test]
    fn a_pool_is_being_made_as_long_as_its_guard() {
        let pools = pools();
        let making = pools.making();
        assert!(pools.is_making());
        drop(making);
        assert!(!pools.is_making());
    }
}
