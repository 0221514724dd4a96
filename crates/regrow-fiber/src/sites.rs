//! Where tasks are created, and whether those of a site run long: what was learned of it, and what is predicted of its next task.
//!
//! ```text
//!   begins ──> Prediction: short │ not known, look at it │ long         the first tasks of a site are looked at, later one of 250
//!   learn  <── a task of the site has run short, or long
//! ```
//!
//! A site is a place in the source, which the compiler hands over by its address. Each worker learns for itself, so that nothing is shared. Of a
//! site stands here the share of its tasks that were long, decayed by count, and how many were seen. A site that changes its ways is another one
//! after six tasks.

use std::panic::Location;

/// The table has so many places, and one more for all sites that are not told apart, which has this number.
const OTHERS: u32 = 1024;
const PLACES: usize = OTHERS as usize;
/// How many sites are told apart, so that each is found at once or nearly. The tasks of others are not looked at, unless they are met while they run
/// long.
const MOST_SITES: usize = PLACES / 2;
/// So many tasks of a site are looked at first, and later one of so many.
const FIRST_LOOKED_AT: u8 = 16;
const LOOK_EACH: u8 = 250;
/// Before so many were seen nothing is predicted; with so many more the old ones no longer count alike.
const LEAST_SEEN: u8 = 2;
const MOST_SEEN: u8 = 7;

/// The number of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SiteNumber(u32);

/// What is predicted of a task that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prediction {
    /// It runs short.
    Short,
    /// It should be seen how it runs.
    Look,
    /// It runs long.
    Long,
}

/// What is known of a site.
#[derive(Debug, Clone, Copy)]
struct Site {
    /// Where it stands in memory; 0: nobody has the place.
    address: usize,
    /// The share of its tasks that were long.
    long: f32,
    seen: u8,
    /// So many begin before one is looked at.
    until_look: u8,
    looked_at: u8,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Sites {
    places: Box<[Site; PLACES + 1]>,
    count: usize,
    /// All tasks that begin are looked at.
    is_alert: bool,
}

impl SiteNumber {
    /// That of all sites that are not told apart.
    pub(crate) const OTHERS: Self = Self(OTHERS);

    /// As a task keeps it.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// What a task has kept.
    pub(crate) fn of(number: u32) -> Self {
        Self(number)
    }
}

impl Site {
    const NONE: Self = Self { address: 0, long: 0.0, seen: 0, until_look: 0, looked_at: 0 };

    fn is_long(&self) -> bool {
        self.seen >= LEAST_SEEN && self.long > 0.5
    }
}

impl Sites {
    pub(crate) fn new() -> Self {
        Self { places: Box::new([Site::NONE; PLACES + 1]), count: 0, is_alert: false }
    }

    /// From now on all tasks that begin are looked at, or not.
    pub(crate) fn set_alert(&mut self, is_alert: bool) {
        self.is_alert = is_alert;
    }

    /// The number of a site, and what is predicted of its next task, which begins.
    #[inline(always)]
    pub(crate) fn begins(&mut self, at: &'static Location<'static>) -> (SiteNumber, Prediction) {
        let (address, first) = place_of(at);
        let site = &mut self.places[first];
        if site.address == address && site.until_look > 0 && !self.is_alert {
            site.until_look -= 1;
            return (number(first), Prediction::Short);
        }
        self.begins_seldom(at)
    }

    #[cold]
    fn begins_seldom(&mut self, at: &'static Location<'static>) -> (SiteNumber, Prediction) {
        let found = self.find(at);
        let site = &mut self.places[found.0 as usize];
        let prediction = if found == SiteNumber::OTHERS {
            if self.is_alert { Prediction::Look } else { Prediction::Short }
        } else if site.is_long() {
            Prediction::Long
        } else if self.is_alert {
            Prediction::Look
        } else if site.until_look > 0 {
            site.until_look -= 1;
            Prediction::Short
        } else {
            if site.looked_at < FIRST_LOOKED_AT {
                site.looked_at += 1;
            } else {
                site.until_look = LOOK_EACH - 1;
            }
            Prediction::Look
        };
        (found, prediction)
    }

    /// The number of a site.
    pub(crate) fn find(&mut self, at: &'static Location<'static>) -> SiteNumber {
        let (address, first) = place_of(at);
        for step in 0..PLACES {
            let at = (first + step) % PLACES;
            if self.places[at].address == address {
                return number(at);
            }
            if self.places[at].address == 0 {
                if self.count == MOST_SITES {
                    break;
                }
                self.count += 1;
                self.places[at].address = address;
                return number(at);
            }
        }
        SiteNumber::OTHERS
    }

