//! The calling process as a run inherits it: read, told in `EXPECT_` variables, and changed from run to run.

#![allow(unsafe_code, reason = "signal dispositions and masks, which no safe interface sets")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use regrow::Resource;
use rustix::process::{Pid, Rlimit};

use super::error::VictimsError;

/// A change of the calling process, for the next run and all after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CallerWorld {
    pub(super) umask: u32,
    pub(super) nofile_soft: u64,
    pub(super) ignored: Vec<i32>,
    pub(super) blocked: Vec<i32>,
    pub(super) own_group: bool,
    pub(super) nice: i32,
    /// Only the first of the processors that it may use.
    pub(super) one_cpu: bool,
}

/// The calling process, as it was at the start and as it is.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) is_root: bool,
    pub(super) nice_at_start: i32,
    nofile_at_start: Rlimit,
    cpus_at_start: rustix::thread::CpuSet,
    group_at_start: Pid,
    /// Signals that the caller ignored when it was started.
    ignored_at_start: u64,
    touched: Vec<i32>,
}

fn caller_error(step: &'static str) -> impl FnOnce(rustix::io::Errno) -> VictimsError {
    move |errno| VictimsError::Caller { step, source: errno.into() }
}

impl Caller {
    /// Reads the process.
    pub(super) fn new() -> Result<Caller, VictimsError> {
        Ok(Caller {
            is_root: rustix::process::getuid().is_root(),
            nice_at_start: rustix::process::getpriority_process(None).map_err(caller_error("getpriority"))?,
            nofile_at_start: rustix::process::getrlimit(rustix::process::Resource::Nofile),
            cpus_at_start: rustix::thread::sched_getaffinity(None)
                .map_err(caller_error("sched_getaffinity"))?,
            group_at_start: own_group()?,
            ignored_at_start: u64::from_str_radix(&status_fields()["SigIgn"], 16).unwrap_or(0),
            touched: Vec::new(),
        })
    }

    /// The group that the caller was started in.
    pub(super) fn first_group(&self) -> i32 {
        self.group_at_start.as_raw_nonzero().get()
    }

    /// The soft limit of descriptors that it was started with.
    pub(super) fn nofile_at_start(&self) -> u64 {
        self.nofile_at_start.current.unwrap_or(regrow::UNLIMITED)
    }

    /// Changes the process.
    pub(super) fn become_like(&mut self, world: &CallerWorld) -> Result<(), VictimsError> {
        rustix::process::umask(rustix::fs::Mode::from_bits_retain(world.umask));
        let limit = Rlimit {
            current: Some(world.nofile_soft).filter(|&soft| soft != regrow::UNLIMITED),
            maximum: self.nofile_at_start.maximum,
        };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit)
            .map_err(caller_error("setrlimit"))?;
        let group = if world.own_group { rustix::process::getpid() } else { self.group_at_start };
        rustix::process::setpgid(None, Some(group)).map_err(caller_error("setpgid"))?;
        if self.is_root {
            rustix::process::setpriority_process(None, world.nice).map_err(caller_error("setpriority"))?;
        }
        let mut cpus = self.cpus_at_start;
        if world.one_cpu {
            let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|&cpu| cpus.is_set(cpu)).unwrap_or(0);
            cpus.clear();
            cpus.set(first);
        }
        rustix::thread::sched_setaffinity(None, &cpus).map_err(caller_error("sched_setaffinity"))?;
        self.ignore(&world.ignored);
        block(&world.blocked);
        Ok(())
    }

    /// Ignores these signals; those of an earlier call that are not among them get back what they had.
    fn ignore(&mut self, signals: &[i32]) {
        for &signal in self.touched.iter().filter(|signal| !signals.contains(signal)) {
            let was_ignored = self.ignored_at_start >> (signal - 1) & 1 == 1;
            // SAFETY: sets a disposition that is no function.
            unsafe { libc::signal(signal, if was_ignored { libc::SIG_IGN } else { libc::SIG_DFL }) };
        }
        for &signal in signals {
            // SAFETY: as above.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        self.touched = signals.to_vec();
    }

    /// What a run inherits, by the name of its `EXPECT_` variable.
    pub(super) fn expectations(&self) -> BTreeMap<String, String> {
        let status = status_fields();
        let mut told = BTreeMap::new();
        let mut tell = |name: &str, value: String| drop(told.insert(name.to_owned(), value));
        for (name, field) in [
            ("CAPEFF", "CapEff"),
            ("CAPPRM", "CapPrm"),
            ("CAPINH", "CapInh"),
            ("CAPBND", "CapBnd"),
            ("CAPAMB", "CapAmb"),
            ("SIGBLK", "SigBlk"),
            ("SECCOMP", "Seccomp"),
            ("NO_NEW_PRIVS", "NoNewPrivs"),
        ] {
            tell(name, status[field].clone());
        }
        // As the standard library does, every child has SIGPIPE at its default.
        let ignored = u64::from_str_radix(&status["SigIgn"], 16).unwrap_or(0) & !(1 << (libc::SIGPIPE - 1));
        tell("SIGIGN", format!("{ignored:016x}"));
        tell("UMASK", status["Umask"].clone());
        tell(
            "CPUS",
            status["Cpus_allowed"].rsplit(',').take(2).collect::<Vec<_>>().into_iter().rev().collect(),
        );
        let ids = |field: &str| status[field].split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let (users, groups) = (ids("Uid"), ids("Gid"));
        tell("UID", users[0].clone());
        tell("EUID", users[1].clone());
        tell("GID", groups[0].clone());
        tell("EGID", groups[1].clone());
        tell("GROUPS", ids("Groups").join(","));
        tell("PPID", std::process::id().to_string());
        // Zero when the leader is in another PID namespace, as in a container.
        tell("PGID", innermost(&status["NSpgid"]).to_owned());
        tell("SID", innermost(&status["NSsid"]).to_owned());
        tell("ROOT", "/".to_owned());
        tell("NICE", rustix::process::getpriority_process(None).unwrap_or(0).to_string());
        tell("SCHED_POLICY", "0".to_owned());
        tell("COREDUMP_FILTER", own_file("coredump_filter"));
        tell("OOM_SCORE_ADJ", own_file("oom_score_adj"));
        tell("TIMERSLACK", own_file("timerslack_ns"));
        for (name, limit) in limits() {
            tell(name, limit_text(limit));
        }
        told
    }
}

