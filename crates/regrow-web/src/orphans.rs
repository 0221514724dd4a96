//! Processes that a script has left behind in a group or session of their own, where the end of its group does not reach them.
//!
//! ```text
//!  script ──setsid──> daemon        its parent ends: the daemon becomes the gateway's child
//!                                   sweep: a child in no group of a run, nor in the gateway's; whose it is, is not known
//!                                   every run has ended that was under way when it was seen first ──> killed, waited for
//! ```
//!
//! The gateway takes over all its descendants that lose their parent (`PR_SET_CHILD_SUBREAPER`). A script may go on to use what it has put into a
//! session of its own, so nothing is killed before it can be nobody's. Seeds are the gateway's children too, in its own group, as are keepers
//! that have not had a run; other keepers, and processes that wait for an order, are so in sessions of their own, and the pool knows them.

use std::collections::{HashMap, HashSet};
use std::io;

use regrow::Pool;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, set_child_subreaper, waitid,
};

use crate::under_way::UnderWay;

/// Wait for children of every kind, also for one whose end makes no signal (`__WALL`).
pub(crate) const WALL: WaitIdOptions = WaitIdOptions::from_bits_retain(0x4000_0000);

/// What finds them.
pub(crate) struct Orphans {
    own_group: i32,
    /// Children from before, which are nobody's business here.
    others: HashSet<i32>,
    under_way: UnderWay,
    pool: Pool,
    /// Those that have been seen, and the runs that have been under way since: one of them may be theirs.
    seen: HashMap<i32, HashSet<i32>>,
}

impl Orphans {
    /// Has all descendants that lose their parent become this process's children.
    pub(crate) fn take_over(under_way: UnderWay, pool: Pool) -> io::Result<Self> {
        let others = children()?.into_iter().collect();
        // 0 where the group is of another namespace: so it is for the children.
        let (_, own_group) = state_of(getpid().as_raw_pid()).ok_or(io::ErrorKind::NotFound)?;
        set_child_subreaper(Some(getpid()))?;
        Ok(Self { own_group, others, under_way, pool, seen: HashMap::new() })
    }

    /// Kills those that were nobody's at the sweep before too, and waits for those that have ended. True when there is one: it may have children, or be somebody's
    /// as yet.
    pub(crate) fn sweep(&mut self) -> bool {
        let left = self.all_left();
        let under_way = self.under_way.groups();
        self.seen.retain(|pid, _| left.iter().any(|one| one.pid.as_raw_pid() == *pid));
        for one in &left {
            let pid = one.pid.as_raw_pid();
            let is_nobodys = self.seen.get_mut(&pid).is_some_and(|runs| {
                runs.retain(|run| under_way.contains(run));
                runs.is_empty()
            });
            if one.has_ended || is_nobodys {
                one.end();
            }
            self.seen.entry(pid).or_insert_with(|| under_way.clone());
        }
        !left.is_empty()
    }

    /// Kills all, whosever they are. True when there was one.
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
        if self.others.contains(&child) || self.under_way.contains(child) {
            return None;
        }
        let (has_ended, group) = state_of(child)?;
        let is_left = group != self.own_group && (has_ended || !self.under_way.contains(group));
        let is_left = is_left && !self.pool.is_used_by(child);
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
        if !self.has_ended {
            tracing::warn!(pid = %self.pid, "a process that a script has left behind is ended");
        }
        // One that is not gone yet is waited for the next time.
        let _ = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WALL);
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
