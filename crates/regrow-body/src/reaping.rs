//! Waits for keepers and armed processes that there is no body of, and says how long any of them may take to end.

use std::time::{Duration, Instant};

use regrow_sys::child;

use crate::control::ControlArea;

/// How long after the death of a seed a keeper may show that it has just made.
const UNANNOUNCED: Duration = Duration::from_millis(100);
/// How long a keeper may take to end after its socket is closed.
pub(crate) const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Waits for the end of a keeper, and of its armed process, whose seed has died before it could tell of the keeper. They end
/// because the engine's end of their socket is closed.
pub(crate) fn reap_unannounced(control: &ControlArea) {
    let started = Instant::now();
    while control.keeper() <= 0 {
        if started.elapsed() >= UNANNOUNCED {
            // The seed has died before it made one.
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    reap_unseen(control, control.keeper());
}

/// Waits for the end of a keeper that there is no body of, and of its armed process.
pub(crate) fn reap_unseen(control: &ControlArea, keeper: i32) {
    child::reap(keeper, END_TIMEOUT);
    child::reap(control.pid(), END_TIMEOUT);
}
