//! What a process is told of its work, and what it answers: a file in memory, which both have.
//!
//! ```text
//!   0          24            24 + n
//!   │ header   │ arguments   │ tag │ length │ answer
//!   └─ caller ───────────────┴─ process ────────────
//! ```
//!
//! Each work has a file of its own: nobody but its process, and what that has started, can reach it. The caller reads it when the process has
//! ended, and believes nothing of it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The bytes before the arguments.
const HEADER_BYTES: usize = 24;
/// The bytes before the answer's own.
const TAG_BYTES: usize = 9;
/// The largest answer, where the process has no limit of memory: it is the caller that has to find room for it.
const MOST_BYTES: u64 = 1 << 30;
/// What is read at once. Most works have less to say.
const USUAL_BYTES: usize = 4096;

/// What a process is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Which function.
    pub(crate) function: u64,
    /// Which file the program is: see [`own_file`](super::ready::own_file).
    pub(crate) program: u64,
    /// How many bytes of memory it may use more than it began with; 0: as many as there are.
    pub(crate) memory: u64,
}

/// The two sides' file.
#[derive(Debug)]
pub(crate) struct Exchange {
    file: File,
    answer_at: u64,
}

/// What a process has answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing: it has ended by itself, or was ended.
    Nothing,
    /// The result, in bytes.
    Done(Vec<u8>),
    /// It has panicked, with these words.
    Panicked(String),
    /// It could not begin, or its result cannot be passed on, for this reason.
    Refused(String),
    /// It was refused memory, and has ended itself.
    WantOfMemory,
    /// More bytes than may be.
    TooLarge(u64),
}

impl Answer {
    const DONE: u8 = 1;
    const PANICKED: u8 = 2;
    const REFUSED: u8 = 3;
    pub(crate) const WANT_OF_MEMORY: u8 = 4;

    fn of(tag: u8, bytes: Vec<u8>) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        match tag {
            Self::DONE => Self::Done(bytes),
            Self::PANICKED => Self::Panicked(text(bytes)),
            Self::REFUSED => Self::Refused(text(bytes)),
            Self::WANT_OF_MEMORY => Self::WantOfMemory,
            _ => Self::Nothing,
        }
    }

    fn parts(&self) -> (u8, &[u8]) {
        match self {
            Self::Nothing | Self::TooLarge(_) => (0, &[]),
            Self::Done(bytes) => (Self::DONE, bytes),
            Self::Panicked(text) => (Self::PANICKED, text.as_bytes()),
            Self::Refused(text) => (Self::REFUSED, text.as_bytes()),
            Self::WantOfMemory => (Self::WANT_OF_MEMORY, &[]),
        }
    }
}

impl Exchange {
    /// The caller's side: a new file, with what the process is told.
    pub(crate) fn begin(header: Header, arguments: &[u8]) -> io::Result<Self> {
        let file = File::from(regrow_sys::raw::memfd("regrow-work", 0)?);
        let mut bytes = Vec::with_capacity(HEADER_BYTES + arguments.len());
        let length = u64::try_from(arguments.len()).unwrap_or(u64::MAX);
        for word in [header.function, header.program, header.memory] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(arguments);
        file.write_all_at(&bytes, 0)?;
        Ok(Self { file, answer_at: HEADER_BYTES as u64 + length })
    }

    /// The process's side.
    pub(crate) fn take(file: OwnedFd) -> io::Result<(Self, Header, Vec<u8>)> {
        let file = File::from(file);
        let mut bytes = read_from(&file, 0)?;
        let arguments = bytes.split_off(HEADER_BYTES.min(bytes.len()));
        let mut words =
            bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
        let (Some(function), Some(program), Some(memory)) = (words.next(), words.next(), words.next()) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let answer_at = (HEADER_BYTES + arguments.len()) as u64;
        Ok((Self { file, answer_at }, Header { function, program, memory }, arguments))
    }

    /// Where a tag alone is written.
    pub(crate) fn answer_at(&self) -> u64 {
        self.answer_at
    }

    /// Writes the answer.
    pub(crate) fn answer(&self, answer: &Answer) -> io::Result<()> {
        let (tag, bytes) = answer.parts();
        let mut all = Vec::with_capacity(TAG_BYTES + bytes.len());
        all.push(tag);
        all.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        all.extend_from_slice(bytes);
        self.file.write_all_at(&all, self.answer_at)
    }

