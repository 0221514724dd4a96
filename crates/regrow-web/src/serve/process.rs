//! The process that answers one request: the gateway starts it, reads its output, and gives it up.
//!
//! ```text
//!  start ── output … ── end of the output ──────────────────────────────> reaper
//!            ├── the client goes, or the deadline passes: killed ───────> reaper
//!            └── the reply is complete before the output ends: goes on ─> reaper, which reads the rest for nobody
//! ```
//!
//! The reply ends with the standard output of the process. The client does not wait for the end of the process itself.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::process::ExitStatus;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use regrow::Command;
use rustix::io::Errno;
use rustix::process::Pid;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use crate::request_error::RequestError;
use crate::serve::busy_poll;
use crate::serve::fault::Fault;
use crate::serve::pipe_size::PipeSize;
use crate::serve::stderr::StderrLog;
use crate::serve::under_way::{ProcessCell, UnderWay};
use crate::serve::unreaped::{READ_BYTES, UnreapedProcess};

/// The most bytes that the gateway reads at once of an output that is long.
const LARGE_READ_BYTES: usize = 128 * 1024;
/// The gateway watches the end and the standard error of a process only if its output goes on for this long.
const WATCH_AFTER: Duration = Duration::from_millis(10);
/// How long the gateway waits to see the end of a process that it has killed.
const DEATH_TIMEOUT: Duration = Duration::from_millis(250);

/// A process that writes a reply.
pub(crate) struct ScriptProcess {
    output: Option<Receiver>,
    size: PipeSize,
    buffer: BytesMut,
    deadline: Instant,
    wake: Pin<Box<Sleep>>,
    fault: Fault,
    /// Empty once the process is the reaper's.
    process: Rc<ProcessCell<UnreapedProcess>>,
    reaper: UnboundedSender<UnreapedProcess>,
    /// Whether somebody waits for the exit status ([`ScriptProcess::status`]).
    is_awaited: bool,
    /// Whether the reply is complete, though the process may write more.
    is_complete: bool,
    /// Whether the busy poll has read the end of the output.
    is_at_end: bool,
}

/// Why there is no more output, though the pipe is open.
enum OutputEnd {
    DeadlinePassed,
    /// The process has ended. These bytes were left in the pipe.
    ProcessEnded(Bytes),
}

/// What a process starts with, beside its command.
pub(crate) struct ScriptSetup {
    /// The name of the program in the log.
    pub(crate) name: Rc<str>,
    /// The longest time that it takes.
    pub(crate) timeout: Duration,
    /// Its place among the requests that have a process.
    pub(crate) place: OwnedSemaphorePermit,
    /// The list that it enters.
    pub(crate) under_way: UnderWay<UnreapedProcess>,
    /// The pipe of its standard output: the gateway's end, and its own.
    pub(crate) output: (Receiver, OwnedFd),
    /// The pipe of its standard error.
    pub(crate) errors: (OwnedFd, OwnedFd),
    /// Whether standard error is part of the reply.
    pub(crate) joined: bool,
    /// Whether the gateway busy-polls the output at first.
    pub(crate) polls: bool,
}

impl ScriptProcess {
    /// Starts a process. The command has its standard input already.
    pub(crate) fn start(
        mut command: Command,
        setup: ScriptSetup,
        reaper: UnboundedSender<UnreapedProcess>,
    ) -> io::Result<Self> {
        let (output, theirs) = setup.output;
        let stderr = if setup.joined {
            command.stderr(theirs.try_clone()?);
            None
        } else {
            let (ours, theirs) = setup.errors;
            command.stderr(theirs);
            Some(ours)
        };
        command.stdout(theirs);
        let child = command.busy_poll(setup.polls).spawn()?;
        // The output ends when nobody holds its write end, so the gateway must not.
        drop(command);
        let deadline = Instant::now() + setup.timeout;
        let (process, fault) = (Rc::new(RefCell::new(None)), Fault::default());
        let guard = setup.under_way.enter(child.id().cast_signed(), deadline, &process, &fault);
        let unreaped =
            UnreapedProcess::new(child, StderrLog::new(stderr), deadline, setup.name, guard, setup.place);
        *process.borrow_mut() = Some(unreaped);
        let mut script = Self {
            output: Some(output),
            size: PipeSize::default(),
            buffer: BytesMut::new(),
            deadline,
            wake: Box::pin(sleep_until(deadline.min(Instant::now() + WATCH_AFTER))),
            fault,
            process,
            reaper,
            is_awaited: true,
            is_complete: false,
            is_at_end: false,
        };
        if setup.polls {
            script.busy_poll();
        }
        Ok(script)
    }

    /// Whether the busy poll has read all of the output.
    pub(crate) fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    /// Reads the first output without sleeping. Yields the processor now and then.
    fn busy_poll(&mut self) {
        let Some(output) = &self.output else { return };
        let (began, mut piece) = (Instant::now(), [0; 4096]);
        let mut yielded = began;
        while self.buffer.len() < READ_BYTES {
            match rustix::io::read(output, &mut piece) {
                Ok(0) => return self.is_at_end = true,
                Ok(read) => self.buffer.extend_from_slice(piece.get(..read).unwrap_or_default()),
                Err(Errno::AGAIN) if began.elapsed() < busy_poll::LONGEST => {
                    if yielded.elapsed() >= busy_poll::YIELD_AFTER {
                        std::thread::yield_now();
                        yielded = Instant::now();
                    }
                }
                // The next read waits, or reports the error.
                Err(_) => return,
            }
        }
    }

