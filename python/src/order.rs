//! Writes the order of a call; `regrow._call.worker` reads it.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use crate::exit::through_python;
use crate::runner::PROTOCOL;

/// The pickle of a call, and its large buffers, which are not in it: what a pickle leaves out, `regrow._call.buffers` finds.
#[pyfunction]
pub(crate) fn pickled_call<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyList>)> {
    static DUMPS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static PARTIAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static TAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = function.py();
    through_python(|| {
        let found = PyList::empty(py);
        let take = TAKE.import(py, "regrow._call.buffers", "take_for_file")?;
        let take = PARTIAL.import(py, "functools", "partial")?.call1((take, &found))?;
        let options = PyDict::new(py);
        options.set_item(intern!(py, "buffer_callback"), take)?;
        let dumps = DUMPS.import(py, "pickle", "dumps")?;
        let pickle = dumps.call(((function, args, kwargs), PROTOCOL), Some(&options))?;
        Ok((pickle.cast_into::<PyBytes>()?, found))
    })
}

/// The order of a call whose pickle this is: it begins with what processes of one family know one another by.
#[pyfunction]
pub(crate) fn with_key<'py>(pickle: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyBytes>> {
    static CURRENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = pickle.py();
    let key = through_python(|| {
        let process = CURRENT.import(py, "multiprocessing.process", "current_process")?.call0()?;
        process.getattr(intern!(py, "authkey"))
    })?;
    let key = key.cast_into::<PyBytes>()?;
    let (key, pickle) = (key.as_bytes(), pickle.as_bytes());
    let length = u16::try_from(key.len())?.to_le_bytes();
    PyBytes::new_with(py, length.len() + key.len() + pickle.len(), |room| {
        let (head, rest) = room.split_at_mut(length.len());
        let (place, end) = rest.split_at_mut(key.len());
        head.copy_from_slice(&length);
        place.copy_from_slice(key);
        end.copy_from_slice(pickle);
        Ok(())
    })
}
