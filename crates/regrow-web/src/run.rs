//! The process of one request: what it writes, how long it may take, and its end.
//!
//! ```text
//!  start ── output … ── end of output ──> reaper: process over ── its group killed ── waited for ── place free
//!            └ dropped before (the client has gone), or too late: its group is killed first
//! ```
//!
//! The reply ends with the process's standard output. Whoever waits for the process itself is not the client.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::pin::Pin;
use std::process::ExitStatus;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use regrow::{Child, Command, Fallback, Point};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use crate::busy_poll;
use crate::error::Refusal;
use crate::orphans::WALL;
use crate::stderr::Errors;
use crate::under_way::{Entered, Slot, UnderWay};

/// How much is read of a process's output at a time.
const READ_BYTES: usize = 32 * 1024;
/// After this time the end of a process whose output goes on is watched for, and its standard error.
const LOOK: Duration = Duration::from_millis(10);
/// How long the end of a process that is killed may take to show.
const TO_DIE: Duration = Duration::from_millis(250);

/// Where something says why a run is over before its time.
pub(crate) type Fault = Rc<RefCell<Option<Refusal>>>;

/// A process that writes a reply.
pub(crate) struct Run {
    output: Option<Receiver>,
    buffer: BytesMut,
    deadline: Instant,
    wake: Pin<Box<Sleep>>,
    fault: Fault,
    /// Taken from here when its time is over.
    ending: Rc<Slot>,
    reaper: UnboundedSender<Ending>,
    /// Whether somebody asks how it ended ([`Run::status`]).
    is_asked: bool,
    /// Whether all that was wanted has been read, though the process goes on.
    is_whole: bool,
    /// Whether the end of its output has been read, before it was asked for.
    is_at_end: bool,
}

/// Why there is no more output.
enum Over {
    Late,
    /// The process has ended, and this was still to be read.
    Ended(Bytes),
}

/// What there is to do when a process's reply has ended.
pub(crate) struct Ending {
    child: Child,
    errors: Errors,
    over: Option<AsyncFd<OwnedFd>>,
    late: Option<Pin<Box<Sleep>>>,
    /// How it has ended, once that was seen.
    status: Option<ExitStatus>,
    /// What nobody reads any more.
    output: Option<Receiver>,
    deadline: Instant,
    name: Rc<str>,
    /// Its group is its own until it has been waited for.
    _entered: Entered,
    /// Its place among the requests that are answered at a time.
    place: Option<OwnedSemaphorePermit>,
}

/// What a run is started with beside its command.
pub(crate) struct Start {
    /// What the log calls it.
    pub(crate) name: Rc<str>,
    /// How long it may take.
    pub(crate) timeout: Duration,
    /// What it takes up.
    pub(crate) place: OwnedSemaphorePermit,
    /// Where it is noted.
    pub(crate) under_way: UnderWay,
    /// Its standard output: this side's end, and its own.
    pub(crate) output: (Receiver, OwnedFd),
    /// Its standard error.
    pub(crate) errors: (OwnedFd, OwnedFd),
    /// Whether its standard error is part of its output.
    pub(crate) joined: bool,
    /// Whether its output is busy-polled in its first moment.
    pub(crate) polls: bool,
}

impl Run {
    /// Starts a process. Its standard input is set already.
    pub(crate) fn start(
        mut command: Command,
        start: Start,
        reaper: UnboundedSender<Ending>,
    ) -> io::Result<Run> {
        let (output, theirs) = start.output;
        let errors = if start.joined {
            command.stderr(theirs.try_clone()?);
            None
        } else {
            let (errors, theirs) = start.errors;
            command.stderr(theirs);
            Some(errors)
        };
        command.stdout(theirs);
        let child = command.busy_poll(start.polls).spawn()?;
        // Its output ends when nobody else can write to it.
        drop(command);
        let deadline = Instant::now() + start.timeout;
        let (slot, fault) = (Rc::<Slot>::default(), Fault::default());
        let entered = start.under_way.enter(child.id().cast_signed(), deadline, &slot, &fault);
        let ending = Ending {
            child,
            errors: Errors::new(errors),
            over: None,
            late: None,
            status: None,
            output: None,
            deadline,
            name: start.name,
            _entered: entered,
            place: Some(start.place),
        };
        *slot.borrow_mut() = Some(ending);
        let mut run = Run {
            output: Some(output),
            buffer: BytesMut::new(),
            deadline,
            wake: Box::pin(sleep_until(deadline.min(Instant::now() + LOOK))),
            fault,
            ending: slot,
            reaper,
            is_asked: true,
            is_whole: false,
            is_at_end: false,
        };
        if start.polls {
            run.busy_poll();
        }
        Ok(run)
    }

