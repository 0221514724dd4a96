//! A process that was started: its pipes and its end.
//!
//! ```text
//!   wait:  poll the pipes ──bytes──> read, poll again
//!              │ all at their ends                       │ nothing for a while
//!              ▼                                         ▼
//!          wait for the end of the process          poll the process as well: somebody else may hold its pipes
//! ```
//!
//! The number of the process is its own until it has been waited for. That, and every signal to it, is done under one
//! lock, which is held for single system calls only: a thread that waits for the end does not hold it.
//!
//! `close` gives back the descriptors of a process that has ended, however many still hold the object.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use regrow::Child;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

use crate::errors::{lock, os_error};
use crate::files::{self, CallFiles};
use crate::pipes::Pipes;

/// How long pipes alone are polled. A process that takes longer can afford a descriptor of its own.
const ALONE: Duration = Duration::from_millis(50);

/// How long a process may take to end that was killed because nobody has it any more.
const KILLED_WITHIN: Duration = Duration::from_secs(1);

/// Wait for children of every kind, also for one whose end makes no signal (`__WALL`).
const WALL: WaitIdOptions = WaitIdOptions::from_bits_retain(0x4000_0000);

/// A process that was started.
#[pyclass(frozen, name = "Process", module = "regrow._core")]
pub(crate) struct PyProcess {
    #[pyo3(get)]
    pid: i32,
    /// How it was made, in words.
    creation: String,
    child: Mutex<ChildState>,
    pipes: Mutex<Pipes>,
    files: Mutex<CallFiles>,
    /// A thread that polls it has a share: nobody closes it under the poll.
    pidfd: Mutex<Option<Arc<OwnedFd>>>,
    /// The process that it is a child of: a forked copy of the caller has the value, but not the child.
    parent: u32,
}

/// The process as its parent has it.
struct ChildState {
    /// None when it was closed: it may hold a descriptor.
    child: Option<Child>,
    end: Option<End>,
    /// What it has answered in the memory that it shared with the caller, once that was looked at.
    answer: Option<Vec<u8>>,
}

/// How a process ended. Nobody knows when somebody else has waited for it.
#[derive(Clone, Copy)]
enum End {
    Known(ExitStatus),
    Unknown,
}

/// What a wait is for.
#[derive(Clone, Copy, PartialEq)]
enum Until {
    /// The end of the process; its outputs are read as far as they have been written then.
    End,
    /// The end of all outputs, and then that of the process.
    OutputsEnd,
}

#[pymethods]
impl PyProcess {
    /// How the process was made, in words.
    #[getter]
    fn creation(&self) -> String {
        self.creation.clone()
    }

    /// The exit status, or the negative number of the signal that ended the process; None before its end has been waited
    /// for, or if somebody else has waited for it.
    #[getter]
    pub(crate) fn returncode(&self) -> Option<i32> {
        match lock(&self.child).end {
            Some(End::Known(status)) => status.code().or_else(|| status.signal().map(|signal| -signal)),
            Some(End::Unknown) | None => None,
        }
    }

    /// A descriptor that becomes readable when the process has ended. It is this object's.
    fn pidfd(&self) -> PyResult<RawFd> {
        self.open_pidfd().map(|pidfd| pidfd.as_raw_fd()).map_err(|error| os_error(&error))
    }

    /// The descriptors of outputs that are not at their ends.
    fn readable(&self, py: Python<'_>) -> Vec<RawFd> {
        py.detach(|| lock(&self.pipes).readable())
    }

    /// The descriptor through which input is still to be written.
    fn writable(&self, py: Python<'_>) -> Option<RawFd> {
        py.detach(|| lock(&self.pipes).writable())
    }

