//! The quick way through the process of a call: what `regrow._call.worker` and the front end do, without their Python.
//!
//! ```text
//!   woken ──order of a call──> environment, arguments, streams ──> function ──> answer ──nothing left to do──> end
//!     └──anything else: the front end's own way                                   └──> the front end's own end
//! ```
//!
//! Python code writes to whatever it runs through: reference counts of code, names and constants, and the counters of
//! instructions. Each page of that kind is compared after the run. So the way that every call goes is not Python, and the
//! ways that few calls go are.
//!
//! Invariant: before the order is known to be one of a call nothing has been changed.

use std::ffi::{OsStr, OsString};
use std::io::IoSlice;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyModule, PyString, PyTuple};
use regrow_abi::MOST_ANSWER_BYTES;
use regrow_front::order::{self, ReadOrder};
use rustix::io::Errno;

use crate::descriptors::{close, with_descriptor};
use crate::errors::os_error;
use crate::exchange::RunnerExchange;
use crate::immortal;
use crate::left::Left;

/// What the order of a call begins with, behind arguments and environment: the worker's `call`.
pub(crate) const CALL: &[u8] = b"regrow._call.worker:call\n";
/// The same of a process of `multiprocessing`: the front end carries it out.
pub(crate) const PROCESS: &[u8] = b"regrow._call.worker:process\n";
/// Has the interpreter finalize at the end (docs/warm.md).
pub(crate) const FINALIZE: &[u8] = b"REGROW_PYTHON_FINALIZE=";
/// The longest order that is taken; a longer one goes the front end's way.
const ORDER_BYTES: usize = 48 * 1024;
/// The descriptor of the answer: the worker's `ANSWER_FD`.
pub(crate) const ANSWER: RawFd = 62;
/// The descriptor of an order that is not part of the start: the worker's `ORDER_FD`.
pub(crate) const LONG_ORDER: RawFd = 61;
/// The protocol of pickles, as `pickle.HIGHEST_PROTOCOL` has been since 3.8.
pub(crate) const PROTOCOL: u8 = 5;

/// What every call needs, looked up before the image is made. The worker makes it; the front end calls it in each run.
#[pyclass(frozen, name = "Runner", module = "regrow._core")]
pub(crate) struct PyRunner {
    worker: Py<PyModule>,
    sys: Py<PyModule>,
    modules: Py<PyDict>,
    /// The environment of the process, as `os.environ` has it and as an order tells it.
    variables: Py<PyDict>,
    environment: Vec<u8>,
    loads: Py<PyAny>,
    dumps: Py<PyAny>,
    /// What `dumps` is told of a value that may have large buffers, and those of the value that is pickled.
    with_buffers: Py<PyDict>,
    beside: Py<PyList>,
    exit: Py<PyAny>,
    /// What `multiprocessing` knows of this process, and the class of its key.
    process: (Py<PyDict>, Py<PyAny>),
    /// `logging`, where it is loaded, and what tells the time for it.
    logging: Option<(Py<PyAny>, Py<PyAny>)>,
    /// The standard streams by number, with the kinds of descriptor that they were opened ahead for.
    streams: OnceLock<Vec<(RawFd, Kind)>>,
    /// `sys.stdout` and `sys.stderr`.
    outputs: OnceLock<[Py<PyAny>; 2]>,
    left: Left,
    pub(crate) exchange: RunnerExchange,
}

/// An order that a runner has read.
pub(crate) struct TakenOrder {
    pub(crate) bytes: Vec<u8>,
    /// It is nowhere else any more.
    is_of_exchange: bool,
}

impl TakenOrder {
    /// What a runner returns that does not know it: what the front end does not find any more.
    pub(crate) fn left<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.is_of_exchange.then(|| PyBytes::new(py, &self.bytes))
    }

    /// Closes the descriptor that it came in.
    pub(crate) fn close(&self, number: RawFd) {
        if !self.is_of_exchange {
            close(number);
        }
    }
}

/// What decides how the interpreter opens a stream: type, device, and size of blocks. None for a closed descriptor.
type Kind = Option<(u32, u64, i64)>;

/// What the answer of a call says it is, and what it has.
type Answer<'py> = (&'static [u8; 1], Bound<'py, PyBytes>);

/// The call of an order: the key by which processes of one family know one another, and the function with its arguments.
struct Call<'a> {
    key: &'a [u8],
    pickle: &'a [u8],
}

