//! The processes that live.

use std::collections::HashMap;

use regrow_sites::{ImageId, ProcessKey, Site};

use super::sites::{Programs, SiteId};
use super::tree::NodeId;

/// Most processes that live at a time.
pub const MOST_ALIVE: usize = 262_144;

/// A process that lives.
#[derive(Debug, Clone, Copy)]
pub(super) struct Process {
    /// Where it was created; `None` for one that was there before.
    pub(super) origin: Option<Site>,
    /// The node of its parent when it was created.
    pub(super) above: NodeId,
    /// Its row.
    pub(super) site: Option<SiteId>,
    /// Its node.
    pub(super) node: NodeId,
    /// What it has executed.
    pub(super) programs: Programs,
    /// How many these are.
    pub(super) starts: u32,
    /// When it last executed which program.
    pub(super) executed: Option<(u64, ImageId)>,
    /// Its creation has not been told.
    pub(super) is_found: bool,
}

impl Process {
    pub(super) fn new(origin: Option<Site>, above: NodeId, programs: Programs, is_found: bool) -> Process {
        Process {
            origin,
            above,
            site: None,
            node: NodeId::ORIGIN,
            programs,
            starts: 0,
            executed: None,
            is_found,
        }
    }
}

/// The processes that live, by their keys; of those with one number the last.
#[derive(Debug, Default)]
pub(super) struct Processes {
    by_pid: HashMap<u32, (u64, Process)>,
}

impl Processes {
    pub(super) fn get(&self, key: ProcessKey) -> Option<&Process> {
        self.by_pid
            .get(&key.pid)
            .filter(|(created_us, _)| *created_us == key.created_us)
            .map(|(_, process)| process)
    }

    pub(super) fn has_room_for(&self, key: ProcessKey) -> bool {
        self.by_pid.len() < MOST_ALIVE || self.by_pid.contains_key(&key.pid)
    }

    /// Puts a process in, and returns another one that had its number.
    pub(super) fn insert(&mut self, key: ProcessKey, process: Process) -> Option<Process> {
        let before = self.by_pid.insert(key.pid, (key.created_us, process));
        before.filter(|(created_us, _)| *created_us != key.created_us).map(|(_, process)| process)
    }

    pub(super) fn remove(&mut self, key: ProcessKey) -> Option<Process> {
        self.get(key)?;
        self.by_pid.remove(&key.pid).map(|(_, process)| process)
    }

    pub(super) fn len(&self) -> usize {
        self.by_pid.len()
    }
}
