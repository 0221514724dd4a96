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
//! | `cpu_us` | processor time between the two, user and system, without its children, in microseconds; empty where that is not known |
//! | `site` | the creation site: 64 bits in hexadecimal, equal for equal places in the parent; empty where that is not known |
//!
//! A trace may be without each of the last two columns.
//!
//! Rows stand in the order of `start_us`. A process that never executes a program, a fork, has no row: it continues its
//! parent's program with its parent's memory, which no pool can give.

use std::io::{Read, Write};

use serde::de::{Deserialize, Deserializer, Error};

/// The columns that each trace has.
const COLUMNS: [&str; 6] = ["program", "argv_hash", "parent", "start_us", "end_us", "peak_kib"];
/// The columns that a trace may have.
const MORE_COLUMNS: [&str; 2] = ["cpu_us", "site"];

/// Most creations of a trace.
pub const MOST: usize = 1 << 20;

/// One creation.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Creation {
    /// The file that was executed.
    pub program: String,
    /// Hash of its arguments, see [`argv_hash`].
    #[serde(deserialize_with = "hexadecimal")]
    pub argv_hash: u64,
    /// Number of the creation that asked for it, from 1; 0: none.
    pub parent: u32,
    /// When it was executed, in microseconds.
    pub start_us: u64,
    /// When it had ended, in microseconds.
    pub end_us: u64,
    /// The most memory that was resident at a time, in KiB.
    pub peak_kib: Option<u64>,
    /// Processor time, user and system, without its children, in microseconds.
    pub cpu_us: Option<u64>,
    /// The creation site, as a hash.
    #[serde(default, deserialize_with = "hexadecimal_or_none")]
    pub site: Option<u64>,
}

/// A trace cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("the trace cannot be read")]
    Read(#[source] std::io::Error),
    /// The header is not that of a trace.
    #[error("line {line}: the header is to have each of {} once, {} at most once, and nothing else", COLUMNS.join(", "), MORE_COLUMNS.join(" and "))]
    Header {
        /// The line of the file, from 1.
        line: usize,
    },
    /// A row is no CSV, or has too many cells or too few.
    #[error("line {line}: {what}")]
    Line {
        /// The line of the file, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// A cell cannot be read.
    #[error("line {line}: column `{column}`: {cell:?} cannot be read: {what}")]
    Cell {
        /// The line of the file, from 1.
        line: usize,
        /// The name of the column.
        column: String,
        /// What stands there.
        cell: String,
        /// What is wrong.
        what: String,
    },
    /// There are no rows.
    #[error("the trace holds no creation")]
    Empty,
    /// It cannot be written.
    #[error("the trace cannot be written")]
    Write(#[source] csv::Error),
    /// A row says something impossible.
    #[error("line {line}: creation {number}: {what}")]
    Row {
        /// The line of the file, from 1.
        line: usize,
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
pub fn read(mut from: impl Read) -> Result<Vec<Creation>, TraceError> {
    let mut text = Vec::new();
    from.read_to_end(&mut text).map_err(TraceError::Read)?;
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_slice());
    let header = reader.headers().map_err(|error| broken(&error, &text))?.clone();
    if header.is_empty() {
        return Err(TraceError::Empty);
    } else if !is_header(&header) {
        return Err(TraceError::Header { line: line_of(header.position(), &text) });
    }
    let mut trace = Vec::new();
    for row in reader.records() {
        let row = row.map_err(|error| broken(&error, &text))?;
        if trace.len() == MOST {
            return Err(TraceError::TooLong);
        }
        let line = || line_of(row.position(), &text);
        let creation: Creation =
            row.deserialize(Some(&header)).map_err(|error| bad_cell(&error, line(), &header, &row))?;
        let number = trace.len() + 1;
        check(&creation, &trace).map_err(|what| TraceError::Row { line: line(), number, what })?;
        trace.push(creation);
    }
    if trace.is_empty() { Err(TraceError::Empty) } else { Ok(trace) }
}

/// Whether these are the columns of a trace, in any order.
fn is_header(header: &csv::StringRecord) -> bool {
    let times = |column: &&str| header.iter().filter(|name| name == column).count();
    let more: usize = MORE_COLUMNS.iter().map(times).sum();
    COLUMNS.iter().all(|column| times(column) == 1)
        && MORE_COLUMNS.iter().all(|column| times(column) <= 1)
        && header.len() == COLUMNS.len() + more
}

/// An error for a row that is malformed.
fn broken(error: &csv::Error, text: &[u8]) -> TraceError {
    let what = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} cells, where the header has {expected_len}")
        }
        csv::ErrorKind::Utf8 { err, .. } => format!("cell {} is not UTF-8", err.field() + 1),
        _ => error.to_string(),
    };
    TraceError::Line { line: line_of(error.position(), text), what }
}

