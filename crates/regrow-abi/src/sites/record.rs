//! What processes tell, as words.
//!
//! ```text
//!   word 0   pid of the teller << 32 | how << 8 | kind         1   time, CLOCK_MONOTONIC, in nanoseconds
//!   created   2 child   3 class   4 image   5–10 frames   11–12 script
//!   executing 2 hash of the path
//!   executed  2 parent  3 image
//!   text      2 hash it names   3 part << 32 | bytes of all   4–13 bytes
//!   started   2 magnitude + 1 << 32 | class of the arguments   3 hash of them; 0, 0: not known
//!   ended     2 processor time in nanoseconds
//!   waited    2 child   3 status   4 processor time in nanoseconds   5 peak in KiB
//! ```

use super::arguments::Arguments;
use super::place::Place;
use super::predictions::Class;
use super::ring::RECORD_WORDS;

/// Bytes of text in one record.
pub const TEXT_BYTES: usize = 80;

/// The function that creates a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// `fork` and `_Fork`.
    Fork,
    /// `vfork`.
    Vfork,
    /// `clone`.
    Clone,
    /// `posix_spawn` and `posix_spawnp`.
    Spawn,
    /// `system`.
    System,
    /// `popen`.
    Popen,
    /// `forkpty`.
    Forkpty,
    /// `daemon`.
    Daemon,
    /// `wordexp`.
    Wordexp,
}

impl How {
    const ALL: [How; 9] = [
        Self::Fork,
        Self::Vfork,
        Self::Clone,
        Self::Spawn,
        Self::System,
        Self::Popen,
        Self::Forkpty,
        Self::Daemon,
        Self::Wordexp,
    ];
}

/// Part of a text that stands for a hash: the path of an image, one that is executed, or that of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// The hash is an image's; else it is the text's own.
    pub is_image: bool,
    /// The hash.
    pub hash: u64,
    /// Bytes of the whole text.
    pub length: u32,
    /// Which part this is, from 0; each but the last has [`TEXT_BYTES`].
    pub part: u32,
    /// The part; what is behind the end of the text is zero.
    pub bytes: [u8; TEXT_BYTES],
}

/// What a parent learns of a child's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitStatus {
    /// The child.
    pub child: u32,
    /// As of `waitpid(2)`.
    pub status: i32,
    /// Processor time of the child and the children that it has waited for, in nanoseconds; `None`: not known.
    pub cpu_ns: Option<u64>,
    /// The most memory that was resident at a time in one of them, in KiB.
    pub peak_kib: u64,
}

/// What a program is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The class of its arguments.
    pub arguments: Arguments,
    /// 64-bit FNV-1a of them, the program's name among them, each ended by a zero byte.
    pub hash: u64,
}

/// Something that a process tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// It has created a child.
    Created {
        /// The parent.
        pid: u32,
        /// Before the creation.
        time_ns: u64,
        /// By what.
        how: How,
        /// 0: the C library does not tell its number.
        child: u32,
        /// What was predicted.
        class: Class,
        /// Where.
        place: Place,
    },
    /// It is about to execute a file, which may fail.
    Executing {
        /// Who.
        pid: u32,
        /// When.
        time_ns: u64,
        /// FNV-1a of the path as it was given; 0: there was none.
        path: u64,
    },
    /// It has executed a program, whose loader has loaded the library.
    Executed {
        /// Who.
        pid: u32,
        /// When.
        time_ns: u64,
        /// Its parent.
        parent: u32,
        /// The program.
        image: u64,
    },
    /// `main` is called.
    Started {
        /// In whom.
        pid: u32,
        /// When.
        time_ns: u64,
        /// What it is given.
        call: Option<Call>,
    },
    /// What a hash stands for.
    Text {
        /// Who tells it.
        pid: u32,
        /// When.
        time_ns: u64,
        /// The text.
        text: Text,
    },
    /// It is about to end.
    Ended {
        /// Who.
        pid: u32,
        /// When.
        time_ns: u64,
        /// Its own processor time, in nanoseconds.
        cpu_ns: u64,
    },
    /// It has waited for a child that has ended.
    Waited {
        /// The parent.
        pid: u32,
        /// When.
        time_ns: u64,
        /// The child's end.
        end: WaitStatus,
    },
}

