//! An inbox: tickets that lie in shared memory until their receiver takes them. Any process puts one there, without a lock.
//!
//! A ticket is one word, put into a free slot by one compare-and-exchange: a sender that is stopped or dies in the middle is in nobody's way. Tickets come in
//! order, but for those that meet others in the middle; the receiver looks at all slots, so that it overlooks none. Who takes a ticket sees what its sender has
//! done before: the entry of the block says whose it is.

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::units::Page;

/// Tickets that lie there at most.
const SLOTS: u32 = if cfg!(loom) { 2 } else { 64 };
/// A slot that is not free.
const TAKEN: u64 = 1 << 63;
const GENERATION: u32 = 32;
const ORDER: u32 = 48;

/// See the module. All zero it is empty.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Inbox {
    /// Where the next sender begins to look for a free slot, and the receiver for one that is not.
    next: AtomicU32,
    first: AtomicU32,
    slots: [AtomicU64; SLOTS as usize],
}

/// What a ticket of this receiver says beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) page: Page,
    pub(crate) generation: u16,
    pub(crate) order: u8,
}

impl Inbox {
    /// An empty one. In memory that processes share it is there already.
    #[cfg(test)]
    pub(crate) fn new() -> Inbox {
        // Positions begin anew.
        let position = || AtomicU32::new(u32::MAX - 3);
        Inbox { next: position(), first: position(), slots: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Puts a ticket there. False where there is no room.
    pub(crate) fn put(&self, note: Note) -> bool {
        let order = u64::from(note.order & 0x7f);
        let word = u64::from(note.page) | u64::from(note.generation) << GENERATION | order << ORDER | TAKEN;
        let begin = self.next.load(Ordering::Relaxed);
        for step in 0..SLOTS {
            let position = begin.wrapping_add(step);
            if self.slot(position).compare_exchange(0, word, Ordering::Release, Ordering::Relaxed).is_ok() {
                self.next.store(position.wrapping_add(1), Ordering::Relaxed);
                return true;
            }
        }
        false
    }

    /// Takes the next ticket.
    pub(crate) fn take(&self) -> Option<Note> {
        let begin = self.first.load(Ordering::Relaxed);
        for step in 0..SLOTS {
            let position = begin.wrapping_add(step);
            let slot = self.slot(position);
            if slot.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let [p0, p1, p2, p3, g0, g1, order, _] = slot.swap(0, Ordering::Acquire).to_le_bytes();
            self.first.store(position.wrapping_add(1), Ordering::Relaxed);
            let (page, generation) = (Page::from_le_bytes([p0, p1, p2, p3]), u16::from_le_bytes([g0, g1]));
            return Some(Note { page, generation, order });
        }
        None
    }

    /// Whether nothing lies there.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.iter().all(|slot| slot.load(Ordering::Relaxed) == 0)
    }

    /// Forgets what lies there. Who sees after this that the desk's client has come puts nothing there before it ([`super::layout::Presence`]).
    pub(crate) fn clear(&self) {
        self.slots.iter().for_each(|slot| slot.store(0, Ordering::Relaxed));
    }

    fn slot(&self, position: u32) -> &AtomicU64 {
        // There are so many slots.
        &self.slots[(position % SLOTS) as usize]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn note(page: Page) -> Note {
        Note { page, generation: 0xfedc, order: 18 }
    }

    #[test]
    fn tickets_come_in_order_and_a_full_inbox_takes_no_more() {
        let inbox = Inbox::new();
        for round in 0..5 {
            assert!((0..64).all(|page| inbox.put(note(round * 64 + page))) && !inbox.put(note(9999)));
            (0..64).for_each(|page| assert_eq!(inbox.take(), Some(note(round * 64 + page))));
            assert!(inbox.take().is_none() && inbox.is_empty());
        }
        assert!(inbox.put(note(1)) && !inbox.is_empty());
        inbox.clear();
        assert_eq!(inbox.take(), None);
    }

    #[test]
    fn of_many_senders_each_ticket_comes_once() {
        const EACH: u32 = if cfg!(miri) { 50 } else { 20_000 };
        let inbox = Inbox::new();
        std::thread::scope(|scope| {
            for sender in 0..3 {
                let inbox = &inbox;
                scope.spawn(move || {
                    for number in 0..EACH {
                        while !inbox.put(note(sender << 24 | number)) {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let mut seen = [[false; EACH as usize]; 3];
            let mut left = 3 * EACH;
            while left > 0 {
                let Some(note) = inbox.take() else { continue };
                let seen = &mut seen[(note.page >> 24) as usize][(note.page & 0xff_ffff) as usize];
                assert!(!*seen, "a ticket comes once");
                *seen = true;
                left -= 1;
            }
        });
        assert!(inbox.is_empty());
    }
}