impl<'a> Call<'a> {
    /// None where the order asks for something else, or has its call in a file.
    fn of(order: &ReadOrder<'a>) -> Option<Self> {
        let (length, rest) = order.payload.strip_prefix(CALL)?.split_first_chunk::<2>()?;
        let (key, pickle) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        let finalizes = order::strings(order.environment).any(|entry| entry.starts_with(FINALIZE));
        (!finalizes).then_some(Self { key, pickle })
    }
}

#[pymethods]
impl PyRunner {
    /// Of the module `regrow._call.worker`.
    #[new]
    pub(crate) fn new(py: Python<'_>, worker: Py<PyModule>) -> PyResult<Self> {
        let sys = py.import("sys")?;
        let posix = py.import("posix")?;
        let variables = posix.getattr("environ")?.cast_into::<PyDict>()?;
        let process = py.import("multiprocessing.process")?;
        let settings =
            process.getattr("_current_process")?.getattr("_config")?.cast_into::<PyDict>()?.unbind();
        let beside = worker.bind(py).getattr("_beside")?.cast_into::<PyList>()?.unbind();
        let with_buffers = PyDict::new(py);
        with_buffers.set_item("protocol", PROTOCOL)?;
        with_buffers.set_item("buffer_callback", worker.bind(py).getattr("_take")?)?;
        Ok(Self {
            worker,
            modules: sys.getattr("modules")?.cast_into::<PyDict>()?.unbind(),
            sys: sys.unbind(),
            environment: entries(&variables)?,
            variables: variables.unbind(),
            loads: py.import("pickle")?.getattr("loads")?.unbind(),
            dumps: py.import("pickle")?.getattr("dumps")?.unbind(),
            with_buffers: with_buffers.unbind(),
            beside,
            exit: posix.getattr("_exit")?.unbind(),
            process: (settings, process.getattr("AuthenticationString")?.unbind()),
            logging: clock_of_logging(py)?,
            streams: OnceLock::new(),
            outputs: OnceLock::new(),
            left: Left::prepared(py)?,
            exchange: RunnerExchange::default(),
        })
    }

    /// The address of the word that says where the exchange of a run is.
    #[getter]
    fn exchange(&self) -> usize {
        self.exchange.word_address()
    }

    /// Carries out the order in the exchange, or in this descriptor, and ends the process. Returns where that is not the order of a call,
    /// or a long one; nothing has been changed then, but an order of the exchange is taken: it is what is returned. `skip` arguments are the interpreter's own; of `streams` those are opened again that are of
    /// another kind than they were prepared for; `flush_c` flushes the C library's; `leave` ends the process as the front end does.
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        number: RawFd,
        skip: usize,
        streams: &Bound<'py, PyList>,
        flush_c: &Bound<'py, PyAny>,
        leave: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let Some(taken) = self.take_order(number)? else { return Ok(None) };
        let Ok(order) = order::read(&taken.bytes) else { return Ok(taken.left(py)) };
        let Some(call) = Call::of(&order) else { return Ok(taken.left(py)) };
        taken.close(number);
        // The file of the answer serves other calls: what this one starts and leaves behind is not to have it.
        with_descriptor(ANSWER, |fd| rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC))
            .map_err(|errno| os_error(&errno.into()))?;
        self.become_run(py, &order, skip, streams)?;
        if !self.exchange.await_turn() {
            // Nobody is there any more for whom to do anything.
            self.exit.bind(py).call1((1,))?;
        }
        let answer = match self.carry_out(py, &call) {
            Ok(answer) => answer,
            Err(error) => (b"!", self.described(py, error)?),
        };
        self.end(py, answer, streams, flush_c, leave).map(|()| None)
    }

    /// Does what every call does, without an order, an answer and an end, before the image is made: what the interpreter fills at
    /// first use (caches of attributes, instructions of its own for the types that it meets, free lists) is filled then, and no run
    /// writes to it.
    fn rehearse(
        &self,
        py: Python<'_>,
        streams: &Bound<'_, PyList>,
        flush_c: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (worker, modules) = (self.worker.bind(py), self.modules.bind(py));
        let nothing = (py.import("builtins")?.getattr("len")?, ((),), PyDict::new(py));
        let pickle = self.dumps.bind(py).call1((nothing, PROTOCOL))?.cast_into::<PyBytes>()?;
        let main = modules.get_item("__main__")?;
        self.rehearse_beginning(py, streams, || {
            let value = self.carry_out(py, &Call { key: &[0; 32], pickle: pickle.as_bytes() })?;
            self.left.is_nothing(py, modules, streams)?;
            self.flush_all(py, flush_c)?;
            drop(value);
            Ok(())
        })?;
        modules.set_item("__main__", main)?;
        worker.setattr(intern!(py, "_own_main"), py.None())?;
        worker.setattr(intern!(py, "_in_call"), false)
    }

    /// Has the interpreter count no references to what all runs have, before the image is made. Returns to how many objects.
    fn make_immortal(&self, py: Python<'_>) -> PyResult<usize> {
        immortal::make_all(py)
    }
}