fn bad_cell(
    error: &csv::Error,
    line: usize,
    header: &csv::StringRecord,
    row: &csv::StringRecord,
) -> TraceError {
    let csv::ErrorKind::Deserialize { err, .. } = error.kind() else {
        return TraceError::Line { line, what: error.to_string() };
    };
    // The header is right, so that an error without a column is that of a hash, which is read here.
    let named = |name: &str| header.iter().position(|column| column == name);
    let is_bad = |&index: &usize| row.get(index).is_some_and(|cell| read_hexadecimal(cell).is_none());
    let hash = || named("argv_hash").filter(is_bad).or_else(|| named("site").filter(is_bad));
    let index = err.field().and_then(|field| usize::try_from(field).ok()).or_else(hash).unwrap_or(0);
    TraceError::Cell {
        line,
        column: header.get(index).unwrap_or_default().to_owned(),
        cell: row.get(index).unwrap_or_default().to_owned(),
        what: err.kind().to_string(),
    }
}

/// The line of a row, from 1. The reader's position is before the comments and the empty lines above the row.
fn line_of(position: Option<&csv::Position>, text: &[u8]) -> usize {
    let start = position.map_or(0, |position| usize::try_from(position.byte()).unwrap_or(usize::MAX));
    let (above, rest) = text.split_at(start.min(text.len()));
    let is_skipped = |line: &&[u8]| line.starts_with(b"#") || matches!(line, [] | [b'\r']);
    let ends = above.iter().filter(|&&byte| byte == b'\n').count();
    ends + rest.split(|&byte| byte == b'\n').take_while(is_skipped).count() + 1
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
    let has_more = [trace.iter().any(|row| row.cpu_us.is_some()), trace.iter().any(|row| row.site.is_some())];
    let mut writer = csv::Writer::from_writer(to);
    let more = MORE_COLUMNS.into_iter().zip(has_more).filter_map(|(column, has)| has.then_some(column));
    writer.write_record(COLUMNS.into_iter().chain(more)).map_err(TraceError::Write)?;
    for row in trace {
        writer.write_record(cells(row, has_more)).map_err(TraceError::Write)?;
    }
    writer.flush().map_err(|error| TraceError::Write(error.into()))
}

/// The cells of a row, with those of the columns that a trace may have where this one has them.
fn cells(row: &Creation, has_more: [bool; 2]) -> impl Iterator<Item = String> {
    let number = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    let [has_cpu, has_site] = has_more;
    let all = [
        Some(row.program.clone()),
        Some(format!("{:016x}", row.argv_hash)),
        Some(row.parent.to_string()),
        Some(row.start_us.to_string()),
        Some(row.end_us.to_string()),
        Some(number(row.peak_kib)),
        has_cpu.then(|| number(row.cpu_us)),
        has_site.then(|| row.site.map_or_else(String::new, |site| format!("{site:016x}"))),
    ];
    all.into_iter().flatten()
}

/// The hash of a process's arguments: 64-bit FNV-1a of them, each ended by a zero byte, as `/proc/PID/cmdline` has them.
#[must_use]
pub fn argv_hash(cmdline: &[u8]) -> u64 {
    const START: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    cmdline.iter().fold(START, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// A number of up to sixteen hexadecimal digits.
fn read_hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok().filter(|_| !text.starts_with('+'))
}

fn hexadecimal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    read_hexadecimal(&text).ok_or_else(|| D::Error::custom("expected up to 16 hexadecimal digits"))
}

