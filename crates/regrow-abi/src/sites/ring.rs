//! The ring of records: many writers without a lock, one reader.
//!
//! ```text
//!   tail: the next place ─┐            a slot:  free ──claim──> claimed by a thread ──words──> full ──reader──> free
//!   ...| full | full | claimed | free | free |...
//! ```
//!
//! - A writer takes a place, claims its slot, writes, and says that the slot is full. A place whose slot is in use is passed over; after
//!   [`TRIES`] of them the record is dropped and counted.
//! - A writer that is killed between two steps leaves one slot claimed: its record is lost, and nobody waits for it. The reader frees the slot when
//!   the thread that claimed it is no more.
//! - The reader may free a slot whose writer lives after all, where thread numbers are not what it takes them for. Two records may then mix: a
//!   record has a sum of its words, and the reader passes over one that is wrong.

use core::sync::atomic::{
    AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use super::hash::mix;

/// Words of a slot: its state, a record, the sum.
pub const SLOT_WORDS: usize = 16;
/// Words of a record.
pub const RECORD_WORDS: usize = SLOT_WORDS - 2;
/// Places that a writer tries.
const TRIES: usize = 8;

const FREE: u64 = 0;
const CLAIMED: u64 = 1;
const FULL: u64 = 2;

/// What stands in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Nothing.
    Free,
    /// A thread is writing.
    Claimed(u32),
    /// A record, which is taken out.
    Record([u64; RECORD_WORDS]),
    /// Words that are no record. They are taken out.
    Torn,
}

/// The ring; see the module.
#[derive(Clone, Copy)]
pub struct Ring<'a> {
    tail: &'a AtomicU64,
    dropped: &'a AtomicU64,
    slots: &'a [AtomicU64],
}

