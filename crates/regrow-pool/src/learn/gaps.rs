//! A hybrid histogram of arrival gaps, after Shahrad et al., "Serverless in the Wild" (2020), section 4.
//!
//! Their bins are a minute wide, up to four hours. Processes come faster, so these bins are a quarter of an octave wide,
//! from 16 µs to four hours.
//!
//! ```text
//!        │      ▄█▄                                gaps are like these: not before `from`, hardly after `until`
//!        │    ▄█████▄▄▂▁                           `from`: the 5th of 100 gaps, less 10 %
//!        └────┬────────┬─────────> gap             `until`: the 99th, and 10 % more
//!            from     until
//! ```
//!
//! Where the histogram has too few gaps, the gaps of all programs count. Where most gaps lie beyond it, the next one is
//! expected to be like the last few, 15 % more or less (they use a time series forecast). Where it is flat, there is no
//! `from`.

use std::fmt;
use std::time::Duration;

/// The first bin ends here.
const FIRST_US: u64 = 16;
/// Bins of a doubling.
const PER_OCTAVE: usize = 4;
/// Bins: up to 16 µs · 2^30, which is 4.8 hours.
const BINS: usize = 30 * PER_OCTAVE;
/// Fewer gaps than these prove nothing.
const ENOUGH: u32 = 6;
/// With so many the oldest lose half of their weight.
const MOST: u32 = 256;

/// Whose gaps a window was learned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Its own histogram.
    Own,
    /// Its last few gaps, which are longer than the histogram.
    Forecast,
    /// The gaps of all programs: it has too few of its own.
    All,
    /// Nothing: no program has enough.
    Default,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own => "from its gaps",
            Self::Forecast => "from its last gaps",
            Self::All => "from the gaps of all programs",
            Self::Default => "nothing is known yet",
        })
    }
}

/// When the next need is expected, counted from the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Not before.
    pub from: Duration,
    /// Hardly after.
    pub until: Duration,
    /// Twice the longest gap so far.
    pub longest: Duration,
    /// What says so.
    pub basis: Basis,
}

/// The gaps between needs of one kind.
#[derive(Debug, Clone)]
pub struct Gaps {
    bins: [u16; BINS],
    inside: u32,
    beyond: u32,
    /// A sliding mean, in microseconds.
    mean_us: u64,
}

impl Default for Gaps {
    fn default() -> Self {
        Self { bins: [0; BINS], inside: 0, beyond: 0, mean_us: 0 }
    }
}

impl Gaps {
    /// Adds a gap.
    pub fn add(&mut self, gap: Duration) {
        let us = u64::try_from(gap.as_micros()).unwrap_or(u64::MAX);
        self.mean_us = if self.count() == 0 { us } else { self.mean_us - self.mean_us / 8 + us / 8 };
        match bin_of(us) {
            Some(bin) => {
                self.bins[bin] += 1;
                self.inside += 1;
            }
            None => self.beyond += 1,
        }
        if self.count() >= MOST {
            self.bins.iter_mut().for_each(|count| *count /= 2);
            self.inside = self.bins.iter().map(|&count| u32::from(count)).sum();
            self.beyond /= 2;
        }
    }

    /// How many gaps weigh.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.inside + self.beyond
    }

    /// The mean of the last gaps; `None` when there were none.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        (self.count() > 0).then(|| Duration::from_micros(self.mean_us))
    }

    /// The window of these gaps alone; `None` when they are too few.
    #[must_use]
    pub fn window(&self) -> Option<Window> {
        if self.count() < ENOUGH {
            return None;
        }
        if self.beyond * 2 > self.count() {
            let (from, until) = (self.mean_us / 100 * 85, self.mean_us / 100 * 115);
            let micros = Duration::from_micros;
            let longest = micros(until).saturating_mul(2);
            return Some(Window {
                from: micros(from),
                until: micros(until),
                longest,
                basis: Basis::Forecast,
            });
        }
        let (head, tail) = (self.percentile(5).0, self.percentile(99).1);
        let longest = self.percentile(100).1;
        let from = if self.is_flat() { 0 } else { head / 10 * 9 };
        let until = tail.saturating_add(tail / 10);
        Some(Window {
            from: Duration::from_micros(from),
            until: Duration::from_micros(until),
            longest: Duration::from_micros(longest.max(until)).saturating_mul(2),
            basis: Basis::Own,
        })
    }

    /// The edges, in microseconds, of the bin that this many of a hundred gaps lie in or below.
    fn percentile(&self, percent: u32) -> (u64, u64) {
        let wanted = (self.inside * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (bin, &count) in self.bins.iter().enumerate() {
            seen += u32::from(count);
            if seen >= wanted {
                return (if bin == 0 { 0 } else { edge_us(bin - 1) }, edge_us(bin));
            }
        }
        (0, edge_us(BINS - 1))
    }

    /// Whether no bins stand out: the coefficient of variation of the bins' counts is below 2.
    fn is_flat(&self) -> bool {
        let squares: u64 = self.bins.iter().map(|&count| u64::from(count) * u64::from(count)).sum();
        let sum = u64::from(self.inside);
        // variance / mean² + 1 = n · Σ count² / (Σ count)²
        squares * BINS as u64 <= 5 * sum * sum
    }
}

