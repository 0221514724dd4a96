//! Reports: what a front end says of the image while it prepares itself.
//!
//! A report is a row of [`ReportRecord`]s, each ended by a NUL byte. This file has the whole grammar: the tracer looks for single
//! records in a report that is being written ([`records`]), the engine reads the finished one ([`parse`]).

/// The bytes with which a front end announces that its next child is the process that stops itself.
pub const FORK: &[u8] = b"fork\0";

/// One record of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportRecord<'a> {
    /// The front end has read this variable.
    Variable(&'a [u8]),
    /// The front end has read all variables.
    AllVariables,
    /// The image depends on the file at this absolute path.
    File(&'a [u8]),
    /// A file that appears at this absolute path changes the image; a last component that begins with `*` stands for every
    /// name that ends so.
    Absent(&'a [u8]),
    /// The next child of the front end is the process that stops itself.
    Fork,
    /// The front end has its gate at this address, which is not zero.
    Gate(u64),
    /// The front end takes orders from the exchange, and has a word for its address at this one, which is not zero.
    Exchange(u64),
    /// The front end refuses to be kept, for this reason.
    Refuse(&'a [u8]),
}

/// A report cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// The last record is not ended by a NUL byte.
    #[error("the last record of the report is cut off")]
    CutOff,
    /// A record is none of those that there are.
    #[error("the report has an unknown record: {0:?}")]
    Unknown(String),
    /// A path is not absolute.
    #[error("the report names a path that is not absolute: {0:?}")]
    Relative(String),
}

impl<'a> ReportRecord<'a> {
    /// Reads a record, given without its NUL byte.
    fn read(record: &'a [u8]) -> Result<Self, ReportError> {
        let space = record.iter().position(|&byte| byte == b' ').unwrap_or(record.len());
        let (kind, rest) = record.split_at(space);
        let text = rest.get(1..).unwrap_or_default();
        let read = match kind {
            b"env" if text == b"*" => Some(Self::AllVariables),
            b"env" if is_name(text) => Some(Self::Variable(text)),
            b"file" => Some(Self::File(absolute(text)?)),
            b"absent" => Some(Self::Absent(absolute(text)?)),
            b"fork" if text.is_empty() => Some(Self::Fork),
            b"gate" => address(text).map(Self::Gate),
            b"exchange" => address(text).map(Self::Exchange),
            b"refuse" => Some(Self::Refuse(text)),
            _ => None,
        };
        read.ok_or_else(|| ReportError::Unknown(lossy(record)))
    }
}

/// The records that can be read in a report, which may still be written to.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = ReportRecord<'_>> {
    bytes.split(|&byte| byte == 0).filter_map(|record| ReportRecord::read(record).ok())
}

/// The reason for which a front end refuses to be kept, if it does.
#[must_use]
pub fn refusal(bytes: &[u8]) -> Option<String> {
    records(bytes).find_map(|record| match record {
        ReportRecord::Refuse(reason) => Some(lossy(reason)),
        _ => None,
    })
}

/// The address of a front end's gate, if it has one.
#[must_use]
pub fn gate(bytes: &[u8]) -> Option<u64> {
    records(bytes).find_map(|record| match record {
        ReportRecord::Gate(address) => Some(address),
        _ => None,
    })
}

/// The address of the word that a front end has for the exchange, if it has one.
#[must_use]
pub fn exchange(bytes: &[u8]) -> Option<u64> {
    records(bytes).find_map(|record| match record {
        ReportRecord::Exchange(address) => Some(address),
        _ => None,
    })
}

/// What the engine takes over from a finished report: what the image depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PreparationReport {
    /// Names of variables whose values are part of the image's key.
    pub env: Vec<Vec<u8>>,
    /// Whether all variables are.
    pub all_env: bool,
    /// Paths of files that the image depends on.
    pub files: Vec<Vec<u8>>,
    /// Paths at which a file that appears changes the image; a last component that begins with `*` stands for every
    /// name that ends so.
    pub absent: Vec<Vec<u8>>,
    /// Whether the process that stops itself is a child of the one that was started.
    pub fork: bool,
    /// Where the front end has two words for the agent: it prepares itself in each run before it has its order.
    pub gate: Option<u64>,
    /// Where the front end has a word for the address of the exchange.
    pub exchange: Option<u64>,
    /// Why no image can be made.
    pub refused: Option<String>,
}

