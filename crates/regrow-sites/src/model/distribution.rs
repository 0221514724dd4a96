//! What a value is expected to be: a share of all runs for each position of the scale, and what follows from that.

use super::scale::{self, POSITIONS};

/// Expected values. Its unit is that of what it speaks of.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// The shares of the runs. Their sum is 1.
    shares: [f32; POSITIONS],
}

/// Some figures of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quantiles {
    /// Half of the runs have no more.
    pub p50: u64,
    /// The mean.
    pub mean: u64,
    /// Nine of ten have no more.
    pub p90: u64,
    /// Ninety-nine of a hundred have no more.
    pub p99: u64,
}

/// So small a share may be an error of rounding.
const NOTHING: f32 = 1e-5;

/// Where nothing is known: the least that a process is taken to use, in microseconds.
const LEAST_US: u64 = 1000;

/// The shares where nothing is known: one process in two uses at least twice as much as the least, one in four at least four times as much. That
/// is what Harchol-Balter and Downey found of processor times of Unix processes ("Exploiting process lifetime distributions for dynamic load
/// balancing", 1997, section 3): the probability to use more than T is k/T.
pub(super) const UNKNOWN: [f32; POSITIONS] = {
    let mut shares = [0.0; POSITIONS];
    let mut position = 0;
    while position < POSITIONS {
        let end = if position + 1 < POSITIONS { more_than(scale::edge(position + 1)) } else { 0.0 };
        shares[position] = more_than(scale::edge(position)) - end;
        position += 1;
    }
    shares
};

/// The share of the runs that use more than this, where nothing is known.
#[expect(clippy::cast_precision_loss, reason = "a share")]
const fn more_than(us: u64) -> f32 {
    if us <= LEAST_US { 1.0 } else { LEAST_US as f32 / us as f32 }
}

impl Distribution {
    /// Nothing yet: shares are put in.
    pub(super) fn empty() -> Distribution {
        Distribution { shares: [0.0; POSITIONS] }
    }

    /// Adds shares, each times a weight.
    pub(super) fn add_all(&mut self, shares: &[f32; POSITIONS], weight: f32) {
        self.shares.iter_mut().zip(shares).for_each(|(own, share)| *own += share * weight);
    }

    /// Adds a share at a position.
    pub(super) fn add(&mut self, position: u8, share: f32) {
        self.shares[usize::from(position)] += share;
    }

    /// The value that so large a share of the runs does not exceed, between 0 and 1.
    #[must_use]
    pub fn quantile(&self, share: f32) -> u64 {
        whole(scale::value(self.point_where(share.clamp(0.0, 1.0))))
    }

    /// Median, mean, and what few runs exceed.
    #[must_use]
    pub fn quantiles(&self) -> Quantiles {
        Quantiles {
            p50: self.quantile(0.5),
            mean: self.mean(),
            p90: self.quantile(0.9),
            p99: self.quantile(0.99),
        }
    }

