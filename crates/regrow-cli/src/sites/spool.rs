//! The output of a command while the terminal shows something else: a file, which is written to the terminal at the end.
//!
//! ```text
//!   live   descriptor 0: /dev/null    1 and 2: the file       the terminal by a descriptor of its own
//!   after  descriptors as they were; what stands in the file goes to standard output
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

/// The descriptors that a command inherits, turned to a file.
pub(super) struct Spool {
    file: File,
    /// What they were.
    before: [OwnedFd; 3],
    copied: u64,
    is_over: bool,
}

impl Spool {
    /// Turns the standard descriptors of this process.
    pub(super) fn start() -> io::Result<Spool> {
        let before = [
            rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?,
            rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?,
            rustix::io::fcntl_dupfd_cloexec(io::stderr(), 3)?,
        ];
        let unnamed = tempfile::NamedTempFile::new()?;
        // Both write at its end, whoever comes first.
        let appending = OpenOptions::new().append(true).open(unnamed.path())?;
        let file = unnamed.into_file();
        dup2_stdin(File::open("/dev/null")?)?;
        dup2_stdout(&appending)?;
        dup2_stderr(&appending)?;
        Ok(Spool { file, before, copied: 0, is_over: false })
    }

    /// The end of what was written.
    pub(super) fn tail(&self, bytes: u64) -> String {
        let length = self.file.metadata().map_or(0, |metadata| metadata.len());
        let from = length.saturating_sub(bytes);
        let mut tail = vec![0; usize::try_from(length - from).unwrap_or(0)];
        let read = self.file.read_at(&mut tail, from).unwrap_or(0);
        String::from_utf8_lossy(tail.get(..read).unwrap_or_default()).into_owned()
    }

    /// Writes what has come since the last time to what standard output was.
    pub(super) fn copy(&mut self) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.copied))?;
        let mut terminal = File::from(self.before[1].try_clone()?);
        self.copied += io::copy(&mut Read::by_ref(&mut self.file), &mut terminal)?;
        terminal.flush()
    }

    /// Turns the descriptors back, and writes out what is left.
    pub(super) fn end(&mut self) -> io::Result<()> {
        self.is_over = true;
        let copied = self.copy();
        dup2_stdin(&self.before[0])?;
        dup2_stdout(&self.before[1])?;
        dup2_stderr(&self.before[2])?;
        copied
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if !self.is_over {
            // There is nobody to tell that it cannot be written.
            let _ = self.end();
        }
    }
}
