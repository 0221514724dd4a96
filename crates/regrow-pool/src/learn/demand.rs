//! How many of one kind are needed at a time, and when next.
//!
//! An arrival that finds two others busy needs a third. So there is a histogram of gaps for each place in that row: the
//! first place is needed at every arrival, the third only at those that find two busy. A place is worth filling while its
//! own window lasts; the places beyond are given back.

use std::time::Duration;

use super::gaps::{Basis, Gaps, Window};

/// Places that are learned about. What is needed beyond them is made when it is asked for.
pub const MOST_AT_A_TIME: usize = 64;

/// How long something is kept of which nothing is known: as long as the serverless platforms keep theirs.
const DEFAULT_KEEP_ALIVE: Duration = Duration::from_secs(600);

/// What was needed once, and not again while so many others came, is not wanted: if it is needed after all, that adds no more than
/// the start of one process to so many.
pub const FORGOTTEN_AFTER: u64 = 384;

/// A histogram with more gaps than these is read only at every eighth.
const SETTLED: u32 = 32;

/// By what the wanted places are judged.
#[derive(Debug, Clone, Copy, Default)]
pub struct Frame {
    /// The gaps of all programs, for a place that has too few of its own.
    pub all: Option<Window>,
    /// A place that is needed only after this long is given back in between.
    pub rest: Duration,
    /// A place is kept this long at least, whatever its gaps say, while memory is short.
    pub least: Duration,
    /// The same while there is enough.
    pub ample_least: Duration,
    /// Memory is short: a place is kept until its window ends. Else it is kept as long again as its longest gap.
    pub tight: bool,
    /// How many arrivals of any kind there have been.
    pub seen: u64,
}

impl Frame {
    /// How long a place with this window is kept.
    #[must_use]
    pub fn keep_alive(&self, window: Window) -> Duration {
        if self.tight { window.until.max(self.least) } else { window.longest.max(self.ample_least) }
    }
}

#[derive(Debug, Clone)]
struct Place {
    gaps: Gaps,
    own: Option<Window>,
    last: Duration,
    /// When it was last needed by an arrival that could not have waited.
    hard: Option<Duration>,
    /// How many arrivals of any kind there had been when it was needed for the first time.
    first: u64,
}

impl Place {
    fn is_forgotten(&self, seen: u64) -> bool {
        self.gaps.count() == 0 && seen.saturating_sub(self.first) >= FORGOTTEN_AFTER
    }
}

/// The need of one kind: bodies of a program, or shells.
#[derive(Debug, Clone, Default)]
pub struct Demand {
    places: Vec<Place>,
    arrivals: u64,
}

impl Demand {
    /// An arrival, the `seen`th of any kind, that finds `needed` others of its kind in use, and would not have to wait with so
    /// many more `in_turn`. `all` learns the gap of the first place as well. Gives that gap; `None` for the first arrival.
    pub fn arrive(
        &mut self,
        (at, seen): (Duration, u64),
        needed: usize,
        in_turn: usize,
        all: &mut Gaps,
    ) -> Option<Duration> {
        self.arrivals += 1;
        let busy = needed + in_turn;
        let gap = self.places.first().map(|place| at.saturating_sub(place.last));
        for (index, place) in self.places.iter_mut().take(busy + 1).enumerate() {
            let gap = at.saturating_sub(place.last);
            place.gaps.add(gap);
            if place.gaps.count() < SETTLED || place.gaps.count().is_multiple_of(8) {
                place.own = place.gaps.window();
            }
            place.last = at;
            if index <= needed {
                place.hard = Some(at);
            }
            if index == 0 {
                all.add(gap);
            }
        }
        while self.places.len() < (busy + 1).min(MOST_AT_A_TIME) {
            let hard = (self.places.len() <= needed).then_some(at);
            self.places.push(Place { gaps: Gaps::default(), own: None, last: at, hard, first: seen });
        }
        gap
    }

    /// Whether a place is there that was needed once, and is not wanted any more.
    #[must_use]
    pub fn has_forgotten(&self, seen: u64) -> bool {
        self.places.iter().any(|place| place.is_forgotten(seen))
    }

    /// How many arrivals there were.
    #[must_use]
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// How many were needed at a time, at most.
    #[must_use]
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// When a place was last needed, and its window. `None` for a place that never was.
    #[must_use]
    pub fn window(&self, place: usize, all: Option<Window>) -> Option<(Duration, Window)> {
        let place = self.places.get(place)?;
        let of_all = || all.map(|window| Window { from: Duration::ZERO, basis: Basis::All, ..window });
        let default = Window {
            from: Duration::ZERO,
            until: DEFAULT_KEEP_ALIVE,
            longest: DEFAULT_KEEP_ALIVE,
            basis: Basis::Default,
        };
        Some((place.last, place.own.or_else(of_all).unwrap_or(default)))
    }

    fn windows(&self, all: Option<Window>) -> impl Iterator<Item = (Duration, Window)> {
        (0..self.places.len()).filter_map(move |place| self.window(place, all))
    }

    /// How many are worth having at this moment. A place whose next need is far off is not, until it comes near; nor one that
    /// was needed once, long ago. While memory is short, one whose need could have waited is not.
    #[must_use]
    pub fn wanted(&self, at: Duration, frame: &Frame) -> usize {
        let open = self.windows(frame.all).zip(&self.places).filter(|((last, window), place)| {
            let last = if frame.tight { place.hard } else { Some(*last) };
            let since = last.map(|last| at.saturating_sub(last));
            let in_time = since.is_some_and(|since| {
                since < frame.keep_alive(*window) && (window.from < frame.rest || since >= window.from)
            });
            in_time && !place.is_forgotten(frame.seen)
        });
        open.count()
    }

