//! Whether a run's output is busy-polled for a moment, or slept for.
//!
//! Who sleeps is woken late: that takes 5 to 30 us, a good part of a short run. Who polls for a run that takes longer has spent its time for
//! nothing, so each time in vain in a row doubles for how many runs it is not tried again (virtual machines poll in this way before they
//! halt).

use std::cell::Cell;
use std::time::Duration;

/// For how long.
pub(crate) const LONGEST: Duration = Duration::from_micros(100);
/// How long after the last time the processor is given to whom it may be given to. Each time that a task yields its deadline is a slice
/// later; before Linux 6.18 also where it goes on at once.
pub(crate) const YIELD_AFTER: Duration = Duration::from_micros(15);
/// At most 31 runs are left out.
const MOST_DOUBLED: u32 = 5;

/// What the last runs have shown.
#[derive(Default)]
pub(crate) struct BusyPoll {
    /// How often in a row it was in vain.
    in_vain: Cell<u32>,
    /// For how many runs it is left out.
    left_out: Cell<u32>,
}

impl BusyPoll {
    /// Whether to do it for the next run.
    pub(crate) fn is_due(&self) -> bool {
        let left = self.left_out.get();
        self.left_out.set(left.saturating_sub(1));
        left == 0
    }

    /// Notes whether a run that it was done for was over in time.
    pub(crate) fn note(&self, was_in_time: bool) {
        let in_vain = if was_in_time { 0 } else { (self.in_vain.get() + 1).min(MOST_DOUBLED) };
        self.in_vain.set(in_vain);
        self.left_out.set((1 << in_vain) - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many runs are left out before the next that it is done for.
    fn left_out(poll: &BusyPoll) -> usize {
        std::iter::repeat_with(|| poll.is_due()).take_while(|due| !due).count()
    }

    #[test]
    fn it_is_done_less_the_more_often_it_was_in_vain() {
        let poll = BusyPoll::default();
        assert_eq!(left_out(&poll), 0);
        for expected in [1, 3, 7, 15, 31, 31] {
            poll.note(false);
            assert_eq!(left_out(&poll), expected);
        }
        poll.note(true);
        assert_eq!((left_out(&poll), left_out(&poll)), (0, 0));
        poll.note(false);
        assert_eq!(left_out(&poll), 1);
    }
}