    /// How the engine made the process: the point of the image, or `exec` and the reason.
    pub(crate) fn creation(&self) -> (&'static str, &'static str) {
        self.process.borrow().as_ref().map_or(("exec", ""), UnreapedProcess::creation)
    }

    /// Where others leave the reason before they end the process.
    pub(crate) fn fault(&self) -> Fault {
        self.fault.clone()
    }

    /// The process group that the process leads.
    pub(crate) fn group(&self) -> Option<Pid> {
        self.process.borrow().as_ref().and_then(UnreapedProcess::group)
    }

    /// The next piece of the output; `None` at the end.
    pub(crate) fn poll_output(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, RequestError>>> {
        let cell = Rc::clone(&self.process);
        let mut cell = cell.borrow_mut();
        let (Some(process), Some(output)) = (cell.as_mut(), &self.output) else {
            // Somebody has taken the process, and left the reason.
            return Poll::Ready(self.fault.take().map(Err));
        };
        process.stderr.poll(context);
        if !self.buffer.is_empty() {
            return Poll::Ready(Some(Ok(self.buffer.split().freeze())));
        }
        if self.is_at_end {
            drop(cell);
            return Poll::Ready(self.finish().map(Err));
        }
        while output.poll_read_ready(context).is_ready() {
            self.buffer.reserve(if self.size.is_large() { LARGE_READ_BYTES } else { READ_BYTES });
            match output.try_read_buf(&mut self.buffer) {
                Ok(0) => {
                    drop(cell);
                    return Poll::Ready(self.finish().map(Err));
                }
                Ok(read) => {
                    self.size.pass(output, read);
                    return Poll::Ready(Some(Ok(self.buffer.split().freeze())));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
        }
        let end = ready!(self.poll_output_end(process, context))?;
        drop(cell);
        Poll::Ready(match end {
            OutputEnd::DeadlinePassed => Some(Err(RequestError::Timeout)),
            OutputEnd::ProcessEnded(rest) if rest.is_empty() => self.finish().map(Err),
            OutputEnd::ProcessEnded(rest) => Some(Ok(rest)),
        })
    }

    /// Waits until the deadline passes, or the process ends while others hold its output open.
    fn poll_output_end(
        &mut self,
        process: &mut UnreapedProcess,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<OutputEnd>> {
        loop {
            if let Some(output) = &self.output
                && process.poll_has_ended(context)
            {
                return Poll::Ready(Ok(OutputEnd::ProcessEnded(process.take_rest(output))));
            }
            ready!(self.wake.as_mut().poll(context));
            if Instant::now() >= self.deadline {
                process.kill();
                return Poll::Ready(Ok(OutputEnd::DeadlinePassed));
            }
            process.watch(context)?;
            self.wake.as_mut().reset(self.deadline);
        }
    }

    /// As [`ScriptProcess::poll_output`], to be awaited.
    pub(crate) async fn output(&mut self) -> Option<Result<Bytes, RequestError>> {
        poll_fn(|context| self.poll_output(context)).await
    }

    /// The reply is complete. The process goes on to its own end, and nobody reads what it still writes.
    pub(crate) fn complete(&mut self) {
        self.is_complete = true;
    }

    /// Waits for the end of the process after the end of its output.
    ///
    /// # Errors
    ///
    /// [`RequestError::Timeout`] when the deadline passes before, or why somebody else has ended the process.
    pub(crate) async fn end(mut self) -> Result<Option<ExitStatus>, RequestError> {
        let deadline = self.deadline;
        let status = self.wait_for_end(deadline.duration_since(Instant::now()) + DEATH_TIMEOUT).await;
        if let Some(fault) = self.release() {
            return Err(fault);
        }
        let is_late = Instant::now() >= deadline && !status.is_some_and(|status| status.success());
        if is_late { Err(RequestError::Timeout) } else { Ok(status) }
    }

    /// Waits at most for `patience`, after the end of the output, for the exit status. The reaper collects the process in any case.
    pub(crate) async fn status(mut self, patience: Duration) -> Option<ExitStatus> {
        let status = self.wait_for_end(patience).await;
        drop(self.release());
        status
    }

    async fn wait_for_end(&mut self, patience: Duration) -> Option<ExitStatus> {
        // The process stays in its cell meanwhile, because the future may be dropped.
        let cell = Rc::clone(&self.process);
        let end =
            poll_fn(|context| cell.borrow_mut().as_mut().map_or(Poll::Ready(()), |p| p.poll_end(context)));
        let _ = timeout(patience, end).await;
        cell.borrow().as_ref().and_then(UnreapedProcess::status)
    }

    /// Gives the process to the reaper, as nobody waits for its status. Returns why somebody else has ended the process.
    fn release(&mut self) -> Option<RequestError> {
        self.is_awaited = false;
        self.finish()
    }

    /// The output has ended. Gives the process to the reaper unless somebody waits for its status. Returns why somebody else has
    /// ended the process.
    fn finish(&mut self) -> Option<RequestError> {
        if !self.is_awaited || self.fault.is_set() {
            self.hand_over();
        }
        self.fault.take()
    }

    /// Gives the process to the reaper.
    fn hand_over(&mut self) {
        if let Some(process) = self.process.borrow_mut().take() {
            // Without a reaper the gateway is stopping, and ends all processes itself.
            let _ = self.reaper.send(process);
        }
    }
}

impl Drop for ScriptProcess {
    fn drop(&mut self) {
        match self.process.borrow_mut().as_mut() {
            Some(process) if self.is_complete => process.discard(self.output.take()),
            Some(process) => process.kill(),
            None => {}
        }
        self.hand_over();
    }
}
