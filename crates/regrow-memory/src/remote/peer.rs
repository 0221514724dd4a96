//! A client of a domain, as other processes name it.

use std::fmt;

use crate::request::Owner;

/// See the module. It stands for this client alone: a later one has another number.
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
}
