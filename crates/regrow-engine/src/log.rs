//! The log of creations: which program, how, when, how long. A ring in memory, and a file where one is wanted.
//!
//! The pool's policies read it: arrival gaps, what follows what, how many at a time.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use crate::run::creation::Creation;

/// Creations that the ring holds.
pub const CAPACITY: usize = 4096;
/// Most bytes of a program's name that the log holds: whoever orders a run may name it as they like.
const MAX_NAME_BYTES: usize = 256;

/// One process that was created.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Which one it was, from 1.
    pub number: u64,
    /// Since the log was begun.
    pub at: Duration,
    /// The program, as it was named.
    pub program: String,
    /// The place in the parent that asked for it, if that is known.
    pub site: Option<u64>,
    /// How it was created.
    pub creation: Creation,
    /// From the order to the program's first instruction, where that was noted.
    pub to_main: Option<Duration>,
    /// From the order to its end seen; `None` for a process that is started by somebody else.
    pub took: Option<Duration>,
}

/// The log.
#[derive(Debug, Default)]
pub struct CreationLog {
    ring: VecDeque<Record>,
    count: u64,
    file: Option<BufWriter<File>>,
}

impl CreationLog {
    /// A log that is written to a file as well, a line of JSON for each record.
    #[must_use]
    pub fn with_file(file: File) -> CreationLog {
        CreationLog { file: Some(BufWriter::new(file)), ..CreationLog::default() }
    }

    /// Adds a record and gives it its number.
    pub fn add(&mut self, mut record: Record) {
        self.count += 1;
        record.number = self.count;
        if let Some(cut) = cut(&record.program) {
            record.program = cut;
        }
        if let Some(file) = &mut self.file
            && let Err(error) = write_line(file, &record)
        {
            tracing::error!(%error, "the log of creations cannot be written any more");
            self.file = None;
        }
        if self.ring.len() == CAPACITY {
            self.ring.pop_front();
        }
        self.ring.push_back(record);
    }

    /// The records that the ring still holds, oldest first.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = &Record> + ExactSizeIterator {
        self.ring.iter()
    }

    /// How many there have been.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Median and 99th percentile of the time from the order to the program's first instruction, of the recycled runs in
    /// the ring, and how many these are.
    #[must_use]
    pub fn to_main(&self) -> Option<(Duration, Duration, usize)> {
        let mut times: Vec<Duration> = self.ring.iter().filter_map(|record| record.to_main).collect();
        times.sort_unstable();
        // The nearest rank: of a few times the slowest is the 99th percentile.
        let at = |percent: usize| times.get((times.len() * percent).div_ceil(100).checked_sub(1)?).copied();
        Some((at(50)?, at(99)?, times.len()))
    }
}

/// The beginning of a name that is too long. A string of its own: the long one is given back as a whole.
fn cut(name: &str) -> Option<String> {
    let end = (0..=MAX_NAME_BYTES).rev().find(|&end| name.is_char_boundary(end))?;
    (name.len() > MAX_NAME_BYTES).then(|| name.get(..end).unwrap_or_default().to_owned())
}

fn write_line(to: &mut impl Write, record: &Record) -> io::Result<()> {
    let micros = |time: Option<Duration>| {
        time.map_or("null".to_owned(), |time| format!("{:.1}", time.as_secs_f64() * 1e6))
    };
    let why = record.creation.fallback().map_or("null".to_owned(), |why| format!("\"{}\"", why.name()));
    let point = record.creation.point().map_or("null".to_owned(), |point| format!("\"{point}\""));
    writeln!(
        to,
        "{{\"number\":{},\"at_s\":{:.6},\"program\":{},\"site\":{},\"how\":\"{}\",\"point\":{point},\"fallback\":{why},\
         \"to_main_us\":{},\"took_us\":{}}}",
        record.number,
        record.at.as_secs_f64(),
        quoted(&record.program),
        record.site.map_or("null".to_owned(), |site| site.to_string()),
        record.creation.how(),
        micros(record.to_main),
        micros(record.took),
    )?;
    to.flush()
}

/// A string as JSON has it.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control < ' ' => quoted.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::creation::{Fallback, Point};

    fn record(to_main_us: Option<u64>) -> Record {
        Record {
            number: 0,
            at: Duration::from_millis(1500),
            program: "a \"b\"\n".to_owned(),
            site: None,
            creation: Creation::Recycled { point: Point::Main },
            to_main: to_main_us.map(Duration::from_micros),
            took: Some(Duration::from_micros(40)),
        }
    }

    #[test]
    fn the_ring_forgets_the_oldest_and_counts_all() {
        let mut log = CreationLog::default();
        assert_eq!(log.to_main(), None);
        for number in 1..=CAPACITY as u64 + 5 {
            log.add(record(Some(number)));
        }
        assert_eq!((log.records().len(), log.count()), (CAPACITY, CAPACITY as u64 + 5));
        assert_eq!(log.records().next().map(|record| record.number), Some(6));
        let (p50, p99, count) = log.to_main().expect("there are times");
        assert_eq!((p50.as_micros(), p99.as_micros(), count), (2053, 4061, CAPACITY));
    }

    #[test]
    fn a_line_is_json_with_every_field() {
        let mut line = Vec::new();
        write_line(&mut line, &record(None)).expect("memory takes it");
        let exec =
            Record { creation: Creation::Exec { why: Fallback::FirstRun }, took: None, ..record(Some(7)) };
        write_line(&mut line, &exec).expect("memory takes it");
        let expected = r#"{"number":0,"at_s":1.500000,"program":"a \"b\"\u000a","site":null,"how":"recycled","point":"main","fallback":null,"to_main_us":null,"took_us":40.0}
{"number":0,"at_s":1.500000,"program":"a \"b\"\u000a","site":null,"how":"exec","point":null,"fallback":"first_run","to_main_us":7.0,"took_us":null}
"#;
        assert_eq!(String::from_utf8(line).expect("UTF-8"), expected);
    }
}