/// The upper edge of a bin.
fn edge_us(bin: usize) -> u64 {
    let (octave, quarter) = ((bin + 1) / PER_OCTAVE, (bin + 1) % PER_OCTAVE);
    let base = FIRST_US << octave;
    base + base / PER_OCTAVE as u64 * quarter as u64
}

/// The bin of a gap; `None` beyond the last.
fn bin_of(us: u64) -> Option<usize> {
    let bin = if us < FIRST_US {
        0
    } else {
        let octave = (us / FIRST_US).ilog2();
        let base = FIRST_US << octave;
        let quarter = (us - base) / (base / PER_OCTAVE as u64);
        octave as usize * PER_OCTAVE + usize::try_from(quarter).unwrap_or(0)
    };
    (bin < BINS).then_some(bin)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn every_gap_lies_below_the_edge_of_its_bin_and_above_that_of_the_one_before() {
        for us in (0..2_000).chain((1..34).map(|shift| 1_u64 << shift)).chain([14_400_000_000]) {
            let bin = bin_of(us).unwrap();
            assert!(us < edge_us(bin) && (bin == 0 || us >= edge_us(bin - 1)), "{us} in {bin}");
        }
        assert_eq!((edge_us(0), edge_us(3), edge_us(4)), (20, 32, 40));
        assert_eq!(bin_of(u64::MAX), None);
    }

    #[test]
    fn regular_gaps_give_a_narrow_window() {
        let mut gaps = Gaps::default();
        for _ in 0..5 {
            gaps.add(MS(100));
        }
        assert_eq!(gaps.window(), None, "five gaps are too few");
        gaps.add(MS(100));
        let window = gaps.window().unwrap();
        // 100 ms lies in the bin from 98,304 to 114,688 µs.
        assert_eq!(window.from, Duration::from_micros(98_304 / 10 * 9));
        assert_eq!(window.until, Duration::from_micros(114_688 + 11_468));
        assert_eq!(window.longest, window.until * 2);
        assert_eq!(window.basis, Basis::Own);
        assert_eq!(gaps.mean(), Some(MS(100)));
    }

    #[test]
    fn scattered_gaps_have_no_time_before_which_nothing_comes() {
        let mut gaps = Gaps::default();
        (0..40).for_each(|step| gaps.add(Duration::from_micros(edge_us(step * 3))));
        let window = gaps.window().unwrap();
        assert_eq!(window.from, Duration::ZERO);
        assert!(window.until > MS(1000));
    }

    #[test]
    fn gaps_beyond_the_histogram_are_forecast() {
        let mut gaps = Gaps::default();
        (0..8).for_each(|_| gaps.add(Duration::from_secs(10 * 3600)));
        let window = gaps.window().unwrap();
        assert_eq!(window.basis, Basis::Forecast);
        assert_eq!((window.from.as_secs(), window.until.as_secs()), (30_600, 41_400));
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut gaps = Gaps::default();
        (0..500).for_each(|_| gaps.add(MS(1000)));
        (0..2000).for_each(|_| gaps.add(MS(1)));
        assert!(gaps.count() < MOST);
        assert!(gaps.window().unwrap().until < MS(2));
    }
}
