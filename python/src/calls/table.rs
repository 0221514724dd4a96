//! The calls of an executor and where each of them stands.
//!
//! ```text
//!   Waiting ──slot free──> Starting ──> Running ──end seen──> Ended ──future set──> gone
//!      ├──first in line──> StartingAhead ──> Ahead ──slot free──> Running
//!      └──cancelled, as Ahead is───────────────────────────────> Ended
//! ```
//!
//! A call has a slot while it is Starting or Running. The next ones are started *ahead*: their processes make themselves ready and wait, so
//! that a slot is given on as soon as it is free. Whoever has claimed a running call is the one that waits for its process, and
//! the poller does not have it then. Whoever has taken an ended call is the one that sets its future.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use super::call::Call;
use super::poller::Poller;

/// How often a call is looked at of which nothing is heard, and the list of pools is brought up to date.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// How long the polling thread waits where it has no poller.
const NAP: Duration = Duration::from_millis(50);

/// How many calls are ahead at most, and never more than run.
const MOST_AHEAD: usize = 2;

/// Where a call stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Waiting,
    StartingAhead,
    Ahead,
    Starting,
    Running,
    Ended,
}

/// What is to be done next for a call.
pub(super) enum Next {
    Start(Arc<Call>),
    StartAhead(Arc<Call>),
    LetGo(Arc<Call>),
}

/// A call of the table.
pub(super) struct Entry {
    pub(super) call: Arc<Call>,
    pub(super) stage: Stage,
    pub(super) is_claimed: bool,
    /// Whether the polling thread is to know of it: somebody has looked at its future, or may.
    pub(super) is_attended: bool,
    /// Whether the poller has the descriptor of its process.
    is_watched: bool,
    /// When its process is killed.
    pub(super) deadline: Option<Instant>,
    /// When it is looked at although nothing is heard of it.
    due: Instant,
    pub(super) is_late: bool,
    /// Whether its process is to be killed as soon as there is one.
    pub(super) is_doomed: bool,
    pub(super) is_cancelled: bool,
}

/// How the polling thread waits.
pub(super) struct Sleep {
    pub(super) poller: Option<Arc<Poller>>,
    pub(super) patience: Option<Duration>,
}

/// How a call ended, beside what its process has answered.
#[derive(Clone, Copy)]
pub(super) struct Finish {
    pub(super) is_cancelled: bool,
    /// The time that it may have taken, and has not kept to.
    pub(super) late_after: Option<Duration>,
}

/// The calls of an executor. Fields say what has no method.
#[derive(Default)]
pub(super) struct Table {
    entries: BTreeMap<u64, Entry>,
    waiting: VecDeque<u64>,
    /// Calls that have begun, and whose futures are not told yet.
    begun: Vec<u64>,
    /// Calls that are over, and whose futures nobody sets yet.
    ended: VecDeque<u64>,
    /// Those whose processes are started ahead, or are about to be.
    ahead: VecDeque<u64>,
    /// Whether that could not be, and no slot has become free since.
    is_held_back: bool,
    /// Those that have a slot.
    in_slots: Vec<u64>,
    /// Those whose futures are being set, and by whom.
    finishing: Vec<(u64, ThreadId)>,
    last_number: u64,
    poller: Option<Arc<Poller>>,
    pub(super) slots: usize,
    pub(super) timeout: Option<Duration>,
    pub(super) is_closed: bool,
    /// The thread that polls, once it does.
    pub(super) polling: Option<ThreadId>,
    /// When that wakes although nothing happens; none while it is awake, or for ever asleep.
    until: Option<Instant>,
    is_asleep: bool,
    was_used: bool,
    /// When the list of pools is brought up to date, and how many calls wait as it says.
    told_until: Option<Instant>,
    told_waiting: usize,
}

