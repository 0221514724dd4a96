//! What the daemon says (`docs/protocol.md`), as far as these clients understand it.

use regrow_abi::client::{MAGIC, VERSION, kind};

/// What is understood of a message.
pub enum Message {
    /// The run is there: its number.
    Started(i32),
    /// It has ended, with this wait status.
    Ended(i32),
    /// The client is to be the program.
    Declined,
    /// Anything else.
    Other,
}

impl Message {
    /// Of the first bytes of a message: the header, and a number where there is one.
    pub fn read(bytes: &[u8]) -> Message {
        let Some((header, rest)) = bytes.split_first_chunk::<8>() else { return Message::Other };
        let [a, b, c, d, version @ .., low, high] = *header;
        if [a, b, c, d] != MAGIC || version != VERSION.to_le_bytes() {
            return Message::Other;
        }
        let number = rest.first_chunk::<4>().map(|number| i32::from_le_bytes(*number));
        match (u16::from_le_bytes([low, high]), number) {
            (kind::STARTED, Some(pid)) => Message::Started(pid),
            (kind::ENDED, Some(status)) => Message::Ended(status),
            (kind::DECLINED, _) => Message::Declined,
            _ => Message::Other,
        }
    }
}
