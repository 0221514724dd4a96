//! Writes records, and names images and paths once in a collection.

use regrow_abi::sites::{Channel, Interpreter, Met, Record, TEXT_BYTES, Text};

use crate::modules::Module;
use crate::sys;

/// The longest text that is told.
pub const LONGEST: usize = 4096;

/// Writes a record. What there is no room for is counted there.
pub fn record(channel: Channel<'_>, process: u32, record: &Record) {
    channel.ring().push(&record.to_words(), process);
}

/// Tells the path of an image, if it was not told.
pub fn image(channel: Channel<'_>, process: u32, hash: u64, interpreter: Interpreter, text: &[u8]) {
    if channel.known().meet(hash, interpreter) == Met::First {
        name(channel, process, hash, true, text);
    }
}

/// Tells what a text's own hash stands for, if it was not told.
pub fn text(channel: Channel<'_>, process: u32, hash: u64, text: &[u8]) {
    if channel.known().find(hash).is_none() && channel.known().meet(hash, Interpreter::None) == Met::First {
        name(channel, process, hash, false, text);
    }
}

#[cold]
fn name(channel: Channel<'_>, process: u32, hash: u64, is_image: bool, text: &[u8]) {
    let text = text.get(..LONGEST).unwrap_or(text);
    let time_ns = sys::now_ns();
    for (part, bytes) in (0..).zip(text.chunks(TEXT_BYTES)) {
        let mut text = Text { is_image, hash, length: text.len() as u32, part, bytes: [0; TEXT_BYTES] };
        for (to, &byte) in text.bytes.iter_mut().zip(bytes) {
            *to = byte;
        }
        record_text(channel, process, time_ns, text);
    }
}

fn record_text(channel: Channel<'_>, process: u32, time_ns: u64, text: Text) {
    record(channel, process, &Record::Text { pid: process, time_ns, text });
}

/// The image of a module, whose path is told when this process meets it.
pub fn module(channel: Channel<'_>, process: u32, module: &Module) -> u64 {
    let (image, is_first) = module.meet();
    if is_first && !module.name().is_empty() {
        self::image(channel, process, image, Interpreter::None, module.name());
    }
    image
}