impl Table {
    pub(super) fn new(slots: usize, timeout: Option<Duration>) -> Self {
        Self { slots, timeout, ..Self::default() }
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn get(&mut self, number: u64) -> Option<&mut Entry> {
        self.entries.get_mut(&number)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = &Arc<Call>> {
        let numbers = self.ahead.iter().chain(&self.waiting);
        numbers.filter_map(|number| self.entries.get(number)).map(|entry| &entry.call)
    }

    pub(super) fn count_waiting(&self) -> usize {
        self.ahead.len() + self.waiting.len()
    }

    /// Those that have a slot and a process.
    pub(super) fn running(&self) -> impl Iterator<Item = &Entry> {
        let entries = self.in_slots.iter().filter_map(|number| self.entries.get(number));
        entries.filter(|entry| entry.stage == Stage::Running)
    }

    /// Whether a thread sets a future, or polls.
    pub(super) fn is_served_by(&self, thread: ThreadId) -> bool {
        self.polling == Some(thread) || self.finishing.iter().any(|&(_, finisher)| finisher == thread)
    }

    /// Has a call wait for a slot. False when no further calls are taken.
    pub(super) fn add(&mut self, call: &Arc<Call>) -> bool {
        if self.is_closed {
            return false;
        }
        let number = call.number;
        let entry = Entry {
            call: Arc::clone(call),
            stage: Stage::Waiting,
            is_claimed: false,
            is_attended: false,
            is_watched: false,
            deadline: None,
            due: Instant::now(),
            is_late: false,
            is_doomed: false,
            is_cancelled: false,
        };
        self.entries.insert(number, entry);
        self.waiting.push_back(number);
        self.was_used = true;
        true
    }

    /// Gives a free slot to the call that has waited longest, or has it started ahead.
    pub(super) fn next(&mut self) -> Option<Next> {
        if self.in_slots.len() < self.slots {
            if let Some(call) = self.next_ahead() {
                return Some(Next::LetGo(call));
            }
            let number = self.waiting.pop_front()?;
            let entry = self.entries.get_mut(&number)?;
            entry.stage = Stage::Starting;
            self.in_slots.push(number);
            self.begun.push(number);
            return Some(Next::Start(Arc::clone(&entry.call)));
        }
        if self.ahead.len() >= self.slots.min(MOST_AHEAD) || self.is_held_back {
            return None;
        }
        let number = self.waiting.pop_front()?;
        let entry = self.entries.get_mut(&number)?;
        entry.stage = Stage::StartingAhead;
        self.ahead.push_back(number);
        Some(Next::StartAhead(Arc::clone(&entry.call)))
    }

    /// Gives a free slot to the call that has been ahead longest.
    pub(super) fn next_ahead(&mut self) -> Option<Arc<Call>> {
        if self.in_slots.len() >= self.slots {
            return None;
        }
        let is_ready =
            |number: &u64| self.entries.get(number).is_some_and(|entry| entry.stage == Stage::Ahead);
        let place = self.ahead.iter().position(is_ready)?;
        let number = self.ahead.remove(place)?;
        self.in_slots.push(number);
        self.begun.push(number);
        self.run(number, None);
        self.entries.get(&number).map(|entry| Arc::clone(&entry.call))
    }

    /// Notes that a call is ahead, or why it is not: it `waits` for its turn to be started then, or never will be. True when its process is
    /// to be killed: it was cancelled meanwhile, and its end is waited for like that of others.
    pub(super) fn started_ahead(&mut self, number: u64, waits: bool) -> bool {
        self.is_held_back = waits;
        let Some(entry) = self.entries.get_mut(&number) else { return false };
        let (is_doomed, has_process) = (entry.is_doomed, !waits && entry.call.process().is_some());
        if has_process && !is_doomed {
            entry.stage = Stage::Ahead;
            return false;
        }
        entry.stage = Stage::Waiting;
        self.ahead.retain(|&other| other != number);
        if has_process {
            self.run(number, None);
        } else if waits && !is_doomed {
            self.waiting.push_front(number);
        } else {
            self.end(number);
        }
        has_process
    }

    /// Notes that a call has a process, or that it never will. True when that is to be killed.
    ///
    /// `mine` is one that nobody but its submitter can know of: it is left unattended.
    pub(super) fn started(&mut self, number: u64, mine: Option<u64>) -> bool {
        let Some(entry) = self.entries.get(&number) else { return false };
        if entry.call.process().is_none() {
            self.end(number);
            return false;
        }
        self.run(number, mine);
        self.entries.get(&number).is_some_and(|entry| entry.is_doomed)
    }

    /// Notes that a call runs.
    fn run(&mut self, number: u64, mine: Option<u64>) {
        let is_crowded = self.count_waiting() > 0 || self.is_closed;
        let now = Instant::now();
        let Some(entry) = self.entries.get_mut(&number) else { return };
        entry.stage = Stage::Running;
        entry.deadline = self.timeout.and_then(|timeout| now.checked_add(timeout));
        entry.due = next_look(now, entry.deadline);
        entry.is_attended |= is_crowded || mine != Some(number) || entry.deadline.is_some();
        if entry.is_attended {
            self.watch(number);
        }
    }

    /// Has the polling thread know of a call that nobody has claimed. True when it now waits for it.
    pub(super) fn attend(&mut self, number: u64) -> bool {
        let Some(entry) = self.entries.get_mut(&number) else { return false };
        let is_new = !entry.is_attended;
        entry.is_attended = true;
        let waits = entry.stage == Stage::Running && !entry.is_claimed;
        if waits && is_new {
            self.watch(number);
        }
        waits
    }

    pub(super) fn attend_all(&mut self) {
        for number in self.in_slots.clone() {
            self.attend(number);
        }
    }

    /// Claims a call that runs, if nobody has.
    pub(super) fn claim(&mut self, number: u64) -> Option<&mut Entry> {
        let entry = self.entries.get(&number)?;
        if entry.stage != Stage::Running || entry.is_claimed {
            return None;
        }
        self.unwatch(number);
        let entry = self.entries.get_mut(&number)?;
        entry.is_claimed = true;
        Some(entry)
    }

    /// The same for the polling thread, which looks at it and does not wait: the poller keeps it.
    pub(super) fn claim_to_look(&mut self, number: u64) -> Option<(Arc<Call>, Option<Instant>)> {
        let entry = self.entries.get_mut(&number)?;
        if entry.stage != Stage::Running || entry.is_claimed {
            return None;
        }
        entry.is_claimed = true;
        Some((Arc::clone(&entry.call), entry.deadline))
    }

    /// Notes that a call was killed because it took too long.
    pub(super) fn note_late(&mut self, number: u64) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.is_late = true;
            entry.deadline = None;
        }
    }

