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

/// See the module. A wait that is over before its time leaves its timer here until then.
#[derive(Debug, Default)]
pub(crate) struct Timers(BinaryHeap<Reverse<Timer>>);

impl Timers {
    pub(crate) fn add(&mut self, time: Instant, control: ControlAddress, wait: u64) {
        self.0.push(Reverse(Timer { time, control, wait }));
    }

    /// The next time.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.peek().map(|timer| timer.0.time)
    }

    /// Takes all whose time is over.
    pub(crate) fn take_over(&mut self, tell: &mut dyn FnMut(ControlAddress, u64)) {
        if self.0.is_empty() {
            return;
        }
        let now = Instant::now();
        while self.0.peek().is_some_and(|timer| timer.0.time <= now) {
            if let Some(Reverse(timer)) = self.0.pop() {
                tell(timer.control, timer.wait);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn timers_are_over_in_the_order_of_their_times_and_numbers() {
        let mut timers = Timers::default();
        let none = ControlAddress(std::ptr::null());
        let now = Instant::now();
        for (wait, after_ms) in [(1, 0), (2, 3_600_000), (4, 0), (3, 0)] {
            timers.add(now + Duration::from_millis(after_ms), none, wait);
        }
        assert_eq!(timers.next(), Some(now));
        let mut over = Vec::new();
        timers.take_over(&mut |_, wait| over.push(wait));
        assert_eq!(over, [1, 3, 4]);
        timers.take_over(&mut |_, wait| over.push(wait));
        assert_eq!((over.len(), timers.next()), (3, Some(now + Duration::from_secs(3600))));
    }
}
