//! Reports: what a front end says of the image while it prepares itself.

use crate::order::strings;

/// What a front end has reported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
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
    /// Why no image can be made.
    pub refused: Option<String>,
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

/// Reads a report.
///
/// # Errors
///
/// When a record is malformed: the engine cannot know then what the image depends on.
pub fn parse(bytes: &[u8]) -> Result<Report, ReportError> {
    if bytes.last().is_some_and(|&byte| byte != 0) {
        return Err(ReportError::CutOff);
    }
    let mut report = Report::default();
    for record in strings(bytes) {
        let space = record.iter().position(|&byte| byte == b' ').unwrap_or(record.len());
        let (kind, rest) = record.split_at(space);
        let text = rest.get(1..).unwrap_or_default();
        match kind {
            b"env" if text == b"*" => report.all_env = true,
            b"env" if is_name(text) => report.env.push(text.to_vec()),
            b"file" => report.files.push(path(text)?),
            b"absent" => report.absent.push(path(text)?),
            b"fork" if text.is_empty() => report.fork = true,
            b"gate" if report.gate.is_none() && number(text).is_some() => report.gate = number(text),
            b"refuse" => report.refused = Some(String::from_utf8_lossy(text).into_owned()),
            _ => return Err(ReportError::Unknown(String::from_utf8_lossy(record).into_owned())),
        }
    }
    Ok(report)
}

/// Whether it can be the name of a variable.
fn is_name(text: &[u8]) -> bool {
    !text.is_empty() && !text.contains(&b'=')
}

/// A decimal number that is not zero.
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().all(u8::is_ascii_digit).then_some(text)?;
    std::str::from_utf8(digits).ok()?.parse().ok().filter(|&number| number != 0)
}

fn path(text: &[u8]) -> Result<Vec<u8>, ReportError> {
    if text.first() == Some(&b'/') {
        return Ok(text.to_vec());
    }
    Err(ReportError::Relative(String::from_utf8_lossy(text).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_record_is_read() {
        let report =
            parse(b"env A\0env *\0file /a b\0absent /c/*.pth\0fork\0gate 4096\0env B\0refuse no luck\0");
        let wanted = Report {
            env: vec![b"A".to_vec(), b"B".to_vec()],
            all_env: true,
            files: vec![b"/a b".to_vec()],
            absent: vec![b"/c/*.pth".to_vec()],
            fork: true,
            gate: Some(4096),
            refused: Some("no luck".to_owned()),
        };
        assert_eq!(report, Ok(wanted));
        assert_eq!(parse(b""), Ok(Report::default()));
    }

    #[test]
    fn what_is_malformed_is_refused() {
        assert_eq!(parse(b"env A"), Err(ReportError::CutOff));
        for record in ["", "env", "env A=1", "environment A", "fork now", "gate", "gate 0", "gate +1"] {
            assert_eq!(parse(format!("{record}\0").as_bytes()), Err(ReportError::Unknown(record.to_owned())));
        }
        for (record, path) in [("file a", "a"), ("absent", ""), ("absent *.pth", "*.pth")] {
            assert_eq!(parse(format!("{record}\0").as_bytes()), Err(ReportError::Relative(path.to_owned())));
        }
    }
}