    /// Reads the answer of a process that has ended, and that may use so much memory (0: as much as there is).
    pub(crate) fn answered(&self, memory: u64) -> io::Result<Answer> {
        let mut bytes = Vec::with_capacity(USUAL_BYTES);
        rustix::io::pread(&self.file, rustix::buffer::spare_capacity(&mut bytes), self.answer_at)?;
        let Some(&tag) = bytes.first() else { return Ok(Answer::Nothing) };
        let mut answer = bytes.split_off(TAG_BYTES.min(bytes.len()));
        let length = bytes.get(1..).and_then(|length| length.try_into().ok()).map_or(0, u64::from_le_bytes);
        if length > if memory == 0 { MOST_BYTES } else { memory } {
            return Ok(Answer::TooLarge(length));
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        // Behind it may stand what else the process has written there.
        answer.truncate(length);
        let mut at = self.answer_at + (TAG_BYTES + answer.len()) as u64;
        while answer.len() < length {
            answer.reserve_exact(length - answer.len());
            let read = rustix::io::pread(&self.file, rustix::buffer::spare_capacity(&mut answer), at)?;
            if read == 0 {
                // What was cut off is no answer.
                return Ok(Answer::Nothing);
            }
            answer.truncate(length);
            at += read as u64;
        }
        Ok(Answer::of(tag, answer))
    }
}

impl AsFd for Exchange {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Reads a file from here to its end.
fn read_from(file: &File, mut at: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    loop {
        let read = rustix::io::pread(file, rustix::buffer::spare_capacity(&mut bytes), at)?;
        if read == 0 {
            return Ok(bytes);
        }
        if bytes.len() < bytes.capacity() {
            return Ok(bytes);
        }
        at += read as u64;
        bytes.reserve(bytes.len());
    }
}

/// A value in bytes.
pub(crate) fn to_bytes<T: Serialize>(value: &T) -> Result<Vec<u8>, String> {
    postcard::to_allocvec(value).map_err(|error| error.to_string())
}

/// A value from bytes that somebody else has written.
pub(crate) fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    postcard::from_bytes(bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header { function: 7, program: 8, memory: 9 };

    fn other_side(exchange: &Exchange) -> (Exchange, Header, Vec<u8>) {
        Exchange::take(exchange.file.try_clone().expect("a copy").into()).expect("its order")
    }

    #[test]
    fn what_is_told_and_answered_arrives_whatever_its_size() {
        for bytes in [0, 1, USUAL_BYTES - HEADER_BYTES, USUAL_BYTES, 100_000, 3 << 20] {
            let sent: Vec<u8> = (0..bytes).map(|number| u8::try_from(number % 251).expect("small")).collect();
            let exchange = Exchange::begin(HEADER, &sent).expect("a file");
            assert_eq!(exchange.answered(0).expect("read"), Answer::Nothing);
            let (process, header, arguments) = other_side(&exchange);
            assert_eq!((header, &arguments), (HEADER, &sent));
            for answer in
                [Answer::Done(sent.clone()), Answer::Panicked("oh".into()), Answer::Refused(String::new())]
            {
                process.answer(&answer).expect("written");
                assert_eq!(exchange.answered(0).expect("read"), answer);
            }
        }
    }

    #[test]
    fn a_tag_alone_says_that_memory_was_short() {
        let exchange = Exchange::begin(HEADER, b"arguments").expect("a file");
        exchange.file.write_all_at(&[Answer::WANT_OF_MEMORY], exchange.answer_at()).expect("written");
        assert_eq!(exchange.answered(0).expect("read"), Answer::WantOfMemory);
    }

    #[test]
    fn an_answer_that_is_cut_off_or_lies_is_none() {
        for (bytes, expected) in [
            (&[1, 5, 0, 0, 0, 0, 0, 0, 0, b'a'][..], Answer::Nothing),
            (&[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, b'a'], Answer::TooLarge(u64::MAX)),
            (&[1, 0, 0, 0, 0, 1, 0, 0, 0, b'a'], Answer::TooLarge(1 << 32)),
            (&[9, 1, 0, 0, 0, 0, 0, 0, 0, b'a'], Answer::Nothing),
            (&[1, 1, 0, 0, 0, 0, 0, 0, 0, b'a', b'b'], Answer::Done(b"a".to_vec())),
        ] {
            let exchange = Exchange::begin(HEADER, b"").expect("a file");
            exchange.file.write_all_at(bytes, exchange.answer_at()).expect("written");
            assert_eq!(exchange.answered(0).expect("read"), expected);
        }
    }
}