/// The names that the victims have for the limits, with what the process has.
pub(super) fn limits() -> Vec<(&'static str, (u64, u64))> {
    Resource::ALL.iter().map(|&resource| (limit_name(resource), limit(resource))).collect()
}

/// Soft and hard limit of this process.
pub(super) fn limit(resource: Resource) -> (u64, u64) {
    let mut pair = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one pair.
    unsafe { libc::prlimit(0, resource.number(), std::ptr::null(), &raw mut pair) };
    (pair.rlim_cur, pair.rlim_max)
}

/// In the form of `EXPECT_NOFILE` and its like.
pub(super) fn limit_text(limit: (u64, u64)) -> String {
    let one =
        |value: u64| if value == regrow::UNLIMITED { "unlimited".to_owned() } else { value.to_string() };
    format!("{}:{}", one(limit.0), one(limit.1))
}

/// The victims' name of a limit.
pub(super) fn limit_name(resource: Resource) -> &'static str {
    match resource {
        Resource::Cpu => "CPU",
        Resource::Fsize => "FSIZE",
        Resource::Data => "DATA",
        Resource::Stack => "STACK",
        Resource::Core => "CORE",
        Resource::Rss => "RSS",
        Resource::Nproc => "NPROC",
        Resource::Nofile => "NOFILE",
        Resource::Memlock => "MEMLOCK",
        Resource::As => "AS",
        Resource::Locks => "LOCKS",
        Resource::Sigpending => "SIGPENDING",
        Resource::Msgqueue => "MSGQUEUE",
        Resource::Nice => "NICELIMIT",
        Resource::Rtprio => "RTPRIO",
        Resource::Rttime => "RTTIME",
    }
}

/// Sets the signal mask of the calling thread to these signals.
fn block(signals: &[i32]) {
    // SAFETY: a set of signals on the stack, emptied before it is used.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        for &signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// The group of this process. If it belongs to another PID namespace and has no number here, the process first makes
/// a group of its own.
fn own_group() -> Result<Pid, VictimsError> {
    let group = innermost(&status_fields()["NSpgid"]).parse().ok();
    if let Some(group) = group.and_then(Pid::from_raw) {
        return Ok(group);
    }
    rustix::process::setpgid(None, None).map_err(caller_error("setpgid"))?;
    Ok(rustix::process::getpid())
}

/// The last of the numbers that a process or group has in nested PID namespaces: that of the innermost one.
fn innermost(numbers: &str) -> &str {
    numbers.split_whitespace().last().unwrap_or("0")
}

fn own_file(name: &str) -> String {
    let text = fs::read_to_string(Path::new("/proc/self").join(name)).unwrap_or_default();
    text.trim().to_owned()
}

fn status_fields() -> BTreeMap<String, String> {
    let text = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}
