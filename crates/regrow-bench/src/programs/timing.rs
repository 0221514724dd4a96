//! Asks the library about the inside of a run: when the program was entered, and how long the reset took.

use std::time::Duration;

use regrow::{Pool, PoolBuilder};

/// A reset that takes longer is left out.
const RESET_TIMEOUT: Duration = Duration::from_millis(100);

/// The times of one recycled run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InsideTimes {
    /// When the program was entered, in nanoseconds of the monotonic clock.
    pub(super) main_ns: u64,
    /// From the end of the run to the next process being armed, in nanoseconds.
    pub(super) reset_ns: u64,
}

/// Makes a pool note the times of its runs.
pub(super) fn timed(builder: PoolBuilder) -> PoolBuilder {
    builder.timed(true)
}

/// The times of the pool's last run, which was recycled and has ended. Waits until the reset is done.
pub(super) fn last_run(pool: &Pool) -> Option<InsideTimes> {
    let times = pool.last_times(RESET_TIMEOUT)?.times;
    if times.main_ns == 0 || times.armed_ns < times.left_ns {
        return None;
    }
    Some(InsideTimes { main_ns: times.main_ns, reset_ns: times.armed_ns - times.left_ns })
}
