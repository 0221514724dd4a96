//! The processes that live, so that what is told of one at different times comes together.
//!
//! ```text
//!   Created ─┐
//!   Executed ┼──ProcessKey──> Process: where, what it executed, what it used ──both ends known──> counted once, and done
//!   Ended ───┘
//! ```
//!
//! Events may come in any order, twice, or not at all. A process that is done stays for a while, so that the same told again is not counted
//! again. The table has a fixed size: what is done makes room first, then what nothing was heard of for longest.

use super::chain::{Call, Place};
use super::index::Index;
use super::node::Sample;
use crate::event::ProcessKey;
use crate::hash;
use crate::site::{Script, Site};

/// Processes that are compared when one must go.
const CANDIDATES: usize = 32;

/// A process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Process {
    pub(super) key: ProcessKey,
    /// Where it was created, once that is told.
    pub(super) place: Option<Place>,
    /// What it executed first and last.
    pub(super) first: Call,
    pub(super) last: Call,
    /// How often it executed a program.
    pub(super) executions: u8,
    /// When it did so last.
    pub(super) executed_us: u64,
    /// How many children it has created since then.
    pub(super) created: u8,
    /// What it used in all, and since it executed the last program; once it has ended.
    pub(super) ended: Option<(Sample, Sample)>,
    /// It is counted.
    pub(super) is_done: bool,
    /// What its creation came after, and how long, as a position of the scale; 0: nothing that is known.
    pub(super) after: u32,
    pub(super) gap: u8,
    /// What it has done last as a parent, and when; 0: nothing yet.
    pub(super) cue: u32,
    pub(super) cue_us: u64,
    /// It is among those that live of its place.
    pub(super) is_alive_there: bool,
    /// When it was last heard of, in events.
    pub(super) heard: u32,
}

impl Process {
    fn new(key: ProcessKey) -> Process {
        Process {
            key,
            place: None,
            first: Call::default(),
            last: Call::default(),
            executions: 0,
            executed_us: 0,
            created: 0,
            ended: None,
            is_done: false,
            after: 0,
            gap: 0,
            cue: 0,
            cue_us: 0,
            is_alive_there: false,
            heard: 0,
        }
    }

    /// A site of which its child is created now: where no place in a script is told, what the process was called with, and its how many-th
    /// creation this is.
    pub(super) fn filled(&self, site: &Site) -> Site {
        let own = (self.executions > 0).then(|| Script::of_creation(self.last.class, self.created));
        Site { script: site.script.or(own), ..*site }
    }

    /// The cue of its place.
    pub(super) fn place_cue(&self) -> u32 {
        self.place.map_or(0, |place| place.whole())
    }
}

/// The processes that live, and some that have ended.
#[derive(Debug, Clone)]
pub(super) struct Processes {
    all: Vec<Process>,
    most: usize,
    index: Index,
    hand: usize,
    /// Events that were told.
    events: u32,
}

impl Processes {
    pub(super) const fn bytes_for(most: usize) -> usize {
        most * size_of::<Process>() + Index::bytes_for(most)
    }

    pub(super) fn new(most: usize) -> Processes {
        Processes { all: Vec::with_capacity(most), most, index: Index::new(most), hand: 0, events: 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.all.capacity() * size_of::<Process>() + self.index.bytes()
    }

    /// The process with this key, if it is known.
    pub(super) fn get(&mut self, key: ProcessKey) -> Option<&mut Process> {
        let slot = self.slot(key)?;
        self.events = self.events.wrapping_add(1);
        let process = &mut self.all[usize::from(slot)];
        process.heard = self.events;
        Some(process)
    }

    /// The same, without being heard of.
    pub(super) fn look_at(&self, key: ProcessKey) -> Option<&Process> {
        self.slot(key).map(|slot| &self.all[usize::from(slot)])
    }

    /// The process with this key, and the one that made room for it if it is a new one.
    pub(super) fn get_or_add(&mut self, key: ProcessKey) -> (&mut Process, Option<Process>) {
        let (slot, gone) = match self.slot(key) {
            Some(slot) => (usize::from(slot), None),
            None => self.add(key),
        };
        self.events = self.events.wrapping_add(1);
        let process = &mut self.all[slot];
        process.heard = self.events;
        (process, gone)
    }

    fn slot(&self, key: ProcessKey) -> Option<u16> {
        self.index.find(hash_of(key), |slot| self.all[usize::from(slot)].key == key)
    }

    fn add(&mut self, key: ProcessKey) -> (usize, Option<Process>) {
        let process = Process::new(key);
        let (slot, gone) = if self.all.len() < self.most {
            self.all.push(process);
            (self.all.len() - 1, None)
        } else {
            let slot = self.least_wanted();
            let gone = std::mem::replace(&mut self.all[slot], process);
            let all = &self.all;
            let number = u16::try_from(slot).unwrap_or(0);
            self.index.remove(hash_of(gone.key), number, |slot| hash_of(all[usize::from(slot)].key));
            (slot, Some(gone))
        };
        self.index.insert(hash_of(key), u16::try_from(slot).unwrap_or(0));
        (slot, gone)
    }

    fn least_wanted(&mut self) -> usize {
        let first = self.hand;
        let looked_at = (0..CANDIDATES.min(self.all.len())).map(|step| (first + step) % self.all.len());
        let age = |process: &Process| self.events.wrapping_sub(process.heard);
        let rank = |&slot: &usize| (self.all[slot].is_done, age(&self.all[slot]));
        let least = looked_at.max_by_key(rank).unwrap_or(0);
        self.hand = (first + CANDIDATES) % self.all.len();
        least
    }
}

fn hash_of(key: ProcessKey) -> u64 {
    hash::mixed(key.created_us.rotate_left(32) ^ u64::from(key.pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> ProcessKey {
        ProcessKey { pid: number % 100, created_us: u64::from(number) }
    }

    #[test]
    fn what_is_done_makes_room_first_then_what_was_long_silent() {
        let mut processes = Processes::new(64);
        for number in 0..64 {
            let (process, gone) = processes.get_or_add(key(number));
            process.is_done = number % 2 == 1;
            assert!(gone.is_none());
        }
        let gone = (64..96).map(|number| processes.get_or_add(key(number)).1.unwrap());
        assert!(gone.collect::<Vec<_>>().iter().all(|gone| gone.is_done));
        assert!((0..64).step_by(2).all(|number| processes.get(key(number)).is_some()));
        for number in 96..5_000 {
            assert!(processes.get(key(0)).is_some(), "it is heard of all the time: {number}");
            processes.get_or_add(key(number));
        }
        assert!(processes.get(key(1)).is_none() && processes.get(key(4_999)).is_some());
        assert_eq!(processes.bytes(), Processes::bytes_for(64));
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let mut processes = Processes::new(8);
        processes.get_or_add(ProcessKey { pid: 5, created_us: 1 }).0.executions = 3;
        assert_eq!(processes.get_or_add(ProcessKey { pid: 5, created_us: 2 }).0.executions, 0);
        assert_eq!(processes.get(ProcessKey { pid: 5, created_us: 1 }).unwrap().executions, 3);
    }
}
