//! Calls in processes of their own: how they are started, served, and ended.
//!
//! ```text
//!   submit ──slot free──> start ──> running ──end seen──> the slot goes to the next call ──> the future is set
//!          ──no slot────> waiting ────────────────────────────┘
//! ```
//!
//! A running call is served by one thread at a time. A thread that asks a future for its result serves that call itself: it
//! reads the answer where it waits for it, and no other thread has to wake. All other calls are served by one thread of their
//! executor, which polls for them, and kills those whose time is over.
//!
//! A call that starts while it is submitted is *unattended*: most callers ask for its result next, and the polling thread need
//! not know of it. It is attended as soon as anybody looks at its future in another way, another call waits for its slot, or its
//! executor is closed.
//!
//! Processes are started and their ends seen without the interpreter's lock; futures are set with it. The table is never locked
//! while Python is called, or waited for.
//!
//! A signal handler of the main thread runs where that runs Python, so that it may raise in whatever is called here. Nothing is
//! lost then: a call that is claimed goes back to the table, and the polling thread, which no handler runs in, does what is left.

mod call;
mod outcome;
mod poller;
mod table;

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;

use crate::errors::{lock, os_error};
use crate::exit::through_python;
use crate::image::PyImage;
use crate::pool::PyPool;
pub(crate) use call::PyCall;
use call::{Call, Source, Start};
use table::{LOOK, Next, Sleep, Table};

/// What the polling thread is to do next.
const POLL_AGAIN: u8 = 0;
const TELL: u8 = 1;
const OVER: u8 = 2;

/// The calls of one executor: `slots` of them run at a time, none longer than `timeout` seconds, each with as much memory of its own as
/// `memory_limit` says.
#[pyclass(frozen, name = "Calls", module = "regrow._core")]
pub(crate) struct PyCalls {
    table: Mutex<Table>,
    /// What processes are started from, once that is known.
    source: Mutex<Option<Arc<Source>>>,
    memory_limit: Option<u64>,
}

#[pymethods]
impl PyCalls {
    #[new]
    #[pyo3(signature = (slots, timeout = None, memory_limit = None))]
    fn new(slots: usize, timeout: Option<f64>, memory_limit: Option<u64>) -> Self {
        // A time that is too long to be measured is no limit.
        let timeout = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Self { table: Table::new(slots, timeout).into(), source: None.into(), memory_limit }
    }

    /// Has the next calls start from this image.
    fn start_from(&self, pool: Py<PyPool>, image: Py<PyImage>) {
        let before = lock(&self.source).replace(Arc::new(Source { pool, image }));
        drop(before);
    }

    /// Starts a call, or has it wait for a slot. The future is told of it. `fds` are pairs of a descriptor here and its number in the process,
    /// `shared` keeps those open until it has them.
    #[pyo3(signature = (future, words, order, place, fds = vec![], shared = None))]
    #[allow(clippy::too_many_arguments, reason = "they are arguments in Python")]
    fn submit(
        &self,
        future: &Bound<'_, PyAny>,
        words: Vec<OsString>,
        order: Vec<u8>,
        place: String,
        fds: Vec<(RawFd, RawFd)>,
        shared: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        through_python(|| {
            let py = future.py();
            let source = lock(&self.source).clone();
            let source =
                source.ok_or_else(|| PyRuntimeError::new_err("there is nothing to start calls from"))?;
            let start = Start { source, words, order, place, fds, shared };
            let number = lock(&self.table).next_number();
            let call = Arc::new(Call::new(number, start, future.clone().unbind()));
            future.setattr(intern!(py, "call"), Bound::new(py, PyCall(Arc::clone(&call)))?)?;
            if !lock(&self.table).add(&call) {
                // The two refer to one another.
                drop(call.take_start());
                call.drop_future();
                return Err(PyRuntimeError::new_err("cannot schedule new futures after shutdown"));
            }
            py.detach(|| self.start_waiting(Some(number)));
            self.set_futures(py)?;
            let needs_thread = {
                let mut table = lock(&self.table);
                let is_crowded = table.count_waiting() > 0;
                if is_crowded {
                    table.attend_all();
                }
                is_crowded || table.timeout.is_some()
            };
            if needs_thread { self.ensure_thread(future) } else { Ok(()) }
        })
    }

