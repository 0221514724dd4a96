//! The quick way into the process of a Celery task: what the front end does before `regrow._celery.child`, without its Python.
//!
//! It is the way of calls (`runner`) as far as the order. A task itself is Celery's Python, and so is what stands around it.

use std::os::fd::RawFd;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyModule};
use regrow_front::order;

use crate::immortal;
use crate::runner::{FINALIZE, PyRunner};

/// What the order of a task begins with, behind arguments and environment: the child's `run`.
pub(crate) const TASK: &[u8] = b"regrow._celery.child:run\n";

/// What every task needs, looked up before the image is made. The child makes it; the front end calls it in each run.
#[pyclass(frozen, name = "TaskRunner", module = "regrow._core")]
pub(crate) struct PyTaskRunner {
    runner: PyRunner,
    /// The child's, which does not return.
    run: Py<PyAny>,
    /// The child's, for a rehearsal.
    practise: Py<PyAny>,
}

#[pymethods]
impl PyTaskRunner {
    /// Of the modules `regrow._call.worker` and `regrow._celery.child`.
    #[new]
    fn new(py: Python<'_>, worker: Py<PyModule>, child: &Bound<'_, PyModule>) -> PyResult<Self> {
        Ok(Self {
            runner: PyRunner::new(py, worker)?,
            run: child.getattr("run")?.unbind(),
            practise: child.getattr("practise")?.unbind(),
        })
    }

    /// As that of a `Runner`.
    #[getter]
    fn exchange(&self) -> usize {
        self.runner.exchange.word_address()
    }

    /// Carries out the order in the exchange, or in this descriptor, and ends the process; see `Runner`.
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        number: RawFd,
        skip: usize,
        streams: &Bound<'py, PyList>,
        _flush_c: &Bound<'py, PyAny>,
        _leave: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let Some(taken) = self.runner.take_order(number)? else { return Ok(None) };
        let Some(order) = order::read(&taken.bytes).ok() else { return Ok(taken.left(py)) };
        let Some(task) = order.payload.strip_prefix(TASK) else { return Ok(taken.left(py)) };
        if order::strings(order.environment).any(|entry| entry.starts_with(FINALIZE)) {
            return Ok(taken.left(py));
        }
        taken.close(number);
        self.runner.become_run(py, &order, skip, streams)?;
        self.run.call1(py, (PyBytes::new(py, task),))?;
        Ok(None)
    }

    /// Does what every task does, without an order, an answer and an end, before the image is made.
    fn rehearse(
        &self,
        py: Python<'_>,
        streams: &Bound<'_, PyList>,
        _flush_c: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.runner.rehearse_beginning(py, streams, || self.practise.call0(py).map(drop))
    }

    /// As that of a `Runner`.
    fn make_immortal(&self, py: Python<'_>) -> PyResult<usize> {
        immortal::make_all(py)
    }
}
