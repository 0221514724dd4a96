//! The children of this process: commands, which their threads wait for, and orphans, which nobody else waits for.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, RwLock};

use regrow_testkit::left;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use crate::service::lives;

/// `__WALL`: children whatever their exit signal.
const WALL: WaitOptions = WaitOptions::from_bits_retain(0x4000_0000);

/// Has the kernel give this process every orphan below it.
pub(crate) fn take_orphans() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
}

/// A command that is under way.
pub(crate) struct Subject {
    pid: i32,
    pidfd: OwnedFd,
    was_killed: AtomicBool,
}

impl Subject {
    /// Kills it. False when it has ended.
    pub(crate) fn kill(&self) -> bool {
        if !lives(self.pid) {
            return false;
        }
        self.was_killed.store(true, SeqCst);
        rustix::process::pidfd_send_signal(self.pidfd.as_fd(), Signal::KILL).is_ok()
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    pub(crate) fn was_killed(&self) -> bool {
        self.was_killed.load(SeqCst)
    }
}

/// All commands that are under way.
pub(crate) struct Nursery {
    /// Held to write by whoever looks for orphans: a child is an orphan when it is nobody's who starts commands.
    starting: RwLock<()>,
    subjects: Mutex<HashMap<i32, Arc<Subject>>>,
}

impl Nursery {
    pub(crate) fn new() -> Nursery {
        Nursery { starting: RwLock::default(), subjects: Mutex::default() }
    }

    /// Starts a command.
    pub(crate) fn start(&self, command: &mut Command) -> (Child, Arc<Subject>) {
        let _starting = self.starting.read().unwrap();
        let child = command.spawn().unwrap();
        let pid = child.id().cast_signed();
        let pidfd = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        let subject = Arc::new(Subject { pid, pidfd, was_killed: AtomicBool::new(false) });
        self.subjects.lock().unwrap().insert(pid, Arc::clone(&subject));
        (child, subject)
    }

    /// Forgets a command that has been waited for.
    pub(crate) fn ended(&self, subject: &Subject) {
        self.subjects.lock().unwrap().remove(&subject.pid);
    }

    /// The commands that are under way, in no order.
    pub(crate) fn subjects(&self) -> Vec<Arc<Subject>> {
        self.subjects.lock().unwrap().values().cloned().collect()
    }

    /// Takes the status of every orphan that has ended.
    pub(crate) fn reap_orphans(&self) {
        let _nobody_starts = self.starting.write().unwrap();
        let known: HashSet<i32> = self.subjects.lock().unwrap().keys().copied().collect();
        let children = left::children(std::process::id()).unwrap();
        for pid in children.iter().filter_map(|pid| pid.parse().ok()).filter(|pid| !known.contains(pid)) {
            let _ = rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::NOHANG | WALL);
        }
    }
}
