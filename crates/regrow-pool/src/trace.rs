//! Recorded sequences of process creations, as CSV.
//!
//! ```text
//! # comments, before the header and anywhere else
//! program,argv_hash,parent,start_us,end_us,peak_kib
//! /usr/bin/dash,9f86d081884c7d65,0,0,5210,1712
//! /usr/bin/perl,60303ae22b998861,1,1830,4975,5120
//! ```
//!
//! | column | what it is |
//! |---|---|
//! | `program` | the file that was executed: for a script that of its interpreter |
//! | `argv_hash` | 64-bit FNV-1a of the arguments, each ended by a zero byte, in hexadecimal; equal arguments have equal hashes |
//! | `parent` | the number of the creation that asked for it, which is its row, from 1; 0: none in the trace |
//! | `start_us` | when it was executed, in microseconds since the recording began |
//! | `end_us` | when it had ended, or had executed something else, which is a row of its own |
//! | `peak_kib` | the most memory that was resident at a time, in KiB; empty where that is not known |
//!
//! Rows stand in the order of `start_us`. A process that never executes a program, a fork, has no row: it continues its
//! parent's program with its parent's memory, which no pool can give.

use std::io::{Read, Write};

use serde::{Deserialize, Serialize};

/// Most creations of a trace.
pub const MOST: usize = 1 << 20;

/// One creation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Creation {
    /// The file that was executed.
    pub program: String,
    /// Hash of its arguments, see [`argv_hash`].
    #[serde(with = "hexadecimal")]
    pub argv_hash: u64,
    /// Number of the creation that asked for it, from 1; 0: none.
    pub parent: u32,
    /// When it was executed, in microseconds.
    pub start_us: u64,
    /// When it had ended, in microseconds.
    pub end_us: u64,
    /// The most memory that was resident at a time, in KiB.
    pub peak_kib: Option<u64>,
}

/// A trace cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It is no CSV, or a column is missing or cannot be read; the message names line and column.
    #[error("the trace cannot be read")]
    Read(#[source] csv::Error),
    /// It cannot be written.
    #[error("the trace cannot be written")]
    Write(#[source] csv::Error),
    /// What a row says cannot be.
    #[error("creation {number} of the trace: {what}")]
    Row {
        /// The number of the creation, from 1.
        number: usize,
        /// What is wrong.
        what: RowFault,
    },
    /// There are too many.
    #[error("the trace has more than {MOST} creations")]
    TooLong,
}

/// What is wrong with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RowFault {
    /// The program has no name.
    #[error("`program` is empty")]
    NoProgram,
    /// The parent comes after it, or is itself.
    #[error("`parent` is not an earlier creation")]
    Parent,
    /// It ends before it starts.
    #[error("`end_us` is before `start_us`")]
    End,
    /// It starts before the row above.
    #[error("`start_us` is before that of the row above")]
    Order,
}

/// Reads a trace.
///
/// # Errors
/// [`TraceError`].
pub fn read(from: impl Read) -> Result<Vec<Creation>, TraceError> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(from);
    let mut trace = Vec::new();
    for row in reader.deserialize() {
        let creation: Creation = row.map_err(TraceError::Read)?;
        if trace.len() == MOST {
            return Err(TraceError::TooLong);
        }
        check(&creation, &trace).map_err(|what| TraceError::Row { number: trace.len() + 1, what })?;
        trace.push(creation);
    }
    Ok(trace)
}

fn check(creation: &Creation, before: &[Creation]) -> Result<(), RowFault> {
    if creation.program.is_empty() {
        Err(RowFault::NoProgram)
    } else if creation.parent as usize > before.len() {
        Err(RowFault::Parent)
    } else if creation.end_us < creation.start_us {
        Err(RowFault::End)
    } else if before.last().is_some_and(|last| last.start_us > creation.start_us) {
        Err(RowFault::Order)
    } else {
        Ok(())
    }
}

