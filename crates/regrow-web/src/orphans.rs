//! Processes that a script has left behind in a group or session of their own, where the end of its group does not reach them.
//!
//! ```text
//!  script ──setsid──> daemon        its parent ends: the daemon becomes the gateway's child
//!                                   sweep: a child in no group of a run, nor in the gateway's; whose it is, is not known
//!                                   every run has ended that was under way when it was seen first ──> killed, waited for
//! ```
//!
//! The gateway takes over all its descendants that lose their parent (`PR_SET_CHILD_SUBREAPER`). A script may go on to use what it has put into a
//! session of its own, so nothing is killed before it can be nobody's. Seeds, keepers and processes that wait for an order are the gateway's
//! children too, in its own group.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
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
    /// Those that have been seen, and the runs that have been under way since: one of them may be theirs.
    seen: HashMap<i32, HashSet<i32>>,
}

impl Orphans {
    /// Has all descendants that lose their parent become this process's children.
    pub(crate) fn take_over(groups: Groups) -> io::Result<Self> {
        let others = children()?.into_iter().collect();
        set_child_subreaper(Some(getpid()))?;
        Ok(Self { own_group: getpgrp().as_raw_pid(), others, groups, seen: HashMap::new() })
    }

    /// Kills those that are nobody's, and waits for those that have ended. True when there is one: it may have children, or be somebody's
    /// as yet.
    pub(crate) fn sweep(&mut self) -> bool {
        let left = self.all_left();
        let under_way = self.groups.0.borrow();
        self.seen.retain(|pid, _| left.iter().any(|one| one.pid.as_raw_pid() == *pid));
        for one in &left {
            let runs = self.seen.entry(one.pid.as_raw_pid()).or_insert_with(|| under_way.clone());
            runs.retain(|run| under_way.contains(run));
            if one.has_ended || runs.is_empty() {
                one.end();
            }
        }
        !left.is_empty()
    }

    /// Kills all, whosever they are: no run goes on. True when there was one.
    pub(crate) fn end_all(&self) -> bool {
        let left = self.all_left();
        left.iter().for_each(Left::end);
        !left.is_empty()
    }

    fn all_left(&self) -> Vec<Left> {
        children().unwrap_or_default().into_iter().filter_map(|pid| self.left(pid)).collect()
    }

    /// A child, if it is one that a script has left, or that it may have left and that has ended.
    fn left(&self, child: i32) -> Option<Left> {
        let under_way = self.groups.0.borrow();
        if self.others.contains(&child) || under_way.contains(&child) {
            return None;
        }
        let (has_ended, group) = state_of(child)?;
        let is_left = group != self.own_group && (has_ended || !under_way.contains(&group));
        Pid::from_raw(child).filter(|_| is_left).map(|pid| Left { pid, has_ended })
    }
}

/// A process that a script has left.
struct Left {
    pid: Pid,
    has_ended: bool,
}

impl Left {
    /// Kills it, and waits for it if it is gone.
    fn end(&self) {
        // It is a child that has not been waited for: the number is its own.
        let _ = kill_process(self.pid, Signal::KILL);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WALL;
        let is_gone = matches!(waitid(WaitId::Pid(self.pid), options), Ok(Some(_)));
        if is_gone && !self.has_ended {
            tracing::warn!(pid = %self.pid, "a process that a script has left behind was ended");
        }
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

/// Whether a process has ended, and its group, by its `stat`: state, parent, group behind its name in parentheses.
fn state_of(pid: i32) -> Option<(bool, i32)> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let rest = text.get(text.iter().rposition(|&byte| byte == b')')? + 1..)?;
    let mut fields = std::str::from_utf8(rest).ok()?.split_whitespace();
    let state = fields.next()?;
    Some((state == "Z", fields.nth(1)?.parse().ok()?))
}
