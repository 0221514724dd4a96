//! The entry of a page: who has the block that begins there. A word in memory that all processes of a domain share.
//!
//! ```text
//!   0 ── granted by the porter ──> owner ── hand ──> receiver, pending ── accept ──> receiver
//!   0 <── taken back by the porter ── owner     pending, and the receiver is not there ── recall ──> giver
//! ```
//!
//! Each step is one compare-and-exchange, so that whoever dies at any moment has either made it or not. The generation grows with each handing over: a
//! ticket is good for one. What who, and in which order, does with entries: [`super::handing`].

use crate::request::{NOBODY, Owner};
use crate::sync::{AtomicU64, Ordering};

/// See the module. All zero: no block begins there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Entry {
    pub(crate) owner: Owner,
    pub(crate) generation: u16,
    pub(crate) order: u8,
    /// It was handed to its owner, who has not accepted it.
    pub(crate) is_pending: bool,
}

const GENERATION: u32 = 32;
const ORDER: u32 = 48;
const PENDING: u32 = 56;

impl Entry {
    fn word(self) -> u64 {
        u64::from(self.owner)
            | u64::from(self.generation) << GENERATION
            | u64::from(self.order) << ORDER
            | u64::from(self.is_pending) << PENDING
    }

    fn read(word: u64) -> Entry {
        let [o0, o1, o2, o3, g0, g1, order, flags] = word.to_le_bytes();
        Entry {
            owner: Owner::from_le_bytes([o0, o1, o2, o3]),
            generation: u16::from_le_bytes([g0, g1]),
            order,
            is_pending: flags & 1 == 1,
        }
    }

    /// What an entry is. What its owner has written to the block is seen after the next step alone.
    pub(crate) fn of(word: &AtomicU64) -> Entry {
        Entry::read(word.load(Ordering::Relaxed))
    }

    /// A block is given: whatever somebody may have written there. The client sees it with the answer in its lane.
    pub(crate) fn grant(word: &AtomicU64, owner: Owner, order: u8) {
        let generation = Entry::of(word).generation.wrapping_add(1);
        word.store(Entry { owner, generation, order, is_pending: false }.word(), Ordering::Relaxed);
    }

    /// Changes an entry that is what it was when it was looked at. False where it is another one. Who makes this step sees what the one before him has
    /// written to the block, and shows what he has written himself.
    fn change(self, word: &AtomicU64, to: Entry) -> bool {
        word.compare_exchange(self.word(), to.word(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Nobody has the block from then on. False where the entry has changed meanwhile.
    pub(crate) fn take_back(self, word: &AtomicU64) -> bool {
        self.change(word, Entry { owner: NOBODY, is_pending: false, ..self })
    }

    /// The block is another one's, who has to accept it. The entry then; none where it has changed meanwhile.
    pub(crate) fn hand(self, word: &AtomicU64, to: Owner) -> Option<Entry> {
        let handed =
            Entry { owner: to, generation: self.generation.wrapping_add(1), is_pending: true, ..self };
        self.change(word, handed).then_some(handed)
    }

    /// The receiver has it, or the giver has it again. False where the entry has changed meanwhile.
    pub(crate) fn accept(self, word: &AtomicU64, by: Owner) -> bool {
        self.is_pending && self.change(word, Entry { owner: by, is_pending: false, ..self })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_entry_is_read_as_it_was_written(owner: u32, generation: u16, order: u8, is_pending: bool) {
            let entry = Entry { owner, generation, order, is_pending };
            prop_assert_eq!(Entry::read(entry.word()), entry);
        }
    }

    #[test]
    fn a_block_is_accepted_once_by_who_it_was_handed_to() {
        let word = AtomicU64::new(0);
        assert_eq!(Entry::of(&word), Entry::default());
        Entry::grant(&word, 7, 3);
        let granted = Entry::of(&word);
        assert_eq!(granted, Entry { owner: 7, generation: 1, order: 3, is_pending: false });
        assert!(!granted.accept(&word, 7), "nobody has handed it over");
        let handed = granted.hand(&word, 8).expect("nobody else has it");
        assert_eq!(granted.hand(&word, 9), None, "it is not the giver's any more");
        assert!(!granted.take_back(&word));
        assert!(handed.accept(&word, 8) && !handed.accept(&word, 8));
        let accepted = Entry::of(&word);
        assert_eq!(accepted, Entry { owner: 8, generation: 2, order: 3, is_pending: false });
        assert!(accepted.take_back(&word) && !accepted.take_back(&word));
        assert_eq!(Entry::of(&word).owner, NOBODY);
    }

    #[test]
    fn of_a_recall_and_an_accept_one_alone_succeeds() {
        for _ in 0..if cfg!(miri) { 5 } else { 200 } {
            let word = AtomicU64::new(0);
            Entry::grant(&word, 1, 0);
            let handed = Entry::of(&word).hand(&word, 2).expect("it is the giver's");
            let both = std::thread::scope(|scope| {
                let other = scope.spawn(|| handed.accept(&word, 1));
                [handed.accept(&word, 2), other.join().expect("it does not panic")]
            });
            assert_eq!(both.iter().filter(|&&has| has).count(), 1);
            assert_eq!(Entry::of(&word).owner, if both[0] { 2 } else { 1 });
        }
    }
}
