//! Looks at bodies that no run is in: a body that waits to be compared is compared with its image (verify mode), and one in
//! doubt is given up. Spot checks compare one body in many, without verify mode: off the way of runs, as a piece of work.

use std::collections::BTreeMap;
use std::time::Duration;

use regrow_abi::{Broken, State};
use regrow_body::{Body, verify};
use regrow_image::image::Image;
use regrow_sys::child::is_ending;

use crate::ids::BodyId;
use crate::tables::Tables;

/// How long a body may take to be put back before it is compared.
const RESET_TIME: Duration = Duration::from_millis(200);
/// So many differences are told in words; all are counted.
const MAX_DIFFERENCES: usize = 256;
/// So many spot checks may be put off; what is due beyond that is not made up for.
const MAX_OWED: u32 = 16;
/// Of so many bodies it is remembered when they were checked.
const MAX_REMEMBERED: usize = 4096;

/// What was seen of bodies, beside the creations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reports {
    /// Bodies that were compared with their image and equal (verify mode).
    pub compared: u64,
    /// What differed, for each body that was compared and was not equal: the first 256 of them.
    pub differences: Vec<String>,
    /// Bodies that a spot check has compared with their image.
    pub spot_checked: u64,
    /// Those of them that were not equal, and were dropped.
    pub spot_differences: u64,
    /// Bodies that their keepers gave up, by reason.
    pub given_up: BTreeMap<&'static str, u64>,
}

impl Reports {
    fn give_up(&mut self, reason: &'static str) {
        *self.given_up.entry(reason).or_default() += 1;
    }

    fn differs(&mut self, keeper: i32, difference: String) {
        tracing::error!(keeper, %difference, "a body differs from its image");
        if self.differences.len() < MAX_DIFFERENCES {
            self.differences.push(difference);
        }
    }

    /// Counts a spot check. True where the body may go on.
    pub(crate) fn note(&mut self, keeper: i32, seen: Observed) -> bool {
        match seen {
            Observed::Equal => self.spot_checked += 1,
            Observed::Differs(difference) => {
                self.spot_checked += 1;
                self.spot_differences += 1;
                self.differs(keeper, difference);
                return false;
            }
            Observed::Advised => {
                self.spot_checked += 1;
                self.give_up("huge_page_advice");
                return false;
            }
            Observed::Died => {
                self.give_up("keeper_died");
                return false;
            }
            Observed::NotComparable => {}
        }
        true
    }
}

/// What a spot check has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Observed {
    Equal,
    Differs(String),
    /// A run has given advice for huge pages, which nobody can take back.
    Advised,
    /// Its keeper died meanwhile.
    Died,
    /// It is not put back, or a process has run in it ahead of its order.
    NotComparable,
}

/// Compares a body that waits for an order with its image.
pub(crate) fn observe(image: &Image, body: &Body) -> Observed {
    if !verify::is_comparable(image, body) {
        return Observed::NotComparable;
    }
    match verify::compare(image, body) {
        Ok(()) => Observed::Equal,
        Err(_) if body.is_broken() || is_ending(body.keeper()) => Observed::Died,
        // What the body is compared with is gone.
        Err(_) if is_ending(image.seed().pid()) => Observed::NotComparable,
        Err(difference) if difference.is_huge_page_advice() => Observed::Advised,
        Err(difference) => Observed::Differs(difference.to_string()),
    }
}

/// Compares every body that waits for an order, and drops those that differ.
pub(crate) fn check_all(tables: &mut Tables, reports: &mut Reports) {
    for (id, kept) in tables.images.iter_kept() {
        tables.bodies.retain(id, |body| reports.note(body.keeper(), observe(&kept.image, body)));
    }
}

/// Which bodies are to be checked: one for so many runs, and none twice without a run in between.
#[derive(Debug, Default)]
pub(crate) struct SpotChecks {
    one_in: u32,
    runs: u32,
    owed: u32,
    /// How many runs a body had had when it was checked last.
    checked: BTreeMap<BodyId, u64>,
}

impl SpotChecks {
    /// One body in so many runs; 0: none.
    pub(crate) fn new(one_in: u32) -> SpotChecks {
        SpotChecks { one_in, ..SpotChecks::default() }
    }

    /// Counts a run. True when another check is due.
    pub(crate) fn count_run(&mut self) -> bool {
        self.runs += u32::from(self.one_in > 0);
        let is_due = self.one_in > 0 && self.runs >= self.one_in;
        if is_due {
            self.runs = 0;
            self.owe();
        }
        is_due
    }

    /// A check that was due was not made.
    pub(crate) fn owe(&mut self) {
        self.owed = (self.owed + 1).min(MAX_OWED);
    }

    /// Chooses a body of those that wait, given with how many runs they have had. It counts as checked.
    pub(crate) fn choose(&mut self, mut waiting: impl Iterator<Item = (BodyId, u64)>) -> Option<BodyId> {
        if self.owed == 0 {
            return None;
        }
        let (body, runs) = waiting.find(|&body| self.is_new(body))?;
        if self.checked.len() >= MAX_REMEMBERED {
            self.checked.clear();
        }
        self.checked.insert(body, runs);
        self.owed -= 1;
        Some(body)
    }

    /// Whether a check is due, and one of these bodies, given with how many runs they have had, is to have it as soon as it waits.
    pub(crate) fn are_awaited(&self, mut bodies: impl Iterator<Item = (BodyId, u64)>) -> bool {
        self.owed > 0 && bodies.any(|body| self.is_new(body))
    }

    /// Whether a body has had a run since it was checked.
    fn is_new(&self, (body, runs): (BodyId, u64)) -> bool {
        runs > self.checked.get(&body).copied().unwrap_or(0)
    }

