//! What `/proc` says of a process that is not a child.

use regrow_sys::raw;

/// What stands in `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProcessStat {
    /// A letter, as `ps` shows it.
    pub(super) state: char,
    parent: i32,
    group: i32,
    session: i32,
    /// The wait status of a zombie; zero where the kernel does not tell (see [`raw::may_inspect`]).
    pub(super) exit_code: i32,
}

impl ProcessStat {
    /// `None` when there is no such process.
    pub(super) fn read(pid: i32) -> Option<ProcessStat> {
        ProcessStat::parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(line: &[u8]) -> Option<ProcessStat> {
        /// Fields between the session and the exit code.
        const BETWEEN: usize = 45;
        let line = String::from_utf8_lossy(line);
        // The name may hold anything.
        let mut fields = line.rsplit_once(") ")?.1.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let mut number = || fields.next()?.parse().ok();
        let (parent, group, session) = (number()?, number()?, number()?);
        let exit_code = fields.nth(BETWEEN)?.parse().ok()?;
        Some(ProcessStat { state, parent, group, session, exit_code })
    }
}

/// What a process does with a signal, as `/proc/PID/status` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SignalDispositions {
    blocked: u64,
    ignored: u64,
    caught: u64,
}

impl SignalDispositions {
    /// `None` when there is no such process, or it has ended.
    pub(super) fn read(pid: i32) -> Option<SignalDispositions> {
        let status = std::fs::read(format!("/proc/{pid}/status")).ok()?;
        SignalDispositions::parse(&String::from_utf8_lossy(&status))
    }

    fn parse(status: &str) -> Option<SignalDispositions> {
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let mask = |name| u64::from_str_radix(field(name)?, 16).ok();
        if field("State:")?.starts_with(['Z', 'X']) {
            return None;
        }
        let (blocked, ignored, caught) = (mask("SigBlk:")?, mask("SigIgn:")?, mask("SigCgt:")?);
        Some(SignalDispositions { blocked, ignored, caught })
    }

    /// Whether the process blocks every signal that can be blocked.
    pub(super) fn all_blocked(&self) -> bool {
        self.blocked == !(1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1))
    }

    /// Whether a signal has its default effect at once.
    pub(super) fn is_default(&self, signal: i32) -> bool {
        (self.blocked | self.ignored | self.caught) & 1 << (signal - 1) == 0
    }
}

/// Whether nobody in the session can continue this process's group. The kernel does not stop a process of such a group by
/// `SIGTSTP`.
pub(super) fn group_is_orphaned() -> bool {
    let Some(own) = ProcessStat::read(std::process::id().cast_signed()) else { return true };
    let leads_out = |member: &ProcessStat| {
        let is_member = member.group == own.group && member.state != 'Z';
        is_member
            && ProcessStat::read(member.parent)
                .is_some_and(|parent| parent.session == own.session && parent.group != own.group)
    };
    let all = || {
        let entries = std::fs::read_dir("/proc").into_iter().flatten();
        entries.filter_map(|entry| ProcessStat::read(entry.ok()?.file_name().to_str()?.parse().ok()?))
    };
    !leads_out(&own) && !all().any(|member| leads_out(&member))
}

/// The wait status of a process that has ended, before anybody has waited for it. `is_still_it` tells whether the number
/// still belongs to the same process.
pub(super) fn status_of_zombie(pid: i32, is_still_it: impl FnOnce() -> bool) -> Option<i32> {
    let stat = ProcessStat::read(pid).filter(|stat| stat.state == 'Z')?;
    (raw::may_inspect(pid) && is_still_it()).then_some(stat.exit_code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    #[test]
    fn the_status_of_a_process_that_nobody_has_waited_for_can_be_read() {
        let mut child = std::process::Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        let pid = child.id().cast_signed();
        let pidfd = raw::pidfd_open(pid).unwrap();
        while poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], None) != Ok(1) {}
        assert_eq!(status_of_zombie(pid, || true), Some(7 << 8));
        assert_eq!(status_of_zombie(pid, || false), None);
        assert_eq!(SignalDispositions::read(pid), None);
        child.wait().unwrap();
        assert_eq!(status_of_zombie(pid, || true), None);
    }

    #[test]
    fn a_name_may_hold_parentheses() {
        let rest = "0 ".repeat(45);
        let line = format!("7 (a) (b) T 5 6 4 {rest}2304\n");
        let expected = ProcessStat { state: 'T', parent: 5, group: 6, session: 4, exit_code: 2304 };
        assert_eq!(ProcessStat::parse(line.as_bytes()), Some(expected));
    }

    #[test]
    fn dispositions_are_read_as_masks() {
        let status = "Name:\tx\nState:\tS (sleeping)\nSigBlk:\tfffffffffffbfeff\nSigIgn:\t0000000000000001\nSigCgt:\t0000000000080000\n";
        let all = SignalDispositions::parse(status).unwrap();
        assert!(all.all_blocked());
        let none = SignalDispositions { blocked: 0, ..all };
        assert!(!none.is_default(libc::SIGHUP) && !none.is_default(libc::SIGTSTP));
        assert!(none.is_default(libc::SIGINT) && !all.is_default(libc::SIGINT));
    }

    #[test]
    fn a_group_with_a_parent_in_its_session_is_not_orphaned() {
        use std::os::unix::process::CommandExt;
        // A child of these tests in a group of its own: this test again, there.
        const ASKED: &str = "REGROW_TEST_ORPHANED";
        if std::env::var_os(ASKED).is_some() {
            assert!(!group_is_orphaned());
            return;
        }
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let name = "run::process::tests::a_group_with_a_parent_in_its_session_is_not_orphaned";
        command.args([name, "--exact"]).env(ASKED, "1").process_group(0);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
    }
}
