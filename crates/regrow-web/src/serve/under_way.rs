//! The processes that answer requests at this moment, by their process groups, and their deadlines.
//!
//! ```text
//!  enter ──> process in its cell ── the reply ends ──────> its owner takes it from the cell
//!                 └── deadline + GRACE, though nobody reads the output ──> `take_late` takes it; the fault says why
//! ```
//!
//! A client that reads its reply slowly, or not at all, gives its process no more time. This module only keeps the books: it
//! knows no process, no clock, and ends nothing.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use crate::request_error::RequestError;
use crate::serve::fault::Fault;

/// Whoever reads the output of a process ends it at its deadline. Only when nobody does is it taken this much later.
const GRACE: Duration = Duration::from_millis(500);

/// Holds a process until its reply is complete or its time is over.
pub(crate) type ProcessCell<P> = RefCell<Option<P>>;

/// The processes that are under way. Clones are of the same list.
pub(crate) struct UnderWay<P>(Rc<RefCell<HashMap<i32, UnderWayEntry<P>>>>);

struct UnderWayEntry<P> {
    deadline: Instant,
    cell: Weak<ProcessCell<P>>,
    fault: Fault,
}

/// Keeps a process in the list as long as it lives.
pub(crate) struct UnderWayGuard<P> {
    all: UnderWay<P>,
    group: i32,
}

impl<P> Default for UnderWay<P> {
    fn default() -> Self {
        Self(Rc::default())
    }
}

impl<P> Clone for UnderWay<P> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<P> UnderWay<P> {
    /// Adds a process, which its owner puts into the cell.
    pub(crate) fn enter(
        &self,
        group: i32,
        deadline: Instant,
        cell: &Rc<ProcessCell<P>>,
        fault: &Fault,
    ) -> UnderWayGuard<P> {
        let entry = UnderWayEntry { deadline, cell: Rc::downgrade(cell), fault: fault.clone() };
        self.0.borrow_mut().insert(group, entry);
        UnderWayGuard { all: self.clone(), group }
    }

    /// The groups of all processes.
    pub(crate) fn groups(&self) -> HashSet<i32> {
        self.0.borrow().keys().copied().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Takes the processes whose deadline and grace have passed.
    pub(crate) fn take_late(&self, now: Instant) -> Vec<P> {
        self.take(|entry| entry.deadline + GRACE <= now)
    }

    /// Takes all processes.
    pub(crate) fn take_all(&self) -> Vec<P> {
        self.take(|_| true)
    }

    /// Takes some processes from their cells. A cell is empty if the owner of the process has given it up already.
    fn take(&self, which: impl Fn(&UnderWayEntry<P>) -> bool) -> Vec<P> {
        let all = self.0.borrow();
        let taken = all.values().filter(|entry| which(entry)).filter_map(|entry| {
            let process = entry.cell.upgrade()?.borrow_mut().take()?;
            entry.fault.set(RequestError::Timeout);
            Some(process)
        });
        taken.collect()
    }
}

impl<P> Drop for UnderWayGuard<P> {
    fn drop(&mut self) {
        self.all.0.borrow_mut().remove(&self.group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that is only a name.
    type Named = &'static str;

    fn entered(
        all: &UnderWay<Named>,
        group: i32,
        deadline: Instant,
    ) -> (Rc<ProcessCell<Named>>, Fault, UnderWayGuard<Named>) {
        let (cell, fault) = (Rc::new(RefCell::new(Some("process"))), Fault::default());
        let guard = all.enter(group, deadline, &cell, &fault);
        (cell, fault, guard)
    }

    #[test]
    fn a_process_is_under_way_as_long_as_its_guard() {
        let all = UnderWay::default();
        let (_cell, _fault, guard) = entered(&all, 7, Instant::now());
        assert_eq!((all.groups(), all.is_empty()), (HashSet::from([7]), false));
        drop(guard);
        assert!(all.is_empty());
    }

    #[test]
    fn a_late_process_is_taken_once_and_its_owner_is_told_why() {
        let all = UnderWay::default();
        let now = Instant::now();
        let (late, why, _late) = entered(&all, 7, now);
        let (early, no_reason, _early) = entered(&all, 8, now + GRACE);
        assert!(all.take_late(now).is_empty());
        assert_eq!(all.take_late(now + GRACE), ["process"]);
        assert!(late.borrow().is_none() && matches!(why.take(), Some(RequestError::Timeout)));
        assert!(early.borrow().is_some() && !no_reason.is_set());
        assert!(all.take_late(now + GRACE).is_empty());
        assert_eq!(all.groups(), HashSet::from([7, 8]));
    }

    #[test]
    fn a_process_that_its_owner_has_given_up_is_not_taken() {
        let all = UnderWay::default();
        let (given_up, why, _guard) = entered(&all, 7, Instant::now());
        given_up.take();
        let (gone, _fault, _other) = entered(&all, 8, Instant::now());
        drop(gone);
        let (_held, _reason, _third) = entered(&all, 9, Instant::now());
        assert_eq!(all.take_all(), ["process"]);
        assert!(!why.is_set());
    }
}