const CREATED: u64 = 1;
const EXECUTING: u64 = 2;
const EXECUTED: u64 = 3;
const STARTED: u64 = 4;
const TEXT: u64 = 5;
const ENDED: u64 = 6;
const WAITED: u64 = 7;

impl Record {
    /// As words.
    #[must_use]
    pub fn to_words(&self) -> [u64; RECORD_WORDS] {
        let mut words = [0; RECORD_WORDS];
        let (kind, pid, time_ns) = match *self {
            Record::Created { pid, time_ns, how, child, class, ref place } => {
                words[0] = How::ALL.iter().position(|&other| other == how).unwrap_or(0) as u64;
                words[2] = u64::from(child);
                words[3] = class as u64;
                put_place(&mut words, place);
                (CREATED, pid, time_ns)
            }
            Record::Executing { pid, time_ns, path } => {
                words[2] = path;
                (EXECUTING, pid, time_ns)
            }
            Record::Executed { pid, time_ns, parent, image } => {
                words[2..4].copy_from_slice(&[u64::from(parent), image]);
                (EXECUTED, pid, time_ns)
            }
            Record::Started { pid, time_ns, call } => {
                if let Some(Call { arguments, hash }) = call {
                    words[2] = (u64::from(arguments.magnitude) + 1) << 32 | u64::from(arguments.class);
                    words[3] = hash;
                }
                (STARTED, pid, time_ns)
            }
            Record::Text { pid, time_ns, text } => {
                words[0] = u64::from(text.is_image);
                words[2] = text.hash;
                words[3] = u64::from(text.part) << 32 | u64::from(text.length);
                for (word, bytes) in words[4..].iter_mut().zip(text.bytes.as_chunks().0) {
                    *word = u64::from_le_bytes(*bytes);
                }
                (TEXT, pid, time_ns)
            }
            Record::Ended { pid, time_ns, cpu_ns } => {
                words[2] = cpu_ns;
                (ENDED, pid, time_ns)
            }
            Record::Waited { pid, time_ns, end } => {
                words[2] = u64::from(end.child);
                words[3] = u64::from(end.status.cast_unsigned());
                words[4] = end.cpu_ns.unwrap_or(u64::MAX);
                words[5] = end.peak_kib;
                (WAITED, pid, time_ns)
            }
        };
        words[0] = u64::from(pid) << 32 | words[0] << 8 | kind;
        words[1] = time_ns;
        words
    }

    /// Of words; `None` where they are no record.
    #[must_use]
    pub fn from_words(words: &[u64; RECORD_WORDS]) -> Option<Record> {
        let (pid, time_ns) = ((words[0] >> 32) as u32, words[1]);
        Some(match words[0] & 0xff {
            CREATED => Record::Created {
                pid,
                time_ns,
                how: *How::ALL.get((words[0] >> 8 & 0xff) as usize)?,
                child: words[2] as u32,
                class: match words[3] {
                    1 => Class::Short,
                    2 => Class::Long,
                    _ => Class::Unknown,
                },
                place: Place {
                    image: words[4],
                    frames: [(words[5], words[6]), (words[7], words[8]), (words[9], words[10])],
                    script: (words[11], words[12]),
                },
            },
            EXECUTING => Record::Executing { pid, time_ns, path: words[2] },
            EXECUTED => Record::Executed { pid, time_ns, parent: words[2] as u32, image: words[3] },
            STARTED => {
                let magnitude = (words[2] >> 32).checked_sub(1);
                let call = magnitude.map(|magnitude| Call {
                    arguments: Arguments { magnitude: magnitude as u8, class: words[2] as u32 },
                    hash: words[3],
                });
                Record::Started { pid, time_ns, call }
            }
            TEXT => {
                let mut bytes = [0; TEXT_BYTES];
                for (to, word) in bytes.as_chunks_mut().0.iter_mut().zip(&words[4..]) {
                    *to = word.to_le_bytes();
                }
                let (length, part) = (words[3] as u32, (words[3] >> 32) as u32);
                let is_image = words[0] >> 8 & 0xff != 0;
                Record::Text { pid, time_ns, text: Text { is_image, hash: words[2], length, part, bytes } }
            }
            ENDED => Record::Ended { pid, time_ns, cpu_ns: words[2] },
            WAITED => {
                let cpu_ns = (words[4] != u64::MAX).then_some(words[4]);
                let status = (words[3] as u32).cast_signed();
                let end = WaitStatus { child: words[2] as u32, status, cpu_ns, peak_kib: words[5] };
                Record::Waited { pid, time_ns, end }
            }
            _ => return None,
        })
    }

