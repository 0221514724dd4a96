//! The prototype as a method: the least that recycles a process, compiled from `prototype/` when it is asked for.
//!
//! ```text
//!   caller  ── armed? ── go, futex ─────────── waitpid ── reset, futex ── …
//!   task        sleeps ──────────── main … exit
//!   keeper      sleeps ────────────────────────────────── puts the memory back, clones the next task
//! ```
//!
//! One process serves all runs of a program, with the descriptors of its start. The task of each run is a child of this process. A
//! run counts only when the task itself has noted, between the call and the end, that it entered `main`.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use regrow_sys::raw::{futex_wait, futex_wake};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::compiler::compile;
use super::list::BenchProgram;
use crate::error::BenchError;
use crate::samples::now_ns;
use crate::system::native::{OrderSheet, SharedSheet, Spawned};

/// Its sources, by name. The first ones are compiled.
const SOURCES: [(&str, &str); 3] = [
    ("agent.c", include_str!("../../prototype/agent.c")),
    ("memory.c", include_str!("../../prototype/memory.c")),
    ("agent.h", include_str!("../../prototype/agent.h")),
];
/// How many of the sources are compiled.
const COMPILED: usize = 2;
/// The flags: no call of the C library but those that are written.
const FLAGS: &[&str] = &[
    "-O2",
    "-std=gnu11",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-fno-builtin",
    "-fno-stack-protector",
    "-fno-tree-loop-distribute-patterns",
    "-Wl,-z,now",
];
/// The variable that names the sheet of orders to the agent.
const SHEET_VARIABLE: &str = "REGROW_PROTOTYPE";
/// The longest that a start, or a reset, may take.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a process that does not become ready is looked at.
const LOOKS: Duration = Duration::from_millis(5);

/// The compiled agent.
pub(super) struct PrototypeAgent {
    path: PathBuf,
    /// Holds it while it is used.
    _folder: TempDir,
}

impl PrototypeAgent {
    /// Compiles it into a temporary folder.
    pub(super) fn compile() -> Result<Self, BenchError> {
        let cannot = || BenchError::system("the sources of the prototype cannot be written");
        let folder = tempfile::tempdir().map_err(cannot())?;
        let path = folder.path().join("agent.so");
        for (name, text) in SOURCES {
            fs::write(folder.path().join(name), text).map_err(cannot())?;
        }
        let files = SOURCES.map(|(name, _)| folder.path().join(name));
        let compiled: Vec<_> = files.iter().take(COMPILED).map(PathBuf::as_path).collect();
        compile(FLAGS, &compiled, &path)?;
        Ok(Self { path, _folder: folder })
    }

    /// An agent that does nothing: no program stops.
    #[cfg(test)]
    pub(super) fn without_code() -> Self {
        Self { path: PathBuf::new(), _folder: tempfile::tempdir().unwrap() }
    }
}

/// Why the prototype cannot run a program.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotKept {
    /// The program is none whose `main` the agent finds, or the kernel lacks what the agent needs.
    #[error("its process ended with {0} before it stopped at main")]
    Ended(ExitStatus),
    /// The system refuses something.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// A run by the prototype: when the caller called, when the program was entered, when the caller saw the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrototypeRun {
    pub(super) called_ns: u64,
    pub(super) main_ns: u64,
    pub(super) ended_ns: u64,
    pub(super) status: ExitStatus,
}

/// A program that the prototype keeps at `main`.
pub(super) struct Prototype {
    keeper: Child,
    orders: SharedSheet<OrderSheet>,
}

impl Prototype {
    /// Starts the program, and waits until its first task is armed.
    pub(super) fn start(
        agent: &PrototypeAgent,
        program: &BenchProgram,
        [stdin, stdout, stderr]: [OwnedFd; 3],
    ) -> Result<Self, NotKept> {
        let orders = SharedSheet::<OrderSheet>::new()?;
        let mut command = Command::new(&program.path);
        command.args(&program.args).stdin(stdin).stdout(stdout).stderr(stderr);
        command.env("LD_PRELOAD", &agent.path).env(SHEET_VARIABLE, orders.path());
        let mut started = Self { keeper: command.spawn()?, orders };
        started.await_armed()?;
        Ok(started)
    }

    /// The process that keeps the memory.
    pub(super) fn keeper(&self) -> i32 {
        i32::try_from(self.keeper.id()).unwrap_or(i32::MAX)
    }

    /// Waits until a task is armed.
    pub(super) fn await_armed(&mut self) -> Result<(), NotKept> {
        let until = Instant::now() + READY_TIMEOUT;
        let armed = &self.orders.sheet().armed;
        while armed.load(SeqCst) == 0 {
            if let Some(status) = self.keeper.try_wait()? {
                return Err(NotKept::Ended(status));
            }
            if Instant::now() >= until {
                return Err(NotKept::System(io::ErrorKind::TimedOut.into()));
            }
            futex_wait(armed, 0, LOOKS);
        }
        Ok(())
    }

    /// Runs the program in the armed task, which is waited for before the clock is read. Afterwards the keeper is told.
    pub(super) fn run(&mut self) -> io::Result<PrototypeRun> {
        self.await_armed().map_err(io::Error::other)?;
        let sheet = self.orders.sheet();
        sheet.armed.store(0, SeqCst);
        sheet.main_ns.store(0, SeqCst);
        let task = Pid::from_raw(sheet.pid.load(SeqCst)).ok_or(io::ErrorKind::InvalidData)?;
        let called_ns = now_ns();
        sheet.go.store(1, SeqCst);
        futex_wake(&sheet.go);
        let status = Spawned::child(task).wait()?;
        let ended_ns = now_ns();
        sheet.pid.store(0, SeqCst);
        sheet.reset.store(1, SeqCst);
        futex_wake(&sheet.reset);
        let main_ns = sheet.main_ns.load(SeqCst);
        if !(called_ns..=ended_ns).contains(&main_ns) {
            return Err(io::Error::other("the run did not enter main"));
        }
        Ok(PrototypeRun { called_ns, main_ns, ended_ns, status })
    }
}

impl Drop for Prototype {
    fn drop(&mut self) {
        // The keeper first: after that nobody clones another task. Whatever has ended already cannot be ended.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
        if let Some(task) = Pid::from_raw(self.orders.sheet().pid.load(SeqCst)) {
            let _ = kill_process(task, Signal::KILL);
            let _ = Spawned::child(task).wait();
        }
    }
}
