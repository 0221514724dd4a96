//! A decayed histogram of few bytes: the positions of a scale that are occupied, each with a weight.
//!
//! ```text
//!   position   ▁  ▂█▃        ▁      at most N stand here; when one more comes, the two that lie closest become one
//!   weight     1  3 9 4       1     all are halved when their sum reaches MOST_RUNS
//! ```
//!
//! Merging the closest is after Ben-Haim and Tom-Tov, "A streaming parallel decision tree algorithm" (2010), section 2.1, with the increase in
//! variance for the distance.
//!
//! It decays by count: what a place creates changes when its program or its input changes, and a weekend changes neither. So a histogram needs
//! no clock, and a clock that jumps does not touch it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::hash;

/// With so many runs the old ones lose half of their weight.
pub(crate) const MOST_RUNS: u32 = 128;

/// A histogram of at most `N` occupied positions. Positions ascend; a weight of 0 ends them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Histogram<const N: usize> {
    positions: [u8; N],
    weights: [u8; N],
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        Self { positions: [0; N], weights: [0; N] }
    }
}

impl<const N: usize> Histogram<N> {
    /// Counts a run at this position. `number` is another one for each run.
    pub(crate) fn add(&mut self, position: u8, number: u64) {
        self.put(position, 1);
        if self.total() >= MOST_RUNS {
            self.halve(number);
        }
    }

    /// The sum of the weights: how many runs count.
    pub(crate) fn total(&self) -> u32 {
        self.weights.iter().map(|&weight| u32::from(weight)).sum()
    }

    /// The occupied positions, ascending, with their weights.
    pub(crate) fn points(&self) -> impl Iterator<Item = (u8, u8)> + '_ {
        let points = self.positions.iter().copied().zip(self.weights.iter().copied());
        points.take_while(|&(_, weight)| weight > 0)
    }

    /// The histogram of these points; `None` when they are too many, do not ascend, or weigh nothing or too much.
    pub(crate) fn from_points(points: &[(u8, u8)]) -> Option<Self> {
        let ascends = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if points.len() > N || !ascends || points.iter().any(|&(_, weight)| weight == 0) {
            return None;
        }
        let mut histogram = Self::default();
        for (index, &(position, weight)) in points.iter().enumerate() {
            (histogram.positions[index], histogram.weights[index]) = (position, weight);
        }
        (histogram.total() < MOST_RUNS).then_some(histogram)
    }

    /// Takes in what another histogram of the same thing knows: each position has the larger of both weights. So what both know counts
    /// once.
    pub(crate) fn join(&mut self, other: &Self) {
        for (position, weight) in other.points() {
            let own = self.points().find(|&(own, _)| own == position).map_or(0, |(_, own)| own);
            if weight > own {
                self.put(position, weight - own);
            }
        }
        while self.total() >= MOST_RUNS {
            self.halve(0);
        }
    }

    /// The position that has so much of the weight below it and in it; `None` when there is no weight.
    pub(crate) fn quantile(&self, share: f32) -> Option<u8> {
        #[expect(clippy::cast_precision_loss, reason = "at most some hundreds")]
        let wanted = self.total() as f32 * share;
        let mut below = 0.0;
        let mut last = None;
        for (position, weight) in self.points() {
            below += f32::from(weight);
            last = Some(position);
            if below >= wanted {
                break;
            }
        }
        last
    }

    /// The mean position; `None` when there is no weight.
    pub(crate) fn mean(&self) -> Option<f32> {
        let total = self.total();
        let sum: u32 = self.points().map(|(position, weight)| u32::from(position) * u32::from(weight)).sum();
        #[expect(clippy::cast_precision_loss, reason = "below 2^24")]
        (total > 0).then(|| sum as f32 / total as f32)
    }

    /// Adds weight at a position.
    fn put(&mut self, position: u8, weight: u8) {
        let occupied = self.points().count();
        let at = self.points().take_while(|&(own, _)| own < position).count();
        if at < occupied && self.positions[at] == position {
            self.weights[at] = self.weights[at].saturating_add(weight);
        } else if occupied < N {
            self.positions.copy_within(at..occupied, at + 1);
            self.weights.copy_within(at..occupied, at + 1);
            (self.positions[at], self.weights[at]) = (position, weight);
        } else {
            self.merge_closest(at, position, weight);
        }
    }

    /// Makes one of the two points that lie closest, of those that are here and one more, which belongs before `at`.
    fn merge_closest(&mut self, at: usize, position: u8, weight: u8) {
        // The points with the one more in its place.
        let point = |index: usize| match index.cmp(&at) {
            std::cmp::Ordering::Less => (self.positions[index], self.weights[index]),
            std::cmp::Ordering::Equal => (position, weight),
            std::cmp::Ordering::Greater => (self.positions[index - 1], self.weights[index - 1]),
        };
        let cost = |index: usize| distance(point(index), point(index + 1));
        let closest = (0..N).min_by_key(|&index| cost(index)).unwrap_or(0);
        let merged = middle(point(closest), point(closest + 1));
        let mut all = [(0, 0); N];
        for (index, slot) in all.iter_mut().enumerate() {
            *slot = match index.cmp(&closest) {
                std::cmp::Ordering::Less => point(index),
                std::cmp::Ordering::Equal => merged,
                std::cmp::Ordering::Greater => point(index + 1),
            };
        }
        for (index, (position, weight)) in all.into_iter().enumerate() {
            (self.positions[index], self.weights[index]) = (position, weight);
        }
    }

    /// Halves each weight. An odd one is rounded up or down by a bit of the number, so that a single long run of a hundred is not lost at once,
    /// and not kept for ever.
    fn halve(&mut self, number: u64) {
        let mut kept = 0;
        for index in 0..N {
            let (position, weight) = (self.positions[index], self.weights[index]);
            let more = hash::mixed(number ^ u64::from(position) << 56).is_multiple_of(2);
            let half = weight / 2 + u8::from(more) * (weight % 2);
            if half > 0 {
                (self.positions[kept], self.weights[kept]) = (position, half);
                kept += 1;
            }
        }
        self.positions[kept..].fill(0);
        self.weights[kept..].fill(0);
    }
}