    /// Has calls that are about to start be killed as soon as they have a process. Those that have one.
    pub(super) fn doom_starting(&mut self) -> Vec<Arc<Call>> {
        let mut running = Vec::new();
        for number in self.in_slots.iter().chain(&self.ahead) {
            let Some(entry) = self.entries.get_mut(number) else { continue };
            entry.is_doomed |= matches!(entry.stage, Stage::Starting | Stage::StartingAhead);
            if entry.stage == Stage::Running {
                running.push(Arc::clone(&entry.call));
            }
        }
        running
    }

    /// Leaves a claimed call, which goes on, to the polling thread.
    pub(super) fn unclaim(&mut self, number: u64) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.is_claimed = false;
            entry.is_attended = true;
            entry.due = next_look(Instant::now(), entry.deadline);
            self.watch(number);
        }
    }

    /// Takes an ended call's slot away, and leaves it to whoever sets its future.
    pub(super) fn end(&mut self, number: u64) {
        self.leave_slot(number);
        self.ended.push_back(number);
    }

    /// Takes an ended call's slot away.
    pub(super) fn leave_slot(&mut self, number: u64) {
        self.unwatch(number);
        self.in_slots.retain(|&other| other != number);
        self.is_held_back = false;
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.stage = Stage::Ended;
        }
    }

    /// Takes a call out that waits for its slot. False when it does not.
    pub(super) fn withdraw(&mut self, number: u64) -> bool {
        let waits = |entry: &&mut Entry| matches!(entry.stage, Stage::Waiting | Stage::Ahead);
        let Some(entry) = self.entries.get_mut(&number).filter(waits) else { return false };
        entry.stage = Stage::Ended;
        entry.is_cancelled = true;
        self.waiting.retain(|&other| other != number);
        self.ahead.retain(|&other| other != number);
        true
    }

    /// Calls that have begun since the last time that this was asked.
    pub(super) fn take_begun(&mut self) -> Vec<Arc<Call>> {
        let begun = std::mem::take(&mut self.begun);
        begun
            .iter()
            .filter_map(|number| self.entries.get(number))
            .map(|entry| Arc::clone(&entry.call))
            .collect()
    }

    /// Has the polling thread tell the futures of calls that have begun.
    pub(super) fn put_back_begun(&mut self, begun: &[Arc<Call>]) {
        self.begun.extend(begun.iter().map(|call| call.number));
        self.wake();
    }

    /// A call that is over and whose future nobody sets: the caller does.
    pub(super) fn take_ended(&mut self) -> Option<Arc<Call>> {
        let number = self.ended.pop_front()?;
        self.entries.get(&number).map(|entry| Arc::clone(&entry.call))
    }

    /// Notes who sets the future of an ended call. How that call ended.
    pub(super) fn finish(&mut self, number: u64, finisher: ThreadId) -> Option<Finish> {
        let entry = self.entries.get(&number)?;
        self.finishing.push((number, finisher));
        let late_after = self.timeout.filter(|_| entry.is_late);
        Some(Finish { is_cancelled: entry.is_cancelled, late_after })
    }

    /// Leaves a call whose future could not be set to the polling thread.
    pub(super) fn give_back(&mut self, number: u64) {
        self.finishing.retain(|&(other, _)| other != number);
        self.ended.push_back(number);
        self.wake();
    }

    /// Takes a call out whose future is set.
    pub(super) fn remove(&mut self, number: u64) {
        self.finishing.retain(|&(other, _)| other != number);
        self.entries.remove(&number);
        if self.is_closed {
            self.wake();
        }
    }

    // What the polling thread goes by.

    fn watch(&mut self, number: u64) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        self.was_used = true;
        let due = entry.due;
        if self.poller.is_none() {
            self.poller = Poller::new().ok().map(Arc::new);
        }
        let Some(poller) = &self.poller else { return };
        // Where no descriptor is free for it, it is looked at from time to time.
        if let Some(process) = entry.call.process().and_then(|process| process.open_pidfd().ok()) {
            entry.is_watched = poller.watch(process.as_fd(), number).is_ok();
        }
        if self.is_asleep && self.until.is_none_or(|until| due < until) {
            poller.wake();
        }
    }

    fn unwatch(&mut self, number: u64) {
        let Some(entry) = self.entries.get_mut(&number).filter(|entry| entry.is_watched) else { return };
        entry.is_watched = false;
        if let (Some(poller), Some(process)) =
            (&self.poller, entry.call.process().and_then(|process| process.open_pidfd().ok()))
        {
            poller.forget(process.as_fd());
        }
    }

    pub(super) fn wake(&self) {
        if let Some(poller) = &self.poller {
            poller.wake();
        }
    }

    /// How the thread is to wait; none when it is over.
    pub(super) fn sleep(&mut self) -> Option<Sleep> {
        if self.is_closed && self.is_empty() {
            self.poller = None;
            return None;
        }
        let now = Instant::now();
        self.until = self.next_wake(now);
        self.is_asleep = true;
        let patience = self.until.map(|until| until.saturating_duration_since(now));
        if self.poller.is_none() {
            self.poller = Poller::new().ok().map(Arc::new);
        }
        Some(match &self.poller {
            Some(poller) => Sleep { poller: Some(Arc::clone(poller)), patience },
            // There is no descriptor for one. Calls are looked at from time to time.
            None => {
                self.running_are_due(now);
                Sleep { poller: None, patience: Some(patience.unwrap_or(NAP).min(NAP)) }
            }
        })
    }

    fn running_are_due(&mut self, now: Instant) {
        for number in &self.in_slots {
            if let Some(entry) = self.entries.get_mut(number) {
                entry.due = now;
            }
        }
    }

    /// When the wait ends if nothing happens. It goes on for a while without a call, so that the next one need not wake the thread.
    fn next_wake(&mut self, now: Instant) -> Option<Instant> {
        let is_used = std::mem::take(&mut self.was_used) || !self.is_empty();
        if !self.ended.is_empty() {
            return Some(now);
        }
        let quiet = if self.told_waiting == self.count_waiting() { None } else { self.told_until };
        let nothing = if is_used { Some(now + LOOK) } else { quiet };
        let looks = self.running().filter(|entry| !entry.is_claimed).map(|entry| entry.due);
        looks.chain(nothing).min()
    }

    /// Notes that the thread is awake, and that the slots of calls are free whose processes have ended. The calls that are to be looked at
    /// although nothing is heard of them.
    pub(super) fn awake(&mut self, ended: &[u64]) -> Vec<u64> {
        self.is_asleep = false;
        let is_ours = |number: &u64| self.entries.get(number).is_some_and(|entry| !entry.is_claimed);
        let free: Vec<u64> = ended.iter().copied().filter(is_ours).collect();
        self.in_slots.retain(|number| !free.contains(number));
        self.is_held_back &= free.is_empty();
        let now = Instant::now();
        let due = |entry: &&Entry| !entry.is_claimed && entry.due <= now;
        self.running().filter(due).map(|entry| entry.call.number).collect()
    }

    /// Whether the list of pools is to be brought up to date now.
    pub(super) fn is_to_tell(&mut self) -> bool {
        let now = Instant::now();
        if self.told_until.is_some_and(|until| now < until) {
            return false;
        }
        self.told_until = Some(now + LOOK);
        self.told_waiting = self.count_waiting();
        true
    }
}

fn next_look(now: Instant, deadline: Option<Instant>) -> Instant {
    deadline.map_or(now + LOOK, |deadline| deadline.min(now + LOOK))
}
