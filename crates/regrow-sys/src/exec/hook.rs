//! Functions of the caller that the process calls before it executes the program.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// What is called in the process just before it executes the program. An error of it starts nothing.
#[derive(Clone)]
pub struct Hook(Arc<Mutex<HookFunction>>);

type HookFunction = dyn FnMut() -> io::Result<()> + Send + Sync;

impl Hook {
    /// A hook that calls this function. It must be one that may run in a forked copy of a process with threads.
    pub fn new(function: impl FnMut() -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Mutex::new(function)))
    }

    /// Calls it. A panic ends the process, as there is nobody to catch it.
    pub(super) fn call(&self) -> Result<(), i32> {
        let called = catch_unwind(AssertUnwindSafe(|| {
            // A hook that another thread called when this process was forked is locked for ever.
            let mut function = self.0.try_lock().map_err(|_| io::Error::from_raw_os_error(libc::EDEADLK))?;
            function()
        }));
        match called {
            Ok(result) => result.map_err(|error| error.raw_os_error().unwrap_or(libc::EINVAL)),
            Err(_) => std::process::abort(),
        }
    }
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hook")
    }
}