    /// When [`Demand::wanted`] next changes without an arrival.
    #[must_use]
    pub fn next_change(&self, at: Duration, frame: &Frame) -> Option<Duration> {
        let edges = self.windows(frame.all).flat_map(|(last, window)| {
            let opens = (window.from >= frame.rest).then(|| last + window.from);
            [opens, Some(last + frame.keep_alive(window))]
        });
        edges.flatten().filter(|&edge| edge > at).min()
    }

    /// How often a place is needed in an hour, by its last gaps; for one that was needed once: as often as the mean gap of
    /// all programs says, at most.
    #[must_use]
    pub fn per_hour(&self, place: usize, at: Duration, all: &Gaps) -> u64 {
        const HOUR_US: u64 = 3_600_000_000;
        let Some(place) = self.places.get(place) else { return 0 };
        let own = place.gaps.mean().or_else(|| all.mean()).unwrap_or(DEFAULT_KEEP_ALIVE);
        // One that has not come for longer than usual comes less often than usual.
        let gap = own.max(at.saturating_sub(place.last));
        HOUR_US / u64::try_from(gap.as_micros()).unwrap_or(u64::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;
    const TIGHT: Frame = Frame {
        all: None,
        rest: Duration::from_secs(1),
        least: Duration::ZERO,
        ample_least: Duration::ZERO,
        tight: true,
        seen: 0,
    };

    #[test]
    fn each_place_has_gaps_of_its_own() {
        let (mut demand, mut all) = (Demand::default(), Gaps::default());
        // Every 10 ms one, every 100 ms two at a time.
        for step in 0..100 {
            demand.arrive((MS(step * 10), 0), usize::from(step % 10 == 9), 0, &mut all);
        }
        assert_eq!((demand.arrivals(), all.count()), (100, 99));
        let (last, first) = demand.window(0, None).unwrap();
        assert_eq!((last, first.basis), (MS(990), Basis::Own));
        assert!(first.until > MS(10) && first.until < MS(16), "{first:?}");
        let (_, second) = demand.window(1, None).unwrap();
        assert!(second.until > MS(100) && second.until < MS(150), "{second:?}");
        assert_eq!(demand.window(2, None), None);
        assert_eq!(demand.wanted(MS(995), &TIGHT), 2);
        assert_eq!(demand.wanted(MS(1050), &TIGHT), 1, "the first is overdue");
        assert_eq!(demand.wanted(MS(2000), &TIGHT), 0);
        let change = demand.next_change(MS(995), &TIGHT).unwrap();
        assert_eq!(change, MS(990) + first.until);
        assert_eq!(demand.per_hour(0, MS(990), &all), 360_000);
        assert_eq!(demand.per_hour(1, MS(990), &all), 36_000);
        let ample = Frame { tight: false, ..TIGHT };
        assert_eq!(demand.wanted(MS(1100), &ample), 1);
        assert_eq!(demand.wanted(MS(1100), &Frame { least: MS(200), ..TIGHT }), 2);
    }

    #[test]
    fn what_comes_every_minute_is_not_kept_in_between() {
        let (mut demand, mut all) = (Demand::default(), Gaps::default());
        (0..20).for_each(|minute| {
            demand.arrive((Duration::from_secs(minute * 60), 0), 0, 0, &mut all);
        });
        let at = |seconds: u64| Duration::from_secs(19 * 60 + seconds);
        assert_eq!(demand.wanted(at(5), &TIGHT), 0);
        assert_eq!(demand.wanted(at(59), &TIGHT), 1);
        assert_eq!(demand.wanted(at(90), &TIGHT), 0);
        let back = demand.next_change(at(5), &TIGHT).unwrap();
        assert!(back > at(40) && back < at(60), "{back:?}");
    }

    #[test]
    fn what_has_too_few_gaps_is_judged_by_the_gaps_of_all() {
        let mut all = Gaps::default();
        (0..20).for_each(|_| all.add(MS(20)));
        let mut demand = Demand::default();
        demand.arrive((MS(5), 0), 0, 0, &mut Gaps::default());
        let (_, window) = demand.window(0, all.window()).unwrap();
        assert_eq!((window.basis, window.from), (Basis::All, Duration::ZERO));
        let (_, window) = demand.window(0, None).unwrap();
        assert_eq!((window.basis, window.until), (Basis::Default, DEFAULT_KEEP_ALIVE));
    }

    #[test]
    fn what_could_have_waited_is_not_wanted_while_memory_is_short() {
        let (mut demand, mut all) = (Demand::default(), Gaps::default());
        (0..20).for_each(|step| {
            demand.arrive((MS(step), 0), 0, 1, &mut all);
        });
        let ample = Frame { tight: false, ..TIGHT };
        assert_eq!((demand.wanted(MS(19), &ample), demand.wanted(MS(19), &TIGHT)), (2, 1));
    }

    #[test]
    fn what_was_needed_once_is_forgotten() {
        let (mut demand, mut all) = (Demand::default(), Gaps::default());
        let ample = |seen| Frame { tight: false, ample_least: MS(1000), seen, ..TIGHT };
        demand.arrive((MS(0), 1), 0, 0, &mut all);
        assert_eq!(demand.wanted(MS(1), &ample(FORGOTTEN_AFTER)), 1);
        assert_eq!(demand.wanted(MS(1), &ample(FORGOTTEN_AFTER + 1)), 0);
        assert!(demand.has_forgotten(FORGOTTEN_AFTER + 1));
        demand.arrive((MS(2), 300), 1, 0, &mut all);
        assert_eq!(demand.wanted(MS(3), &ample(600)), 2, "it has come again");
        assert_eq!(demand.wanted(MS(3), &ample(700)), 1, "but not two at a time");
    }
}
