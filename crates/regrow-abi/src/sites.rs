//! What processes below a command and their collector share: a file of words that each of them maps.
//!
//! ```text
//!   word 0            HEADER_WORDS       + KNOWN_WORDS    + RULE_WORDS    + PREDICTION_WORDS
//!   +-----------------+------------------+----------------+---------------+-------------------------+
//!   | mark, settings, | known: what was  | rules: callers | predictions:  | ring: SLOTS records of  |
//!   | places taken    | named once       | of places      | by the        | SLOT_WORDS each         |
//!   |                 |                  |                | collector     |                         |
//!   +-----------------+------------------+----------------+---------------+-------------------------+
//! ```
//!
//! Processes write records and the first two tables, the collector all else. Every access is to one whole word, so that a process that is killed
//! at any place leaves no table damaged and no lock taken. Nobody trusts what stands there: any process below the command can write to it, so a
//! reader checks lengths and indexes, and a wrong word costs a record or a hint.

mod arguments;
mod hash;
mod known;
mod levers;
mod place;
mod predictions;
mod record;
mod ring;
mod rules;

pub use arguments::Arguments;
pub use hash::{fnv1a, fnv1a_of_words, image_of_build_id, image_of_file};
pub use known::{Interpreter, Known, Met};
pub use levers::{Lever, Levers};
pub use place::Place;
pub use predictions::{Class, Predictions};
pub use record::{Call, How, Record, TEXT_BYTES, Text, WaitStatus};
pub use ring::{RECORD_WORDS, Ring, SLOT_WORDS, Slot};
pub use rules::{Base, Rule, Rules};

use core::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// The variable of the environment that names the channel's file.
pub const VARIABLE: &str = "REGROW_SITES";
/// The file name of the library.
pub const LIBRARY_NAME: &str = "libregrow_sites.so";

/// Stands in the first word: letters, and the version of this layout in the lowest byte.
const MARK: u64 = u64::from_be_bytes(*b"RGSITES\x02");

/// Words of the header.
const HEADER_WORDS: usize = 64;
/// Words of the table of what was named.
const KNOWN_WORDS: usize = 4096;
/// Words of the table of rules.
const RULE_WORDS: usize = 8192;
/// Words of the table of predictions.
const PREDICTION_WORDS: usize = 16384;
/// Records that the ring holds.
pub const SLOTS: usize = 32768;

const KNOWN_AT: usize = HEADER_WORDS;
const RULES_AT: usize = KNOWN_AT + KNOWN_WORDS;
const PREDICTIONS_AT: usize = RULES_AT + RULE_WORDS;
const RING_AT: usize = PREDICTIONS_AT + PREDICTION_WORDS;
/// Words of the channel.
pub const CHANNEL_WORDS: usize = RING_AT + SLOTS * SLOT_WORDS;
/// Bytes of the channel's file.
pub const CHANNEL_BYTES: usize = CHANNEL_WORDS * 8;

// Slots begin on a line of the cache, so that two writers seldom meet in one.
const _: () = assert!(RING_AT.is_multiple_of(8) && SLOT_WORDS == 16 && SLOTS.is_power_of_two());

/// Where the words of the header stand. The two that every writer changes have lines of their own.
mod at {
    pub(super) const MARK: usize = 0;
    pub(super) const STATE: usize = 1;
    pub(super) const LEVERS: usize = 8;
    pub(super) const TAIL: usize = 16;
    pub(super) const DROPPED: usize = 24;
}

/// Somebody reads the ring.
const COLLECTING: u64 = 1;
/// Predictions are acted on.
const SCHEDULING: u64 = 2;

/// The channel, as words that are mapped.
#[derive(Clone, Copy)]
pub struct Channel<'a> {
    words: &'a [AtomicU64],
}

