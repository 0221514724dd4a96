//! What lies in the memory that all processes of a domain share: a head, a desk for each client, an entry for each page.
//!
//! All of it is atomics, because any process may write there at any time, and all zero it is new.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::inbox::Inbox;
use crate::bell::Bell;
use crate::request::Owner;
use crate::units::CHUNK_PAGES;

/// Most clients of a domain.
pub(super) const DESKS: usize = 256;
/// The client is served no longer.
pub(super) const CUT_OFF: u32 = 1;
/// The domain has ended.
pub(super) const OVER: u32 = 1;

/// See the module.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Head {
    /// Wakes the porter.
    pub(super) bell: Bell,
    /// [`OVER`].
    pub(super) state: AtomicU32,
    pub(super) desks: [Desk; DESKS],
}

/// What others see of a client.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Desk {
    /// The client's number, as long as it is there.
    pub(super) number: AtomicU32,
    /// [`CUT_OFF`].
    pub(super) state: AtomicU32,
    /// Wakes the client when a ticket comes.
    pub(super) bell: Bell,
    pub(super) inbox: Inbox,
}

/// Where entries begin.
pub(super) const ENTRIES: usize = size_of::<Head>().next_multiple_of(4096);

/// Bytes of all for a range of so many chunks.
pub(super) fn bytes_for(chunks: u32) -> usize {
    ENTRIES + chunks as usize * CHUNK_PAGES as usize * size_of::<AtomicU64>()
}

/// A client of a domain, as other processes name it. It stands for this client alone: a later one has another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer {
    pub(super) desk: u32,
    pub(super) number: Owner,
}

impl Peer {
    /// As a word, for other processes.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        u64::from(self.desk) << 32 | u64::from(self.number)
    }

    /// What came as a word. Whether the client is there turns out where something is handed to it.
    #[must_use]
    pub fn from_bits(bits: u64) -> Peer {
        let [n0, n1, n2, n3, d0, d1, d2, d3] = bits.to_le_bytes();
        Peer { desk: u32::from_le_bytes([d0, d1, d2, d3]), number: Owner::from_le_bytes([n0, n1, n2, n3]) }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_read_as_it_was_written() {
        let peer = Peer { desk: 255, number: u32::MAX - 1 };
        assert_eq!(Peer::from_bits(peer.to_bits()), peer);
        assert_eq!(peer.to_string(), "4294967294");
    }

    #[test]
    fn entries_begin_behind_the_desks() {
        assert!(ENTRIES >= size_of::<Head>() && ENTRIES.is_multiple_of(4096));
        assert_eq!(bytes_for(3), ENTRIES + 3 * 512 * 8);
    }
}
