//! Hashes by which the model knows images, places and calls. They stand in its file: they are the same on every machine.

/// A hash of 64 bits in the making.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hash64(u64);

/// An odd number without pattern: the golden ratio, 64 bits of it.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hash64 {
    /// A hash of nothing yet, of one of several kinds: equal things of two kinds have two hashes.
    pub(crate) const fn new(kind: u64) -> Hash64 {
        Hash64(mixed(kind.wrapping_add(GOLDEN)))
    }

    /// Takes a number in.
    pub(crate) const fn add(&mut self, number: u64) {
        self.0 = mixed(self.0.rotate_left(23) ^ number).wrapping_add(GOLDEN);
    }

    /// Takes bytes in, and how many they are.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
        self.add(bytes.len() as u64);
    }

    /// All bits.
    pub(crate) const fn whole(self) -> u64 {
        self.0
    }

    /// Half of them; never 0, which stands for nothing.
    pub(crate) const fn low(self) -> u32 {
        let bytes = mixed(self.0).to_le_bytes();
        let half = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        if half == 0 { 1 } else { half }
    }

    /// A quarter of them.
    pub(crate) const fn quarter(self) -> u16 {
        let bytes = mixed(self.0).to_le_bytes();
        u16::from_le_bytes([bytes[6], bytes[7]])
    }
}

/// A hash of a few numbers.
pub(crate) fn of(kind: u64, numbers: &[u64]) -> Hash64 {
    let mut hash = Hash64::new(kind);
    numbers.iter().for_each(|&number| hash.add(number));
    hash
}

/// Each bit of the number changes half of the bits: the finalizer of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014).
pub(crate) const fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_differs_in_kind_order_or_length_has_another_hash() {
        let bytes = |kind, text: &[u8]| {
            let mut hash = Hash64::new(kind);
            hash.add_bytes(text);
            hash.whole()
        };
        assert_ne!(bytes(1, b"a"), bytes(2, b"a"));
        assert_ne!(bytes(1, b"a"), bytes(1, b"a\0"));
        assert_ne!(of(1, &[1, 2]).whole(), of(1, &[2, 1]).whole());
        assert_ne!(of(1, &[0]).whole(), of(1, &[0, 0]).whole());
        assert_eq!(bytes(1, b"abcdefghi"), bytes(1, b"abcdefghi"));
    }

    #[test]
    fn small_numbers_spread() {
        let lows: BTreeSet<u32> = (0..100_000).map(|number| of(0, &[number]).low()).collect();
        assert!(lows.len() > 99_990, "{}", lows.len());
        let quarters: BTreeSet<u16> = (0..1_000).map(|number| of(0, &[number]).quarter()).collect();
        assert!(quarters.len() > 980, "{}", quarters.len());
    }

    #[test]
    fn hashes_are_the_same_everywhere() {
        assert_eq!(format!("{:016x}", of(1, &[1, 2, 3]).whole()), "ecc3f267e070e231");
    }
}
