//! Collects what runs write, and compares it with what the first run wrote.
//!
//! ```text
//!   run ──stdout──▶ memfd, appended to ──┐
//!   run ──stderr──▶ memfd, appended to ──┴─▶ taken and compared after the clock has stopped, then emptied
//! ```
//!
//! The runs of both methods write to the same files. Runs back to back append to them, and one comparison covers them all:
//! the files must hold the expected output as many times as there were runs.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::process::ExitStatus;

use super::mismatch::Mismatch;
use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, memfd_create};

/// How much of an output is shown where it differs.
const SHOWN_BYTES: usize = 48;

/// A file that runs have as standard output or error, and that collects what they write.
#[derive(Debug)]
pub(super) struct OutputSink {
    file: File,
}

impl OutputSink {
    /// Makes an empty file.
    pub(super) fn new() -> io::Result<Self> {
        let file = File::from(memfd_create("regrow-bench-output", MemfdFlags::CLOEXEC)?);
        fcntl_setfl(&file, OFlags::RDWR | OFlags::APPEND)?;
        Ok(Self { file })
    }

    /// A descriptor that a run writes to.
    pub(super) fn writer(&self) -> io::Result<OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }

    /// Takes what runs wrote since the last call, and empties the file.
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

/// The first run of a program: every later run must end and write as it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReferenceRun {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

impl ReferenceRun {
    /// Compares the status of a run.
    pub(super) fn check_status(&self, found: ExitStatus) -> Result<(), Mismatch> {
        let expected = self.status;
        if found == expected { Ok(()) } else { Err(Mismatch::Status { expected, found }) }
    }

    /// Compares what `runs` runs wrote.
    pub(super) fn check_output(&self, runs: usize, stdout: &[u8], stderr: &[u8]) -> Result<(), Mismatch> {
        compare("standard output", &self.stdout, runs, stdout)?;
        compare("standard error", &self.stderr, runs, stderr)
    }
}

/// Compares `found` with `expected`, written `runs` times.
fn compare(stream: &'static str, expected: &[u8], runs: usize, found: &[u8]) -> Result<(), Mismatch> {
    let whole = expected.len().saturating_mul(runs);
    let mut wanted = (0..whole).filter_map(|index| expected.get(index % expected.len()).copied());
    // The common case, in blocks.
    if found.len() == whole && (whole == 0 || found.chunks_exact(expected.len()).all(|run| run == expected)) {
        return Ok(());
    }
    let offset = found.iter().take_while(|byte| wanted.next() == Some(**byte)).count();
    let at = offset.checked_rem(expected.len()).unwrap_or(0);
    let expected = if offset < whole { shown(expected, at) } else { Vec::new() };
    Err(Mismatch::Output { stream, offset, expected, found: shown(found, offset) })
}

fn shown(text: &[u8], from: usize) -> Vec<u8> {
    text.iter().skip(from).take(SHOWN_BYTES).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::process::ExitStatusExt;

    fn expected(stdout: &[u8]) -> ReferenceRun {
        ReferenceRun { status: ExitStatus::from_raw(0), stdout: stdout.to_vec(), stderr: Vec::new() }
    }

    #[test]
    fn a_sink_gives_what_was_written_and_is_empty_after_that() {
        let sink = OutputSink::new().unwrap();
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
