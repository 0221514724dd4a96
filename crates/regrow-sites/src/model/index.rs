//! A hash table of slots of another table, of a fixed size.
//!
//! ```text
//!   hash ──high half──> bucket │ tag, slot │ tag, slot │ empty │ …     linear probing; what follows moves back into a gap
//! ```
//!
//! A map of the standard library, or of hashbrown, doubles when it is nearly full and has had many removals. This one keeps to the memory that
//! it has at the start, and needs no hash of its own: the tables have their keys.

/// The most slots that an index can hold.
pub(super) const MOST_SLOTS: usize = u16::MAX as usize - 1;
/// Stands in a bucket that is empty.
const EMPTY: Bucket = Bucket { tag: 0, slot: u16::MAX };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bucket {
    /// Some bits of the hash, so that most slots with another key are not looked at.
    tag: u16,
    slot: u16,
}

/// Finds slots by the hash of their keys.
#[derive(Debug, Clone)]
pub(super) struct Index {
    buckets: Box<[Bucket]>,
}

impl Index {
    /// How many bytes an index for so many slots takes.
    pub(super) const fn bytes_for(slots: usize) -> usize {
        buckets_for(slots) * size_of::<Bucket>()
    }

    /// An index for at most so many slots.
    pub(super) fn new(slots: usize) -> Index {
        debug_assert!(slots <= MOST_SLOTS);
        Index { buckets: vec![EMPTY; buckets_for(slots)].into_boxed_slice() }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// The slot with this hash for which `is_it` holds.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u16) -> bool) -> Option<u16> {
        let (mut at, tag) = (self.home(hash), tag(hash));
        loop {
            let bucket = self.buckets.get(at)?;
            if bucket.slot == EMPTY.slot {
                return None;
            }
            if bucket.tag == tag && is_it(bucket.slot) {
                return Some(bucket.slot);
            }
            at = self.after(at);
        }
    }

    /// Puts a slot in that is not there. There is room: a quarter of the buckets stays empty.
    pub(super) fn insert(&mut self, hash: u64, slot: u16) {
        let mut at = self.home(hash);
        while self.buckets[at].slot != EMPTY.slot {
            at = self.after(at);
        }
        self.buckets[at] = Bucket { tag: tag(hash), slot };
    }

    /// Takes a slot out, if it is there. `hash_of` tells the hashes of the others.
    pub(super) fn remove(&mut self, hash: u64, slot: u16, hash_of: impl Fn(u16) -> u64) {
        let mut gap = self.home(hash);
        while self.buckets[gap].slot != slot {
            if self.buckets[gap].slot == EMPTY.slot {
                return;
            }
            gap = self.after(gap);
        }
        let mut at = self.after(gap);
        while self.buckets[at].slot != EMPTY.slot {
            // It may move back to the gap unless its home lies behind the gap.
            let home = self.home(hash_of(self.buckets[at].slot));
            if self.steps(home, at) >= self.steps(gap, at) {
                self.buckets[gap] = self.buckets[at];
                gap = at;
            }
            at = self.after(at);
        }
        self.buckets[gap] = EMPTY;
    }

    fn home(&self, hash: u64) -> usize {
        // The high half of the hash as a share of all buckets.
        let scaled = (u128::from(hash) * self.buckets.len() as u128) >> 64;
        usize::try_from(scaled).unwrap_or(0)
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 == self.buckets.len() { 0 } else { at + 1 }
    }

    /// How far it is from one bucket on to another.
    fn steps(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.buckets.len() - from }
    }
}

const fn buckets_for(slots: usize) -> usize {
    slots + slots / 3 + 2
}

fn tag(hash: u64) -> u16 {
    let bytes = hash.to_le_bytes();
    u16::from_le_bytes([bytes[0], bytes[1]])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::hash;

    /// Few homes, so that slots stand in each other's way.
    fn crowded(key: u8) -> u64 {
        u64::from(key % 5) << 61 | u64::from(key)
    }

    proptest! {
        #[test]
        fn it_finds_what_was_put_in_and_nothing_else(
            steps in prop::collection::vec((any::<bool>(), 0_u8..40), 0..300),
            spread in any::<bool>(),
        ) {
            let hash = |key: u8| if spread { hash::mixed(u64::from(key)) } else { crowded(key) };
            let mut index = Index::new(24);
            let mut keys: BTreeMap<u8, u16> = BTreeMap::new();
            for (inserts, key) in steps {
                if !inserts {
                    let gone = keys.remove(&key);
                    index.remove(hash(key), gone.unwrap_or(99), |slot| hash(u8::try_from(slot).unwrap()));
                } else if keys.len() < 24 && !keys.contains_key(&key) {
                    keys.insert(key, u16::from(key));
                    index.insert(hash(key), u16::from(key));
                }
                for key in 0..40 {
                    let found = index.find(hash(key), |slot| slot == u16::from(key));
                    prop_assert_eq!(found, keys.get(&key).copied());
                }
            }
        }
    }

    #[test]
    fn it_takes_the_bytes_that_it_says() {
        assert_eq!(Index::new(1000).bytes(), Index::bytes_for(1000));
        assert!(Index::bytes_for(1000) < 1000 * 6);
    }
}
