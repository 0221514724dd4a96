//! Sets futures: `regrow._call.future` is what they are.

use pyo3::exceptions::{PyException, PyTimeoutError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString, PyTuple};

use super::call::Call;
use super::table::Finish;
use crate::errors::os_error;
use crate::process::PyProcess;

/// What an answer begins with that is the value of its call, without large buffers (`regrow._call.worker`), and how long its head is.
const VALUE: u8 = b'=';
const HEAD_BYTES: usize = 9;
/// The longest answer that is read here. A longer one may have large buffers behind it.
const MOST_BYTES: usize = 64 * 1024;

/// Notes that the call of a future is no longer to wait.
pub(super) fn begin(future: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = future.py();
    if is_unlooked(future)? {
        // Nobody has cancelled it, or looks at it.
        return future.setattr(intern!(py, "_state"), intern!(py, "RUNNING"));
    }
    future.call_method0(intern!(py, "begin")).map(drop)
}

/// Tells the future of an ended call what has become of it, unless it knows.
pub(super) fn tell(future: &Bound<'_, PyAny>, call: &Call, how: Finish) -> PyResult<()> {
    let py = future.py();
    if how.is_cancelled {
        return future.call_method0(intern!(py, "become_cancelled")).map(drop);
    }
    if future.call_method0(intern!(py, "is_over"))?.is_truthy()? {
        return Ok(());
    }
    if let Some(seconds) = how.late_after {
        let text = format!("the call took longer than {:?} s and was killed", seconds.as_secs_f64());
        return set(future, None, Some(PyTimeoutError::new_err(text)));
    }
    if let Some(error) = call.refusal() {
        return set(future, None, Some(os_error(error)));
    }
    match short_value(py, call)? {
        Some(Ok(value)) => set(future, Some(value), None),
        Some(Err(error)) if error.is_instance_of::<PyException>(py) => set(future, None, Some(error)),
        // It may be a signal handler's, and not the answer's.
        Some(Err(error)) if is_main_thread(py)? => Err(unclear(py, error)?),
        _ => tell_of_answer(future),
    }
}

/// What the usual answer holds, or what loading it raises; none where it is another one.
fn short_value<'py>(py: Python<'py>, call: &Call) -> PyResult<Option<PyResult<Bound<'py, PyAny>>>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let Some(answer) = call.process().and_then(PyProcess::short_answer) else { return Ok(None) };
    let Some((head, pickle)) = answer.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
    let [kind, length @ ..] = *head;
    if kind != VALUE
        || pickle.len() >= MOST_BYTES
        || u64::try_from(pickle.len()) != Ok(u64::from_le_bytes(length))
    {
        return Ok(None);
    }
    let loads = LOADS.import(py, "pickle", "loads")?;
    Ok(Some(loads.call1((PyBytes::new(py, pickle),))))
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    static CURRENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static MAIN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let current = CURRENT.import(py, "threading", "current_thread")?.call0()?;
    Ok(current.is(&MAIN.import(py, "threading", "main_thread")?.call0()?))
}

/// Says that another thread is to read the answer again.
fn unclear(py: Python<'_>, error: PyErr) -> PyResult<PyErr> {
    let class = py.import("regrow._call.answer")?.getattr("Unclear")?;
    Ok(PyErr::from_value(class.call1((error.into_value(py),))?))
}

/// Tells a future of an answer that Python has to read.
fn tell_of_answer(future: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = future.py();
    static READ: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let read = READ.import(py, "regrow._call.answer", "read_answer")?;
    let answer = read.call1((future.getattr(intern!(py, "call"))?,))?.cast_into::<PyTuple>()?;
    future.setattr(intern!(py, "refusal"), answer.get_item(2)?)?;
    future.call_method1(intern!(py, "set_outcome"), (answer.get_item(0)?, answer.get_item(1)?)).map(drop)
}

/// Sets a future, with the least that its state needs where nobody has looked at it: there is nobody to tell.
fn set(future: &Bound<'_, PyAny>, value: Option<Bound<'_, PyAny>>, error: Option<PyErr>) -> PyResult<()> {
    let py = future.py();
    if let (Some(value), None) = (&value, &error)
        && is_unlooked(future)?
    {
        future.setattr(intern!(py, "_result"), value)?;
        return future.setattr(intern!(py, "_state"), intern!(py, "FINISHED"));
    }
    let error = error.map(|error| error.into_value(py));
    future.call_method1(intern!(py, "set_outcome"), (value, error)).map(drop)
}

/// Whether nobody has looked at a future that is not over.
fn is_unlooked(future: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = future.py();
    if !future.getattr(intern!(py, "_own_condition"))?.is_none() {
        return Ok(false);
    }
    let state = future.getattr(intern!(py, "_state"))?;
    let state = state.cast::<PyString>()?.to_cow()?;
    Ok(state == "PENDING" || state == "RUNNING")
}
