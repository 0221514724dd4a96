//! The interpreter's exit, in a thread that runs Python code for this module.
//!
//! Up to CPython 3.13 a thread that wants the interpreter's lock while the interpreter exits is ended by `pthread_exit`, which unwinds
//! its frames. PyO3 has a thread that comes back from work without the lock wait instead, as CPython does from 3.14 on. Here the same is
//! done for a thread that is ended in Python code below a method: PyO3 would catch what unwinds it as a panic, and that ends the process.

use std::mem;
use std::thread;

/// Does work that runs Python code. A thread that is ended meanwhile waits here for the end of the process.
pub(crate) fn through_python<R>(work: impl FnOnce() -> R) -> R {
    let unwound = Unwound;
    let done = work();
    mem::forget(unwound);
    done
}

/// Is dropped only where frames are unwound.
struct Unwound;

impl Drop for Unwound {
    fn drop(&mut self) {
        while !thread::panicking() {
            thread::park();
        }
    }
}
