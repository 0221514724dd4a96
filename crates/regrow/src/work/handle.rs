//! The handle of a work, the same for each weight.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use regrow_engine::run::creation::Creation;
use regrow_fiber::{Canceller, JoinHandle};
use rustix::process::{Signal, pidfd_send_signal};

use super::died::Died;
use super::light::{self, Thread, background};
use super::process::{Process, Task};
use super::weight::Weight;

/// A work that was started: waits for it, ends it, and says how it has ended.
///
/// Dropped, it leaves the work to itself. A process is waited for all the same when it ends, so that nothing is left of it.
pub struct Handle<T: Send + 'static> {
    weight: Weight,
    work: Option<Kind<T>>,
    time: Option<Time>,
    is_cancelled: AtomicBool,
}

/// What was started.
#[derive(Debug)]
pub struct Started<T: Send + 'static>(pub(crate) Kind<T>);

/// The kinds of what is started.
#[derive(Debug)]
pub(crate) enum Kind<T: Send + 'static> {
    /// A task of a runtime.
    Task(JoinHandle<T>),
    /// A thread.
    Thread(Thread<T>),
    /// A process.
    Process(Box<Process<T>>),
    /// Nothing, and why.
    Not(Died),
}

/// How long a work may take.
#[derive(Debug)]
struct Time {
    limit: Duration,
    end: Option<Instant>,
    /// What ends the work when nobody waits for it.
    watch: Option<Canceller>,
}

/// See [`Handle::stopper`].
enum Stopper {
    Task(Canceller),
    Process(OwnedFd),
}

impl Stopper {
    fn stop(self) {
        match self {
            Self::Task(canceller) => canceller.cancel(),
            // It may have ended.
            Self::Process(pidfd) => _ = pidfd_send_signal(pidfd, Signal::KILL),
        }
    }
}

