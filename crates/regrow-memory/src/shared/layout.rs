//! What lies in the memory that all processes of a domain share: a head, a desk for each client, an entry for each page.
//!
//! All of it is atomics, because any process may write there at any time, and all zero it is new.

use super::inbox::Inbox;
use crate::bell::Bell;
use crate::request::{NOBODY, Owner};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use crate::units::CHUNK_PAGES;

/// Most clients of a domain.
pub(crate) const DESKS: usize = 256;
/// The client is served no longer.
pub(crate) const CUT_OFF: u32 = 1;
/// The domain has ended.
pub(crate) const OVER: u32 = 1;

/// See the module.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Head {
    /// Wakes the porter.
    pub(crate) bell: Bell,
    /// [`OVER`].
    pub(crate) state: AtomicU32,
    pub(crate) desks: [Desk; DESKS],
}

/// What others see of a client.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Desk {
    pub(crate) presence: Presence,
    /// [`CUT_OFF`].
    pub(crate) state: AtomicU32,
    /// Wakes the client when a ticket comes.
    pub(crate) bell: Bell,
    pub(crate) inbox: Inbox,
}

/// Which client a desk has: its number, as long as it is there.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Presence(AtomicU32);

impl Presence {
    #[cfg(all(test, loom))]
    pub(crate) fn new() -> Presence {
        Presence(AtomicU32::new(NOBODY))
    }

    /// The number of the client, [`NOBODY`] where none is there.
    pub(crate) fn number(&self) -> Owner {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether a client is there.
    pub(crate) fn is(&self, number: Owner) -> bool {
        number != NOBODY && self.number() == number
    }

    /// The same, for who has seen it before, and has handed something to it since: either this one sees that the client has gone, or the porter, which looks
    /// at all entries after [`Presence::leave`], sees what was handed. Who finds it there sees its desk as it was when it came.
    pub(crate) fn is_still(&self, number: Owner) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) == number
    }

    /// A client has come, and its desk is ready.
    pub(crate) fn come(&self, number: Owner) {
        self.0.store(number, Ordering::Release);
    }

    /// The client has gone.
    pub(crate) fn leave(&self) {
        self.0.store(NOBODY, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

/// Where entries begin.
pub(crate) const ENTRIES: usize = size_of::<Head>().next_multiple_of(4096);

/// Bytes of all for a range of so many chunks.
pub(crate) fn bytes_for(chunks: u32) -> usize {
    ENTRIES + chunks as usize * CHUNK_PAGES as usize * size_of::<AtomicU64>()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn entries_begin_behind_the_desks() {
        assert!(ENTRIES >= size_of::<Head>() && ENTRIES.is_multiple_of(4096));
        assert_eq!(bytes_for(3), ENTRIES + 3 * 512 * 8);
    }
}