/// Writes a trace. `comment` comes first, each line of it as a comment.
///
/// # Errors
/// [`TraceError::Write`].
pub fn write(mut to: impl Write, comment: &str, trace: &[Creation]) -> Result<(), TraceError> {
    for line in comment.lines() {
        let written = if line.is_empty() { writeln!(to, "#") } else { writeln!(to, "# {line}") };
        written.map_err(|error| TraceError::Write(error.into()))?;
    }
    let mut writer = csv::Writer::from_writer(to);
    trace.iter().try_for_each(|creation| writer.serialize(creation)).map_err(TraceError::Write)?;
    writer.flush().map_err(|error| TraceError::Write(error.into()))
}

/// The hash of a process's arguments: 64-bit FNV-1a of them, each ended by a zero byte, as `/proc/PID/cmdline` has them.
#[must_use]
pub fn argv_hash(cmdline: &[u8]) -> u64 {
    const START: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    cmdline.iter().fold(START, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// A number as sixteen hexadecimal digits.
mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{value:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map_err(|_| D::Error::custom("expected up to 16 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn creation(program: &str, parent: u32, start_us: u64, end_us: u64) -> Creation {
        Creation {
            program: program.to_owned(),
            argv_hash: argv_hash(program.as_bytes()),
            parent,
            start_us,
            end_us,
            peak_kib: (parent == 0).then_some(1712),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let trace = vec![creation("/bin/sh", 0, 0, 5210), creation("/bin/a, \"b\"", 1, 1830, 4975)];
        let mut text = Vec::new();
        write(&mut text, "Two processes.\n\nOne of them has a name.", &trace).unwrap();
        let expected = "# Two processes.\n#\n# One of them has a name.\n\
                        program,argv_hash,parent,start_us,end_us,peak_kib\n\
                        /bin/sh,837d255d3643653f,0,0,5210,1712\n\
                        \"/bin/a, \"\"b\"\"\",";
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with(",1,1830,4975,\n"), "{text}");
        assert_eq!(read(text.as_bytes()).unwrap(), trace);
    }

    #[test]
    fn the_hash_is_the_published_one() {
        // Test vectors of FNV-1a.
        let vectors: [(&[u8], u64); 3] =
            [(b"", 0xcbf2_9ce4_8422_2325), (b"a", 0xaf63_dc4c_8601_ec8c), (b"foobar", 0x8594_4171_f739_67e8)];
        vectors.into_iter().for_each(|(text, hash)| assert_eq!(argv_hash(text), hash));
    }

    #[test]
    fn rows_that_cannot_be_are_told_by_their_number() {
        let fault = |rows: [Creation; 2]| {
            let mut text = Vec::new();
            write(&mut text, "", &rows).unwrap();
            read(text.as_slice()).unwrap_err().to_string()
        };
        let first = || creation("/bin/sh", 0, 10, 20);
        assert_eq!(fault([first(), creation("", 0, 10, 20)]), "creation 2 of the trace: `program` is empty");
        assert!(fault([first(), creation("a", 2, 10, 20)]).ends_with("`parent` is not an earlier creation"));
        assert!(fault([first(), creation("a", 0, 20, 19)]).ends_with("`end_us` is before `start_us`"));
        assert!(fault([first(), creation("a", 0, 9, 20)]).ends_with("is before that of the row above"));
    }

    #[test]
    fn an_unknown_column_and_a_bad_number_are_told() {
        let told = |text: &str| {
            let error = read(text.as_bytes()).unwrap_err();
            std::error::Error::source(&error).unwrap().to_string()
        };
        let header = "program,argv_hash,parent,start_us,end_us,peak_kib";
        assert!(told(&format!("{header},more\na,0,0,0,0,,1\n")).contains("unknown field `more`"));
        assert!(told(&format!("{header}\na,x,0,0,0,\n")).contains("line: 2"));
        assert!(told("program\na\n").contains("missing field"));
    }
}