    /// Whether the end of its output is known.
    pub(crate) fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    /// Reads what the process writes in its first moment. In between the processor is given to whom it may be given to.
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
                // It is waited for, or told of, when it is read again.
                Err(_) => return,
            }
        }
    }

    /// How its process was made: in the image of a point, or by exec and why.
    pub(crate) fn how(&self) -> (&'static str, &'static str) {
        let ending = self.ending.borrow();
        let Some(creation) = ending.as_ref().map(|ending| ending.child.creation()) else {
            return ("exec", "");
        };
        let point = creation.point().map_or("exec", Point::name);
        (point, creation.fallback().map_or("", Fallback::name))
    }

    /// Where others say why it is over, before they call for its end.
    pub(crate) fn fault(&self) -> Fault {
        Rc::clone(&self.fault)
    }

    /// The group of its process.
    pub(crate) fn group(&self) -> Option<Pid> {
        self.ending.borrow().as_ref().and_then(Ending::group)
    }

    /// The next piece of its output; `None` at the end.
    pub(crate) fn poll_output(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Refusal>>> {
        let slot = Rc::clone(&self.ending);
        let mut slot = slot.borrow_mut();
        let (Some(ending), Some(output)) = (slot.as_mut(), &self.output) else {
            // What was taken is over for a reason.
            return Poll::Ready(self.fault.borrow_mut().take().map(Err));
        };
        ending.errors.poll(context);
        if !self.buffer.is_empty() {
            return Poll::Ready(Some(Ok(self.buffer.split().freeze())));
        }
        if self.is_at_end {
            drop(slot);
            return Poll::Ready(self.finish().map(Err));
        }
        while output.poll_read_ready(context).is_ready() {
            self.buffer.reserve(READ_BYTES);
            match output.try_read_buf(&mut self.buffer) {
                Ok(0) => {
                    drop(slot);
                    return Poll::Ready(self.finish().map(Err));
                }
                Ok(_) => return Poll::Ready(Some(Ok(self.buffer.split().freeze()))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
        }
        let over = ready!(self.poll_over(ending, context))?;
        drop(slot);
        Poll::Ready(match over {
            Over::Late => Some(Err(Refusal::Timeout)),
            Over::Ended(rest) if rest.is_empty() => self.finish().map(Err),
            Over::Ended(rest) => Some(Ok(rest)),
        })
    }

    /// Whether it takes too long, or has ended and left its output to others.
    fn poll_over(&mut self, ending: &mut Ending, context: &mut Context<'_>) -> Poll<io::Result<Over>> {
        loop {
            if let (Some(over), Some(output)) = (&ending.over, &self.output)
                && over.poll_read_ready(context).is_ready()
            {
                // What it has written is read. Who still holds its output goes with it.
                return Poll::Ready(Ok(Over::Ended(ending.rest_of(output))));
            }
            ready!(self.wake.as_mut().poll(context));
            if Instant::now() >= self.deadline {
                ending.kill();
                return Poll::Ready(Ok(Over::Late));
            }
            if ending.over.is_none() {
                ending.over = Some(ending.watch()?);
                ending.errors.watch();
                ending.errors.poll(context);
            }
            self.wake.as_mut().reset(self.deadline);
        }
    }

    /// The same, to be awaited.
    pub(crate) async fn output(&mut self) -> Option<Result<Bytes, Refusal>> {
        poll_fn(|context| self.poll_output(context)).await
    }

    /// All that was wanted has been read. The process goes on to its own end, and what it still writes is nobody's.
    pub(crate) fn is_whole(&mut self) {
        self.is_whole = true;
    }

    /// Waits for the end of the process, whose output has ended, until its time is over: [`Refusal::Timeout`].
    pub(crate) async fn end(mut self) -> Result<Option<ExitStatus>, Refusal> {
        let deadline = self.deadline;
        let status = self.await_end(deadline.duration_since(Instant::now()) + TO_DIE).await;
        if let Some(why) = self.close() {
            return Err(why);
        }
        let is_late = Instant::now() >= deadline && !status.is_some_and(|status| status.success());
        if is_late { Err(Refusal::Timeout) } else { Ok(status) }
    }

    /// Waits for the end of the process, whose output has ended, and gives how it has ended, if it does within `patience`. To collect it
    /// is the reaper's, for which a reply need not wait.
    pub(crate) async fn status(mut self, patience: Duration) -> Option<ExitStatus> {
        let status = self.await_end(patience).await;
        drop(self.close());
        status
    }

    async fn await_end(&mut self, patience: Duration) -> Option<ExitStatus> {
        // It stays in its slot while it is waited for: nobody may wait any more by then.
        let slot = Rc::clone(&self.ending);
        let end =
            poll_fn(|context| slot.borrow_mut().as_mut().map_or(Poll::Ready(()), |e| e.poll_end(context)));
        // How it ends later is told by the reaper.
        let _ = timeout(patience, end).await;
        slot.borrow().as_ref().and_then(|ending| ending.status)
    }

    /// Nobody asks any more how it ends. Gives why, if it was not the process that ended it.
    fn close(&mut self) -> Option<Refusal> {
        self.is_asked = false;
        self.finish()
    }

    /// The output has ended: the rest is the reaper's. Gives why, if it was not the process that ended it.
    fn finish(&mut self) -> Option<Refusal> {
        if !self.is_asked || self.fault.borrow().is_some() {
            self.hand_over();
        }
        self.fault.borrow_mut().take()
    }

    /// Gives the reaper what there is to do.
    fn hand_over(&mut self) {
        if let Some(ending) = self.ending.borrow_mut().take() {
            // A reaper that is gone has no work either: the gateway is stopping.
            let _ = self.reaper.send(ending);
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        match self.ending.borrow_mut().as_mut() {
            Some(ending) if self.is_whole => ending.output = self.output.take(),
            Some(ending) => ending.kill(),
            None => {}
        }
        self.hand_over();
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Refusal::Input(error)
    }
}

impl Ending {
    fn group(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Kills the process and what it has started, as far as that has not left its group. It has not been waited for, so the
    /// number is its own.
    pub(crate) fn kill(&self) {
        if let Some(group) = self.group() {
            // A group whose members have ended is not there; nor is that of a process that has not come to lead one.
            let _ = kill_process_group(group, Signal::KILL).or_else(|_| kill_process(group, Signal::KILL));
        }
    }

    /// What stands in a pipe when nobody is to write to it any more. The descriptor itself is asked: the event for what came last may
    /// not have been seen yet.
    fn rest_of(&self, output: &Receiver) -> Bytes {
        self.kill();
        let mut rest = vec![0; READ_BYTES];
        let read = rustix::io::read(output.as_fd(), &mut rest).unwrap_or(0);
        rest.truncate(read);
        rest.into()
    }

    /// The process's end as an event.
    #[expect(
        deprecated,
        reason = "a descriptor that is owned stays the same one, which is what its replacement has the caller promise"
    )]
    fn watch(&self) -> io::Result<AsyncFd<OwnedFd>> {
        AsyncFd::with_interest(self.child.pidfd()?.try_clone_to_owned()?, Interest::READABLE)
    }

    /// Waits for the end, kills what is left, and frees the place.
    pub(crate) async fn reap(mut self) {
        poll_fn(|context| self.poll_end(context)).await;
        // How it has ended is in the log.
        let _ = self.collect();
    }

    /// What is to be done when the process has ended. What is left of its group is killed first: as long as the process has not been waited
    /// for, the number is its own.
    fn collect(mut self) -> io::Result<ExitStatus> {
        self.kill();
        let status = self.child.wait();
        self.errors.drain();
        let Ending { errors, name, place, .. } = self;
        drop(place);
        errors.tell(&name);
        tell_end(&name, &status);
        status
    }

    /// Notes how the process has ended, if it has. It is not waited for by this.
    fn look(&mut self) {
        if self.status.is_none() {
            self.status = self.group().and_then(status_of);
        }
    }

    /// Waits for the end of the process, until its time is over.
    ///
    /// After the first time nothing but an event shows the end: hyper (1.12) asks twice for a body without a wake between, and where that
    /// ends at the second time it leaves the connection open.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.late.is_none() {
            self.look();
        }
        if self.status.is_some() {
            return Poll::Ready(());
        }
        if self.over.is_none() {
            match self.watch() {
                Ok(over) => self.over = Some(over),
                Err(error) => {
                    // Nobody can be told of its end: it is made to end.
                    tracing::error!(%error, name = &*self.name, "the end of a process cannot be awaited");
                    self.kill();
                    return Poll::Ready(());
                }
            }
        }
        self.errors.watch();
        self.errors.poll(context);
        self.output.take_if(|output| !discard(output, context));
        let late = self.late.get_or_insert_with(|| Box::pin(sleep_until(self.deadline)));
        if late.as_mut().poll(context).is_ready() {
            self.kill();
        }
        let over = self.over.as_ref().is_some_and(|over| over.poll_read_ready(context).is_ready());
        if !over {
            return Poll::Pending;
        }
        self.look();
        Poll::Ready(())
    }
}

/// How a child has ended, if it has. It is not waited for by this.
fn status_of(child: Pid) -> Option<ExitStatus> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT | WALL;
    let end = waitid(WaitId::Pid(child), options).ok().flatten()?;
    let core = if end.dumped() { 0x80 } else { 0 };
    let raw = end
        .exit_status()
        .map(|code| code << 8)
        .or_else(|| end.terminating_signal().map(|signal| signal | core));
    raw.map(ExitStatus::from_raw)
}

/// Reads what is there, for nobody. Gives whether more may come.
fn discard(output: &Receiver, context: &mut Context<'_>) -> bool {
    let mut piece = [0; 4096];
    while output.poll_read_ready(context).is_ready() {
        match output.try_read(&mut piece) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
    }
    true
}

/// What is worth knowing of an end.
fn tell_end(name: &str, status: &io::Result<ExitStatus>) {
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => tracing::info!(name, %status, "a script has ended"),
        Err(error) => tracing::error!(name, %error, "a script's end is not known"),
    }
}
