//! What runs write, and whether it is what it should be.
//!
//! ```text
//!   run ──stdout──▶ memfd, appended to ──┐
//!   run ──stderr──▶ memfd, appended to ──┴─▶ taken and compared after the clock has stopped, then emptied
//! ```
//!
//! Both ways of starting write to the same files. Many runs back to back append to them, and are compared in one go:
//! what is there must be the expected output as many times as there were runs.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::process::ExitStatus;

use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, memfd_create};

/// How much of an output is shown where it differs.
const SHOWN_BYTES: usize = 48;

/// A standard output or error that collects what runs write.
#[derive(Debug)]
pub(super) struct Sink {
    file: File,
}

impl Sink {
    /// Makes an empty one.
    pub(super) fn new() -> io::Result<Self> {
        let file = File::from(memfd_create("regrow-bench-output", MemfdFlags::CLOEXEC)?);
        fcntl_setfl(&file, OFlags::RDWR | OFlags::APPEND)?;
        Ok(Self { file })
    }

    /// A descriptor for a run to write to.
    pub(super) fn writer(&self) -> io::Result<OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }

    /// Takes what was written since the last time.
    pub(super) fn take(&self) -> io::Result<Vec<u8>> {
        let bytes = usize::try_from(self.file.metadata()?.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut text = vec![0; bytes];
        if bytes > 0 {
            self.file.read_exact_at(&mut text, 0)?;
            self.file.set_len(0)?;
        }
        Ok(text)
    }
}

/// How every run must end, and what it must write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// How a run differs from what is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Difference {
    /// It ended otherwise.
    Status { expected: ExitStatus, found: ExitStatus },
    /// It wrote something else.
    Output {
        /// `standard output` or `standard error`.
        stream: &'static str,
        /// Where the first differing byte is, among what all runs that are compared together wrote.
        offset: usize,
        /// What should stand there.
        expected: Vec<u8>,
        /// What stands there.
        found: Vec<u8>,
    },
}

impl Expected {
    /// Compares how a run ended.
    pub(super) fn check_status(&self, found: ExitStatus) -> Result<(), Difference> {
        let expected = self.status;
        if found == expected { Ok(()) } else { Err(Difference::Status { expected, found }) }
    }

    /// Compares what so many runs have written.
    pub(super) fn check_output(&self, runs: usize, stdout: &[u8], stderr: &[u8]) -> Result<(), Difference> {
        compare("standard output", &self.stdout, runs, stdout)?;
        compare("standard error", &self.stderr, runs, stderr)
    }
}

/// Compares `found` with `expected`, written `runs` times.
fn compare(stream: &'static str, expected: &[u8], runs: usize, found: &[u8]) -> Result<(), Difference> {
    let whole = expected.len().saturating_mul(runs);
    let mut wanted = (0..whole).filter_map(|index| expected.get(index % expected.len()).copied());
    // The common case, in blocks.
    if found.len() == whole && (whole == 0 || found.chunks_exact(expected.len()).all(|run| run == expected)) {
        return Ok(());
    }
    let offset = found.iter().take_while(|byte| wanted.next() == Some(**byte)).count();
    let at = offset.checked_rem(expected.len()).unwrap_or(0);
    let expected = if offset < whole { shown(expected, at) } else { Vec::new() };
    Err(Difference::Output { stream, offset, expected, found: shown(found, offset) })
}

fn shown(text: &[u8], from: usize) -> Vec<u8> {
    text.iter().skip(from).take(SHOWN_BYTES).copied().collect()
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status { expected, found } => write!(f, "ended with {found}, not with {expected}"),
            Self::Output { stream, offset, expected, found } => {
                let (expected, found) = (expected.escape_ascii(), found.escape_ascii());
                write!(f, "{stream} differs at byte {offset}: \"{found}\", not \"{expected}\"")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::process::ExitStatusExt;

    fn expected(stdout: &[u8]) -> Expected {
        Expected { status: ExitStatus::from_raw(0), stdout: stdout.to_vec(), stderr: Vec::new() }
    }

    #[test]
    fn a_sink_gives_what_was_written_and_is_empty_after_that() {
        let sink = Sink::new().unwrap();
        let mut one = File::from(sink.writer().unwrap());
        let mut other = File::from(sink.writer().unwrap());
        one.write_all(b"one ").unwrap();
        other.write_all(b"other").unwrap();
        assert_eq!(sink.take().unwrap(), b"one other");
        assert_eq!(sink.take().unwrap(), b"");
        one.write_all(b"again").unwrap();
        assert_eq!(sink.take().unwrap(), b"again");
    }

    #[test]
    fn output_of_many_runs_is_the_expected_one_many_times() {
        let expected = expected(b"ab\n");
        assert_eq!(expected.check_output(1, b"ab\n", b""), Ok(()));
        assert_eq!(expected.check_output(3, b"ab\nab\nab\n", b""), Ok(()));
        for (runs, wrong) in [(2, &b"ab\nab"[..]), (2, b"ab\n"), (1, b"ab\nab\n"), (2, b"ab\naB\n"), (1, b"")]
        {
            assert!(expected.check_output(runs, wrong, b"").is_err(), "{wrong:?}");
        }
        assert!(expected.check_output(1, b"ab\n", b"error").is_err());
    }

    #[test]
    fn a_difference_says_where_and_what() {
        let text =
            |runs, found: &[u8]| expected(b"ab\n").check_output(runs, found, b"").unwrap_err().to_string();
        assert_eq!(text(2, b"ab\naB\n"), r#"standard output differs at byte 4: "B\n", not "b\n""#);
        assert_eq!(text(1, b"ab\nc"), r#"standard output differs at byte 3: "c", not """#);
        assert_eq!(text(2, b"ab\n"), r#"standard output differs at byte 3: "", not "ab\n""#);
        let nothing = expected(b"").check_output(5, b"x", b"").unwrap_err();
        assert_eq!(nothing.to_string(), r#"standard output differs at byte 0: "x", not """#);
        let killed = expected(b"").check_status(ExitStatus::from_raw(9)).unwrap_err();
        assert_eq!(killed.to_string(), "ended with signal: 9 (SIGKILL), not with exit status: 0");
    }
}
