//! The runs that a daemon has started and not yet seen the end of.
//!
//! Invariant: a run stays here until it has been waited for, also when its client is gone.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::Instant;

use regrow_engine::run::creation::{Fallback, RequestPart};
use regrow_engine::run::started::{Change, Started};

use crate::wire::ToClient;

/// A run, and the connection that asked for it.
#[derive(Debug)]
pub(super) struct ClientRun {
    pub(super) started: Started,
    /// `None` when the client is gone.
    pub(super) client: Option<u64>,
    /// The client is told of the start at this time, if the run is not over.
    pub(super) told_at: Option<Instant>,
}

impl ClientRun {
    /// What a client is told of the start, and the pidfd of the run. Without that the client cannot pass on signals; the run goes on all
    /// the same.
    pub(super) fn start(&self) -> (ToClient, Option<OwnedFd>) {
        let how = self.started.creation.how().as_bytes().to_vec();
        let pidfd = self.started.pidfd().and_then(|pidfd| pidfd.try_clone_to_owned()).ok();
        let not_loaded = self.started.not_loaded.clone().unwrap_or_default().into_bytes();
        (ToClient::Started { pid: self.started.pid, how, not_loaded }, pidfd)
    }

    /// What a client is told of a change of its run; `None` is one that cannot be seen. The client itself carries out a
    /// start that was refused inside the body.
    pub(super) fn message(&self, change: Option<Change>) -> ToClient {
        use std::os::unix::process::ExitStatusExt;
        match change {
            Some(Change::Stopped(signal)) => ToClient::Stopped { signal },
            Some(Change::Continued) => ToClient::Continued,
            Some(Change::Ended(_)) if self.started.was_refused() => {
                declined(&Fallback::UnsupportedRequest { what: RequestPart::Step(None) })
            }
            Some(Change::Ended(status)) => ToClient::Ended { status: status.into_raw() },
            None => ToClient::Failed { text: b"the end of the run cannot be seen".to_vec() },
        }
    }
}

/// Why a client is to execute a program itself.
pub(super) fn declined(why: &Fallback) -> ToClient {
    ToClient::Declined { reason: why.name().as_bytes().to_vec(), detail: why.to_string().into_bytes() }
}

/// The runs, by number.
#[derive(Debug, Default)]
pub(super) struct Runs {
    by_pid: HashMap<i32, ClientRun>,
}

impl Runs {
    pub(super) fn len(&self) -> usize {
        self.by_pid.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_pid.is_empty()
    }

    pub(super) fn add(&mut self, run: ClientRun) {
        self.by_pid.insert(run.started.pid, run);
    }

    /// When the next client is to be told that its run has started.
    pub(super) fn told_at(&self) -> Option<Instant> {
        self.by_pid.values().filter_map(|run| run.told_at).min()
    }

    /// The runs of which that is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<i32> {
        let due = self.by_pid.iter_mut().filter(|(_, run)| run.told_at.is_some_and(|at| at <= now));
        due.map(|(&pid, run)| {
            run.told_at = None;
            pid
        })
        .collect()
    }

    /// Whether the client of a run waits to be told of its start. It waits no longer.
    pub(super) fn take_untold(&mut self, pid: i32) -> bool {
        self.by_pid.get_mut(&pid).is_some_and(|run| run.told_at.take().is_some())
    }

    pub(super) fn get(&self, pid: i32) -> Option<&ClientRun> {
        self.by_pid.get(&pid)
    }

    pub(super) fn remove(&mut self, pid: i32) -> Option<ClientRun> {
        self.by_pid.remove(&pid)
    }

    /// Kills the run of a client that is gone.
    pub(super) fn abandon(&mut self, pid: i32) {
        if let Some(run) = self.by_pid.get_mut(&pid) {
            run.client = None;
            let _ = run.started.kill();
        }
    }

    /// What has happened to which run; `None` where that cannot be seen.
    pub(super) fn changes(&self) -> Vec<(i32, Option<Change>)> {
        let change = |(&pid, run): (&i32, &ClientRun)| match run.started.try_change() {
            Ok(None) => None,
            Ok(Some(change)) => Some((pid, Some(change))),
            Err(error) => {
                tracing::error!(pid, %error, "the end of a run cannot be seen");
                Some((pid, None))
            }
        };
        self.by_pid.iter().filter_map(change).collect()
    }
}