    /// A task of a site has run long, or short.
    pub(crate) fn learn(&mut self, number: SiteNumber, is_long: bool) {
        if number == SiteNumber::OTHERS {
            return;
        }
        let site = &mut self.places[number.0 as usize];
        site.long += (f32::from(u8::from(is_long)) - site.long) / f32::from(site.seen + 1);
        site.seen = (site.seen + 1).min(MOST_SEEN);
        if site.is_long() {
            site.until_look = 0;
        }
    }

    /// Whether the next task of a site is predicted to run long.
    #[cfg(test)]
    fn predicts_long(&self, SiteNumber(number): SiteNumber) -> bool {
        self.places[number as usize].is_long()
    }
}

/// The address of a site, and where in the table it stands at best.
#[inline]
fn place_of(site: &'static Location<'static>) -> (usize, usize) {
    let address = std::ptr::from_ref(site).addr();
    // The golden ratio spreads what differs in a few bits alone.
    let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (address, hash >> (usize::BITS - PLACES.ilog2()))
}

#[inline]
fn number(place: usize) -> SiteNumber {
    SiteNumber(u32::try_from(place).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;

    /// Places in the source, more than are told apart: copies of one, as a site is known by its address.
    fn locations() -> &'static [Location<'static>] {
        static ALL: OnceLock<Vec<Location<'static>>> = OnceLock::new();
        ALL.get_or_init(|| vec![*Location::caller(); MOST_SITES + 10])
    }

    #[test]
    fn sites_are_told_apart_up_to_a_number() {
        let mut sites = Sites::new();
        let all = locations();
        let numbers: Vec<SiteNumber> = all.iter().map(|site| sites.find(site)).collect();
        assert!(all.iter().zip(&numbers).all(|(site, number)| sites.find(site) == *number));
        let mut apart: Vec<u32> = numbers.iter().take(MOST_SITES).map(|number| number.number()).collect();
        apart.sort_unstable();
        apart.dedup();
        assert_eq!(apart.len(), MOST_SITES);
        // The rest are one site, of which nothing is learned.
        let rest = numbers[MOST_SITES];
        assert!(numbers[MOST_SITES..].iter().all(|number| *number == rest));
        (0..10).for_each(|_| sites.learn(rest, true));
        assert_eq!(sites.begins(&all[MOST_SITES]), (rest, Prediction::Short));
        sites.set_alert(true);
        assert_eq!(sites.begins(&all[MOST_SITES]), (rest, Prediction::Look));
        assert!(all[..MOST_SITES].iter().all(|site| sites.begins(site).1 == Prediction::Look));
    }

    #[test]
    fn the_first_tasks_are_looked_at_and_then_one_of_many() {
        let mut sites = Sites::new();
        let at = &locations()[0];
        let predictions: Vec<Prediction> = (0..1000).map(|_| sites.begins(at).1).collect();
        let looked_at: Vec<usize> = (0..1000).filter(|at| predictions[*at] == Prediction::Look).collect();
        assert!(looked_at[..16].iter().copied().eq(0..16));
        assert!(looked_at[16..].iter().copied().eq((16..1000).step_by(250)));
    }

    #[test]
    fn a_site_that_changes_its_ways_is_learned_anew() {
        let mut sites = Sites::new();
        let at = &locations()[0];
        let site = sites.find(at);
        sites.learn(site, true);
        assert!(!sites.predicts_long(site));
        sites.learn(site, true);
        assert_eq!(sites.begins(at), (site, Prediction::Long));
        for is_long in [false, true, false, true] {
            (0..200).for_each(|_| sites.learn(site, is_long));
            assert_eq!(sites.predicts_long(site), is_long);
            (0..2).for_each(|_| sites.learn(site, !is_long));
            assert_eq!(sites.predicts_long(site), is_long, "two tasks change nothing");
            (0..6).for_each(|_| sites.learn(site, !is_long));
            assert_eq!(sites.predicts_long(site), !is_long);
        }
    }

    #[test]
    fn one_long_task_of_five_makes_no_site_long() {
        let mut sites = Sites::new();
        let site = sites.find(&locations()[0]);
        for number in 0..1000 {
            sites.learn(site, number % 5 == 4);
            assert!(!sites.predicts_long(site));
        }
    }
}
