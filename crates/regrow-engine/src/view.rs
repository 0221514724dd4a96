//! What is to be seen of a shard: its tables, its ledger, and the processes that hold what it keeps.

use std::time::Duration;

use regrow_body::{Body, Keepers, Times};
use regrow_sys::caller::Domain;

use crate::ids::BodyId;
use crate::keeping::holdings::Holdings;
use crate::keeping::inspection::Reports;
use crate::ledger::Ledger;
use crate::settings::Settings;
use crate::tables::Tables;

/// Times of one run and of the reset after it, on the monotonic clock in nanoseconds, and what the reset did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTimes {
    /// When the program was entered, when it had left the body, when the body was armed again.
    pub times: Times,
    /// What the reset did.
    pub work: regrow_body::body::ResetWork,
    /// The keeper of the body.
    pub keeper: i32,
}

/// A shard, to be looked at.
#[derive(Debug, Clone, Copy)]
pub struct ShardView<'a> {
    pub(crate) holdings: &'a Holdings,
    pub(crate) settings: &'a Settings,
    /// What was seen of bodies so far.
    pub(crate) reports: &'a Reports,
    pub(crate) domain: &'a Domain,
    pub(crate) keepers: &'a Keepers,
    pub(crate) last: Option<BodyId>,
}

impl<'a> ShardView<'a> {
    pub(crate) fn tables(self) -> &'a Tables {
        &self.holdings.tables
    }

    pub(crate) fn ledger(self) -> &'a Ledger {
        self.holdings.ledger()
    }

    /// The domain of everything that is kept.
    #[must_use]
    pub fn domain(self) -> &'a Domain {
        self.domain
    }

    /// The processes that keep bodies, images and shells at present.
    #[must_use]
    pub fn keepers(self) -> Vec<i32> {
        let tables = self.tables();
        let shells = tables.shells.iter().map(|slot| slot.shell.keeper());
        let bodies = tables.bodies.iter().map(|(_, _, body)| body.keeper());
        let seeds = tables.images.iter_kept().map(|(_, kept)| kept.image.seed().pid());
        shells.chain(bodies).chain(seeds).collect()
    }

    /// The processes that hold what is kept and in no use: idle bodies with their images, and shells.
    #[must_use]
    pub fn idle_keepers(self) -> Vec<i32> {
        let tables = self.tables();
        let mut pids: Vec<i32> = tables.shells.waiting().map(|slot| slot.shell.keeper()).collect();
        for (image, kept) in tables.images.iter_kept() {
            let before = pids.len();
            let idle = tables.bodies.of(image).map(|(_, body)| body).filter(|body| body.is_idle());
            pids.extend(idle.map(Body::keeper));
            if pids.len() > before {
                pids.push(kept.image.seed().pid());
            }
        }
        pids
    }

    /// Whether a process keeps a body of this shard, waits for an order, or runs in a body.
    #[must_use]
    pub fn is_used_by(self, pid: i32) -> bool {
        let tables = self.tables();
        self.keepers.is_of_a_body(pid)
            || tables.bodies.iter().any(|(_, _, body)| body.is_used_by(pid))
            || tables.shells.iter().any(|slot| slot.shell.is_used_by(pid))
    }

    /// Whether somebody works on the body of the run that was started last: then it stands in no table.
    #[must_use]
    pub fn last_body_is_lent(self) -> bool {
        let bodies = &self.tables().bodies;
        self.last.is_some_and(|last| bodies.image_of(last).is_some() && bodies.get(last).is_none())
    }

    /// Times of the run that was started last, when it was recycled and times are noted: waits until its body is armed
    /// again, at most `timeout`. None while that body is lent.
    #[must_use]
    pub fn last_times(self, timeout: Duration) -> Option<RunTimes> {
        let body = self.tables().bodies.get(self.last?)?;
        body.wait_ready(timeout);
        Some(RunTimes { times: body.times(), work: body.reset_work(), keeper: body.keeper() })
    }
}