    /// Has the polling thread serve a call that nobody serves: somebody looks at its future.
    fn attend(&self, future: &Bound<'_, PyAny>, call: &PyCall) -> PyResult<()> {
        through_python(|| {
            let waits = lock(&self.table).attend(call.0.number);
            if waits { self.ensure_thread(future) } else { Ok(()) }
        })
    }

    /// Serves a call until its end, or for this many seconds, unless another thread does so.
    #[pyo3(signature = (future, call, patience = None))]
    fn serve(&self, future: &Bound<'_, PyAny>, call: &PyCall, patience: Option<f64>) -> PyResult<()> {
        through_python(|| {
            let py = future.py();
            let call = &call.0;
            let Some(deadline) = lock(&self.table).claim(call.number).map(|entry| entry.deadline) else {
                return Ok(());
            };
            let until = patience.and_then(|seconds| {
                Duration::try_from_secs_f64(seconds.max(0.0))
                    .ok()
                    .and_then(|patience| Instant::now().checked_add(patience))
            });
            let waited = self.wait(py, call, until, deadline);
            if !matches!(waited, Ok(true)) {
                lock(&self.table).unclaim(call.number);
                let begun = self.ensure_thread(future);
                return waited.and(begun);
            }
            let has_waiting = {
                let mut table = lock(&self.table);
                table.leave_slot(call.number);
                table.count_waiting() > 0
            };
            if has_waiting {
                py.detach(|| self.start_waiting(None));
            }
            self.finish(py, call)?;
            self.set_futures(py)
        })
    }

    /// One round of the polling thread: waits, starts calls, and sets the futures of those that are over. Returns what is next.
    fn poll(&self, py: Python<'_>) -> PyResult<u8> {
        through_python(|| {
            let sleep = {
                let mut table = lock(&self.table);
                table.polling = Some(thread::current().id());
                table.sleep()
            };
            let Some(Sleep { poller, patience }) = sleep else { return Ok(OVER) };
            let waited = py.detach(|| {
                let ready = match &poller {
                    Some(poller) => poller.wait(patience),
                    None => {
                        thread::sleep(patience.unwrap_or_default());
                        Ok(Vec::new())
                    }
                };
                let due = lock(&self.table).awake(ready.as_deref().unwrap_or(&[]));
                // The next ones first: nothing runs in the slots that have become free.
                self.let_go_ahead();
                for number in ready.iter().flatten().chain(&due) {
                    self.look_at(*number);
                }
                self.start_waiting(None);
                ready
            });
            waited.map_err(|error| os_error(&error))?;
            self.set_futures(py)?;
            Ok(if lock(&self.table).is_to_tell() { TELL } else { POLL_AGAIN })
        })
    }

    /// Cancels a call that waits for its slot. False when it does not.
    fn cancel(&self, py: Python<'_>, call: &PyCall) -> PyResult<bool> {
        through_python(|| {
            if !lock(&self.table).withdraw(call.0.number) {
                return Ok(false);
            }
            drop(call.0.take_start());
            py.detach(|| {
                call.0.end_ahead();
                self.start_waiting(None);
            });
            self.finish(py, &call.0)?;
            self.set_futures(py).map(|()| true)
        })
    }

    /// Kills the process of a call, which may be about to start.
    fn kill(&self, call: &PyCall) {
        if let Some(entry) = lock(&self.table).get(call.0.number) {
            entry.is_doomed = true;
        }
        call.0.kill();
    }

    /// Sends a signal to the processes of all calls. Those that are about to start are killed.
    fn end_running(&self, signal: i32) -> PyResult<()> {
        let running = lock(&self.table).doom_starting();
        running.iter().filter_map(|call| call.process()).try_for_each(|process| process.send_signal(signal))
    }

    /// Has another number of calls run at a time. Calls that run go on.
    fn resize(&self, py: Python<'_>, slots: usize) -> PyResult<()> {
        through_python(|| {
            lock(&self.table).slots = slots;
            py.detach(|| self.start_waiting(None));
            self.set_futures(py)
        })
    }

    /// Takes no further calls. True when the polling thread is needed for those that there are.
    fn close(&self) -> bool {
        let mut table = lock(&self.table);
        table.is_closed = true;
        table.attend_all();
        table.wake();
        !table.is_empty()
    }

    /// The futures of calls that wait for a slot.
    fn waiting(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        let waiting: Vec<Arc<Call>> = lock(&self.table).waiting().cloned().collect();
        waiting.iter().filter_map(|call| call.future(py)).map(Bound::unbind).collect()
    }