impl PyRunner {
    /// The order, out of the exchange or of this descriptor. None where it is a long one in the descriptor.
    pub(crate) fn take_order(&self, number: RawFd) -> PyResult<Option<TakenOrder>> {
        if let Some(bytes) = self.exchange.take_order() {
            return Ok(Some(TakenOrder { bytes, is_of_exchange: true }));
        }
        Ok(read_order(number)?.map(|bytes| TakenOrder { bytes, is_of_exchange: false }))
    }

    /// Makes the process what it is already, and does the rest of a rehearsal.
    pub(crate) fn rehearse_beginning(
        &self,
        py: Python<'_>,
        streams: &Bound<'_, PyList>,
        rest: impl FnOnce() -> PyResult<()>,
    ) -> PyResult<()> {
        let sys = self.sys.bind(py);
        let argv: Vec<OsString> = sys.getattr("orig_argv").or_else(|_| sys.getattr("argv"))?.extract()?;
        let own: Vec<OsString> = sys.getattr("argv")?.extract()?;
        let order = ReadOrder {
            argv: argv.iter().map(|word| word.as_bytes()).collect(),
            environment: &self.environment,
            payload: &[],
        };
        self.kinds(streams)?;
        self.become_run(py, &order, 0, &PyList::empty(py))?;
        rest()?;
        set_list(&sys.getattr(intern!(py, "argv"))?, own.iter().map(OsString::as_os_str).collect())
    }

    /// Makes the process what the order says.
    pub(crate) fn become_run(
        &self,
        py: Python<'_>,
        order: &ReadOrder<'_>,
        skip: usize,
        streams: &Bound<'_, PyList>,
    ) -> PyResult<()> {
        if order.environment != self.environment {
            take_environment(self.variables.bind(py), order.environment)?;
        }
        for (stream, (number, kind)) in streams.iter().zip(self.kinds(streams)?) {
            if !is_as_prepared(*number, *kind) {
                stream.call_method0("open")?;
            }
        }
        let sys = self.sys.bind(py);
        let words: Vec<&OsStr> = order.argv.iter().map(|word| OsStr::from_bytes(word)).collect();
        let own = match words.get(skip..) {
            None | Some([]) => vec![OsStr::new("")],
            Some(own) => own.to_vec(),
        };
        set_list(&sys.getattr(intern!(py, "argv"))?, own)?;
        if let Some(all) = sys.getattr_opt(intern!(py, "orig_argv"))? {
            set_list(&all, words)?;
        }
        if let Some((logging, clock)) = &self.logging {
            // The time at which a plain process would have imported it.
            logging.bind(py).setattr(intern!(py, "_startTime"), clock.bind(py).call0()?)?;
        }
        Ok(())
    }

