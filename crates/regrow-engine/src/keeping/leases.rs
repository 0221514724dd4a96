//! Bodies that are lent to clients of the daemon: which leases hold, and what there is of each.
//!
//! ```text
//!   files change ──> every lease busy ──events read, images dropped──> holds where its body's row is there; else revoked for good
//! ```
//!
//! A client starts runs by itself as long as its lease holds and no event waits to be read. So it never starts one of a file that has changed.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use regrow_abi::task::Task;
use regrow_body::lease::{LeasePage, LeaseRecord};
use regrow_body::{Body, Layout, LeaseEnd, Lent};
use regrow_sys::strings::Strings;

use crate::ids::BodyId;
use crate::run::creation::Creation;

/// Most leases at a time.
const MOST: usize = 64;

/// A body that is lent. Whoever has it ends the lease by the controller.
#[derive(Debug)]
pub struct Lease {
    pub(crate) id: BodyId,
    pub(crate) body: Box<Body>,
    pub(crate) page: Arc<LeasePage>,
    /// How many records were taken from the page.
    pub(crate) taken: u64,
    /// The program, as the client named it.
    pub(crate) program: CString,
    /// Where the runs are asked for, if that is known.
    pub(crate) site: Option<u64>,
    /// How its runs are created.
    pub(crate) creation: Creation,
}

impl Lease {
    /// What the client has run since the last time.
    pub fn take_records(&mut self) -> Vec<LeaseRecord> {
        self.page.take_records(&mut self.taken)
    }

    /// The process that the client says is under way; zero for none.
    #[must_use]
    pub fn current(&self) -> i32 {
        self.page.current()
    }

    /// See [`Body::end_lease`].
    #[must_use]
    pub fn end(&self, how: LeaseEnd, is_others: impl Fn(i32) -> bool) -> Vec<i32> {
        self.page.conclude(false);
        self.body.end_lease(how, || self.page.current(), is_others)
    }
}

/// What a client is given.
#[derive(Debug)]
pub struct Grant {
    /// The body.
    pub lent: Lent,
    /// The page.
    pub page: OwnedFd,
    /// What is readable when a file has changed that somebody depends on.
    pub watch: OwnedFd,
    /// How orders are laid out.
    pub layout: Layout,
    /// The arguments that come before the request's own, `argv[0]` first.
    pub first_args: Strings,
    /// The path given to exec, where it is not the image's.
    pub exec_path: Option<CString>,
    /// What a run is told to be.
    pub task: Task,
    /// The times of runs are noted.
    pub timed: bool,
}

/// The leases that hold, by their bodies.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    holding: BTreeMap<BodyId, (Arc<LeasePage>, u64)>,
}

impl Leases {
    /// Whether one more body of so many bytes can be lent.
    pub(crate) fn has_room(&self, bytes: u64, budget_bytes: u64) -> bool {
        let lent: u64 = self.holding.values().map(|(_, bytes)| bytes).sum();
        self.holding.len() < MOST && lent.saturating_add(bytes) <= budget_bytes
    }

    /// Adds a lease, which is not concluded.
    pub(crate) fn add(&mut self, body: BodyId, page: Arc<LeasePage>, bytes: u64) {
        self.holding.insert(body, (page, bytes));
    }

    /// Whether a lease holds.
    pub(crate) fn holds(&self, body: BodyId) -> bool {
        self.holding.contains_key(&body)
    }

    /// Has no client start anything until the leases are concluded.
    pub(crate) fn set_busy(&self) {
        self.holding.values().for_each(|(page, _)| page.set_busy());
    }

    /// Ends the leases of bodies that are gone, and lets the others go on.
    pub(crate) fn conclude(&mut self, is_there: impl Fn(BodyId) -> bool) {
        self.holding.retain(|&body, (page, _)| {
            let holds = is_there(body);
            page.conclude(holds);
            holds
        });
    }
}
