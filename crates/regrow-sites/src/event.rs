//! What happens to processes, as collectors tell it: created, executed, ended.
//!
//! Times are in microseconds of a clock that never goes back (`CLOCK_MONOTONIC`); what reads them allows for collectors that tell things out of
//! order, twice, or not at all.

use crate::Arguments;
use crate::site::{Frame, ImageId, Site};

/// A process, told apart from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessKey {
    /// Its number.
    pub pid: u32,
    /// When it was created, in microseconds; as the collector knows it, the same in each event.
    pub created_us: u64,
}

/// What a process has used in its whole life, whatever it executed meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Processor time, user and system, without its children, in microseconds.
    pub cpu_us: u64,
    /// From its creation to its end, in microseconds.
    pub life_us: u64,
    /// The most memory that was resident at a time, in KiB; 0: not known.
    pub peak_kib: u64,
    /// From exec to the call of `main`, in microseconds; `None`: not known.
    pub startup_us: Option<u64>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A process was created.
    Created {
        /// When.
        time_us: u64,
        /// The child.
        process: ProcessKey,
        /// The process that created it.
        parent: ProcessKey,
        /// Where.
        site: Site,
    },
    /// A process has executed a program.
    Executed {
        /// When.
        time_us: u64,
        /// The process.
        process: ProcessKey,
        /// The program.
        image: ImageId,
    },
    /// A process lives that has used more than was predicted, or more than tells short from long; told once at most.
    Outlived {
        /// When.
        time_us: u64,
        /// The process.
        process: ProcessKey,
        /// The processor time that it has used by then, in microseconds.
        cpu_us: u64,
    },
    /// A process has ended.
    Ended {
        /// When.
        time_us: u64,
        /// The process.
        process: ProcessKey,
        /// What it has used.
        usage: Usage,
    },
    /// A name for an image: told once at least, before or after it is met.
    Named {
        /// The image.
        image: ImageId,
        /// The path of its file.
        path: String,
    },
    /// The class of the arguments of the program that a process has executed last; told right after [`Event::Executed`] where it is known.
    Arguments {
        /// The process.
        process: ProcessKey,
        /// The class.
        arguments: Arguments,
        /// 64-bit FNV-1a of all of them, each ended by a zero byte, as traces have it; 0: not known.
        hash: u64,
    },
    /// A name for a frame, where it is known: what a changed binary is recognized by. Best told before a process that was created there ends.
    Symbol {
        /// The frame.
        frame: Frame,
        /// The symbol of the function that it lies in.
        name: String,
    },
}