    /// Moves bytes through the pipes until the process has ended, or for this many seconds. True when it has ended; with
    /// `outputs` only when nobody else holds its outputs any more either.
    #[pyo3(signature = (timeout = None, *, outputs = false))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>, outputs: bool) -> PyResult<bool> {
        let deadline = match timeout {
            Some(seconds) => deadline(seconds)?,
            None => None,
        };
        let until = if outputs { Until::OutputsEnd } else { Until::End };
        self.wait_in_python(py, deadline, until)
    }

    /// What has been read of an output.
    fn output<'py>(&self, py: Python<'py>, number: usize) -> PyResult<Bound<'py, PyBytes>> {
        loop {
            let held = match self.pipes.try_lock() {
                Ok(pipes) => Some(pipes),
                Err(TryLockError::Poisoned(pipes)) => Some(pipes.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            };
            if let Some(pipes) = held {
                let bytes =
                    pipes.bytes(number).ok_or_else(|| PyValueError::new_err("there is no such output"))?;
                return Ok(PyBytes::new(py, bytes));
            }
            // A thread that waits has the pipes.
            py.detach(|| drop(lock(&self.pipes)));
        }
    }

    /// What a process that has ended has answered, or as much of it: in memory, or else in the file for that.
    #[pyo3(signature = (most = None))]
    pub(crate) fn answer<'py>(&self, py: Python<'py>, most: Option<usize>) -> PyResult<Bound<'py, PyBytes>> {
        if let Some(answer) = lock(&self.child).answer() {
            let bytes = most.unwrap_or(usize::MAX).min(answer.len());
            return Ok(PyBytes::new(py, &answer[..bytes]));
        }
        let files = lock(&self.files);
        let Some(file) = files.answer() else {
            return Err(PyValueError::new_err("there is no answer"));
        };
        let bytes = files::size(file).map_err(|error| os_error(&error))?;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(most.unwrap_or(usize::MAX));
        PyBytes::new_with(py, bytes, |room| files::read_all(file, room).map_err(|error| os_error(&error)))
    }

    /// Puts part of the answer's file, private to the caller, in the place of pages that are the caller's: `size` bytes at `address`, a
    /// mapping of its own. The file is not used for other calls then.
    pub(crate) fn map_answer(
        &self,
        py: Python<'_>,
        address: usize,
        size: usize,
        offset: u64,
    ) -> PyResult<()> {
        let mapped = py.detach(|| lock(&self.files).map_answer(address, size, offset));
        mapped.map_err(|error| os_error(&error))
    }

    /// Closes the descriptors of a process that has ended, and drops what was read of its outputs.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        let as_it_should = {
            let mut state = lock(&self.child);
            let Some(end) = state.end else {
                return Err(PyValueError::new_err("the process has not ended"));
            };
            state.child = None;
            state.answer = None;
            matches!(end, End::Known(status) if status.success())
        };
        py.detach(|| {
            lock(&self.files).close(as_it_should);
            lock(&self.pidfd).take();
            lock(&self.pipes).close();
        });
        Ok(())
    }

    /// Sends a signal, to a process that has not been waited for.
    pub(crate) fn send_signal(&self, signal: i32) -> PyResult<()> {
        let signal = Signal::from_named_raw(signal)
            .ok_or_else(|| PyValueError::new_err(format!("there is no signal {signal}")))?;
        self.signal(signal).map_err(|error| os_error(&error))
    }

    /// Kills the process, if it has not ended.
    pub(crate) fn kill(&self) -> PyResult<()> {
        self.signal(Signal::KILL).map_err(|error| os_error(&error))
    }
}

impl ChildState {
    /// What the process has answered in memory, if it has ended.
    fn answer(&mut self) -> Option<&[u8]> {
        if let (None, Some(_), Some(child)) = (&self.answer, self.end, &mut self.child) {
            self.answer = child.take_answer();
        }
        self.answer.as_deref()
    }
}

impl PyProcess {
    pub(crate) fn new(child: Child, pipes: Pipes, files: CallFiles) -> Self {
        Self {
            pid: child.id().cast_signed(),
            creation: child.creation().to_string(),
            child: Mutex::new(ChildState { child: Some(child), end: None, answer: None }),
            pipes: Mutex::new(pipes),
            files: Mutex::new(files),
            pidfd: Mutex::new(None),
            parent: std::process::id(),
        }
    }

    /// Has a process begin that was started ahead of its turn.
    pub(crate) fn let_go(&self) {
        if let Some(child) = &lock(&self.child).child {
            child.let_go();
        }
    }

    /// How the process was made, in words.
    pub(crate) fn how_made(&self) -> &str {
        &self.creation
    }

    /// What a process that has ended has answered in memory.
    pub(crate) fn short_answer(&self) -> Option<Vec<u8>> {
        lock(&self.child).answer().map(<[u8]>::to_vec)
    }

    /// Waits for the end. False when the deadline has passed first.
    pub(crate) fn wait_for_end(&self, py: Python<'_>, deadline: Option<Instant>) -> PyResult<bool> {
        self.wait_in_python(py, deadline, Until::End)
    }

    /// The same where no signal handler is to run: `Interrupted` when a signal came.
    pub(crate) fn wait_until_end(&self, deadline: Option<Instant>) -> io::Result<bool> {
        self.wait_until(deadline, Until::End)
    }

    fn wait_in_python(&self, py: Python<'_>, deadline: Option<Instant>, until: Until) -> PyResult<bool> {
        loop {
            match py.detach(|| self.wait_until(deadline, until)) {
                Ok(over) => return Ok(over),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => py.check_signals()?,
                Err(error) => return Err(os_error(&error)),
            }
        }
    }

    /// False when the deadline has passed first; `Interrupted` when a signal came.
    fn wait_until(&self, deadline: Option<Instant>, until: Until) -> io::Result<bool> {
        let mut pipes = lock(&self.pipes);
        let started = Instant::now();
        while !pipes.at_end() || pipes.has_input() {
            let alone = self.opened().is_none();
            let first = if alone { earlier(deadline, started + ALONE) } else { deadline };
            if self.poll_pipes(&mut pipes, first, until)? {
                pipes.drain()?;
                return Ok(true);
            }
            if pipes.at_end() && self.has_ended()? {
                return Ok(true);
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return self.ends_here(&mut pipes, until);
            }
            if alone && until == Until::End && now >= started + ALONE {
                self.open_pidfd()?;
            }
        }
        drop(pipes);
        self.await_end(deadline)
    }