    /// The kinds of descriptor that the streams were opened ahead for. They are read in the image, and known in every run.
    fn kinds(&self, streams: &Bound<'_, PyList>) -> PyResult<&[(RawFd, Kind)]> {
        if let Some(known) = self.streams.get() {
            return Ok(known);
        }
        let kind = |stream: Bound<'_, PyAny>| -> PyResult<(RawFd, Kind)> {
            Ok((stream.getattr("number")?.extract()?, stream.getattr("kind")?.extract()?))
        };
        let found = streams.iter().map(kind).collect::<PyResult<_>>()?;
        Ok(self.streams.get_or_init(|| found))
    }

    /// Calls the function; gives the answer of its value.
    fn carry_out<'py>(&self, py: Python<'py>, call: &Call<'_>) -> PyResult<Answer<'py>> {
        let worker = self.worker.bind(py);
        worker.setattr(intern!(py, "_in_call"), true)?;
        let modules = self.modules.bind(py);
        if let Some(main) = modules.get_item(intern!(py, "__mp_main__"))? {
            let name = intern!(py, "__main__");
            worker.setattr(intern!(py, "_own_main"), modules.get_item(name)?)?;
            modules.set_item(name, main)?;
        }
        if !call.key.is_empty() {
            let (settings, class) = &self.process;
            let key = class.bind(py).call1((PyBytes::new(py, call.key),))?;
            settings.bind(py).set_item(intern!(py, "authkey"), key)?;
        }
        let asked = self.loads.bind(py).call1((PyBytes::new(py, call.pickle),))?.cast_into::<PyTuple>()?;
        let (function, args, kwargs) = (asked.get_item(0)?, asked.get_item(1)?, asked.get_item(2)?);
        let value = function.call(args.cast_into::<PyTuple>()?, Some(&kwargs.cast_into::<PyDict>()?))?;
        self.pickled(py, &value)
    }

    /// The answer of a value. Its large buffers are in the file by then.
    fn pickled<'py>(&self, py: Python<'py>, value: &Bound<'py, PyAny>) -> PyResult<Answer<'py>> {
        let dumps = self.dumps.bind(py);
        if is_plain(value) {
            return Ok((b"=", dumps.call1((value, PROTOCOL))?.cast_into::<PyBytes>()?));
        }
        let pickle = dumps.call((value,), Some(self.with_buffers.bind(py)))?;
        if self.beside.bind(py).is_empty() {
            return Ok((b"=", pickle.cast_into::<PyBytes>()?));
        }
        let pickle = self.worker.bind(py).getattr("_write_buffers")?.call1((pickle,))?;
        Ok((b"#", pickle.cast_into::<PyBytes>()?))
    }

    /// Whether the standard streams, and those of the C library, have written all that they hold. False where a stream is another one than
    /// in the image: something may hold that one, and what was written to it.
    fn flush_all(&self, py: Python<'_>, flush_c: &Bound<'_, PyAny>) -> PyResult<bool> {
        let sys = self.sys.bind(py);
        let now = [sys.getattr(intern!(py, "stdout"))?, sys.getattr(intern!(py, "stderr"))?];
        let prepared = self.outputs.get_or_init(|| now.clone().map(Bound::unbind));
        for (stream, prepared) in now.iter().zip(prepared) {
            let is_flushed = stream.is_none() || stream.call_method0(intern!(py, "flush")).is_ok();
            if !(is_flushed && stream.is(prepared)) {
                return Ok(false);
            }
        }
        flush_c.call1((py.None(),))?;
        Ok(true)
    }

    /// An exception of the call, in the form that travels.
    fn described<'py>(&self, py: Python<'py>, error: PyErr) -> PyResult<Bound<'py, PyBytes>> {
        let described = self.worker.bind(py).getattr("_described")?.call1((error.into_value(py),))?;
        Ok(described.cast_into::<PyBytes>()?)
    }

    /// Ends the process: at once where nothing is left to be done.
    fn end(
        &self,
        py: Python<'_>,
        (kind, pickle): Answer<'_>,
        streams: &Bound<'_, PyList>,
        flush_c: &Bound<'_, PyAny>,
        leave: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        // What cannot be looked at is something.
        let is_nothing = self.left.is_nothing(py, self.modules.bind(py), streams).unwrap_or(false);
        if is_nothing && self.flush_all(py, flush_c)? {
            self.write_answer(kind, pickle.as_bytes()).map_err(|errno| os_error(&errno.into()))?;
            self.exit.bind(py).call1((0,)).map(drop)
        } else {
            self.worker.bind(py).setattr("_answer", (PyBytes::new(py, kind), pickle))?;
            leave.call0().map(drop)
        }
    }
}

/// Answers.
impl PyRunner {
    /// Writes the answer to the exchange, where it fits there. Buffers are in the file, and what stands before them too.
    fn write_answer(&self, kind: &[u8; 1], pickle: &[u8]) -> Result<(), Errno> {
        let head = head_of(kind, pickle);
        let is_short = kind != b"#" && head.len() + pickle.len() <= MOST_ANSWER_BYTES;
        if is_short && self.exchange.put_answer(&[&head, pickle].concat()) {
            return Ok(());
        }
        write_to_file(&head, pickle)
    }
}

