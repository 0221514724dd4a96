//! The table of processes: runs that were started out of the shard, until nobody holds them any more.
//!
//! A row shares one word with the [`Started`] that the caller has: whether the process has been
//! waited for. A row goes when the caller's side of that word is gone.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ids::{BodyId, Numbering, ProcessId};
use crate::run::creation::Creation;
use crate::run::request::Request;
use crate::run::started::Started;

/// A process that was started.
#[derive(Debug)]
pub(crate) struct ProcessRow {
    /// Its number for the kernel.
    pub(crate) pid: i32,
    /// The program, as the caller named it.
    pub(crate) program: CString,
    /// Where it was asked for, if that is known.
    pub(crate) site: Option<u64>,
    /// How it was made.
    pub(crate) creation: Creation,
    /// The body that it runs in; none for one that was executed in a shell.
    pub(crate) body: Option<BodyId>,
    /// When the caller asked for it, on the monotonic clock in nanoseconds.
    pub(crate) ordered_ns: u64,
    /// Set when it has been waited for. The other owner is the caller's `Started`.
    pub(crate) over: Arc<AtomicBool>,
}

impl ProcessRow {
    /// A process that was started for a request, in a body or not.
    pub(crate) fn new(
        request: &Request,
        started: &Started,
        body: Option<BodyId>,
        ordered_ns: u64,
    ) -> ProcessRow {
        ProcessRow {
            pid: started.pid,
            program: request.program.clone(),
            site: request.site,
            creation: started.creation.clone(),
            body,
            ordered_ns,
            over: started.over(),
        }
    }
}

/// The processes of a shard.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    rows: BTreeMap<ProcessId, ProcessRow>,
    numbering: Numbering,
}

impl Processes {
    /// An id that no process had before: also for one that the shard does not start itself.
    pub(crate) fn next_id(&mut self) -> ProcessId {
        self.numbering.next_id()
    }

    /// Adds a process that was started.
    pub(crate) fn insert(&mut self, row: ProcessRow) -> ProcessId {
        let id = self.next_id();
        self.rows.insert(id, row);
        id
    }

    /// Takes a process out.
    pub(crate) fn remove(&mut self, id: ProcessId) -> Option<ProcessRow> {
        self.rows.remove(&id)
    }

    /// Takes the processes out that nobody holds any more.
    pub(crate) fn sweep(&mut self) {
        self.rows.retain(|_, row| Arc::strong_count(&row.over) > 1);
    }

    /// Whether a process has been waited for, or nobody holds it.
    pub(crate) fn is_over(&self, id: ProcessId) -> bool {
        self.rows.get(&id).is_none_or(|row| row.over.load(Ordering::Acquire))
    }

    /// The process of this number.
    pub(crate) fn by_pid(&self, pid: i32) -> Option<&ProcessRow> {
        self.iter().find(|row| row.pid == pid)
    }

    /// All processes, oldest first.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &ProcessRow> {
        self.rows.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::creation::Fallback;

    fn row(pid: i32) -> (ProcessRow, Arc<AtomicBool>) {
        let over = Arc::new(AtomicBool::new(false));
        let creation = Creation::Exec { why: Fallback::FirstRun };
        let program = c"true".to_owned();
        let row = ProcessRow {
            pid,
            program,
            site: None,
            creation,
            body: None,
            ordered_ns: 0,
            over: Arc::clone(&over),
        };
        (row, over)
    }

    #[test]
    fn a_process_is_there_until_nobody_holds_it() {
        let mut processes = Processes::default();
        let (first, over) = row(10);
        let (second, held) = row(11);
        let ids = [processes.insert(first), processes.insert(second)];
        assert!(!processes.is_over(ids[0]));
        over.store(true, Ordering::Release);
        processes.sweep();
        assert!(processes.is_over(ids[0]) && processes.by_pid(10).is_some(), "its caller may still ask");
        drop(over);
        processes.sweep();
        assert!(processes.by_pid(10).is_none() && processes.is_over(ids[0]));
        assert_eq!(processes.iter().map(|row| row.pid).collect::<Vec<_>>(), [11]);
        drop(held);
        assert_eq!(processes.remove(ids[1]).map(|row| row.pid), Some(11));
    }
}