/// The same for a cell that may be empty.
fn hexadecimal_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let number = (!text.is_empty()).then(|| read_hexadecimal(&text));
    let bad = || D::Error::custom("expected nothing, or up to 16 hexadecimal digits");
    number.map(|number| number.ok_or_else(bad)).transpose()
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
            ..Creation::default()
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
    fn a_trace_may_have_processor_times_and_sites() {
        let with = |cpu_us, site| Creation { cpu_us, site, ..creation("/bin/sh", 0, 0, 5210) };
        let written = |trace: &[Creation]| {
            let mut text = Vec::new();
            write(&mut text, "", trace).unwrap();
            String::from_utf8(text).unwrap()
        };
        let trace = vec![with(Some(7), Some(0xab)), with(None, Some(u64::MAX)), with(Some(0), None)];
        let text = written(&trace);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with(",peak_kib,cpu_us,site"), "{text}");
        assert!(lines[1].ends_with(",1712,7,00000000000000ab"), "{text}");
        assert!(lines[2].ends_with(",1712,,ffffffffffffffff") && lines[3].ends_with(",1712,0,"), "{text}");
        assert_eq!(read(text.as_bytes()).unwrap(), trace);
        let trace = vec![with(None, Some(1))];
        assert!(written(&trace).starts_with("program,argv_hash,parent,start_us,end_us,peak_kib,site\n"));
        assert_eq!(read(written(&trace).as_bytes()).unwrap(), trace);
        assert!(!written(&[with(None, None)]).contains("site"), "a trace without is written as it was read");
    }

    #[test]
    fn the_hash_is_the_published_one() {
        // Test vectors of FNV-1a.
        let vectors: [(&[u8], u64); 3] =
            [(b"", 0xcbf2_9ce4_8422_2325), (b"a", 0xaf63_dc4c_8601_ec8c), (b"foobar", 0x8594_4171_f739_67e8)];
        vectors.into_iter().for_each(|(text, hash)| assert_eq!(argv_hash(text), hash));
    }

    #[test]
    fn rows_that_cannot_be_are_told_by_their_line_and_number() {
        let fault = |rows: [Creation; 2]| {
            let mut text = Vec::new();
            write(&mut text, "Two.", &rows).unwrap();
            read(text.as_slice()).unwrap_err().to_string()
        };
        let first = || creation("/bin/sh", 0, 10, 20);
        assert_eq!(fault([first(), creation("", 0, 10, 20)]), "line 4: creation 2: `program` is empty");
        assert!(fault([first(), creation("a", 2, 10, 20)]).ends_with("`parent` is not an earlier creation"));
        assert!(fault([first(), creation("a", 0, 20, 19)]).ends_with("`end_us` is before `start_us`"));
        assert!(fault([first(), creation("a", 0, 9, 20)]).ends_with("is before that of the row above"));
    }

    #[test]
    fn what_is_no_trace_is_told_with_line_and_column() {
        let told = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        let header = COLUMNS.join(",");
        for more in ["more", "site,site", "cpu_us,cpu_us", "site,more", "program"] {
            let header = told(&format!("# a\n\n{header},{more}\na,0,0,0,0,,1\n"));
            assert!(header.starts_with("line 3: the header is to have each of program, "), "{header}");
        }
        let site = |cells: &str| told(&format!("{header},site,cpu_us\na,0,0,0,0,{cells}\n"));
        assert!(
            site(",g,1").starts_with("line 2: column `site`: \"g\" cannot be read: expected nothing, or up")
        );
        assert!(site(",+1,1").starts_with("line 2: column `site`: \"+1\" "));
        assert!(site(",11112222333344445,1").starts_with("line 2: column `site`: \"11112222333344445\" "));
        assert!(site(",1,-1").starts_with("line 2: column `cpu_us`: \"-1\" "));
        assert!(told("program\na\n").starts_with("line 1: the header"));
        for empty in ["", "# nothing\n", &header, &format!("# a\n{header}\n\n# b\n")] {
            assert_eq!(told(empty), "the trace holds no creation", "{empty:?}");
        }
        let row = |row: &str| told(&format!("# a\n{header}\n# b\n\na,0,0,0,0,\n# c\n\n{row}\n"));
        assert!(row("a,x,0,0,0,").starts_with("line 8: column `argv_hash`: \"x\" cannot be read: "));
        assert!(row("a,,0,0,0,").starts_with("line 8: column `argv_hash`: \"\" "));
        assert!(row("a,0,-1,0,0,").starts_with("line 8: column `parent`: \"-1\" cannot be read: "));
        assert!(row("a,0,0,z,0,").starts_with("line 8: column `start_us`: \"z\" "));
        assert!(row("a,0,0,0,0,y").starts_with("line 8: column `peak_kib`: \"y\" "));
        assert_eq!(row("a,0"), "line 8: 2 cells, where the header has 6");
        assert_eq!(row("\"a\nb\",0,0,0,0,\nc,0,9,0,0,").split(": ").next(), Some("line 10"));
        let returns = format!("{header}\r\na,0,0,0,0,\r\n\r\na,0,0,0,x,\r\n");
        assert!(told(&returns).starts_with("line 4: column `end_us`: \"x\" "), "{}", told(&returns));
    }

    #[test]
    fn columns_may_stand_in_another_order() {
        let trace = read(&b"parent,argv_hash,program,end_us,start_us,peak_kib\n0,ff,a,2,1,7\n"[..]).unwrap();
        assert_eq!((trace[0].argv_hash, trace[0].end_us, trace[0].peak_kib), (255, 2, Some(7)));
    }
}
