//! What a run inherits from its caller beside root, working directory and umask (which it shares until it starts).
//!
//! A run is cloned from a keeper, not from the caller. So the shard remembers the caller as it was when its bodies were
//! made (the baseline), and compares:
//!
//! | what | when | if it differs |
//! |---|---|---|
//! | user and group ids | at every spawn | everything kept is dropped: it is of another domain |
//! | the rest of [`Domain`] | at a spawn that is `Settings::reread_after` after the last reading, or after `refresh` | the same |
//! | the caller's [`Task`] | the same | the run is given the caller's value |
//!
//! A caller to whom exec gives back capabilities that it has given up has every run started by exec.

use std::collections::HashMap;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use regrow_abi::task::Task;
use regrow_sys::caller::{Caller, Domain, UserIds};

use crate::run::creation::CallerPart;

/// The caller, as read.
#[derive(Debug)]
pub(crate) struct Inheritance {
    pid: u32,
    baseline: Caller,
    /// The latest readings, by thread: scheduling is a thread's own.
    readings: HashMap<ThreadId, Reading>,
    /// Readings from before this time are not used.
    fresh_since: Instant,
    /// How old a reading may be. A change of limits, ignored signals or affinity shows within this time.
    reread_after: Duration,
}

#[derive(Debug)]
struct Reading {
    at: Instant,
    task: Task,
}

impl Reading {
    /// A child of the caller has `SIGPIPE` at its default, as the standard library does it.
    fn of(caller: &Caller) -> Reading {
        const SIGPIPE: u64 = 1 << (libc::SIGPIPE - 1);
        let mut task = caller.task;
        let ignored = task.ignored_signals().unwrap_or(0);
        task.set_ignored_signals(ignored & !SIGPIPE);
        Reading { at: Instant::now(), task }
    }
}

/// Most threads whose readings are remembered.
const MAX_READINGS: usize = 256;

impl Inheritance {
    pub(crate) fn new(reread_after: Duration) -> Inheritance {
        let baseline = Caller::read();
        let reading = Reading::of(&baseline);
        let readings = HashMap::from([(current(), reading)]);
        Inheritance { pid: std::process::id(), baseline, readings, fresh_since: Instant::now(), reread_after }
    }

    /// Reads what is due, and returns what a run of this thread is to be given. `Err` tells which part of the domain
    /// differs; what was read is then the new baseline.
    pub(crate) fn check(&mut self) -> Result<Task, CallerPart> {
        if std::process::id() != self.pid {
            return Err(CallerPart::Process);
        }
        let thread = current();
        let is_fresh =
            |reading: &Reading| reading.at >= self.fresh_since && reading.at.elapsed() < self.reread_after;
        let fresh = self.readings.get(&thread).is_some_and(is_fresh);
        if !fresh || UserIds::read() != self.baseline.domain.ids {
            self.read(thread)?;
        }
        if self.baseline.domain.gains_by_exec {
            return Err(CallerPart::Credentials);
        }
        self.readings.get(&thread).map(|reading| reading.task).ok_or(CallerPart::Scheduling)
    }

    fn read(&mut self, thread: ThreadId) -> Result<(), CallerPart> {
        let caller = Caller::read();
        if self.readings.len() >= MAX_READINGS {
            self.readings.clear();
        }
        self.readings.insert(thread, Reading::of(&caller));
        match difference(&self.baseline.domain, &caller.domain) {
            None => Ok(()),
            Some(part) => {
                self.baseline = caller;
                Err(part)
            }
        }
    }

    /// What the bodies were made for.
    pub(crate) fn domain(&self) -> &Domain {
        &self.baseline.domain
    }

    /// Has the next check of every thread read everything.
    pub(crate) fn refresh(&mut self) {
        self.fresh_since = Instant::now();
    }
}

fn current() -> ThreadId {
    std::thread::current().id()
}

fn difference(then: &Domain, now: &Domain) -> Option<CallerPart> {
    let table = [
        (then.ids != now.ids || then.credentials != now.credentials, CallerPart::Credentials),
        (then.seccomp != now.seccomp, CallerPart::Seccomp),
        (then.session != now.session, CallerPart::Session),
        (then.root != now.root, CallerPart::Root),
        (then.namespaces != now.namespaces, CallerPart::Namespace),
        (then.cgroup != now.cgroup, CallerPart::Cgroup),
        (then.scheduling != now.scheduling, CallerPart::Scheduling),
    ];
    table.iter().find(|row| row.0).map(|row| row.1)
}