    /// One poll of the pipes and what it brought. True when the process is seen to have ended.
    fn poll_pipes(&self, pipes: &mut Pipes, deadline: Option<Instant>, until: Until) -> io::Result<bool> {
        let pidfd = self.opened().filter(|_| until == Until::End);
        let mut polled = pipes.polled();
        if let Some(pidfd) = &pidfd {
            polled.push(PollFd::new(pidfd, PollFlags::IN));
        }
        let ready = rustix::event::poll(&mut polled, timespec(deadline).as_ref())?;
        if ready == 0 {
            return Ok(false);
        }
        let mut events: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
        let ended = pidfd.is_some() && events.pop().is_some_and(|events| !events.is_empty());
        pipes.transfer(events.into_iter())?;
        Ok(ended && self.has_ended()?)
    }

    /// At a deadline: whether the process has ended although its outputs are held open.
    fn ends_here(&self, pipes: &mut Pipes, until: Until) -> io::Result<bool> {
        if until == Until::OutputsEnd || !self.has_ended()? {
            return Ok(false);
        }
        pipes.drain()?;
        Ok(true)
    }

    /// Waits for the end of a process whose pipes are done with.
    fn await_end(&self, deadline: Option<Instant>) -> io::Result<bool> {
        loop {
            if self.has_ended()? {
                return Ok(true);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(false);
            }
            match deadline {
                None => self.await_status()?,
                Some(_) => self.poll_end(deadline)?,
            }
        }
    }

    /// Waits until the process can be waited for, or the deadline.
    fn poll_end(&self, deadline: Option<Instant>) -> io::Result<()> {
        let pidfd = match self.open_pidfd() {
            Ok(pidfd) => pidfd,
            // Another thread has seen the end.
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => return Ok(()),
            Err(error) => return Err(error),
        };
        rustix::event::poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], timespec(deadline).as_ref())?;
        Ok(())
    }

    /// Waits until the process can be waited for.
    fn await_status(&self) -> io::Result<()> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WALL;
        match rustix::process::waitid(WaitId::Pid(self.number()?), options) {
            Ok(_) | Err(Errno::CHILD) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether the process has ended. Its status is taken.
    fn has_ended(&self) -> io::Result<bool> {
        let mut state = lock(&self.child);
        let ChildState { child, end, .. } = &mut *state;
        if let (None, Some(child)) = (&end, child) {
            *end = match child.try_wait() {
                Ok(status) => status.map(End::Known),
                Err(error) if error.raw_os_error() == Some(Errno::CHILD.raw_os_error()) => Some(End::Unknown),
                Err(error) => return Err(error),
            };
        }
        Ok(state.end.is_some())
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let state = lock(&self.child);
        if state.end.is_some() {
            return Ok(());
        }
        match rustix::process::kill_process(self.number()?, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The pidfd, if it is open.
    fn opened(&self) -> Option<Arc<OwnedFd>> {
        lock(&self.pidfd).clone()
    }

    pub(crate) fn open_pidfd(&self) -> io::Result<Arc<OwnedFd>> {
        if let Some(pidfd) = self.opened() {
            return Ok(pidfd);
        }
        let state = lock(&self.child);
        if state.end.is_some() {
            return Err(Errno::SRCH.into());
        }
        let opened = rustix::process::pidfd_open(self.number()?, PidfdFlags::empty())?;
        Ok(Arc::clone(lock(&self.pidfd).get_or_insert_with(|| Arc::new(opened))))
    }

    fn number(&self) -> io::Result<Pid> {
        Pid::from_raw(self.pid).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }
}

impl Drop for PyProcess {
    /// A process that nobody has any more, and that nobody has seen the end of, is killed: its end gives back what it runs in.
    fn drop(&mut self) {
        if std::process::id() == self.parent && self.signal(Signal::KILL).is_ok() {
            let _ = self.await_end(Some(Instant::now() + KILLED_WITHIN));
        }
    }
}

/// When a wait of this many seconds is over; None when it is too long to be measured.
fn deadline(seconds: f64) -> PyResult<Option<Instant>> {
    if seconds.is_nan() {
        return Err(PyValueError::new_err("the timeout is not a number"));
    }
    let length = Duration::try_from_secs_f64(seconds.max(0.0));
    Ok(length.ok().and_then(|length| Instant::now().checked_add(length)))
}

fn earlier(deadline: Option<Instant>, other: Instant) -> Option<Instant> {
    Some(deadline.map_or(other, |deadline| deadline.min(other)))
}

/// What is left until the deadline, as a poll wants it.
fn timespec(deadline: Option<Instant>) -> Option<Timespec> {
    let left = deadline?.saturating_duration_since(Instant::now());
    Some(Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    })
}
