//! What there is to compare of a run.

use std::fmt::Debug;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Output};

/// How long something may take that is going to happen.
pub(crate) const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

pub(crate) fn of_error<T: Debug>(result: io::Result<T>) -> (io::ErrorKind, Option<i32>, String) {
    let error = result.expect_err("the scenario is one that fails");
    (error.kind(), error.raw_os_error(), error.to_string())
}

pub(crate) fn of_output(output: io::Result<Output>) -> (i32, String, String) {
    let output = output.expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("output is text");
    (output.status.into_raw(), text(output.stdout), text(output.stderr))
}

pub(crate) fn raw(status: io::Result<ExitStatus>) -> i32 {
    status.expect("the program starts").into_raw()
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + LIMIT;
    while !is_so() {
        assert!(std::time::Instant::now() < end, "{what}: it does not come about");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
