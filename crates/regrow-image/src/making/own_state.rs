//! What a task has that no run inherits, as the kernel tells it: for a front end whose system calls nobody looks at.
//!
//! Where they are looked at, each call that changes such a thing is refused (`warm`). Here what the task had at its entry is compared
//! with what it has when it stops, and a thing that it is not to have at all is looked for.

use std::fs;

use crate::error::{MakeError, refuse};
use crate::making::remote::Remote;

/// Lines of `/proc/PID/status`, and what it means that one has changed.
const LINES: &[(&str, &str)] = &[
    ("Umask:", "changes its umask"),
    ("Uid:", "changes its user"),
    ("Gid:", "changes its group"),
    ("Groups:", "changes its groups"),
    ("CapInh:", "changes its capabilities"),
    ("CapPrm:", "changes its capabilities"),
    ("CapEff:", "changes its capabilities"),
    ("CapBnd:", "changes its capabilities"),
    ("CapAmb:", "changes its capabilities"),
    ("NoNewPrivs:", "gives up new privileges"),
    ("Seccomp:", "sandboxes itself"),
    ("Cpus_allowed:", "changes its processors"),
    ("Mems_allowed:", "changes its memory nodes"),
];

/// Fields of `/proc/PID/stat`, by their numbers.
const FIELDS: &[(usize, &str)] = &[
    (5, "changes its process group"),
    (6, "changes its session"),
    (19, "changes its niceness"),
    (40, "changes its scheduling"),
    (41, "changes its scheduling"),
];

/// Files of `/proc/PID`.
const FILES: &[(&str, &str)] = &[
    ("limits", "changes its limits"),
    ("personality", "changes its personality"),
    ("timers", "has a timer"),
    ("timerslack_ns", "changes its timer slack"),
];

/// Links of `/proc/PID`.
const LINKS: &[(&str, &str)] = &[
    ("cwd", "changes its directory"),
    ("root", "changes its root"),
    ("ns/cgroup", "changes its namespaces"),
    ("ns/ipc", "changes its namespaces"),
    ("ns/mnt", "changes its namespaces"),
    ("ns/net", "changes its namespaces"),
    ("ns/pid_for_children", "changes its namespaces"),
    ("ns/time_for_children", "changes its namespaces"),
    ("ns/user", "changes its namespaces"),
    ("ns/uts", "changes its namespaces"),
];

/// What a task has at one time.
pub(super) struct OwnState {
    /// Each with what a change of it means.
    told: Vec<(&'static str, String)>,
    io_priority: i64,
}

impl OwnState {
    /// Reads it. What the kernel does not tell is the same at any time.
    pub(super) fn read(remote: Remote) -> Result<(Remote, Self), MakeError> {
        const OF_PROCESS: u64 = 1;
        let pid = remote.pid();
        let text = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let (status, stat) = (text("status"), text("stat"));
        let line = |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap_or("").to_owned();
        let fields: Vec<&str> =
            stat.rsplit_once(')').map_or("", |parts| parts.1).split_whitespace().collect();
        let link = |name: &str| {
            fs::read_link(format!("/proc/{pid}/{name}"))
                .map(|path| path.display().to_string())
                .unwrap_or_default()
        };
        let mut told: Vec<(&'static str, String)> =
            LINES.iter().map(|&(name, change)| (change, line(name))).collect();
        told.extend(
            FIELDS
                .iter()
                .map(|&(number, change)| (change, fields.get(number - 3).copied().unwrap_or("").to_owned())),
        );
        told.extend(FILES.iter().map(|&(name, change)| (change, text(name))));
        told.extend(LINKS.iter().map(|&(name, change)| (change, link(name))));
        let (remote, io_priority) = remote.syscall(libc::SYS_ioprio_get, [OF_PROCESS, 0, 0, 0, 0, 0])?;
        Ok((remote, Self { told, io_priority }))
    }

    /// Refuses a task that has changed anything of it, or has what no task is to have when it stops.
    pub(super) fn check(&self, remote: Remote) -> Result<Remote, MakeError> {
        let (remote, now) = Self::read(remote)?;
        let changed = self.told.iter().zip(&now.told).find(|(before, now)| before.1 != now.1);
        if let Some(((what, _), _)) = changed {
            return refuse(format!("it {what} while it prepares itself"));
        }
        if self.io_priority != now.io_priority {
            return refuse("it changes its I/O priority while it prepares itself");
        }
        let remote = has_no_timer(remote)?;
        has_no_segments(remote)
    }
}

/// Memory below the red zone of a stopped task, which nobody uses.
fn scratch(remote: &Remote) -> Result<u64, MakeError> {
    let registers = remote.stopped().registers().map_err(MakeError::tracing("reading registers"))?;
    Ok((registers.stack_pointer() - 1024) & !15)
}

/// Refuses a task that has a timer of the kinds that are no objects.
fn has_no_timer(remote: Remote) -> Result<Remote, MakeError> {
    let place = scratch(&remote)?;
    let mut remote = remote;
    for which in [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL, libc::ITIMER_PROF] {
        let before = remote.read(place, 32)?;
        let args = [which.unsigned_abs().into(), place, 0, 0, 0, 0];
        (remote, _) = remote.must("reading its timers", libc::SYS_getitimer, args)?;
        let timer = remote.read(place, 32)?;
        remote.write(place, &before)?;
        if timer.iter().any(|&byte| byte != 0) {
            return refuse("it has a timer when it stops");
        }
    }
    Ok(remote)
}

/// Refuses a task that has segments of its own in the processor's local table.
fn has_no_segments(remote: Remote) -> Result<Remote, MakeError> {
    const READ: u64 = 0;
    let place = scratch(&remote)?;
    let before = remote.read(place, 16)?;
    let (remote, bytes) = remote.syscall(libc::SYS_modify_ldt, [READ, place, 16, 0, 0, 0])?;
    remote.write(place, &before)?;
    if bytes > 0 { refuse("it changes its LDT while it prepares itself") } else { Ok(remote) }
}
