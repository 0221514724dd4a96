//! Which programs run often: the adaptive control of `recycle-one` (Tabata and Taniguchi, 5.3), from the creations that
//! the controller logs.

use std::collections::{BTreeMap, VecDeque};

use crate::ids::ProgramId;

/// What "often" means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frequency {
    /// How many of the last creations count.
    pub window: usize,
    /// How many of these must be of a program for it to run often. 1: every program of the window does.
    pub at_least: u32,
    /// After how many creations the policy looks again at the programs that it keeps.
    pub review_every: u32,
}

impl Frequency {
    /// Every program runs often from its first process on.
    pub const ANY: Frequency = Frequency { window: 1000, at_least: 0, review_every: u32::MAX };
}

impl Default for Frequency {
    /// Three of the last 200 creations, with a look every 50.
    fn default() -> Self {
        Self { window: 200, at_least: 3, review_every: 50 }
    }
}

/// Counts the programs of the last creations.
#[derive(Debug, Clone)]
pub(super) struct Counter {
    settings: Frequency,
    last: VecDeque<ProgramId>,
    counts: BTreeMap<ProgramId, u32>,
    since_review: u32,
}

impl Counter {
    pub(super) fn new(settings: Frequency) -> Counter {
        Counter { settings, last: VecDeque::new(), counts: BTreeMap::new(), since_review: 0 }
    }

    /// Counts a creation. True when it is time to look at all programs again.
    pub(super) fn created(&mut self, program: ProgramId) -> bool {
        self.last.push_back(program);
        *self.counts.entry(program).or_default() += 1;
        if self.last.len() > self.settings.window.max(1)
            && let Some(oldest) = self.last.pop_front()
            && let Some(count) = self.counts.get_mut(&oldest)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&oldest);
            }
        }
        self.since_review += 1;
        let due = self.since_review >= self.settings.review_every;
        if due {
            self.since_review = 0;
        }
        due
    }

    pub(super) fn is_often(&self, program: ProgramId) -> bool {
        self.runs(program) >= self.settings.at_least
    }

    /// How many of the last creations were of a program.
    pub(super) fn runs(&self, program: ProgramId) -> u32 {
        self.counts.get(&program).copied().unwrap_or(0)
    }

    /// How many creations are counted.
    pub(super) fn of(&self) -> u32 {
        u32::try_from(self.last.len()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_runs_often_while_the_window_has_enough_of_it() {
        let mut counter = Counter::new(Frequency { window: 4, at_least: 2, review_every: 3 });
        let (a, b) = (ProgramId::new(1), ProgramId::new(2));
        let due: Vec<bool> = [a, b, a, b, b, b].into_iter().map(|program| counter.created(program)).collect();
        assert_eq!(due, [false, false, true, false, false, true]);
        // The window is b a b b b without its oldest: a is in it once.
        assert_eq!((counter.runs(a), counter.runs(b), counter.of()), (1, 3, 4));
        assert!(!counter.is_often(a) && counter.is_often(b));
    }
}
