//! The processor on which a body's tasks wake: the caller's, where the caller is about to sleep.
//!
//! To wake a task on the waker's own processor costs a microsecond or two; to wake an idle one up to fifty, most of them of the waker's time.
//! The kernel wakes a task where it slept last, if that processor is idle. So the keeper, and with it the processes that it makes, is bound to
//! the processor that the last order came from, and both are moved when the caller has moved. A run takes its processors with its order.

use regrow_abi::task::AFFINITY_WORDS;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// The processors that a task may use, one bit each.
pub type Processors = [u64; AFFINITY_WORDS];

/// Where a body's tasks wake.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// The processor that they are bound to.
    bound_to: Option<usize>,
}

impl Place {
    /// Whether the tasks are bound to the processor of the calling thread.
    pub(crate) fn is_here(&self) -> bool {
        self.bound_to == Some(sched_getcpu())
    }

    /// Binds the tasks, which sleep, to the processor of the calling thread, where it is about to sleep, and to all processors otherwise.
    pub(crate) fn prepare(&mut self, tasks: [i32; 2], all: &Processors, caller_sleeps: bool) {
        let many = || all.iter().map(|word| word.count_ones()).sum::<u32>() > 1;
        let wanted = Some(sched_getcpu()).filter(|&here| caller_sleeps && here < CpuSet::MAX_CPU && many());
        if self.bound_to == wanted {
            return;
        }
        let mut set = CpuSet::new();
        match wanted {
            Some(here) => set.set(here),
            None => processors(all).for_each(|processor| set.set(processor)),
        }
        // One that cannot be bound wakes where the kernel likes.
        for pid in tasks.into_iter().filter_map(Pid::from_raw) {
            let _ = sched_setaffinity(Some(pid), &set);
        }
        self.bound_to = wanted;
    }
}

/// Keeps the calling thread on its processor, until it is dropped. The end of a process wakes whoever polls its pidfd on another processor, if
/// one is idle.
#[derive(Debug)]
pub(crate) struct Stay {
    all: CpuSet,
    here: CpuSet,
}

impl Stay {
    /// `None` where the thread may use no other processor, or cannot be bound.
    pub(crate) fn here() -> Option<Stay> {
        let all = sched_getaffinity(None).ok().filter(|all| all.count() > 1)?;
        let number = sched_getcpu();
        let mut here = CpuSet::new();
        if number >= CpuSet::MAX_CPU || !all.is_set(number) {
            return None;
        }
        here.set(number);
        sched_setaffinity(None, &here).is_ok().then_some(Stay { all, here })
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        // What somebody else has set meanwhile stays.
        if sched_getaffinity(None).is_ok_and(|now| now == self.here) {
            let _ = sched_setaffinity(None, &self.all);
        }
    }
}

/// The numbers of the processors of a mask.
fn processors(mask: &Processors) -> impl Iterator<Item = usize> {
    let is_set = |number: &usize| mask.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1);
    (0..CpuSet::MAX_CPU.min(AFFINITY_WORDS * 64)).filter(is_set)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn allowed(pid: i32) -> CpuSet {
        sched_getaffinity(Pid::from_raw(pid)).expect("a task's processors")
    }

    fn words(set: &CpuSet) -> Processors {
        let mut words = [0; AFFINITY_WORDS];
        for number in (0..CpuSet::MAX_CPU.min(AFFINITY_WORDS * 64)).filter(|&number| set.is_set(number)) {
            words[number / 64] |= 1 << (number % 64);
        }
        words
    }

    #[test]
    fn tasks_are_where_the_caller_sleeps_and_else_where_they_may_be() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("it starts");
        let task = child.id().cast_signed();
        let all = allowed(0);
        let mut place = Place::default();
        assert!(!place.is_here());
        // This thread stays, so that it is not moved between the steps.
        let stay = Stay::here();
        place.prepare([task, 0], &words(&all), true);
        assert_eq!(place.is_here(), all.count() > 1, "where there is one processor nothing is bound");
        assert!(all.count() == 1 || allowed(task) == allowed(0));
        place.prepare([task, task], &words(&all), false);
        assert!(!place.is_here());
        assert_eq!(allowed(task), all);
        drop(stay);
        child.kill().expect("a child");
        child.wait().expect("a child");
    }

    #[test]
    fn a_thread_stays_and_has_its_processors_again() {
        let all = allowed(0);
        if let Some(stay) = Stay::here() {
            assert_eq!(allowed(0).count(), 1);
            assert!(Stay::here().is_none(), "it stays already");
            drop(stay);
            assert_eq!(allowed(0), all);
            let stay = Stay::here().expect("as before");
            sched_setaffinity(None, &all).expect("they are its own");
            drop(stay);
            assert_eq!(allowed(0), all, "what was set meanwhile stays");
        } else {
            assert_eq!(all.count(), 1);
        }
    }
}
