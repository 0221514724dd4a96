//! Looks: what tasks use of the processor that somebody looks at.
//!
//! ```text
//!   begin ── a look: used, stretches ──> a stretch ends ──> Long    it has used as much as a long one: its site learns so at once
//!                                                       ──> Short   it waits or ends before, or has given way often: the look is over
//! ```
//!
//! A *run* is what a task uses from its begin, or from the end of a wait, to its next wait or its end; a *stretch* what it uses until it gives way.
//! What tells long from short is a run, not the whole life: a task that serves for hours, some microseconds at a time, keeps nobody waiting.

use std::time::Duration;

use crate::sites::{SiteNumber, Sites};

/// After so many stretches a run is taken for one that is over: what gives way so often, and has used little, keeps nobody waiting.
const MOST_STRETCHES: u32 = 64;

/// The number of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LookNumber(u32);

/// How a stretch has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    GaveWay,
    Waits,
    Ended,
}

/// What a stretch has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Nothing as yet.
    Nothing,
    /// The task runs long.
    Long,
    /// The task has run short, or has ended. The look is over; this was its site.
    Over(SiteNumber),
}

#[derive(Debug, Clone, Copy)]
struct Look {
    site: SiteNumber,
    /// What the present run has used.
    used: Duration,
    stretches: u32,
    /// The site has learned of the task.
    has_told: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Looks {
    long_from: Duration,
    looks: Vec<Look>,
    free: Vec<LookNumber>,
}

impl LookNumber {
    /// As a task keeps it.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// What a task has kept.
    pub(crate) fn of(number: u32) -> Self {
        Self(number)
    }
}

impl Looks {
    /// A task is long whose run uses so much.
    pub(crate) fn new(long_from: Duration) -> Self {
        Self { long_from, looks: Vec::new(), free: Vec::new() }
    }

    /// Begins to look at a task of a site.
    pub(crate) fn begin(&mut self, site: SiteNumber) -> LookNumber {
        let look = Look { site, used: Duration::ZERO, stretches: 0, has_told: false };
        if let Some(number) = self.free.pop() {
            self.looks[number.0 as usize] = look;
            return number;
        }
        self.looks.push(look);
        LookNumber(u32::try_from(self.looks.len() - 1).unwrap_or(u32::MAX))
    }

    /// The task of a look has run so long.
    pub(crate) fn ran(&mut self, number: LookNumber, time: Duration, left: Left, sites: &mut Sites) -> Shown {
        let look = &mut self.looks[number.0 as usize];
        look.used += time;
        look.stretches += 1;
        let is_long = look.used >= self.long_from;
        let is_over = left != Left::GaveWay || look.stretches == MOST_STRETCHES;
        if (is_long || is_over) && !look.has_told {
            sites.learn(look.site, is_long);
            look.has_told = true;
        }
        if left == Left::Ended || (is_over && !is_long) {
            self.free.push(number);
            return Shown::Over(look.site);
        }
        if is_over {
            (look.used, look.stretches) = (Duration::ZERO, 0);
        }
        if is_long { Shown::Long } else { Shown::Nothing }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use super::*;
    use crate::sites::Prediction;

    const LONG_FROM: Duration = Duration::from_millis(1);

    /// Where all tasks are created.
    fn place() -> &'static Location<'static> {
        Location::caller()
    }

    /// A task of that place that is looked at.
    fn begun() -> (Sites, SiteNumber, Looks, LookNumber) {
        let (mut sites, mut looks) = (Sites::new(), Looks::new(LONG_FROM));
        let site = sites.find(place());
        let look = looks.begin(site);
        (sites, site, looks, look)
    }

    #[test]
    fn a_run_that_uses_much_is_long_before_it_is_over() {
        let (mut sites, site, mut looks, look) = begun();
        let mut ran = |us, left| looks.ran(look, Duration::from_micros(us), left, &mut sites);
        assert_eq!(ran(600, Left::GaveWay), Shown::Nothing);
        assert_eq!(ran(600, Left::GaveWay), Shown::Long);
        assert_eq!(ran(1, Left::Waits), Shown::Long);
        // The next run is another one.
        assert_eq!(ran(600, Left::GaveWay), Shown::Nothing);
        assert_eq!(ran(10, Left::Waits), Shown::Over(site));
    }

    #[test]
    fn what_gives_way_often_and_uses_little_is_short() {
        let (mut sites, site, mut looks, look) = begun();
        let shown: Vec<Shown> =
            (0..64).map(|_| looks.ran(look, Duration::from_micros(10), Left::GaveWay, &mut sites)).collect();
        assert_eq!(shown[62..], [Shown::Nothing, Shown::Over(site)]);
        assert_eq!(looks.begin(site), look, "its number is free");
    }

    #[test]
    fn a_task_counts_once_for_its_site() {
        let (mut sites, site, mut looks, look) = begun();
        for _ in 0..10 {
            assert_eq!(looks.ran(look, 2 * LONG_FROM, Left::Waits, &mut sites), Shown::Long);
        }
        assert_eq!(sites.begins(place()), (site, Prediction::Look), "one long task is no rule");
        assert_eq!(looks.ran(look, LONG_FROM, Left::Ended, &mut sites), Shown::Over(site));
        let look = looks.begin(site);
        assert_eq!(looks.ran(look, 2 * LONG_FROM, Left::Ended, &mut sites), Shown::Over(site));
        assert_eq!(sites.begins(place()), (site, Prediction::Long));
    }
}
