//! The module `regrow._core`: what of the Python package is not Python.
//!
//! ```text
//!   PyImage    what an interpreter is started with, and what it prepares
//!   PyCalls    the calls of an executor, each a PyCall: slots, processes, futures
//!   PyPool     starts processes of images ──> PyProcess: its pipes, its end
//!   PyRunner   inside the process of a call: the quick way through it; PyTaskRunner, that into a task of Celery's
//! ```
//!
//! In Python they have these names without `Py`. Whatever may take time releases the interpreter's lock first. A wait that a signal interrupts has Python run its
//! handlers, and goes on unless one of them raises.

mod calls;
mod descriptors;
mod errors;
mod exchange;
mod exit;
mod files;
mod image;
mod immortal;
mod left;
mod order;
mod pipes;
mod pool;
mod process;
mod runner;
mod tasks;

/// What of the package `regrow` is not Python.
#[pyo3::pymodule]
mod _core {
    #[pymodule_export]
    use crate::calls::{PyCall, PyCalls};
    #[pymodule_export]
    use crate::image::PyImage;
    #[pymodule_export]
    use crate::order::{pickled_call, with_key};
    #[pymodule_export]
    use crate::pool::PyPool;
    #[pymodule_export]
    use crate::process::PyProcess;
    #[pymodule_export]
    use crate::runner::PyRunner;
    #[pymodule_export]
    use crate::tasks::PyTaskRunner;
}
