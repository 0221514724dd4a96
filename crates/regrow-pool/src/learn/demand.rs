//! How many of one kind arrivals need at a time, and when they need the next.
//!
//! An arrival that finds two others busy needs a third. So there is a histogram of gaps for each rank in that row: the
//! first rank is needed at every arrival, the third only at those that find two busy. A rank is worth filling while its
//! own window lasts; the ranks beyond are given back.

use std::time::Duration;

use super::gaps::{Basis, Gaps, Window};

/// How many ranks are learned about. What is needed beyond them is made on request.
pub const MOST_AT_A_TIME: usize = 64;

/// How long an unknown rank is kept: as long as the serverless platforms keep an instance.
const DEFAULT_KEEP_ALIVE: Duration = Duration::from_secs(600);

/// A rank that was needed once, and not again while so many others came, is not wanted. If it is needed after all, that
/// adds the start of one process to so many.
pub const FORGOTTEN_AFTER: u64 = 384;

/// A histogram with more gaps than these is read only at every eighth.
const SETTLED: u32 = 32;

/// What decides which ranks are wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Frame {
    /// The gaps of all programs, for a rank that has too few of its own.
    pub all: Option<Window>,
    /// A rank that is needed only after this long is given back in between.
    pub rest: Duration,
    /// A rank is kept this long at least, whatever its gaps say, while memory is short.
    pub least: Duration,
    /// The same while there is enough.
    pub ample_least: Duration,
    /// Memory is short: a rank is kept until its window ends. Else it is kept as long again as its longest gap.
    pub tight: bool,
    /// How many arrivals of any kind there have been.
    pub seen: u64,
}

impl Frame {
    /// How long a rank with this window is kept.
    #[must_use]
    pub fn keep_alive(&self, window: Window) -> Duration {
        if self.tight { window.until.max(self.least) } else { window.longest.max(self.ample_least) }
    }
}

#[derive(Debug, Clone)]
struct Rank {
    gaps: Gaps,
    own: Option<Window>,
    last: Duration,
    /// When it was last needed by an arrival that could not have waited.
    hard: Option<Duration>,
    /// How many arrivals of any kind there had been when it was needed for the first time.
    first: u64,
}

impl Rank {
    fn is_forgotten(&self, seen: u64) -> bool {
        self.gaps.count() == 0 && seen.saturating_sub(self.first) >= FORGOTTEN_AFTER
    }
}

/// The need of one kind: bodies of a program, or shells.
#[derive(Debug, Clone, Default)]
pub struct Demand {
    ranks: Vec<Rank>,
    arrivals: u64,
}

impl Demand {
    /// Learns from an arrival, the `seen`th of any kind. It finds `needed` others of its kind in use, and with `in_turn`
    /// more of them it would not have to wait. `all` learns the gap of the first rank as well. Returns that gap; `None` for
    /// the first arrival.
    pub fn arrive(
        &mut self,
        (at, seen): (Duration, u64),
        needed: usize,
        in_turn: usize,
        all: &mut Gaps,
    ) -> Option<Duration> {
        self.arrivals += 1;
        let busy = needed + in_turn;
        let gap = self.ranks.first().map(|rank| at.saturating_sub(rank.last));
        for (index, rank) in self.ranks.iter_mut().take(busy + 1).enumerate() {
            let gap = at.saturating_sub(rank.last);
            rank.gaps.add(gap);
            if rank.gaps.count() < SETTLED || rank.gaps.count().is_multiple_of(8) {
                rank.own = rank.gaps.window();
            }
            rank.last = at;
            if index <= needed {
                rank.hard = Some(at);
            }
            if index == 0 {
                all.add(gap);
            }
        }
        while self.ranks.len() < (busy + 1).min(MOST_AT_A_TIME) {
            let hard = (self.ranks.len() <= needed).then_some(at);
            self.ranks.push(Rank { gaps: Gaps::default(), own: None, last: at, hard, first: seen });
        }
        gap
    }

    /// Whether there is a rank that was needed once and is forgotten.
    #[must_use]
    pub fn has_forgotten(&self, seen: u64) -> bool {
        self.ranks.iter().any(|rank| rank.is_forgotten(seen))
    }

    /// How many arrivals there were.
    #[must_use]
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// The most that were needed at a time.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.ranks.len()
    }

    /// When a rank was last needed, and its window. `None` for a rank that never was.
    #[must_use]
    pub fn window(&self, rank: usize, all: Option<Window>) -> Option<(Duration, Window)> {
        let rank = self.ranks.get(rank)?;
        let of_all = || all.map(|window| Window { from: Duration::ZERO, basis: Basis::All, ..window });
        let default = Window {
            from: Duration::ZERO,
            until: DEFAULT_KEEP_ALIVE,
            longest: DEFAULT_KEEP_ALIVE,
            basis: Basis::Default,
        };
        Some((rank.last, rank.own.or_else(of_all).unwrap_or(default)))
    }

    fn windows(&self, all: Option<Window>) -> impl Iterator<Item = (Duration, Window)> {
        (0..self.ranks.len()).filter_map(move |rank| self.window(rank, all))
    }

    /// How many are worth having at this moment. A rank is not while its next need is far off, nor if it was needed once, long
    /// ago. While memory is short, a rank whose need could have waited is not, either.
    #[must_use]
    pub fn wanted(&self, at: Duration, frame: &Frame) -> usize {
        let open = self.windows(frame.all).zip(&self.ranks).filter(|((last, window), rank)| {
            let last = if frame.tight { rank.hard } else { Some(*last) };
            let since = last.map(|last| at.saturating_sub(last));
            let in_time = since.is_some_and(|since| {
                since < frame.keep_alive(*window) && (window.from < frame.rest || since >= window.from)
            });
            in_time && !rank.is_forgotten(frame.seen)
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

    /// How often a rank is needed in an hour, by its last gaps. A rank that was needed once counts at most as the mean gap of
    /// all programs says.
    #[must_use]
    pub fn per_hour(&self, rank: usize, at: Duration, all: &Gaps) -> u64 {
        const HOUR_US: u64 = 3_600_000_000;
        let Some(rank) = self.ranks.get(rank) else { return 0 };
        let own = rank.gaps.mean().or_else(|| all.mean()).unwrap_or(DEFAULT_KEEP_ALIVE);
        // A rank that has not been needed for longer than usual is needed less often than usual.
        let gap = own.max(at.saturating_sub(rank.last));
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
