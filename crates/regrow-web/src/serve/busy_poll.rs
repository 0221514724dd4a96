//! Decides whether the gateway busy-polls for the output of a process, or sleeps until it comes.
//!
//! The kernel takes 5 to 30 us to wake a thread that sleeps, which is a good part of a short run. A poll for a process that takes
//! longer is wasted. So each wasted poll in a row doubles the number of processes for which the gateway does not poll. (The kernel
//! polls for virtual machines in this way before it halts.)

use std::cell::Cell;
use std::time::Duration;

/// How long the gateway polls.
pub(crate) const LONGEST: Duration = Duration::from_micros(100);
/// How long the gateway polls before it yields the processor. Each yield moves the deadline of the thread, as the scheduler counts
/// it, one slice back; before Linux 6.18 it does so even if no other thread wants the processor.
pub(crate) const YIELD_AFTER: Duration = Duration::from_micros(15);
/// The gateway skips at most 31 processes.
const MAX_DOUBLINGS: u32 = 5;

/// The outcome of the last polls.
#[derive(Default)]
pub(crate) struct BusyPoll {
    /// How many polls in a row were wasted.
    wasted: Cell<u32>,
    /// For how many processes the gateway does not poll.
    skipped: Cell<u32>,
}

impl BusyPoll {
    /// Whether to poll for the next process.
    pub(crate) fn is_due(&self) -> bool {
        let skipped = self.skipped.get();
        self.skipped.set(skipped.saturating_sub(1));
        skipped == 0
    }

    /// Notes whether the output of a process ended while the gateway polled.
    pub(crate) fn note(&self, was_in_time: bool) {
        let wasted = if was_in_time { 0 } else { (self.wasted.get() + 1).min(MAX_DOUBLINGS) };
        self.wasted.set(wasted);
        self.skipped.set((1 << wasted) - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many processes are skipped before the next poll.
    fn skipped(poll: &BusyPoll) -> usize {
        std::iter::repeat_with(|| poll.is_due()).take_while(|due| !due).count()
    }

    #[test]
    fn each_wasted_poll_doubles_how_many_processes_are_skipped() {
        let poll = BusyPoll::default();
        assert_eq!(skipped(&poll), 0);
        for expected in [1, 3, 7, 15, 31, 31] {
            poll.note(false);
            assert_eq!(skipped(&poll), expected);
        }
        poll.note(true);
        assert_eq!((skipped(&poll), skipped(&poll)), (0, 0));
        poll.note(false);
        assert_eq!(skipped(&poll), 1);
    }
}
