//! What the standard descriptors of a run are.

use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::process::{ChildStderr, ChildStdin, ChildStdout};
use std::sync::Arc;

use regrow_engine::run::request::StdioFd;

/// What a standard descriptor of a run is, as [`std::process::Stdio`].
///
/// ```
/// use regrow::{Command, Stdio};
///
/// # fn main() -> std::io::Result<()> {
/// let mut first = Command::new("echo").arg("one two").stdout(Stdio::piped()).spawn()?;
/// let pipe = first.stdout.take().map_or_else(Stdio::null, Stdio::from);
/// let second = Command::new("wc").arg("-w").stdin(pipe).output()?;
/// first.wait()?;
/// assert_eq!(String::from_utf8_lossy(&second.stdout).trim(), "2");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Stdio(Kind);

#[derive(Debug)]
enum Kind {
    Inherit,
    Null,
    Piped,
    Closed,
    Fd(Arc<OwnedFd>),
    /// A copy of the caller's standard output or error, taken at the spawn.
    CallersStdout,
    CallersStderr,
}

/// Which way data flows through a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The run reads.
    In,
    /// The run writes.
    Out,
}

impl Stdio {
    /// Whether it is a pipe to the caller.
    pub(crate) fn is_piped(&self) -> bool {
        matches!(self.0, Kind::Piped)
    }

    /// The descriptor of the same number of the caller.
    #[must_use]
    pub fn inherit() -> Self {
        Self(Kind::Inherit)
    }

    /// `/dev/null`.
    #[must_use]
    pub fn null() -> Self {
        Self(Kind::Null)
    }

    /// A pipe, whose other end is in the [`Child`](crate::Child).
    #[must_use]
    pub fn piped() -> Self {
        Self(Kind::Piped)
    }

    /// Nothing: the run starts without this descriptor. `std::process` has no counterpart. Many programs
    /// take the next file that they open for their standard output when that is closed.
    #[must_use]
    pub fn closed() -> Self {
        Self(Kind::Closed)
    }

    /// The same of `std::process`, where that has it without another descriptor.
    pub(crate) fn to_std(&self) -> Option<std::process::Stdio> {
        match self.0 {
            Kind::Inherit => Some(std::process::Stdio::inherit()),
            Kind::Null => Some(std::process::Stdio::null()),
            Kind::Piped => Some(std::process::Stdio::piped()),
            Kind::CallersStdout => Some(io::stdout().into()),
            Kind::CallersStderr => Some(io::stderr().into()),
            Kind::Closed | Kind::Fd(_) => None,
        }
    }

    /// The run's descriptor and, of a pipe, the caller's end.
    pub(crate) fn open(&self, direction: Direction) -> io::Result<(StdioFd, Option<OwnedFd>)> {
        let fd = match &self.0 {
            Kind::Inherit => return Ok((StdioFd::Inherit, None)),
            Kind::Closed => return Ok((StdioFd::Closed, None)),
            Kind::Piped => return open_pipe(direction),
            Kind::Fd(fd) => Arc::clone(fd),
            Kind::Null => Arc::new(open_null(direction)?.into()),
            Kind::CallersStdout => Arc::new(rustix::stdio::stdout().try_clone_to_owned()?),
            Kind::CallersStderr => Arc::new(rustix::stdio::stderr().try_clone_to_owned()?),
        };
        Ok((StdioFd::Given(fd), None))
    }
}

fn open_null(direction: Direction) -> io::Result<File> {
    let reads = direction == Direction::In;
    OpenOptions::new().read(reads).write(!reads).open("/dev/null")
}

fn open_pipe(direction: Direction) -> io::Result<(StdioFd, Option<OwnedFd>)> {
    let (reader, writer) = io::pipe()?;
    let (theirs, ours) = match direction {
        Direction::In => (OwnedFd::from(reader), OwnedFd::from(writer)),
        Direction::Out => (OwnedFd::from(writer), OwnedFd::from(reader)),
    };
    Ok((StdioFd::Given(Arc::new(theirs)), Some(ours)))
}

impl From<OwnedFd> for Stdio {
    fn from(fd: OwnedFd) -> Self {
        Self(Kind::Fd(Arc::new(fd)))
    }
}

/// Any open file.
impl From<File> for Stdio {
    fn from(file: File) -> Self {
        OwnedFd::from(file).into()
    }
}

/// The write end of another run's standard input.
impl From<ChildStdin> for Stdio {
    fn from(pipe: ChildStdin) -> Self {
        OwnedFd::from(pipe).into()
    }
}

/// The read end of another run's standard output.
impl From<ChildStdout> for Stdio {
    fn from(pipe: ChildStdout) -> Self {
        OwnedFd::from(pipe).into()
    }
}

/// The read end of another run's standard error.
impl From<ChildStderr> for Stdio {
    fn from(pipe: ChildStderr) -> Self {
        OwnedFd::from(pipe).into()
    }
}

/// The read end of a pipe.
impl From<PipeReader> for Stdio {
    fn from(pipe: PipeReader) -> Self {
        OwnedFd::from(pipe).into()
    }
}

/// The write end of a pipe.
impl From<PipeWriter> for Stdio {
    fn from(pipe: PipeWriter) -> Self {
        OwnedFd::from(pipe).into()
    }
}

/// The caller's standard output, also for another descriptor of the run.
impl From<io::Stdout> for Stdio {
    fn from(_: io::Stdout) -> Self {
        Self(Kind::CallersStdout)
    }
}

/// The caller's standard error, also for another descriptor of the run.
impl From<io::Stderr> for Stdio {
    fn from(_: io::Stderr) -> Self {
        Self(Kind::CallersStderr)
    }
}
