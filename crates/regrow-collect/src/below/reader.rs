//! Takes records out of the ring, and allows for writers that were killed.

use regrow_abi::sites::{Record, Ring, Slot};

/// How often a place is looked at whose writer has not claimed its slot.
const ROUNDS: u32 = 256;
/// How often before the reader asks whether a writer that has claimed a slot is there.
const PATIENCE: u32 = 4;

/// A place whose record was not there.
#[derive(Debug, Clone, Copy)]
struct Hole {
    place: u64,
    rounds: u32,
}

/// The one reader of a ring.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The places before were looked at.
    seen: u64,
    holes: Vec<Hole>,
    /// Records that were begun and not finished, or mixed.
    pub(super) lost: u64,
}

impl Reader {
    /// Takes out what is there, in the order of its time. `is_there` says of a process whether it is.
    pub(super) fn drain(&mut self, ring: Ring<'_>, is_there: &dyn Fn(u32) -> bool) -> Vec<Record> {
        let mut records = Vec::new();
        let tail = ring.tail();
        let from = self.seen.max(tail.saturating_sub(ring.slots()));
        let mut holes = std::mem::take(&mut self.holes);
        holes.extend((from..tail).map(|place| Hole { place, rounds: 0 }));
        self.seen = tail;
        for hole in holes {
            self.look(ring, hole, is_there, &mut records);
        }
        records.sort_by_key(Record::time_ns);
        records
    }

    /// The same of all slots, when no more is to come.
    pub(super) fn drain_all(&mut self, ring: Ring<'_>) -> Vec<Record> {
        self.holes.clear();
        self.seen = ring.tail();
        let mut records = Vec::new();
        for place in 0..ring.slots() {
            self.look(ring, Hole { place, rounds: 0 }, &|_| true, &mut records);
        }
        self.lost +=
            self.holes.iter().filter(|hole| matches!(ring.take(hole.place), Slot::Claimed(_))).count() as u64;
        self.holes.clear();
        records.sort_by_key(Record::time_ns);
        records
    }

    fn look(&mut self, ring: Ring<'_>, hole: Hole, is_there: &dyn Fn(u32) -> bool, to: &mut Vec<Record>) {
        let again = Hole { rounds: hole.rounds + 1, ..hole };
        match ring.take(hole.place) {
            Slot::Record(words) => match Record::from_words(&words) {
                Some(record) => to.push(record),
                None => self.lost += 1,
            },
            Slot::Torn => self.lost += 1,
            Slot::Free if hole.rounds < ROUNDS => self.holes.push(again),
            Slot::Free => {}
            Slot::Claimed(process) if hole.rounds >= PATIENCE && !is_there(process) => {
                self.lost += u64::from(ring.free(hole.place, process));
            }
            Slot::Claimed(_) => self.holes.push(again),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regrow_abi::sites::{CHANNEL_WORDS, Channel, SLOTS};
    use std::sync::atomic::AtomicU64;

    fn words() -> Vec<AtomicU64> {
        (0..CHANNEL_WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    fn record(time_ns: u64) -> Record {
        Record::Started { pid: 1, time_ns, call: None }
    }

    #[test]
    fn records_come_in_the_order_of_their_times_and_once() {
        let words = words();
        let ring = Channel::create(&words).expect("a channel").ring();
        let mut reader = Reader::default();
        for time in [5, 3, 4] {
            assert!(ring.push(&record(time).to_words(), 7));
        }
        assert_eq!(reader.drain(ring, &|_| true), [record(3), record(4), record(5)]);
        assert!(reader.drain(ring, &|_| true).is_empty() && reader.drain_all(ring).is_empty());
    }

    #[test]
    fn a_ring_that_was_full_is_read_and_used_again() {
        let words = words();
        let ring = Channel::create(&words).expect("a channel").ring();
        let mut reader = Reader::default();
        for round in 1..4 {
            let pushed =
                (0..SLOTS as u64 + 10).filter(|&time| ring.push(&record(time).to_words(), 7)).count();
            assert_eq!(pushed, SLOTS, "round {round}");
            assert_eq!(reader.drain(ring, &|_| true).len(), SLOTS);
            assert_eq!((ring.dropped(), reader.lost), (10 * round, 0));
        }
    }

    #[test]
    fn a_writer_that_was_killed_costs_its_own_record_and_a_slow_one_nothing() {
        let words = words();
        let ring = Channel::create(&words).expect("a channel").ring();
        let mut reader = Reader::default();
        let slot = |place: usize| &words[CHANNEL_WORDS - (SLOTS - place) * regrow_abi::sites::SLOT_WORDS..];
        // Two writers have taken the first two places and claimed their slots.
        for (place, process) in [(0, 100), (1, 200u64)] {
            assert!(ring.push(&record(process).to_words(), 1));
            slot(place)[0].store(process << 2 | 1, std::sync::atomic::Ordering::Relaxed);
        }
        assert!(ring.push(&record(3).to_words(), 1));
        assert_eq!(reader.drain(ring, &|process| process == 200), [record(3)]);
        for _ in 0..PATIENCE {
            assert!(reader.drain(ring, &|process| process == 200).is_empty());
        }
        assert_eq!(reader.lost, 1);
        // The slow one goes on.
        slot(1)[0].store(2, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(reader.drain(ring, &|_| true), [record(200)]);
        assert_eq!(reader.lost, 1);
    }
}
