//! A fiber that runs out of stack is named before the process dies of it.
//!
//! What stands here runs in a signal handler: no lock, no memory, one write.

use regrow_sys::fault;

use super::{label, region};

/// Longest message.
const MESSAGE_BYTES: usize = 256;

/// From now on the end of a stack is told.
pub(super) fn watch() {
    fault::on_fault(tell);
}

fn tell(address: usize) {
    let Some((bottom, bytes)) = region::of_guard(address) else { return };
    let mut message = Message { text: [0; MESSAGE_BYTES], bytes: 0 };
    message.push(b"\nfiber ");
    match label::name_if_taken(bottom, bytes) {
        Some(name) => {
            message.push(b"\"");
            message.push(name.as_bytes());
            message.push(b"\"");
        }
        None => message.push(b"without a name"),
    }
    message.push(b" has used up its stack of ");
    message.push_number(bytes);
    message.push(b" bytes; a larger one is given by Builder::stack_bytes\n");
    let text = message.text.get(..message.bytes).unwrap_or_default();
    let _ = rustix::io::write(std::io::stderr(), text);
}

struct Message {
    text: [u8; MESSAGE_BYTES],
    bytes: usize,
}

impl Message {
    fn push(&mut self, part: &[u8]) {
        let room = &mut self.text[self.bytes..];
        let bytes = part.len().min(room.len());
        room[..bytes].copy_from_slice(&part[..bytes]);
        self.bytes += bytes;
    }

    fn push_number(&mut self, mut number: usize) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + u8::try_from(number % 10).unwrap_or(0);
            number /= 10;
            if number == 0 {
                return self.push(&digits[at..]);
            }
        }
    }
}