    /// When.
    #[must_use]
    pub fn time_ns(&self) -> u64 {
        match *self {
            Record::Created { time_ns, .. }
            | Record::Executing { time_ns, .. }
            | Record::Executed { time_ns, .. }
            | Record::Started { time_ns, .. }
            | Record::Text { time_ns, .. }
            | Record::Ended { time_ns, .. }
            | Record::Waited { time_ns, .. } => time_ns,
        }
    }
}

fn put_place(words: &mut [u64; RECORD_WORDS], place: &Place) {
    words[4] = place.image;
    for (at, &(module, offset)) in place.frames.iter().enumerate() {
        words[5 + 2 * at] = module;
        words[6 + 2 * at] = offset;
    }
    (words[11], words[12]) = place.script;
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn one_of_each() -> Vec<Record> {
        let place = Place { image: 1, frames: [(2, 3), (4, 5), (6, u64::MAX)], script: (8, 9) };
        let (pid, time_ns) = (u32::MAX, u64::MAX - 1);
        let mut all: Vec<Record> = How::ALL
            .iter()
            .map(|&how| Record::Created { pid, time_ns, how, child: 7, class: Class::Long, place })
            .collect();
        let text = Text {
            is_image: true,
            hash: 5,
            length: 100,
            part: 1,
            bytes: core::array::from_fn(|at| at as u8),
        };
        let call = Call { arguments: Arguments { magnitude: 0, class: 1 }, hash: 2 };
        let end = WaitStatus { child: 4, status: -1, cpu_ns: Some(5), peak_kib: 6 };
        all.extend([
            Record::Created {
                pid,
                time_ns,
                how: How::Fork,
                child: 0,
                class: Class::Short,
                place: Place::default(),
            },
            Record::Executing { pid, time_ns, path: 3 },
            Record::Executed { pid, time_ns, parent: 9, image: 8 },
            Record::Started { pid, time_ns, call: None },
            Record::Started { pid, time_ns, call: Some(call) },
            Record::Text { pid, time_ns, text },
            Record::Text { pid, time_ns, text: Text { is_image: false, ..text } },
            Record::Ended { pid, time_ns, cpu_ns: 1 },
            Record::Waited { pid, time_ns, end },
            Record::Waited { pid, time_ns, end: WaitStatus { cpu_ns: None, ..end } },
        ]);
        all
    }

    #[test]
    fn each_record_is_read_as_it_was_written() {
        for record in one_of_each() {
            assert_eq!(Record::from_words(&record.to_words()), Some(record));
            assert_eq!(record.time_ns(), u64::MAX - 1);
        }
    }

    #[test]
    fn other_words_are_no_record() {
        assert_eq!(Record::from_words(&[0; RECORD_WORDS]), None);
        assert_eq!(Record::from_words(&[u64::MAX; RECORD_WORDS]), None);
        let mut words = one_of_each()[0].to_words();
        words[0] |= 0xff00;
        assert_eq!(Record::from_words(&words), None, "created by nothing that is known");
    }
}
