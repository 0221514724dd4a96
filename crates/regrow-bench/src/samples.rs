//! Measured times, and their percentiles.

use serde::Serialize;

/// Nanoseconds of a microsecond.
const US_NS: f64 = 1000.0;

/// Measured times, in nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<u64>);

/// The median and the 99th percentile, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    /// Half of the times are at most this long.
    pub p50: f64,
    /// 99 of 100 are; of fewer than 100 times, all.
    pub p99: f64,
}

impl Samples {
    /// Adds a time.
    pub fn push(&mut self, time_ns: u64) {
        self.0.push(time_ns);
    }

    /// How many times there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The percentiles, if there is a time at all.
    pub fn percentiles(&self) -> Option<Percentiles> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        Some(Percentiles { p50: nearest_rank(&sorted, 50)?, p99: nearest_rank(&sorted, 99)? })
    }
}

/// The value in the middle, the upper one of two; the default where there is none.
pub fn median<T: PartialOrd + Copy + Default>(values: impl IntoIterator<Item = T>) -> T {
    let mut values: Vec<T> = values.into_iter().collect();
    values.sort_by(|one, other| one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal));
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The value that a quarter of the others are below: of costs whose turns others may have disturbed. The default where there is none.
pub fn lower_quartile<T: PartialOrd + Copy + Default>(values: impl IntoIterator<Item = T>) -> T {
    let mut values: Vec<T> = values.into_iter().collect();
    values.sort_by(|one, other| one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal));
    values.get(values.len() / 4).copied().unwrap_or_default()
}

/// The value that a quarter of the others are above: of rates, likewise.
pub fn upper_quartile<T: PartialOrd + Copy + Default>(values: impl IntoIterator<Item = T>) -> T {
    let mut values: Vec<T> = values.into_iter().collect();
    values.sort_by(|one, other| other.partial_cmp(one).unwrap_or(std::cmp::Ordering::Equal));
    values.get(values.len() / 4).copied().unwrap_or_default()
}

/// The smallest of the times that at least so many of a hundred do not exceed, in microseconds.
fn nearest_rank(sorted: &[u64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    let time_ns = *sorted.get(rank.checked_sub(1)?)?;
    Some(rounded(micros(time_ns)))
}

/// Nanoseconds as microseconds.
#[allow(clippy::cast_precision_loss, reason = "a time of 104 days still has whole nanoseconds")]
pub fn micros(time_ns: u64) -> f64 {
    time_ns as f64 / US_NS
}

/// A value with two digits after the point: further ones mean nothing.
pub fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// A part of one, with three digits after the point.
pub fn rounded_finely(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// The monotonic clock, in nanoseconds.
pub fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percentiles(times_us: impl IntoIterator<Item = u64>) -> Option<Percentiles> {
        let mut samples = Samples::default();
        times_us.into_iter().for_each(|time| samples.push(time * 1000));
        samples.percentiles()
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        assert_eq!(percentiles([]), None);
        assert_eq!(percentiles([7]), Some(Percentiles { p50: 7.0, p99: 7.0 }));
        assert_eq!(percentiles([3, 1, 2, 9]), Some(Percentiles { p50: 2.0, p99: 9.0 }));
        assert_eq!(percentiles((1..=100).rev()), Some(Percentiles { p50: 50.0, p99: 99.0 }));
        assert_eq!(percentiles(1..=1000), Some(Percentiles { p50: 500.0, p99: 990.0 }));
    }

    #[test]
    fn quartiles_are_values_that_were_measured() {
        let values = || (1..=9).map(f64::from);
        assert_eq!([lower_quartile(values()), median(values()), upper_quartile(values())], [3.0, 5.0, 7.0]);
        assert_eq!((lower_quartile([7]), upper_quartile([7]), upper_quartile::<u32>([])), (7, 7, 0));
    }

    #[test]
    fn the_clock_goes_forward() {
        let before = now_ns();
        assert!(now_ns() >= before && before > 0);
    }
}