    /// A body was made anew.
    pub(crate) fn forget_body(&mut self, body: BodyId) {
        self.checked.remove(&body);
    }

    /// No body is the one that it was.
    pub(crate) fn forget(&mut self) {
        self.checked.clear();
    }
}

/// Inspects the bodies of all images. In verify mode it waits for the resets that are under way, so that every idle body is
/// compared.
pub(crate) fn inspect_all(tables: &mut Tables, verify: bool, reports: &mut Reports) {
    for (id, kept) in tables.images.iter_kept() {
        if verify {
            for (_, body) in tables.bodies.of(id) {
                body.wait_ready(RESET_TIME);
            }
        }
        tables.bodies.retain(id, |body| may_go_on(&kept.image, body, reports));
    }
}

/// Lets a body go on if it can; false when it must be dropped.
pub(crate) fn may_go_on(image: &Image, body: &Body, reports: &mut Reports) -> bool {
    match body.state() {
        None | Some(State::Broken) => {
            let why = body.broken();
            tracing::debug!(keeper = body.keeper(), ?why, "a body was given up");
            reports.give_up(why.map_or("unknown", |why| reason(why.0)));
            false
        }
        Some(State::Clean) => compare(image, body, reports),
        Some(State::Armed) => true,
        // A keeper that died leaves its word as it was.
        Some(_) if body.is_broken() => {
            reports.give_up(why_it_is_gone(body));
            false
        }
        Some(_) => true,
    }
}

/// Compares a body with its image, and arms its next process where they are equal.
fn compare(image: &Image, body: &Body, reports: &mut Reports) -> bool {
    match verify::compare(image, body) {
        Ok(()) => {
            reports.compared += 1;
            return body.arm_after_verify();
        }
        Err(_) if body.is_broken() || is_ending(body.keeper()) => reports.give_up(why_it_is_gone(body)),
        Err(_) if is_ending(image.seed().pid()) => reports.give_up("seed_died"),
        Err(difference) if difference.is_huge_page_advice() => reports.give_up("huge_page_advice"),
        Err(difference) => reports.differs(body.keeper(), difference.to_string()),
    }
    false
}

/// Why a body is gone, or will be at once: its keeper has given it up since it was looked at, or has died.
fn why_it_is_gone(body: &Body) -> &'static str {
    body.broken().map_or("keeper_died", |why| reason(why.0))
}

/// A stable name for why a keeper gave its body up.
fn reason(why: Broken) -> &'static str {
    match why {
        Broken::Version => "version",
        Broken::Clone => "clone",
        Broken::Shared => "shared",
        Broken::MappingLost => "mapping_lost",
        Broken::Mappings => "mappings",
        Broken::Pages => "pages",
        Broken::Brk => "brk",
        Broken::Sticky => "sticky",
        Broken::Proc => "proc",
        Broken::TooManyMappings => "too_many_mappings",
        Broken::Fault => "fault",
        Broken::Died => "died",
        Broken::LeftProcesses => "left_processes",
        Broken::Sealed => "sealed",
        Broken::Guarded => "guarded",
        Broken::Keeper => "keeper",
        Broken::Seed => "seed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: BodyId = BodyId::new(1);
    const TWO: BodyId = BodyId::new(2);

    #[test]
    fn one_body_is_checked_for_so_many_runs_and_none_twice_without_a_run() {
        let mut checks = SpotChecks::new(3);
        assert_eq!([(); 6].map(|()| checks.count_run()), [false, false, true, false, false, true]);
        assert_eq!(checks.choose([(ONE, 0)].into_iter()), None, "no run was in it");
        assert_eq!(checks.choose([(ONE, 4), (TWO, 2)].into_iter()), Some(ONE));
        assert_eq!(checks.choose([(ONE, 4), (TWO, 2)].into_iter()), Some(TWO));
        assert_eq!(checks.choose([(ONE, 5)].into_iter()), None, "two were due");
        checks.owe();
        assert_eq!(checks.choose([(ONE, 4)].into_iter()), None);
        assert!(!checks.are_awaited([(ONE, 4)].into_iter()) && checks.are_awaited([(ONE, 5)].into_iter()));
        assert_eq!(checks.choose([(ONE, 5)].into_iter()), Some(ONE));
        assert!(!checks.are_awaited([(ONE, 6)].into_iter()), "none is due");
    }

    #[test]
    fn without_spot_checks_none_is_due_and_what_is_put_off_has_a_limit() {
        let mut off = SpotChecks::new(0);
        assert!(!(0..100).any(|_| off.count_run()));
        assert_eq!(off.choose([(ONE, 4)].into_iter()), None);
        let mut each = SpotChecks::new(1);
        assert!((0..1000).all(|_| each.count_run()));
        let made = (1..1000).take_while(|&runs| each.choose([(ONE, runs)].into_iter()).is_some()).count();
        assert_eq!(made, 16);
    }

    #[test]
    fn what_a_check_has_seen_is_counted_and_decides_about_the_body() {
        let mut reports = Reports::default();
        assert!(reports.note(1, Observed::Equal) && reports.note(1, Observed::NotComparable));
        assert!(!reports.note(1, Observed::Differs("a page".to_owned())));
        assert!(!reports.note(1, Observed::Advised) && !reports.note(1, Observed::Died));
        assert_eq!((reports.spot_checked, reports.spot_differences), (3, 1));
        assert_eq!(reports.differences, ["a page"]);
        assert_eq!(reports.given_up.keys().copied().collect::<Vec<_>>(), ["huge_page_advice", "keeper_died"]);
    }
}
