//! Errors of the system, as Python has them.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyValueError};

/// An `OSError` of the class that belongs to its number; a `ValueError` for what never reached the system.
pub(crate) fn os_error(error: &io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(number) => {
            let text = error.to_string();
            // The number is an attribute of its own in Python.
            let text = text.split(" (os error").next().unwrap_or(&text).to_owned();
            PyOSError::new_err((number, text))
        }
        None if error.kind() == io::ErrorKind::InvalidInput => PyValueError::new_err(error.to_string()),
        None => PyOSError::new_err(error.to_string()),
    }
}

/// Locks. What is behind these locks is whole after every single step, so that a panic of another holder is no harm.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