    /// Makes the sum of the shares 1, when it is this.
    pub(super) fn scale_from(&mut self, sum: f32) {
        self.shares.iter_mut().for_each(|share| *share /= sum);
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> u64 {
        let mut point = 0.5_f32;
        let mut sum = 0.0;
        for &share in &self.shares {
            if share > 0.0 {
                sum += scale::value(point) * f64::from(share);
            }
            point += 1.0;
        }
        whole(sum)
    }

    /// The share of the runs that do not exceed a value.
    #[must_use]
    pub fn share_within(&self, limit: u64) -> f32 {
        self.share_below(scale::point(limit)).clamp(0.0, 1.0)
    }

    /// How much more there is to come of a run that has had so much. Where it has had more than any run before, as much again is to be expected
    /// (Harchol-Balter and Downey, 1997).
    #[must_use]
    pub fn left(&self, had: u64) -> Quantiles {
        let from = scale::point(had);
        let below = self.share_below(from);
        let rest = 1.0 - below;
        if rest <= NOTHING {
            return beyond(had);
        }
        let at = |share: f32| whole(scale::value(self.point_where(below + rest * share))).saturating_sub(had);
        let mut mean = 0.0;
        let mut point = 0.0_f32;
        for &share in &self.shares {
            let (low, high) = (point.max(from), point + 1.0);
            if high > low && share > 0.0 {
                mean += scale::value(f32::midpoint(low, high)) * f64::from(share * (high - low));
            }
            point += 1.0;
        }
        let mean = whole(mean / f64::from(rest)).saturating_sub(had);
        Quantiles { p50: at(0.5), mean, p90: at(0.9), p99: at(0.99) }
    }

    /// The sum of the shares below a point of the scale.
    fn share_below(&self, point: f32) -> f32 {
        let mut position = 0.0_f32;
        let mut below = 0.0;
        for &share in &self.shares {
            if position >= point {
                break;
            }
            below += share * (point - position).min(1.0);
            position += 1.0;
        }
        below
    }

    /// The point below which the shares have such a sum.
    fn point_where(&self, wanted: f32) -> f32 {
        let mut below = 0.0;
        let mut position = 0.0_f32;
        let mut last = 0.0;
        for &share in &self.shares {
            if share > 0.0 {
                if below + share >= wanted {
                    return position + ((wanted - below) / share).clamp(0.0, 1.0);
                }
                last = position + 1.0;
            }
            below += share;
            position += 1.0;
        }
        last
    }
}

/// What is left of a run that has had more than is known of any.
fn beyond(had: u64) -> Quantiles {
    let times = |factor: u64| had.saturating_mul(factor);
    Quantiles { p50: had, mean: times(4), p90: times(9), p99: times(99) }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "values are positive, and end at 2^34"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::scale::position;

    fn of(values: &[(u64, f32)]) -> Distribution {
        let mut distribution = Distribution::empty();
        values.iter().for_each(|&(value, share)| distribution.add(position(value), share));
        distribution
    }

    fn is_close(value: u64, wanted: u64) -> bool {
        value.abs_diff(wanted) * 8 <= wanted
    }

    #[test]
    fn figures_are_those_of_the_runs() {
        let distribution = of(&[(1_000, 0.88), (40_000, 0.1), (9_000_000, 0.02)]);
        let Quantiles { p50, mean, p90, p99 } = distribution.quantiles();
        assert!(
            is_close(p50, 1_000) && is_close(p90, 40_000) && is_close(p99, 9_000_000),
            "{p50} {p90} {p99}"
        );
        assert!(is_close(mean, 184_880), "{mean}");
        assert!((distribution.share_within(10_000) - 0.88).abs() < 1e-4);
        assert!((distribution.share_within(u64::MAX) - 1.0).abs() < 1e-5);
        assert_eq!(distribution.share_within(10), 0.0);
    }

    #[test]
    fn what_is_left_depends_on_what_was_had() {
        let distribution = of(&[(1_000, 0.9), (1_000_000, 0.1)]);
        assert!(is_close(distribution.left(0).p50, 1_000));
        let later = distribution.left(10_000);
        assert!(is_close(later.p50, 1_000_000) && is_close(later.mean, 1_000_000), "{later:?}");
        let end = distribution.left(5_000_000);
        assert_eq!((end.p50, end.p90, end.p99), (5_000_000, 45_000_000, 495_000_000), "as much again");
    }

    #[test]
    fn of_the_unknown_half_take_twice_the_least() {
        let mut distribution = Distribution::empty();
        distribution.add_all(&UNKNOWN, 1.0);
        assert!((distribution.share_below(256.0) - 1.0).abs() < 1e-4);
        assert!(is_close(distribution.quantile(0.5), 2_000), "{}", distribution.quantile(0.5));
        assert!(is_close(distribution.quantile(0.9), 10_000));
        for had in [1_000, 50_000, 3_000_000] {
            assert!(is_close(distribution.left(had).p50, had), "{had}: {:?}", distribution.left(had));
        }
    }

    #[test]
    fn an_empty_one_says_zero() {
        assert_eq!(Distribution::empty().quantiles(), Quantiles::default());
        assert_eq!(Distribution::empty().share_within(5), 0.0);
    }
}