impl<'a> Channel<'a> {
    /// In words that are all zero, which become a channel.
    ///
    /// `None` where there are not [`CHANNEL_WORDS`] of them.
    #[must_use]
    pub fn create(words: &'a [AtomicU64]) -> Option<Channel<'a>> {
        (words.len() == CHANNEL_WORDS).then(|| words[at::MARK].store(MARK, Release));
        Self::open(words)
    }

    /// In words that are a channel.
    ///
    /// `None` where they are none of this version.
    #[must_use]
    pub fn open(words: &'a [AtomicU64]) -> Option<Channel<'a>> {
        (words.len() == CHANNEL_WORDS && words[at::MARK].load(Acquire) == MARK).then_some(Channel { words })
    }

    /// Whether somebody reads the ring.
    #[must_use]
    pub fn is_collecting(self) -> bool {
        self.words[at::STATE].load(Relaxed) & COLLECTING != 0
    }

    /// How children are to be scheduled; `None` while nothing is to be changed.
    #[must_use]
    pub fn levers(self) -> Option<Levers> {
        let is_on = self.words[at::STATE].load(Acquire) & SCHEDULING != 0;
        is_on.then(|| {
            Levers::from_words(core::array::from_fn(|word| self.words[at::LEVERS + word].load(Relaxed)))
        })
    }

    /// Says that the ring is read from here on, and how children are to be scheduled.
    pub fn begin(self, levers: Option<&Levers>) {
        let mut state = COLLECTING;
        if let Some(levers) = levers {
            state |= SCHEDULING;
            for (at, word) in levers.to_words().into_iter().enumerate() {
                self.words[at::LEVERS + at].store(word, Relaxed);
            }
        }
        self.words[at::STATE].store(state, Release);
    }

    /// Says that nobody reads the ring any more.
    pub fn end(self) {
        self.words[at::STATE].store(0, Release);
    }

    /// The ring of records.
    #[must_use]
    pub fn ring(self) -> Ring<'a> {
        let (tail, dropped) = (&self.words[at::TAIL], &self.words[at::DROPPED]);
        Ring::new(tail, dropped, &self.words[RING_AT..])
    }

    /// What was named.
    #[must_use]
    pub fn known(self) -> Known<'a> {
        Known::new(&self.words[KNOWN_AT..RULES_AT])
    }

    /// How the caller of a place is found.
    #[must_use]
    pub fn rules(self) -> Rules<'a> {
        Rules::new(&self.words[RULES_AT..PREDICTIONS_AT])
    }

    /// What is predicted.
    #[must_use]
    pub fn predictions(self) -> Predictions<'a> {
        Predictions::new(&self.words[PREDICTIONS_AT..RING_AT])
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn words(count: usize) -> Vec<AtomicU64> {
        (0..count).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn a_channel_is_known_by_its_mark_and_length() {
        let all = words(CHANNEL_WORDS);
        assert!(Channel::open(&all).is_none(), "no mark");
        assert!(Channel::create(&all[1..]).is_none(), "too short");
        assert!(Channel::open(&all).is_none(), "no mark");
        let made = Channel::create(&all).expect("of this length");
        assert!(!made.is_collecting() && made.levers().is_none());
        all[0].fetch_add(1, Relaxed);
        assert!(Channel::open(&all).is_none(), "another version");
    }

    #[test]
    fn settings_are_read_as_they_were_written() {
        let all = words(CHANNEL_WORDS);
        let made = Channel::create(&all).expect("of this length");
        made.begin(None);
        assert!(made.is_collecting() && made.levers().is_none());
        let levers = Levers {
            usual_nice: -3,
            usual_slice_ns: 2_800_000,
            short: Lever { slice_ns: 700_000, nicer: -5, is_batch: false },
            long: Lever { slice_ns: 20_000_000, nicer: 2, is_batch: true },
        };
        made.begin(Some(&levers));
        let seen = Channel::open(&all).expect("it is one");
        assert_eq!(seen.levers(), Some(levers));
        made.end();
        assert!(!seen.is_collecting() && seen.levers().is_none());
    }

    #[test]
    fn the_parts_do_not_overlap() {
        let all = words(CHANNEL_WORDS);
        let made = Channel::create(&all).expect("of this length");
        let first = Record::Started { pid: 1, time_ns: 2, call: None };
        assert!((0..SLOTS).all(|_| made.ring().push(&first.to_words(), 1)));
        assert!(!made.ring().push(&first.to_words(), 1), "it is full");
        let filled = all.iter().filter(|word| word.load(Relaxed) != 0).count();
        assert_eq!(made.known().meet(77, Interpreter::None), Met::First);
        made.rules().put(5, Rule::Last);
        made.predictions().put(7, Class::Long);
        assert_eq!(all.iter().filter(|word| word.load(Relaxed) != 0).count(), filled + 3);
    }
}
