//! The children of the gateway, as the kernel sees them.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// Waits for children of every kind, also for those whose end sends no signal (`__WALL`).
const WALL: WaitIdOptions = WaitIdOptions::from_bits_retain(0x4000_0000);

/// A child of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChildState {
    pub(crate) pid: i32,
    /// Its process group; 0 if the group is in another PID namespace.
    pub(crate) group: i32,
    /// Whether it has ended, and nobody has waited for it.
    pub(crate) has_ended: bool,
}

impl ChildState {
    /// The state of a process, or `None` if there is none.
    pub(crate) fn read(pid: i32) -> Option<Self> {
        let (has_ended, group) = parse_stat(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)?;
        Some(Self { pid, group, has_ended })
    }

    /// Kills the child, and waits for it if it has ended. Otherwise a later call waits.
    pub(crate) fn end(&self) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        // Nobody has waited for this child, so no other process has its number.
        let _ = kill_process(pid, Signal::KILL);
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WALL);
    }
}

/// The process ids of all children.
pub(crate) fn pids() -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    for task in std::fs::read_dir("/proc/self/task")?.flatten() {
        // A thread that has ended meanwhile has no children.
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        found.extend(text.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    Ok(found)
}

/// How a child has ended, if it has. Does not wait for it: the child stays a zombie.
pub(crate) fn exit_status(child: Pid) -> Option<ExitStatus> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT | WALL;
    let end = waitid(WaitId::Pid(child), options).ok().flatten()?;
    let core = if end.dumped() { 0x80 } else { 0 };
    let raw = end
        .exit_status()
        .map(|code| code << 8)
        .or_else(|| end.terminating_signal().map(|signal| signal | core));
    raw.map(ExitStatus::from_raw)
}

/// Whether a process has ended, and its group, from its `stat`: the name in parentheses, then state, parent and group.
fn parse_stat(stat: &[u8]) -> Option<(bool, i32)> {
    let rest = stat.get(stat.iter().rposition(|&byte| byte == b')')? + 1..)?;
    let mut fields = std::str::from_utf8(rest).ok()?.split_whitespace();
    let state = fields.next()?;
    Some((state == "Z", fields.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_read_whatever_the_process_is_called() {
        assert_eq!(parse_stat(b"12 (a) Z 9) b) S 1 77 77 0 -1"), Some((false, 77)));
        assert_eq!(parse_stat(b"12 (\xff) Z 1 0 0 0 -1"), Some((true, 0)));
        for broken in [&b""[..], b"12 (a", b"12 (a) S", b"12 (a) S 1 x"] {
            assert_eq!(parse_stat(broken), None, "{broken:?}");
        }
    }
}
