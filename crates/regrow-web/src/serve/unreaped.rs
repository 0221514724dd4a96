//! A process that nobody has waited for yet: while it runs, and after its reply, until the reaper has waited for it.
//!
//! ```text
//!  reply complete ──> reaper: the process ends, or its deadline kills it ── its group killed ── waited for ── place free
//! ```
//!
//! As long as nobody has waited for it, its process id and its group are its own, so it can be killed by them.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::process::ExitStatus;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use regrow::{Child, Fallback, Point};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::serve::children;
use crate::serve::stderr::StderrLog;
use crate::serve::under_way::UnderWayGuard;

/// The most bytes of a process's output that the gateway reads at once.
pub(crate) const READ_BYTES: usize = 32 * 1024;

/// A process that nobody has waited for yet.
pub(crate) struct UnreapedProcess {
    child: Child,
    pub(crate) stderr: StderrLog,
    /// Becomes readable when the process ends.
    end: Option<AsyncFd<OwnedFd>>,
    timer: Option<Pin<Box<Sleep>>>,
    /// How it has ended, once the gateway knows.
    status: Option<ExitStatus>,
    /// Output that nobody wants. The gateway reads it so that the process can go on.
    unwanted: Option<Receiver>,
    deadline: Instant,
    name: Rc<str>,
    /// The process counts as under way until it has been waited for.
    _under_way: UnderWayGuard<UnreapedProcess>,
    /// Its place among the requests that have a process.
    place: OwnedSemaphorePermit,
}

impl UnreapedProcess {
    pub(crate) fn new(
        child: Child,
        stderr: StderrLog,
        deadline: Instant,
        name: Rc<str>,
        under_way: UnderWayGuard<UnreapedProcess>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        Self {
            child,
            stderr,
            end: None,
            timer: None,
            status: None,
            unwanted: None,
            deadline,
            name,
            _under_way: under_way,
            place,
        }
    }

    /// How the engine made the process: the point of the image, or `exec` and the reason.
    pub(crate) fn creation(&self) -> (&'static str, &'static str) {
        let creation = self.child.creation();
        (creation.point().map_or("exec", Point::name), creation.fallback().map_or("", Fallback::name))
    }

    /// The process group that the process leads.
    pub(crate) fn group(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// How it has ended, if the gateway knows.
    pub(crate) fn status(&self) -> Option<ExitStatus> {
        self.status
    }

    /// Kills the process and its group. Descendants that have left the group go on.
    pub(crate) fn kill(&self) {
        if let Some(group) = self.group() {
            // There is no group when all its members have ended, or when the process does not lead it yet.
            let _ = kill_process_group(group, Signal::KILL).or_else(|_| kill_process(group, Signal::KILL));
        }
    }

    /// Kills the group, and reads what is left in the output. Reads the descriptor itself: the event loop may not have seen the last
    /// bytes yet.
    pub(crate) fn take_rest(&self, output: &Receiver) -> Bytes {
        self.kill();
        let mut rest = vec![0; READ_BYTES];
        let read = rustix::io::read(output.as_fd(), &mut rest).unwrap_or(0);
        rest.truncate(read);
        rest.into()
    }

    /// Has the gateway read the rest of the output for nobody.
    pub(crate) fn discard(&mut self, output: Option<Receiver>) {
        self.unwanted = output;
    }

    /// Watches the end of the process, and its standard error, from here on.
    pub(crate) fn watch(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.end.is_none() {
            self.end = Some(self.end_event()?);
            self.stderr.watch();
            self.stderr.poll(context);
        }
        Ok(())
    }

    /// Whether a watched process has ended. Otherwise its end wakes the task.
    pub(crate) fn poll_has_ended(&self, context: &mut Context<'_>) -> bool {
        self.end.as_ref().is_some_and(|end| end.poll_read_ready(context).is_ready())
    }

    /// The end of the process as an event.
    #[expect(
        deprecated,
        reason = "the descriptor is owned and stays the same one, which its replacement makes the caller promise"
    )]
    fn end_event(&self) -> io::Result<AsyncFd<OwnedFd>> {
        AsyncFd::with_interest(self.child.pidfd()?.try_clone_to_owned()?, Interest::READABLE)
    }

    /// Waits for the end, kills what is left of the group, and frees the place.
    pub(crate) async fn reap(mut self) {
        poll_fn(|context| self.poll_end(context)).await;
        self.wait();
    }

    /// Waits for a process that has ended or been killed. Kills its group first, while the number is still its own.
    fn wait(mut self) {
        self.kill();
        let status = self.child.wait();
        self.stderr.drain();
        let Self { stderr, name, place, .. } = self;
        drop(place);
        stderr.write_to_log(&name);
        log_end(&name, &status);
    }

    /// Notes how the process has ended, if it has.
    fn look(&mut self) {
        if self.status.is_none() {
            self.status = self.group().and_then(children::exit_status);
        }
    }

    /// Waits for the end of the process. Kills the process at its deadline.
    ///
    /// Only the first poll asks the kernel at once; later ones rely on the event. hyper (1.12) polls a body twice without a wake in
    /// between, and leaves the connection open if the body ends at the second poll.
    pub(crate) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.timer.is_none() {
            self.look();
        }
        if self.status.is_some() {
            return Poll::Ready(());
        }
        if self.end.is_none() {
            match self.end_event() {
                Ok(end) => self.end = Some(end),
                Err(error) => {
                    // Without the event nobody would learn of its end.
                    tracing::error!(%error, name = &*self.name, "the gateway cannot wait for a process");
                    self.kill();
                    return Poll::Ready(());
                }
            }
        }
        self.stderr.watch();
        self.stderr.poll(context);
        self.unwanted.take_if(|output| !discard(output, context));
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(self.deadline)));
        if timer.as_mut().poll(context).is_ready() {
            self.kill();
        }
        if !self.poll_has_ended(context) {
            return Poll::Pending;
        }
        self.look();
        Poll::Ready(())
    }
}

/// Reads and drops what is there. Returns whether more may come.
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

/// Logs an end that is no success.
fn log_end(name: &str, status: &io::Result<ExitStatus>) {
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => tracing::info!(name, %status, "a script has ended"),
        Err(error) => tracing::error!(name, %error, "the gateway cannot tell how a script has ended"),
    }
}