impl<'a> Ring<'a> {
    pub(super) fn new(tail: &'a AtomicU64, dropped: &'a AtomicU64, slots: &'a [AtomicU64]) -> Ring<'a> {
        Ring { tail, dropped, slots }
    }

    /// Writes a record, as a thread.
    ///
    /// `false`: there was no room, which is counted.
    pub fn push(self, record: &[u64; RECORD_WORDS], thread: u32) -> bool {
        let claim = u64::from(thread) << 2 | CLAIMED;
        for _ in 0..TRIES {
            let slot = self.slot(self.tail.fetch_add(1, Relaxed));
            if slot[0].compare_exchange(FREE, claim, Acquire, Relaxed).is_ok() {
                for (to, &word) in slot[1..].iter().zip(record) {
                    to.store(word, Relaxed);
                }
                slot[SLOT_WORDS - 1].store(mix(record), Relaxed);
                return slot[0].compare_exchange(claim, FULL, Release, Relaxed).is_ok();
            }
        }
        self.dropped.fetch_add(1, Relaxed);
        false
    }

    /// The places that were taken so far.
    #[must_use]
    pub fn tail(self) -> u64 {
        self.tail.load(Acquire)
    }

    /// The records for which there was no room.
    #[must_use]
    pub fn dropped(self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// How many slots there are.
    #[must_use]
    pub fn slots(self) -> u64 {
        (self.slots.len() / SLOT_WORDS) as u64
    }

    /// Looks into the slot of a place, and takes a record out. For the one reader.
    #[must_use]
    pub fn take(self, place: u64) -> Slot {
        let slot = self.slot(place);
        match slot[0].load(Acquire) {
            FREE => Slot::Free,
            FULL => {
                let record = core::array::from_fn(|word| slot[1 + word].load(Relaxed));
                let sum = slot[SLOT_WORDS - 1].load(Relaxed);
                slot[0].store(FREE, Release);
                if sum == mix(&record) { Slot::Record(record) } else { Slot::Torn }
            }
            claim => Slot::Claimed((claim >> 2) as u32),
        }
    }

    /// Frees the slot of a place that this thread has claimed. For the one reader, when the thread is no more.
    ///
    /// `false`: something else stands there.
    pub fn free(self, place: u64, thread: u32) -> bool {
        let claim = u64::from(thread) << 2 | CLAIMED;
        self.slot(place)[0].compare_exchange(claim, FREE, AcqRel, Relaxed).is_ok()
    }

    fn slot(self, place: u64) -> &'a [AtomicU64] {
        let from = (place % self.slots()) as usize * SLOT_WORDS;
        &self.slots[from..from + SLOT_WORDS]
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    struct Words {
        tail: AtomicU64,
        dropped: AtomicU64,
        slots: Vec<AtomicU64>,
    }

    impl Words {
        fn new(slots: usize) -> Words {
            let slots = (0..slots * SLOT_WORDS).map(|_| AtomicU64::new(0)).collect();
            Words { tail: AtomicU64::new(0), dropped: AtomicU64::new(0), slots }
        }

        fn ring(&self) -> Ring<'_> {
            Ring::new(&self.tail, &self.dropped, &self.slots)
        }
    }

    #[test]
    fn a_full_ring_counts_what_it_drops_and_keeps_what_it_has() {
        let words = Words::new(4);
        let ring = words.ring();
        let pushed: Vec<bool> = (0..6).map(|number| ring.push(&[number; RECORD_WORDS], 9)).collect();
        assert_eq!(pushed, [true, true, true, true, false, false]);
        assert_eq!(ring.dropped(), 2);
        for number in 0..4 {
            assert_eq!(ring.take(number), Slot::Record([number; RECORD_WORDS]));
        }
        assert_eq!(ring.take(0), Slot::Free);
        assert!(ring.push(&[8; RECORD_WORDS], 9));
    }

    #[test]
    fn a_writer_that_stops_anywhere_costs_its_own_record() {
        let words = Words::new(4);
        let ring = words.ring();
        // It took a place, and no more.
        words.tail.fetch_add(1, Relaxed);
        // It claimed the second slot.
        words.tail.fetch_add(1, Relaxed);
        words.slots[SLOT_WORDS].store(77 << 2 | CLAIMED, Relaxed);
        for number in 0..3 {
            assert!(ring.push(&[number; RECORD_WORDS], 9), "{number}");
        }
        let seen: Vec<Slot> = (0..4).map(|place| ring.take(place)).collect();
        assert_eq!(seen[1], Slot::Claimed(77));
        assert_eq!(seen.iter().filter(|slot| matches!(slot, Slot::Record(_))).count(), 3);
        assert!(!ring.free(1, 78) && ring.free(1, 77) && !ring.free(1, 77));
        assert!((0..4).all(|place| ring.take(place) == Slot::Free));
    }

    #[test]
    fn mixed_records_are_told_from_whole_ones() {
        let words = Words::new(1);
        assert!(words.ring().push(&[5; RECORD_WORDS], 9));
        words.slots[3].store(6, Relaxed);
        assert_eq!(words.ring().take(0), Slot::Torn);
        assert_eq!(words.ring().take(0), Slot::Free);
    }

    #[test]
    fn many_writers_and_a_reader_lose_nothing_that_is_not_counted() {
        const WRITERS: u64 = 4;
        const RECORDS: u64 = 20_000;
        let words = Words::new(64);
        let ring = words.ring();
        let mut seen = [0u64; WRITERS as usize];
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    scope.spawn(move || {
                        (1..=RECORDS)
                            .filter(|&number| ring.push(&[writer << 32 | number; RECORD_WORDS], 9))
                            .count()
                    })
                })
                .collect();
            let mut sum = |all: bool| {
                for place in 0..64 {
                    if let Slot::Record(record) = ring.take(place) {
                        assert!(record.iter().all(|&word| word == record[0]));
                        seen[(record[0] >> 32) as usize] += 1;
                    } else {
                        assert!(!all || ring.take(place) == Slot::Free);
                    }
                }
            };
            while writers.iter().any(|writer| !writer.is_finished()) {
                sum(false);
            }
            sum(true);
            let written: usize = writers.into_iter().map(|writer| writer.join().expect("it ends")).sum();
            assert_eq!(written as u64 + ring.dropped(), WRITERS * RECORDS);
            assert_eq!(seen.iter().sum::<u64>(), written as u64);
        });
    }
}
