//! The runs that are under way: the group of each, and how one that takes too long is ended though nobody asks for its output.
//!
//! ```text
//!  a client that takes its reply slowly, or never: its process has its time all the same
//!  expire ──> the run's ending is taken from it ──> killed, to the reaper: place and body are free; the reply breaks off when it is asked for
//! ```

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::{Rc, Weak};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::error::Refusal;
use crate::run::{Ending, Fault};

/// How long a run that is asked for has to end itself when its time is over.
const GRACE: Duration = Duration::from_millis(500);

/// Where the ending of a run is until the reply is over, or its time.
pub(crate) type Slot = RefCell<Option<Ending>>;

/// The runs that are under way, by their groups.
#[derive(Clone, Default)]
pub(crate) struct UnderWay(Rc<RefCell<HashMap<i32, Entry>>>);

struct Entry {
    deadline: Instant,
    ending: Weak<Slot>,
    fault: Fault,
}

/// A run is under way as long as this is there.
pub(crate) struct Entered {
    all: UnderWay,
    group: i32,
}

impl UnderWay {
    /// Notes a run, whose ending is going to be in the slot.
    pub(crate) fn enter(&self, group: i32, deadline: Instant, ending: &Rc<Slot>, fault: &Fault) -> Entered {
        let entry = Entry { deadline, ending: Rc::downgrade(ending), fault: Rc::clone(fault) };
        self.0.borrow_mut().insert(group, entry);
        Entered { all: self.clone(), group }
    }

    pub(crate) fn contains(&self, group: i32) -> bool {
        self.0.borrow().contains_key(&group)
    }

    pub(crate) fn groups(&self) -> HashSet<i32> {
        self.0.borrow().keys().copied().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Ends the runs whose deadline has passed a while ago. Whoever asks for a run's output or end keeps the time himself.
    pub(crate) fn expire(&self, now: Instant, reaper: &UnboundedSender<Ending>) {
        self.end(|entry| entry.deadline + GRACE <= now, reaper);
    }

    /// Ends all runs.
    pub(crate) fn end_all(&self, reaper: &UnboundedSender<Ending>) {
        self.end(|_| true, reaper);
        // Those that are left are the reaper's. None has been waited for: the numbers are their own.
        for group in self.groups().into_iter().filter_map(Pid::from_raw) {
            // A group whose members have ended is not there.
            let _ = kill_process_group(group, Signal::KILL).or_else(|_| kill_process(group, Signal::KILL));
        }
    }

    fn end(&self, which: impl Fn(&Entry) -> bool, reaper: &UnboundedSender<Ending>) {
        for ending in self.take(which) {
            ending.kill();
            // A reaper that is gone has no work either: the gateway is stopping.
            let _ = reaper.send(ending);
        }
    }

    /// The endings of some runs, which are told why they have none any more. One that is the reaper's already is not there.
    fn take(&self, which: impl Fn(&Entry) -> bool) -> Vec<Ending> {
        let all = self.0.borrow();
        let taken = all.values().filter(|entry| which(entry)).filter_map(|entry| {
            let ending = entry.ending.upgrade()?.borrow_mut().take()?;
            *entry.fault.borrow_mut() = Some(Refusal::Timeout);
            Some(ending)
        });
        taken.collect()
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.all.0.borrow_mut().remove(&self.group);
    }
}
