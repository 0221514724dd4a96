//! Numbers that depend on nothing but where they start, for workloads that are the same in each run.

/// A generator (`SplitMix64`).
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    /// A sequence of its own for each seed.
    pub(super) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Any number.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The number of one of so many; zero where there are none.
    pub(super) fn index(&mut self, count: usize) -> usize {
        let of = self.next().checked_rem(count as u64).unwrap_or(0);
        usize::try_from(of).unwrap_or(0)
    }

    /// A number from 0 up to 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are what the type holds")]
    pub(super) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_is_the_same_each_time_and_stays_in_its_limits() {
        let mut random = Random::new(7);
        let first: Vec<usize> = (0..100).map(|_| random.index(10)).collect();
        let mut again = Random::new(7);
        assert_eq!(first, (0..100).map(|_| again.index(10)).collect::<Vec<_>>());
        assert!((0..10).all(|number| first.contains(&number)) && first.iter().all(|&number| number < 10));
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.share())));
        assert_eq!(random.index(0), 0);
    }
}
