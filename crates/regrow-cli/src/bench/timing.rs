//! What the library tells of the inside of a run: when the program was entered, and how long the reset took.

use std::time::Duration;

use regrow::{Pool, PoolBuilder};

/// How long a body may take to be put back before its times are left out.
const RESET_TIMEOUT: Duration = Duration::from_millis(100);

/// The times of one recycled run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InsideTimes {
    /// When the program was entered, in nanoseconds of the monotonic clock.
    pub(super) main_ns: u64,
    /// From the run having left the body to the next process being armed, in nanoseconds.
    pub(super) reset_ns: u64,
}

/// Has a pool note the times of its runs.
pub(super) fn timed(builder: PoolBuilder) -> PoolBuilder {
    builder.timed(true)
}

/// The times of the last run of the pool, which was recycled and has ended. Waits until its body is put back.
pub(super) fn last_run(pool: &Pool) -> Option<InsideTimes> {
    let times = pool.last_times(RESET_TIMEOUT)?.times;
    if times.main_ns == 0 || times.armed_ns < times.left_ns {
        return None;
    }
    Some(InsideTimes { main_ns: times.main_ns, reset_ns: times.armed_ns - times.left_ns })
}