/// Whether a value has no buffers, as that of most calls.
fn is_plain(value: &Bound<'_, PyAny>) -> bool {
    value.is_none()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyBytes>()
}

/// The environment in the form of an order.
fn entries(variables: &Bound<'_, PyDict>) -> PyResult<Vec<u8>> {
    let mut block = Vec::new();
    for (name, value) in variables {
        for (part, end) in [(name, b'='), (value, 0)] {
            block.extend_from_slice(part.cast_into::<PyBytes>()?.as_bytes());
            block.push(end);
        }
    }
    Ok(block)
}

/// Makes `os.environ` that of an order: the first entry of a name counts, one without `=` does not.
fn take_environment(variables: &Bound<'_, PyDict>, block: &[u8]) -> PyResult<()> {
    variables.clear();
    for entry in order::strings(block) {
        let Some(at) = entry.iter().position(|&byte| byte == b'=') else { continue };
        let (name, value) = (&entry[..at], &entry[at + 1..]);
        let name = PyBytes::new(variables.py(), name);
        if !variables.contains(&name)? {
            variables.set_item(name, PyBytes::new(variables.py(), value))?;
        }
    }
    Ok(())
}

fn set_list(list: &Bound<'_, PyAny>, words: Vec<&OsStr>) -> PyResult<()> {
    let list = list.cast::<PyList>()?;
    list.set_slice(0, list.len(), PyList::new(list.py(), words)?.as_any())
}

/// Whether the descriptor of a stream is of the kind that the stream was opened ahead for.
fn is_as_prepared(number: RawFd, kind: Kind) -> bool {
    match (kind, with_descriptor(number, |fd| rustix::fs::fstat(fd))) {
        (Some(kind), Ok(status)) => kind == (status.st_mode & 0o170_000, status.st_rdev, status.st_blksize),
        _ => false,
    }
}

/// What an answer begins with: its kind, and how long the rest is.
fn head_of(kind: &[u8; 1], pickle: &[u8]) -> Vec<u8> {
    let mut head = kind.to_vec();
    head.extend((pickle.len() as u64).to_le_bytes());
    head
}

/// Writes the answer to its descriptor, as the worker does where the process ends in another way.
fn write_to_file(head: &[u8], pickle: &[u8]) -> Result<(), Errno> {
    let (mut head, mut rest) = (head, pickle);
    while !head.is_empty() || !rest.is_empty() {
        let parts = [IoSlice::new(head), IoSlice::new(rest)];
        match with_descriptor(ANSWER, |fd| rustix::io::retry_on_intr(|| rustix::io::writev(fd, &parts))) {
            // Whoever wants no answer any more has closed the pipe.
            Err(Errno::PIPE) => return Ok(()),
            Err(other) => return Err(other),
            Ok(written) => {
                let of_head = written.min(head.len());
                (head, rest) = (&head[of_head..], &rest[written - of_head..]);
            }
        }
    }
    Ok(())
}

/// What tells the time for `logging`, where that is loaded: from 3.13 on in nanoseconds.
fn clock_of_logging(py: Python<'_>) -> PyResult<Option<(Py<PyAny>, Py<PyAny>)>> {
    let Some(logging) = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?.get_item("logging")?
    else {
        return Ok(None);
    };
    let in_ns = logging.getattr("_startTime")?.is_instance_of::<pyo3::types::PyInt>();
    let clock = py.import("time")?.getattr(if in_ns { "time_ns" } else { "time" })?;
    Ok(Some((logging.unbind(), clock.unbind())))
}

/// The order in this descriptor; none that is long, or that there is no memory for.
pub(crate) fn read_order(number: RawFd) -> PyResult<Option<Vec<u8>>> {
    let read = || {
        let status = with_descriptor(number, |fd| rustix::fs::fstat(fd))?;
        let size = usize::try_from(status.st_size).unwrap_or(usize::MAX);
        let mut bytes = Vec::new();
        if size > ORDER_BYTES || bytes.try_reserve_exact(size).is_err() {
            return Ok(None);
        }
        bytes.resize(size, 0);
        let read =
            with_descriptor(number, |fd| rustix::io::retry_on_intr(|| rustix::io::pread(fd, &mut bytes, 0)))?;
        bytes.truncate(read);
        Ok(Some(bytes))
    };
    read().map_err(|errno: Errno| os_error(&errno.into()))
}