    /// How many calls wait for a slot.
    fn count_waiting(&self) -> usize {
        lock(&self.table).count_waiting()
    }

    /// Whether the caller's thread polls, or is setting a future: it cannot wait for the end of all calls.
    fn is_served_here(&self) -> bool {
        lock(&self.table).is_served_by(thread::current().id())
    }
}

// Without the interpreter's lock.
impl PyCalls {
    /// Gives free slots to calls that wait for one, and has the next ones started ahead.
    fn start_waiting(&self, mine: Option<u64>) {
        while let Some(next) = { lock(&self.table).next() } {
            match next {
                Next::LetGo(call) => call.let_go(),
                Next::StartAhead(call) => {
                    let waits = !call.start(self.memory_limit, true);
                    let is_doomed = lock(&self.table).started_ahead(call.number, waits);
                    if is_doomed {
                        call.kill();
                    }
                }
                Next::Start(call) => {
                    call.start(self.memory_limit, false);
                    let is_doomed = lock(&self.table).started(call.number, mine);
                    if is_doomed {
                        call.kill();
                    }
                }
            }
        }
    }

    /// Gives free slots to calls that are ahead.
    fn let_go_ahead(&self) {
        while let Some(call) = { lock(&self.table).next_ahead() } {
            call.let_go();
        }
    }

    /// Looks whether the process of a call has ended or is to be killed, unless somebody serves it.
    fn look_at(&self, number: u64) {
        let found = lock(&self.table).claim_to_look(number);
        let Some((call, deadline)) = found else { return };
        let has_ended =
            call.process().is_none_or(|process| process.wait_until_end(Some(Instant::now())).unwrap_or(true));
        if !has_ended && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            call.kill();
            lock(&self.table).note_late(number);
        }
        let mut table = lock(&self.table);
        if has_ended { table.end(number) } else { table.unclaim(number) }
    }
}

// With it.
impl PyCalls {
    /// Waits for the end of a claimed call, and kills it at its deadline. False when the time is over first.
    fn wait(
        &self,
        py: Python<'_>,
        call: &Call,
        until: Option<Instant>,
        deadline: Option<Instant>,
    ) -> PyResult<bool> {
        let Some(process) = call.process() else { return Ok(true) };
        let (mut until, mut deadline) = (until, deadline);
        loop {
            let first = until.into_iter().chain(deadline).min();
            if process.wait_for_end(py, first)? {
                return Ok(true);
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                call.kill();
                lock(&self.table).note_late(call.number);
                // What is killed has ended soon: that is waited for.
                deadline = None;
                until = until.map(|until| until.max(now + LOOK));
            } else if until.is_some_and(|until| now >= until) {
                return Ok(false);
            }
        }
    }

    /// Tells the futures of calls that have begun, and sets those of calls that are over and that nobody else has.
    fn set_futures(&self, py: Python<'_>) -> PyResult<()> {
        let begun = lock(&self.table).take_begun();
        for (place, call) in begun.iter().enumerate() {
            if let Some(future) = call.future(py)
                && let Err(error) = outcome::begin(&future)
            {
                lock(&self.table).put_back_begun(begun.get(place..).unwrap_or_default());
                return Err(error);
            }
        }
        while let Some(call) = { lock(&self.table).take_ended() } {
            self.finish(py, &call)?;
        }
        Ok(())
    }

    /// Sets the future of an ended call. Where Python raises meanwhile the polling thread does it again: each step may have been done.
    fn finish(&self, py: Python<'_>, call: &Call) -> PyResult<()> {
        let how = lock(&self.table).finish(call.number, thread::current().id());
        if let (Some(how), Some(future)) = (how, call.future(py))
            && let Err(error) = outcome::tell(&future, call, how)
        {
            lock(&self.table).give_back(call.number);
            let _ = self.ensure_thread(&future);
            return Err(error);
        }
        lock(&self.table).remove(call.number);
        call.drop_future();
        if let Some(process) = call.process() {
            let _ = process.close(py);
        }
        Ok(())
    }

    /// Has the thread that polls begin, which is Python's.
    fn ensure_thread(&self, future: &Bound<'_, PyAny>) -> PyResult<()> {
        if lock(&self.table).polling.is_none() {
            let calls = future.getattr(intern!(future.py(), "_calls"))?;
            calls.call_method0(intern!(future.py(), "ensure_thread"))?;
        }
        Ok(())
    }
}
