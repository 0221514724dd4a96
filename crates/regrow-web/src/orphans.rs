//! Processes that a script has left behind in a group or session of their own, where the end of its group does not reach them.
//!
//! ```text
//!  script ──setsid──> daemon        the script ends: its group is killed, the daemon becomes the gateway's child
//!                                   sweep: a child in no group of a run that is under way, nor in the gateway's ──> killed, waited for
//! ```
//!
//! The gateway takes over all its descendants that lose their parent (`PR_SET_CHILD_SUBREAPER`). Seeds, keepers and processes that wait for an order
//! are its children too, in its own group.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io;
use std::rc::Rc;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpgrp, getpid, kill_process, set_child_subreaper, waitid,
};

/// Wait for children of every kind, also for one whose end makes no signal (`__WALL`).
pub(crate) const WALL: WaitIdOptions = WaitIdOptions::from_bits_retain(0x4000_0000);

/// The groups of the runs that are under way.
#[derive(Clone, Default)]
pub(crate) struct Groups(Rc<RefCell<HashSet<i32>>>);

/// A group as long as its run is under way.
pub(crate) struct Group {
    all: Groups,
    number: i32,
}

impl Groups {
    /// Notes the group of a run.
    pub(crate) fn enter(&self, number: i32) -> Group {
        self.0.borrow_mut().insert(number);
        Group { all: self.clone(), number }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.all.0.borrow_mut().remove(&self.number);
    }
}

/// What finds them.
pub(crate) struct Orphans {
    own_group: i32,
    /// Children from before, which are nobody's business here.
    others: HashSet<i32>,
    groups: Groups,
}

impl Orphans {
    /// Has all descendants that lose their parent become this process's children.
    pub(crate) fn take_over(groups: Groups) -> io::Result<Self> {
        let others = children()?.into_iter().collect();
        set_child_subreaper(Some(getpid()))?;
        Ok(Self { own_group: getpgrp().as_raw_pid(), others, groups })
    }

    /// Kills those that are there, and waits for those that have ended. True when there was one: it may have had children.
    pub(crate) fn sweep(&self) -> bool {
        let found = children().unwrap_or_default().into_iter().filter(|pid| !self.others.contains(pid));
        let gone: Vec<Pid> = found.filter(|&pid| self.is_left(pid)).filter_map(Pid::from_raw).collect();
        for &pid in &gone {
            // It is a child that has not been waited for: the number is its own.
            let _ = kill_process(pid, Signal::KILL);
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WALL;
            if matches!(waitid(WaitId::Pid(pid), options), Ok(Some(_))) {
                tracing::warn!(%pid, "a process that a script has left behind was ended");
            }
        }
        !gone.is_empty()
    }

    /// Whether a child is in no group that it may be in.
    fn is_left(&self, pid: i32) -> bool {
        let group = group_of(pid);
        group.is_some_and(|group| group != self.own_group && !self.groups.0.borrow().contains(&group))
    }
}

/// The children of this process.
fn children() -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    for task in std::fs::read_dir("/proc/self/task")?.flatten() {
        // A thread that has ended has none.
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        found.extend(text.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    Ok(found)
}

/// The process group of a process, by its `stat`: state, parent, group behind its name in parentheses.
fn group_of(pid: i32) -> Option<i32> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let rest = text.get(text.iter().rposition(|&byte| byte == b')')? + 1..)?;
    std::str::from_utf8(rest).ok()?.split_whitespace().nth(2)?.parse().ok()
}
