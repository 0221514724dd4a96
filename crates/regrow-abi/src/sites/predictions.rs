//! What the collector predicts about children: a class for a key.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Words that are looked at for one key: a line of the cache.
const PROBES: usize = 8;
const CLASS: u64 = 3;

/// How much processor time a child will use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Nothing is known.
    Unknown,
    /// Little.
    Short,
    /// Much.
    Long,
}

impl Class {
    fn of_word(word: u64) -> Class {
        match word & CLASS {
            1 => Class::Short,
            2 => Class::Long,
            _ => Class::Unknown,
        }
    }
}

/// The table; see the module.
#[derive(Clone, Copy)]
pub struct Predictions<'a>(&'a [AtomicU64]);

impl<'a> Predictions<'a> {
    pub(super) fn new(words: &'a [AtomicU64]) -> Predictions<'a> {
        Predictions(words)
    }

    /// The class under the first of these keys that has one.
    #[must_use]
    pub fn find(self, keys: &[u64]) -> Class {
        keys.iter()
            .map(|&key| self.look(key))
            .find(|&class| class != Class::Unknown)
            .unwrap_or(Class::Unknown)
    }

    fn look(self, key: u64) -> Class {
        let line = self.line(key);
        let has = line.iter().map(|word| word.load(Relaxed)).find(|word| word & !CLASS == tag(key));
        has.map_or(Class::Unknown, Class::of_word)
    }

    /// Puts a class under a key. Where its line is full, another key gives way.
    pub fn put(self, key: u64, class: Class) {
        let line = self.line(key);
        let has = |wanted: u64| line.iter().position(|word| word.load(Relaxed) & !CLASS == wanted);
        let by_chance = (key >> 40) as usize % PROBES;
        let at = has(tag(key)).or_else(|| has(0)).unwrap_or(by_chance);
        let word = match class {
            Class::Unknown => 0,
            Class::Short => 1,
            Class::Long => 2,
        };
        line[at].store(tag(key) | word, Relaxed);
    }

    fn line(self, key: u64) -> &'a [AtomicU64] {
        let lines = self.0.len() / PROBES;
        let from = (key >> 32) as usize % lines * PROBES;
        &self.0[from..from + PROBES]
    }
}

/// A key as it stands in a word: never 0.
fn tag(key: u64) -> u64 {
    (key & !CLASS).max(CLASS + 1)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn the_most_specific_key_that_has_a_class_counts() {
        let words: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
        let table = Predictions::new(&words);
        assert_eq!(table.find(&[40, 80]), Class::Unknown);
        table.put(80, Class::Long);
        assert_eq!(table.find(&[40, 80]), Class::Long);
        table.put(40, Class::Short);
        assert_eq!(table.find(&[40, 80]), Class::Short);
        table.put(40, Class::Unknown);
        assert_eq!(table.find(&[40, 80]), Class::Long);
        table.put(0, Class::Short);
        assert_eq!(table.find(&[0]), Class::Short);
    }

    #[test]
    fn a_full_line_loses_an_old_key_and_never_the_one_that_is_put() {
        let words: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
        let table = Predictions::new(&words);
        for key in (1..2000u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            table.put(key, Class::Long);
            assert_eq!(table.find(&[key]), Class::Long);
        }
    }
}
