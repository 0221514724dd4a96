//! A ticket: 16 bytes by which the receiver of a block knows it. It goes by any way that the two processes have.
//!
//! It does not make the receiver the owner: the entry of the block does. A ticket that is lost, or comes twice, takes nothing from anybody.

use super::error::TicketError;
use crate::request::Owner;
use crate::units::Page;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(super) page: Page,
    pub(super) receiver: Owner,
    pub(super) generation: u16,
    pub(super) order: u8,
    check: u32,
}

impl Ticket {
    /// Bytes of a ticket.
    pub const BYTES: usize = 16;

    /// The ticket of a domain with such a key.
    pub(super) fn new(key: u64, page: Page, receiver: Owner, generation: u16, order: u8) -> Ticket {
        let mut ticket = Ticket { page, receiver, generation, order, check: 0 };
        ticket.check = ticket.check_of(key);
        ticket
    }

    /// Refuses a ticket that a domain with such a key has not made.
    pub(super) fn verify(&self, key: u64) -> Result<(), TicketError> {
        if self.check == self.check_of(key) { Ok(()) } else { Err(TicketError::Forged) }
    }

    /// A word that other values do not have by accident.
    fn check_of(&self, key: u64) -> u32 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let places = u64::from(self.page) << 32 | u64::from(self.receiver);
        let kinds = u64::from(self.generation) << 8 | u64::from(self.order);
        let mix = |word: u64| (word ^ word >> 29).wrapping_mul(ODD).rotate_left(31);
        let [.., b0, b1, b2, b3] = mix(mix(key ^ places) ^ kinds).wrapping_mul(ODD).to_le_bytes();
        u32::from_le_bytes([b0, b1, b2, b3])
    }

    /// As bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Ticket::BYTES] {
        let [p0, p1, p2, p3] = self.page.to_le_bytes();
        let [r0, r1, r2, r3] = self.receiver.to_le_bytes();
        let [g0, g1] = self.generation.to_le_bytes();
        let [c0, c1, c2, c3] = self.check.to_le_bytes();
        [p0, p1, p2, p3, r0, r1, r2, r3, g0, g1, self.order, 0, c0, c1, c2, c3]
    }

    /// What came as bytes. Whether it is a ticket turns out where it is accepted.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Ticket::BYTES]) -> Ticket {
        let [p0, p1, p2, p3, r0, r1, r2, r3, g0, g1, order, zero, c0, c1, c2, c3] = bytes;
        Ticket {
            page: Page::from_le_bytes([p0, p1, p2, p3]),
            receiver: Owner::from_le_bytes([r0, r1, r2, r3]),
            generation: u16::from_le_bytes([g0, g1]),
            order,
            // A byte that is not zero is as wrong as a wrong check.
            check: u32::from_le_bytes([c0, c1, c2, c3]) ^ u32::from(zero),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_ticket_is_read_as_it_was_written_and_no_changed_one_is_good(
            key: u64, page: u32, receiver: u32, generation: u16, order: u8, at in 0..Ticket::BYTES, by in 1u8..,
        ) {
            let ticket = Ticket::new(key, page, receiver, generation, order);
            prop_assert_eq!(Ticket::from_bytes(ticket.to_bytes()), ticket);
            prop_assert_eq!(ticket.verify(key), Ok(()));
            prop_assert_eq!(ticket.verify(key ^ 1), Err(TicketError::Forged));
            let mut bytes = ticket.to_bytes();
            bytes[at] ^= by;
            prop_assert_eq!(Ticket::from_bytes(bytes).verify(key), Err(TicketError::Forged));
        }
    }
}
