//! What a worker predicts of its tasks, and which of them it looks at for that.
//!
//! Looking costs more than a short task does, so few are looked at: the first of each site, one of 250 later, and those that are there after a *round*
//! of switches that has taken so long that somebody must be running long.

use std::panic::Location;
use std::time::{Duration, Instant};

use crate::look::{Left, LookNumber, Looks, Shown};
use crate::sites::{Prediction, SiteNumber, Sites};
use crate::task::Marks;

/// See the module.
#[derive(Debug)]
pub(crate) struct Predictions {
    sites: Sites,
    looks: Looks,
    long_from: Duration,
    /// When the present round has begun, and what those have used since that are looked at anyway.
    round_begun: Instant,
    looked_at: Duration,
}

impl Predictions {
    /// Nothing is known. A task is long whose run uses so much of the processor.
    pub(crate) fn new(long_from: Duration) -> Self {
        Self {
            sites: Sites::new(),
            looks: Looks::new(long_from),
            long_from,
            round_begun: Instant::now(),
            looked_at: Duration::ZERO,
        }
    }

    /// What is predicted of a task that begins, and the number of its site.
    #[inline(always)]
    pub(crate) fn begins(&mut self, site: &'static Location<'static>) -> (SiteNumber, Prediction) {
        self.sites.begins(site)
    }

    /// The number of a site.
    pub(crate) fn site(&mut self, site: &'static Location<'static>) -> SiteNumber {
        self.sites.find(site)
    }

    /// Begins to look at a task of a site.
    pub(crate) fn look(&mut self, site: SiteNumber) -> LookNumber {
        self.looks.begin(site)
    }

    /// A task that is looked at has run so long: its marks, and the number that it keeps.
    pub(crate) fn ran(&mut self, marks: Marks, look: LookNumber, time: Duration, left: Left) -> (Marks, u32) {
        self.looked_at += time;
        let is_free = !marks.has(Marks::BY_HAND);
        match self.looks.ran(look, time, left, &mut self.sites) {
            Shown::Long if is_free => (marks.with(Marks::LONG), look.number()),
            Shown::Over(site) => {
                let over = if is_free { Marks::LOOKED_AT.with(Marks::LONG) } else { Marks::LOOKED_AT };
                (marks.without(over), site.number())
            }
            _ => (marks, look.number()),
        }
    }

    /// A round begins: the worker has slept.
    pub(crate) fn begin_round(&mut self) {
        self.round_begun = Instant::now();
        self.looked_at = Duration::ZERO;
    }

    /// A round ends, and the next one begins; whether this one was slow.
    pub(crate) fn end_round(&mut self) -> bool {
        let used = self.round_begun.elapsed().saturating_sub(self.looked_at);
        self.begin_round();
        let is_slow = used >= self.long_from;
        self.sites.set_alert(is_slow);
        is_slow
    }
}