/// Positions and weights in turn, as bytes.
impl<const N: usize> Serialize for Histogram<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes: Vec<u8> = self.points().flat_map(|(position, weight)| [position, weight]).collect();
        serializer.serialize_bytes(&bytes)
    }
}

impl<'de, const N: usize> Deserialize<'de> for Histogram<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(PointsVisitor)
    }
}

struct PointsVisitor<const N: usize>;

impl<const N: usize> Visitor<'_> for PointsVisitor<N> {
    type Value = Histogram<N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {N} positions, ascending, each with its weight")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Histogram<N>, E> {
        let points: Vec<(u8, u8)> = bytes.chunks_exact(2).map(|point| (point[0], point[1])).collect();
        let histogram = Histogram::from_points(&points).filter(|_| bytes.len().is_multiple_of(2));
        histogram.ok_or_else(|| E::invalid_length(bytes.len(), &self))
    }
}

/// By how much the variance grows when two points become one (Ward), in 4096ths.
fn distance((low, less): (u8, u8), (high, more): (u8, u8)) -> u64 {
    let apart = u64::from(high.abs_diff(low));
    let (less, more) = (u64::from(less), u64::from(more));
    (apart * apart * less * more) * 4096 / (less + more).max(1)
}

/// The point that two become.
fn middle((low, less): (u8, u8), (high, more): (u8, u8)) -> (u8, u8) {
    let (less_wide, more_wide) = (u32::from(less), u32::from(more));
    let sum = (less_wide + more_wide).max(1);
    let position = (u32::from(low) * less_wide + u32::from(high) * more_wide + sum / 2) / sum;
    (u8::try_from(position).unwrap_or(high), less.saturating_add(more))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(positions: impl IntoIterator<Item = u8>) -> Histogram<4> {
        let mut histogram = Histogram::default();
        positions.into_iter().zip(0..).for_each(|(position, number)| histogram.add(position, number));
        histogram
    }

    fn points(histogram: &Histogram<4>) -> Vec<(u8, u8)> {
        histogram.points().collect()
    }

    #[test]
    fn positions_are_counted_in_order() {
        assert_eq!(points(&of([9, 3, 9, 200])), [(3, 1), (9, 2), (200, 1)]);
        assert_eq!(of([]).quantile(0.5), None);
        let histogram = of([9, 3, 9, 200]);
        let quantiles = [0.0, 0.25, 0.5, 0.75, 0.99, 1.0].map(|share| histogram.quantile(share).unwrap());
        assert_eq!(quantiles, [3, 3, 9, 9, 200, 200]);
        assert_eq!(histogram.mean(), Some(221.0 / 4.0));
    }

    #[test]
    fn the_closest_two_become_one_when_one_more_comes() {
        assert_eq!(points(&of([10, 20, 100, 200, 103])), [(10, 1), (20, 1), (102, 2), (200, 1)]);
        assert_eq!(points(&of([10, 20, 100, 200, 1])), [(6, 2), (20, 1), (100, 1), (200, 1)]);
        assert_eq!(points(&of([10, 20, 100, 200, 255])), [(15, 2), (100, 1), (200, 1), (255, 1)]);
        // Two heavy points stay apart, though they are closer than two light ones.
        let heavy = [10; 30].into_iter().chain([16; 30]).chain([100, 110, 200]);
        assert_eq!(points(&of(heavy)), [(10, 30), (16, 30), (105, 2), (200, 1)]);
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut histogram = of([200; 100]);
        assert_eq!(histogram.quantile(0.5), Some(200));
        (0..100).for_each(|number| histogram.add(10, number));
        assert_eq!(histogram.quantile(0.5), Some(10));
        (0..3000).for_each(|number| histogram.add(10, number));
        assert_eq!(points(&histogram).len(), 1);
    }

    #[test]
    fn a_rare_long_run_stays_in_sight() {
        // One run of fifty is long.
        let mut histogram = Histogram::<8>::default();
        let mut in_sight = 0;
        for run in 0..5_000_u64 {
            histogram.add(if run % 50 == 49 { 200 } else { 50 }, run);
            in_sight += u32::from(run >= 100 && histogram.quantile(0.99) == Some(200));
        }
        assert!(in_sight > 4_000, "{in_sight} of 4,900");
    }

    #[test]
    fn what_both_know_counts_once() {
        let mut histogram = of([1, 1, 5]);
        histogram.join(&of([1, 5, 5, 9]));
        assert_eq!(points(&histogram), [(1, 2), (5, 2), (9, 1)]);
        let same = histogram;
        histogram.join(&same);
        assert_eq!(histogram, same);
    }

    proptest! {
        #[test]
        fn it_stays_in_order_within_its_bounds_and_close_to_what_was_added(
            positions in prop::collection::vec(0_u8..=255, 1..400),
        ) {
            let mut histogram = Histogram::<8>::default();
            for (count, &position) in positions.iter().enumerate() {
                histogram.add(position, count as u64);
                let points: Vec<(u8, u8)> = histogram.points().collect();
                prop_assert_eq!(Histogram::<8>::from_points(&points), Some(histogram));
                prop_assert!(histogram.total() as usize <= count + 1);
            }
            let (least, most) = (positions.iter().min().unwrap(), positions.iter().max().unwrap());
            for share in [0.0, 0.5, 1.0] {
                let quantile = histogram.quantile(share).unwrap();
                prop_assert!(least <= &quantile && &quantile <= most);
            }
        }

        #[test]
        fn a_join_knows_at_least_what_each_knew(
            left in prop::collection::vec(0_u8..=255, 0..60),
            right in prop::collection::vec(0_u8..=255, 0..60),
        ) {
            let (left, right) = (of(left), of(right));
            let mut joined = left;
            joined.join(&right);
            let most = left.total().max(right.total());
            prop_assert!(joined.total() >= most.min(MOST_RUNS / 2));
            let again = joined;
            joined.join(&again);
            prop_assert_eq!(joined, again);
        }

        #[test]
        fn what_is_no_histogram_is_refused(points in prop::collection::vec((0_u8..=255, 0_u8..=255), 0..6)) {
            if let Some(histogram) = Histogram::<4>::from_points(&points) {
                prop_assert_eq!(histogram.points().collect::<Vec<_>>(), points);
                prop_assert!(histogram.total() < MOST_RUNS);
            }
        }
    }
}