impl<T: Send + 'static> Handle<T> {
    /// The handle of what was started.
    pub(crate) fn new(weight: Weight, work: Result<Started<T>, Died>, limit: Option<Duration>) -> Self {
        let work = Some(work.map_or_else(Kind::Not, |Started(kind)| kind));
        let end = |limit: Duration| Instant::now().checked_add(limit);
        let time = limit.map(|limit| Time { limit, end: end(limit), watch: None });
        Self { weight, work, time, is_cancelled: AtomicBool::new(false) }
    }

    /// Has the work ended at its time also when nobody waits for it.
    pub(crate) fn watched(mut self) -> Self {
        let end = self.time.as_ref().and_then(|time| time.end);
        if let (Some(end), Some(stop), Ok(background)) = (end, self.stopper(), background()) {
            let watching = background.spawn(move || {
                regrow_fiber::sleep(end.saturating_duration_since(Instant::now()));
                stop.stop();
            });
            if let Some(time) = &mut self.time {
                time.watch = Some(watching.canceller());
            }
        }
        self
    }

    /// What ends the work for others than the handle's owner.
    fn stopper(&self) -> Option<Stopper> {
        match &self.work {
            Some(Kind::Task(task)) => Some(Stopper::Task(task.canceller())),
            Some(Kind::Process(process)) => {
                process.task.pidfd().and_then(|pidfd| pidfd.try_clone_to_owned()).ok().map(Stopper::Process)
            }
            _ => None,
        }
    }

    /// How it was started.
    #[must_use]
    pub fn weight(&self) -> Weight {
        self.weight
    }

    /// The number of its process, where it has one of its own.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.process().map(|process| process.task.id())
    }

    /// How its process was made: recycled, or executed and why. `None` where it has no process of its own, or is a copy of this one.
    #[must_use]
    pub fn creation(&self) -> Option<&Creation> {
        self.process().and_then(|process| process.task.creation())
    }

    fn process(&self) -> Option<&Process<T>> {
        match &self.work {
            Some(Kind::Process(process)) => Some(process),
            _ => None,
        }
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// How the work ended without one: see [`Died`].
    pub fn join(mut self) -> Result<T, Died> {
        let end = self.time.as_ref().and_then(|time| time.end);
        match self.join_until(end) {
            Some(result) => result,
            None => Err(self.end_for_time()),
        }
    }

    /// Waits for the result for so long; afterwards the handle comes back.
    ///
    /// # Errors
    /// The handle, when the time is over and the work goes on.
    pub fn join_within(mut self, timeout: Duration) -> Result<Result<T, Died>, Self> {
        let until = Instant::now().checked_add(timeout);
        let end = self.time.as_ref().and_then(|time| time.end);
        let is_its_end = end.is_some_and(|end| until.is_none_or(|until| end <= until));
        match self.join_until(if is_its_end { end } else { until }) {
            Some(result) => Ok(result),
            None if is_its_end => Ok(Err(self.end_for_time())),
            None => Err(self),
        }
    }

    pub(crate) fn join_until(&mut self, until: Option<Instant>) -> Option<Result<T, Died>> {
        let result = match self.work.take()? {
            Kind::Not(why) => return Some(Err(why)),
            Kind::Task(task) => match light::join_until(self.weight, task, until) {
                Ok(result) => result,
                Err(task) => {
                    self.work = Some(Kind::Task(task));
                    return None;
                }
            },
            Kind::Thread(thread) => match thread.join_until(until) {
                Some(result) => result,
                None => {
                    self.work = Some(Kind::Thread(thread));
                    return None;
                }
            },
            Kind::Process(mut process) => match process.join_until(until) {
                Some(result) => result,
                None => {
                    self.work = Some(Kind::Process(process));
                    return None;
                }
            },
        };
        Some(result.map_err(|died| self.why(died)))
    }

    /// An end by our own hand has another name than the signal.
    fn why(&self, died: Died) -> Died {
        let was_ended = matches!(died, Died::Signal { signal: 9 } | Died::Cancelled);
        let time = self.time.as_ref().filter(|time| time.end.is_some_and(|end| end <= Instant::now()));
        match (was_ended, self.is_cancelled.load(Ordering::Relaxed), time) {
            (true, true, _) => Died::Cancelled,
            (true, false, Some(time)) => Died::TimedOut(time.limit),
            _ => died,
        }
    }

    /// Its time is over: it is ended, and its process waited for.
    fn end_for_time(&mut self) -> Died {
        self.stop();
        if let Some(Kind::Process(process)) = &mut self.work {
            let _ = process.task.end();
            self.work = None;
        }
        Died::TimedOut(self.time.as_ref().map_or(Duration::ZERO, |time| time.limit))
    }

    /// Ends the work: a task at its next wait, a process at once. A thread is asked ([`is_cancelled`](super::is_cancelled)).
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        self.stop();
    }

    fn stop(&self) {
        match &self.work {
            Some(Kind::Task(task)) => task.cancel(),
            Some(Kind::Thread(thread)) => thread.cancel(),
            // One that cannot be killed has ended.
            Some(Kind::Process(process)) => drop(process.task.kill()),
            Some(Kind::Not(_)) | None => {}
        }
    }

    /// Kills its process.
    ///
    /// # Errors
    /// `Unsupported`: it has none of its own.
    pub fn kill(&self) -> io::Result<()> {
        self.process().ok_or(io::ErrorKind::Unsupported)?.task.kill()
    }
}

impl<T: Send + 'static> Drop for Handle<T> {
    fn drop(&mut self) {
        if let Some(watch) = self.time.as_ref().and_then(|time| time.watch.as_ref())
            && !matches!(self.work, Some(Kind::Process(_) | Kind::Task(_)))
        {
            watch.cancel();
        }
        if let Some(Kind::Process(process)) = self.work.take() {
            leave(process.task);
        }
    }
}

/// Leaves a process to itself; somebody waits for its end, so that it does not stay in the system's table.
fn leave(mut task: Task) {
    if !matches!(task.try_end(), Ok(None)) {
        return;
    }
    let wait = move || {
        let _ = task.ends_until(None);
        let _ = task.end();
    };
    match background() {
        Ok(background) => drop(background.spawn(wait)),
        Err(_) => drop(regrow_sys::raw::detached_thread(wait)),
    }
}

impl<T: Send + 'static> fmt::Debug for Handle<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Handle")
            .field("weight", &self.weight)
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}
