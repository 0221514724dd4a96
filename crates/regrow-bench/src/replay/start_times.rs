//! How long starts of a program take, and what of that is the program's own work.
//!
//! ```text
//!   call ──────────── main ─────────── about to end: held
//!     start-up             own work: measured in a ready body
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use regrow::{Creation as How, Pool};

use super::error::ReplayError;
use super::held::{HeldProcess, Statuses, command};
use crate::samples::{median, now_ns};

/// How many bodies are forked to learn what that costs.
const FORKS: usize = 7;
/// How long a reset may take.
const RESET_LIMIT: Duration = Duration::from_millis(100);

/// Times of the starts of one program.
#[derive(Default)]
pub(super) struct StartTimes {
    /// From the call to the hold.
    pub(super) to_end: Vec<Duration>,
    /// From the call to `main`, where the pool notes that.
    pub(super) to_main: Vec<Duration>,
}

impl StartTimes {
    /// The program's own work, in microseconds.
    pub(super) fn own_us(&self) -> f64 {
        micros(median(self.to_end.iter().copied())) - micros(median(self.to_main.iter().copied()))
    }
}

/// Starts programs in this order, as far as they have a pool.
pub(super) fn times<'a, 'p>(
    order: &[&'a str],
    pool_of: impl Fn(&str) -> Option<&'p Pool>,
    statuses: &Statuses,
) -> Result<BTreeMap<&'a str, StartTimes>, ReplayError> {
    let mut times: BTreeMap<&str, StartTimes> = BTreeMap::new();
    // The time to `main` is read just before the next start of the same program: by then its body is put back, and the replay
    // needs no pause, which no trace has.
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for &name in order {
        let Some(pool) = pool_of(name) else { continue };
        let times = times.entry(name).or_default();
        if let Some(before_ns) = last.insert(name, 0) {
            times.to_main.extend(to_main(pool, before_ns, RESET_LIMIT));
        }
        last.insert(name, now_ns());
        let (held, time) = HeldProcess::start(pool, name)?;
        held.end(statuses)?;
        times.to_end.push(time);
    }
    for (name, began_ns) in last {
        if let (Some(pool), Some(times)) = (pool_of(name), times.get_mut(name)) {
            times.to_main.extend(to_main(pool, began_ns, RESET_LIMIT));
        }
    }
    Ok(times)
}

/// How long the pool's last run took to `main`. Waits until its body is put back, or `limit` is over.
pub(super) fn to_main(pool: &Pool, began_ns: u64, limit: Duration) -> Option<Duration> {
    let main_ns = pool.last_times(limit)?.times.main_ns;
    main_ns.checked_sub(began_ns).map(Duration::from_nanos)
}

/// The mean time from the call to the hold in a body that is forked because all others are in use, in microseconds.
pub(super) fn forked_us(program: &str, statuses: &Statuses) -> Result<f64, ReplayError> {
    let kept = Pool::new();
    // Where the program has no image, no body is forked below.
    let _ = kept.prepare(&command(&kept, program));
    let mut times = Vec::with_capacity(FORKS);
    let mut alive = Vec::with_capacity(FORKS + 1);
    for _ in 0..=FORKS {
        let (held, time) = HeldProcess::start(&kept, program)?;
        if matches!(held.child.creation(), How::ForkedBody { .. }) {
            times.push(time);
        }
        alive.push(held);
    }
    alive.into_iter().try_for_each(|held| held.end(statuses))?;
    Ok(mean_us(&times))
}

/// The mean of times, in microseconds.
pub(super) fn mean_us(times: &[Duration]) -> f64 {
    let count = u32::try_from(times.len()).unwrap_or(u32::MAX).max(1);
    micros(times.iter().sum::<Duration>() / count)
}

/// A time in microseconds.
pub(super) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
