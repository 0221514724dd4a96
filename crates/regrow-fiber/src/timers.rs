//! What tasks wait for until a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::control::ControlAddress;

/// A time, and whose wait is over then.
#[derive(Debug)]
struct Timer {
    time: Instant,
    control: ControlAddress,
    wait: u64,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        (self.time, self.wait) == (other.time, other.wait)
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time, self.wait).cmp(&(other.time, other.wait))
    }
}

/// See the module. A wait that is over before its time leaves its timer here until then, or until half of all timers are such.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<Timer>>,
    /// How many there are when those of waits that are over are looked for.
    most: usize,
}

/// How many timers there are at least before that.
const LEAST_MOST: usize = 64;

impl Timers {
    /// Adds the time of a wait; `is_over` says of other waits whether they are.
    pub(crate) fn add(
        &mut self,
        time: Instant,
        control: ControlAddress,
        wait: u64,
        is_over: &dyn Fn(ControlAddress, u64) -> bool,
    ) {
        if self.heap.len() >= self.most.max(LEAST_MOST) {
            self.heap.retain(|timer| !is_over(timer.0.control, timer.0.wait));
            self.most = self.heap.len() * 2;
        }
        self.heap.push(Reverse(Timer { time, control, wait }));
    }

    /// The next time.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|timer| timer.0.time)
    }

    /// Takes all whose time is over.
    pub(crate) fn take_over(&mut self, tell: &mut dyn FnMut(ControlAddress, u64)) {
        if self.heap.is_empty() {
            return;
        }
        let now = Instant::now();
        while self.heap.peek().is_some_and(|timer| timer.0.time <= now) {
            if let Some(Reverse(timer)) = self.heap.pop() {
                tell(timer.control, timer.wait);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A task that waits often for a short time below a long limit leaves few timers.
    #[test]
    fn waits_that_are_over_leave_few_timers() {
        let mut timers = Timers::default();
        let nobody = ControlAddress(std::ptr::null());
        let later = Instant::now() + Duration::from_secs(3600);
        for wait in 1..=100_000 {
            timers.add(later, nobody, wait, &|_, other| other > 100 && other != wait);
            assert!(timers.heap.len() <= 201);
        }
        // Those of the waits that go on are there.
        let mut waits: Vec<u64> = timers.heap.iter().map(|timer| timer.0.wait).collect();
        waits.sort_unstable();
        assert!(waits.iter().take(100).copied().eq(1..=100) && waits.contains(&100_000));
    }

    #[test]
    fn timers_are_over_in_the_order_of_their_times_and_numbers() {
        let mut timers = Timers::default();
        let none = ControlAddress(std::ptr::null());
        let now = Instant::now();
        for (wait, after_ms) in [(1, 0), (2, 3_600_000), (4, 0), (3, 0)] {
            timers.add(now + Duration::from_millis(after_ms), none, wait, &|_, _| false);
        }
        assert_eq!(timers.next(), Some(now));
        let mut over = Vec::new();
        timers.take_over(&mut |_, wait| over.push(wait));
        assert_eq!(over, [1, 3, 4]);
        timers.take_over(&mut |_, wait| over.push(wait));
        assert_eq!((over.len(), timers.next()), (3, Some(now + Duration::from_secs(3600))));
    }
}
