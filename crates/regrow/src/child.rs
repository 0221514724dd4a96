//! A process that a command started.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{ChildStderr, ChildStdin, ChildStdout, ExitStatus, Output};

use regrow_engine::run::creation::Creation;
use regrow_engine::run::started::Started;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags};

use crate::readable::readable;

/// How much room there is at least for each read of output.
const READ_BYTES: usize = 16 * 1024;

/// A process that was started, as [`std::process::Child`].
///
/// Dropping it neither kills the process nor waits for it. Whoever does not wait leaves a process that has ended
/// in the system's table.
///
/// ```
/// use regrow::Command;
///
/// # fn main() -> std::io::Result<()> {
/// let mut child = Command::new("sleep").arg("60").spawn()?;
/// assert!(child.try_wait()?.is_none());
/// child.kill()?;
/// assert!(!child.wait()?.success());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Child {
    /// The write end of the process's standard input, where that is a pipe.
    pub stdin: Option<ChildStdin>,
    /// The read end of its standard output, where that is a pipe.
    pub stdout: Option<ChildStdout>,
    /// The read end of its standard error, where that is a pipe.
    pub stderr: Option<ChildStderr>,
    started: Started,
    /// How the process ended, once that is known.
    status: Option<ExitStatus>,
}

/// The caller's ends of the pipes of a run.
#[derive(Debug)]
pub(crate) struct PipeEnds {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
}

impl Child {
    pub(crate) fn new(started: Started, pipes: PipeEnds) -> Self {
        Self {
            stdin: pipes.stdin.map(ChildStdin::from),
            stdout: pipes.stdout.map(ChildStdout::from),
            stderr: pipes.stderr.map(ChildStderr::from),
            started,
            status: None,
        }
    }