/// Reads a finished report.
///
/// # Errors
///
/// When a record is malformed: the engine cannot know then what the image depends on.
pub fn parse(bytes: &[u8]) -> Result<PreparationReport, ReportError> {
    let mut report = PreparationReport::default();
    if bytes.is_empty() {
        return Ok(report);
    }
    let bytes = bytes.strip_suffix(&[0]).ok_or(ReportError::CutOff)?;
    for text in bytes.split(|&byte| byte == 0) {
        match ReportRecord::read(text)? {
            ReportRecord::Variable(name) => report.env.push(name.to_vec()),
            ReportRecord::AllVariables => report.all_env = true,
            ReportRecord::File(path) => report.files.push(path.to_vec()),
            ReportRecord::Absent(path) => report.absent.push(path.to_vec()),
            ReportRecord::Fork => report.fork = true,
            // A front end has one of each.
            ReportRecord::Gate(_) if report.gate.is_some() => return Err(ReportError::Unknown(lossy(text))),
            ReportRecord::Exchange(_) if report.exchange.is_some() => {
                return Err(ReportError::Unknown(lossy(text)));
            }
            ReportRecord::Exchange(address) => report.exchange = Some(address),
            ReportRecord::Gate(address) => report.gate = Some(address),
            ReportRecord::Refuse(reason) => report.refused = Some(lossy(reason)),
        }
    }
    Ok(report)
}

/// Whether it can be the name of a variable.
fn is_name(text: &[u8]) -> bool {
    !text.is_empty() && !text.contains(&b'=')
}

/// A decimal number that is not zero.
fn address(text: &[u8]) -> Option<u64> {
    let digits = text.iter().all(u8::is_ascii_digit).then_some(text)?;
    std::str::from_utf8(digits).ok()?.parse().ok().filter(|&number| number != 0)
}

/// A path, which must be absolute.
fn absolute(path: &[u8]) -> Result<&[u8], ReportError> {
    if path.starts_with(b"/") { Ok(path) } else { Err(ReportError::Relative(lossy(path))) }
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_record_is_read() {
        let report = parse(
            b"env A\0env *\0file /a b\0absent /c/*.pth\0fork\0gate 4096\0exchange 8\0env B\0refuse no luck\0",
        );
        let wanted = PreparationReport {
            env: vec![b"A".to_vec(), b"B".to_vec()],
            all_env: true,
            files: vec![b"/a b".to_vec()],
            absent: vec![b"/c/*.pth".to_vec()],
            fork: true,
            gate: Some(4096),
            exchange: Some(8),
            refused: Some("no luck".to_owned()),
        };
        assert_eq!(report, Ok(wanted));
        assert_eq!(parse(b""), Ok(PreparationReport::default()));
    }

    #[test]
    fn what_is_malformed_is_refused() {
        assert_eq!(parse(b"env A"), Err(ReportError::CutOff));
        for record in
            ["", "env", "env A=1", "environment A", "fork now", "gate", "gate 0", "gate +1", "exchange"]
        {
            assert_eq!(parse(format!("{record}\0").as_bytes()), Err(ReportError::Unknown(record.to_owned())));
        }
        for (record, path) in [("file a", "a"), ("absent", ""), ("absent *.pth", "*.pth")] {
            assert_eq!(parse(format!("{record}\0").as_bytes()), Err(ReportError::Relative(path.to_owned())));
        }
        assert_eq!(parse(b"gate 8\0gate 16\0"), Err(ReportError::Unknown("gate 16".to_owned())));
        let twice = parse(b"exchange 8\0exchange 8\0");
        assert_eq!(twice, Err(ReportError::Unknown("exchange 8".to_owned())));
    }

    #[test]
    fn the_fork_is_announced_as_the_grammar_says() {
        assert_eq!(records(FORK).collect::<Vec<_>>(), [ReportRecord::Fork]);
    }

    #[test]
    fn a_gate_and_a_refusal_are_found_in_a_report_that_is_cut_off() {
        let bytes = b"strange\0file a\0gate 64\0gate 72\0refuse no luck\0refuse again\0env A";
        assert_eq!(gate(bytes), Some(64));
        assert_eq!(refusal(bytes).as_deref(), Some("no luck"));
        assert_eq!(refusal(b"refuse mid sent").as_deref(), Some("mid sent"));
        assert_eq!((gate(b""), refusal(b"")), (None, None));
        assert_eq!((exchange(b"gate 64\0exchange 72\0env A"), exchange(bytes)), (Some(72), None));
    }
}
