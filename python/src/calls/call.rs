//! One call: what its process is started with, that process, and the future that is told what has become of it.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::fs::MemfdFlags;

use crate::errors::lock;
use crate::files;
use crate::image::PyImage;
use crate::pool::{PyPool, StartArguments};
use crate::process::PyProcess;
use crate::runner::{ANSWER, CALL, LONG_ORDER};

/// The longest order of which the bytes are part of the start; a longer one is in a file.
const LONGEST_ORDER: usize = 32 * 1024;

/// How long a process may take to end that is killed before it has begun.
const KILLED_WITHIN: Duration = Duration::from_secs(1);

/// What the processes of calls are started from.
pub(super) struct Source {
    pub(super) pool: Py<PyPool>,
    pub(super) image: Py<PyImage>,
}

/// What the process of a call is started with.
pub(super) struct Start {
    pub(super) source: Arc<Source>,
    pub(super) words: Vec<OsString>,
    pub(super) order: Vec<u8>,
    pub(super) place: String,
    /// Descriptors here, and their numbers in the process.
    pub(super) fds: Vec<(RawFd, RawFd)>,
    /// What keeps those open.
    #[expect(dead_code, reason = "it is dropped with this")]
    pub(super) shared: Option<Py<PyAny>>,
}

/// A call.
pub(super) struct Call {
    /// Calls are numbered in the order in which they are submitted.
    pub(super) number: u64,
    start: Mutex<Option<Start>>,
    /// Its process, or why there is none, once that is known.
    process: OnceLock<io::Result<PyProcess>>,
    /// Until the call is over.
    future: Mutex<Option<Py<PyAny>>>,
}

impl Call {
    pub(super) fn new(number: u64, start: Start, future: Py<PyAny>) -> Self {
        Self { number, start: Some(start).into(), process: OnceLock::new(), future: Some(future).into() }
    }

    /// Starts its process, once; ahead of its turn where that is asked. False when that cannot be: it is to be started in its turn then.
    pub(super) fn start(&self, memory_limit: Option<u64>, is_ahead: bool) -> bool {
        let Some(start) = self.take_start() else { return true };
        let process = start.process(memory_limit, is_ahead);
        if is_ahead && process.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            *lock(&self.start) = Some(start);
            return false;
        }
        self.process.get_or_init(|| process);
        true
    }

    /// Has a process begin that was started ahead of its turn.
    pub(super) fn let_go(&self) {
        if let Some(process) = self.process() {
            process.let_go();
        }
    }

    /// What it was to be started with, if it has not been.
    pub(super) fn take_start(&self) -> Option<Start> {
        lock(&self.start).take()
    }

    /// Its process, once it has one.
    pub(super) fn process(&self) -> Option<&PyProcess> {
        self.process.get()?.as_ref().ok()
    }

    /// Why it has none.
    pub(super) fn refusal(&self) -> Option<&io::Error> {
        self.process.get()?.as_ref().err()
    }

    /// Its future, unless the call is over.
    pub(super) fn future<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        lock(&self.future).as_ref().map(|future| future.bind(py).clone())
    }

    /// Gives the future up: the call is over.
    pub(super) fn drop_future(&self) {
        let future = lock(&self.future).take();
        drop(future);
    }

    /// Ends a process that has not begun: it is gone at once.
    pub(super) fn end_ahead(&self) {
        if let Some(process) = self.process() {
            self.kill();
            let _ = process.wait_until_end(Instant::now().checked_add(KILLED_WITHIN));
        }
    }

    pub(super) fn kill(&self) {
        if let Some(process) = self.process() {
            let _ = process.kill();
        }
    }
}

impl Start {
    fn process(&self, memory_limit: Option<u64>, is_ahead: bool) -> io::Result<PyProcess> {
        let mut fds = self.fds.clone();
        let mut call = CALL.to_vec();
        let file: OwnedFd;
        if self.order.len() <= LONGEST_ORDER {
            call.extend_from_slice(&self.order);
        } else {
            file = rustix::fs::memfd_create("regrow-call", MemfdFlags::CLOEXEC)?;
            files::write_all(&file, &self.order)?;
            fds.push((file.as_raw_fd(), LONG_ORDER));
        }
        let asked = StartArguments {
            call: Some(&call),
            answer: Some(ANSWER),
            fds,
            memory_limit,
            place: Some(&self.place),
            words: &self.words,
            is_ahead,
            ..StartArguments::default()
        };
        self.source.pool.get().start_process(self.source.image.get(), asked)
    }
}

/// A call, as its future and the one who reads its answer know it.
#[pyclass(frozen, name = "Call", module = "regrow._core")]
pub(crate) struct PyCall(pub(super) Arc<Call>);

#[pymethods]
impl PyCall {
    /// How its process was made, in words; None while it has none.
    #[getter]
    fn creation(&self) -> Option<&str> {
        self.0.process().map(PyProcess::how_made)
    }

    /// See `Process.returncode`.
    #[getter]
    fn returncode(&self) -> Option<i32> {
        self.0.process().and_then(PyProcess::returncode)
    }

    /// See `Process.answer`.
    #[pyo3(signature = (most = None))]
    fn answer<'py>(&self, py: Python<'py>, most: Option<usize>) -> PyResult<Bound<'py, PyBytes>> {
        self.ended()?.answer(py, most)
    }

    /// See `Process.map_answer`.
    fn map_answer(&self, py: Python<'_>, address: usize, size: usize, offset: u64) -> PyResult<()> {
        self.ended()?.map_answer(py, address, size, offset)
    }
}

impl PyCall {
    fn ended(&self) -> PyResult<&PyProcess> {
        self.0.process().ok_or_else(|| PyValueError::new_err("the call has no process"))
    }
}