    /// The number of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.started.pid.unsigned_abs()
    }

    /// How the process was made: recycled and at which point, or by exec and why.
    ///
    /// ```
    /// use regrow::{Command, Pool};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let pool = Pool::builder().recycle(false).build();
    /// let mut child = pool.command("true").spawn()?;
    /// assert_eq!(child.creation().how(), "exec");
    /// assert_eq!(child.creation().fallback().map(|why| why.name()), Some("recycling_off"));
    /// child.wait()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn creation(&self) -> &Creation {
        &self.started.creation
    }

    /// Why the modules of [`Command::preload`](crate::Command::preload) were not loaded ahead, where that is no matter of time: one of
    /// them cannot be loaded, or there is no front end for the program and its arguments. `None` of a run that was started by exec too.
    #[must_use]
    pub fn not_loaded(&self) -> Option<&str> {
        self.started.not_loaded.as_deref()
    }

    /// The process as a descriptor, for use with other interfaces: it becomes readable when the process, with all
    /// its threads, has ended.
    ///
    /// So the poller of any runtime waits for it, and [`Child::wait`] then returns at once. Each pipe of the child is an
    /// [`OwnedFd`] for the runtime's own pipes. With tokio:
    ///
    /// ```
    /// use regrow::{Command, Stdio};
    /// use tokio::io::{AsyncReadExt, Interest, unix::AsyncFd};
    /// use tokio::net::unix::pipe;
    ///
    /// # fn main() -> std::io::Result<()> {
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let mut child = Command::new("echo").arg("hello").stdout(Stdio::piped()).spawn()?;
    /// let mut text = String::new();
    /// if let Some(stdout) = child.stdout.take() {
    ///     pipe::Receiver::from_owned_fd(stdout.into())?.read_to_string(&mut text).await?;
    /// }
    /// // SAFETY: the child keeps the descriptor open for longer than the registration lasts.
    /// let polled = unsafe { AsyncFd::register_with_interest(child.pidfd()?, Interest::READABLE) }?;
    /// polled.readable().await?.retain_ready();
    /// drop(polled);
    /// assert!(child.wait()?.success());
    /// assert_eq!(text, "hello\n");
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    ///
    /// Who drops a future that waits leaves the process alone, and who drops the child does too: tokio's `kill_on_drop` is a guard
    /// whose `Drop` calls [`Child::kill`] and [`Child::wait`].
    ///
    /// # Errors
    /// When it has been waited for already, or there is no free descriptor.
    pub fn pidfd(&self) -> io::Result<BorrowedFd<'_>> {
        self.started.pidfd()
    }

    /// Kills the process with `SIGKILL`. There is no error if it has ended already.
    ///
    /// # Errors
    /// `PermissionDenied` when the process has changed its user to one that the caller may not signal.
    pub fn kill(&mut self) -> io::Result<()> {
        match self.status {
            Some(_) => Ok(()),
            None => self.started.kill(),
        }
    }

    /// Closes the process's standard input, if that is a pipe that was not taken, waits for the end of the
    /// process and says how it ended. Further calls say the same.
    ///
    /// # Errors
    /// `ECHILD` when the caller ignores `SIGCHLD`, so that nobody knows how the process ended.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        if let Some(status) = self.status {
            return Ok(status);
        }
        let status = self.started.wait()?;
        self.status = Some(status);
        Ok(status)
    }

    /// Says how the process ended, if it has.
    ///
    /// # Errors
    /// As [`Child::wait`].
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.started.try_wait()?;
        }
        Ok(self.status)
    }

    /// As [`Child::wait`], without holding up the thread.
    ///
    /// It works in every runtime: one thread, started with the first wait, polls for all children. A program that
    /// would rather use the poller of its runtime gives it [`Child::pidfd`], and calls [`Child::wait`] when that is
    /// readable. Dropping the future before it is done leaves the process alone.
    ///
    /// ```
    /// # async fn example() -> std::io::Result<()> {
    /// let mut child = regrow::Command::new("make").arg("all").spawn()?;
    /// let status = child.wait_async().await?;
    /// println!("make ended with {status}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Child::wait`], and when the process cannot be polled because descriptors or threads are short.
    pub async fn wait_async(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        if self.status.is_none() {
            readable(self.started.pidfd()?).await?;
        }
        self.wait()
    }

    /// Closes the process's standard input, if that is a pipe that was not taken, reads all of its output
    /// and error, as far as they are pipes, and waits for its end.
    ///
    /// Both pipes are read as data comes, so a process that writes much to either does not get stuck.
    ///
    /// # Errors
    /// When a pipe cannot be read, and as [`Child::wait`].
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        self.finish()
    }

    /// Has a process begin that was started ahead of its turn ([`Command::ahead`](crate::Command::ahead)).
    pub fn let_go(&self) {
        self.started.let_go();
    }

    /// After the end: what a run has answered whose order ([`Command::order`](crate::Command::order)) its front end has taken from memory,
    /// the first time; `None` where it has answered nothing, or in another way.
    pub fn take_answer(&mut self) -> Option<Vec<u8>> {
        self.started.take_answer()
    }

    /// Whether the process ended before the program's first instruction (see [`Started::was_refused`]).
    pub(crate) fn was_refused(&self) -> bool {
        self.started.was_refused()
    }

    /// Reads all output and waits.
    pub(crate) fn finish(&mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        match (self.stdout.take(), self.stderr.take()) {
            (None, None) => {}
            (Some(mut out), None) => {
                out.read_to_end(&mut stdout)?;
            }
            (None, Some(mut err)) => {
                err.read_to_end(&mut stderr)?;
            }
            (Some(out), Some(err)) => read_both(out.as_fd(), &mut stdout, err.as_fd(), &mut stderr)?,
        }
        let status = self.wait()?;
        Ok(Output { status, stdout, stderr })
    }
}

/// Reads two pipes to their ends, whichever has data.
fn read_both(
    out: BorrowedFd<'_>,
    stdout: &mut Vec<u8>,
    err: BorrowedFd<'_>,
    stderr: &mut Vec<u8>,
) -> io::Result<()> {
    let mut open = vec![(out, stdout), (err, stderr)];
    while !open.is_empty() {
        let mut polled: Vec<PollFd<'_>> =
            open.iter().map(|(fd, _)| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut polled, None))?;
        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut still_open = Vec::with_capacity(open.len());
        for ((fd, buffer), is_ready) in open.into_iter().zip(ready) {
            if !is_ready || read_some(fd, buffer)? {
                still_open.push((fd, buffer));
            }
        }
        open = still_open;
    }
    Ok(())
}

/// Reads once from a pipe that is ready. False at its end.
fn read_some(fd: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> io::Result<bool> {
    buffer.reserve(READ_BYTES);
    let read = rustix::io::retry_on_intr(|| rustix::io::read(fd, spare_capacity(buffer)))?;
    Ok(read > 0)
}
