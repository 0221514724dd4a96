//! How the caller of a place in code is found: worked out once from a module's unwinding tables, kept for all processes.
//!
//! A word has the hash of the place and the rule. Two places with one hash are one in 2^28: a frame is then wrong, and the reader of a stack
//! stays within it whatever a rule says.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::hash::mix;

/// Bits of a word for the rule.
const RULE_BITS: u32 = 36;
const SIZE_BITS: u32 = 18;
/// The largest frame that a rule can tell, in bytes.
const LARGEST: u32 = ((1 << SIZE_BITS) - 1) * 8;

/// What a frame is measured from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The stack pointer.
    Stack,
    /// The frame pointer.
    Frame,
}

/// How a caller is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The frame of the place ends so many bytes above a register, and the return address is the last word in it.
    Caller {
        /// Which register.
        base: Base,
        /// Bytes, a multiple of 8.
        size: u32,
        /// Where the caller's frame pointer is kept: words below the end of the frame; `None` while the register still has it.
        frame_pointer: Option<u16>,
    },
    /// There is no caller, or none that can be told.
    Last,
}

/// The table; see the module.
#[derive(Clone, Copy)]
pub struct Rules<'a>(&'a [AtomicU64]);

impl<'a> Rules<'a> {
    pub(super) fn new(words: &'a [AtomicU64]) -> Rules<'a> {
        Rules(words)
    }

    /// The hash of a place: a module and an offset in it.
    #[must_use]
    pub fn place(module: u64, offset: u64) -> u64 {
        mix(&[module, offset])
    }

    /// The rule of a place.
    #[must_use]
    pub fn find(self, place: u64) -> Option<Rule> {
        let word = self.word(place).load(Relaxed);
        (word >> RULE_BITS == place >> RULE_BITS).then(|| unpack(word & ((1 << RULE_BITS) - 1)))?
    }

    /// Keeps the rule of a place, for which another gives way.
    pub fn put(self, place: u64, rule: Rule) {
        self.word(place).store(place >> RULE_BITS << RULE_BITS | pack(rule), Relaxed);
    }

    fn word(self, place: u64) -> &'a AtomicU64 {
        &self.0[place as usize % self.0.len()]
    }
}

/// The lowest two bits say what a rule is: 1 and 2 the bases, 3 the last frame; 0 stands for an empty word.
fn pack(rule: Rule) -> u64 {
    match rule {
        Rule::Caller { base, size, frame_pointer } if size <= LARGEST => {
            let base = if base == Base::Stack { 1 } else { 2 };
            base | u64::from(size / 8) << 2 | u64::from(frame_pointer.unwrap_or(0)) << (2 + SIZE_BITS)
        }
        _ => 3,
    }
}

fn unpack(bits: u64) -> Option<Rule> {
    let base = match bits & 3 {
        0 => return None,
        1 => Base::Stack,
        2 => Base::Frame,
        _ => return Some(Rule::Last),
    };
    let size = (bits >> 2 & ((1 << SIZE_BITS) - 1)) as u32 * 8;
    let below = (bits >> (2 + SIZE_BITS)) as u16;
    Some(Rule::Caller { base, size, frame_pointer: (below != 0).then_some(below) })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn rules_are_found_as_they_were_put() {
        let words: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
        let table = Rules::new(&words);
        for rule in [
            Rule::Last,
            Rule::Caller { base: Base::Stack, size: 8, frame_pointer: None },
            Rule::Caller { base: Base::Stack, size: LARGEST, frame_pointer: Some(u16::MAX) },
            Rule::Caller { base: Base::Frame, size: 16, frame_pointer: Some(2) },
        ] {
            let place = Rules::place(3, 4);
            table.put(place, rule);
            assert_eq!(table.find(place), Some(rule));
            assert_eq!(table.find(place ^ 1 << 63), None, "another place with the same word");
        }
        assert_eq!(table.find(Rules::place(3, 5)), None);
        assert_eq!(table.find(0), None, "an empty word is no rule");
    }

    #[test]
    fn a_frame_that_is_too_large_to_be_told_is_the_last() {
        let words: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
        let table = Rules::new(&words);
        table.put(9, Rule::Caller { base: Base::Stack, size: LARGEST + 8, frame_pointer: None });
        assert_eq!(table.find(9), Some(Rule::Last));
    }
}
