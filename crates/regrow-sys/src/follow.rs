//! Follows a command and all processes that come of it, by `ptrace`: which was created, what it executed, when it ended.
//!
//! ```text
//!  start ──fork──> child waits ──PTRACE_SEIZE──> exec ──> Happened::Executed
//!                                                  │ fork, vfork, clone: traced from their first instruction
//!                                                  v
//!                                            Happened::Born, Executed, Leaving, Gone
//! ```
//!
//! What a process that was reported has in `/proc` can be read until [`Follower::next_event`] is called again: it is stopped
//! until then, but for one that is gone. Threads are followed, and told only when they leave. Signals and job control
//! work as without a tracer. Processes that are still there when the follower is dropped run on untraced once it has
//! ended.
//!
//! The order in which the kernel reports a child's first stop and its parent's fork is open; the child is held back until
//! the parent's is there, so that `Born` always comes first.

#![allow(unsafe_code, reason = "fork, ptrace and waitpid take pointers")]

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::arch;
pub use crate::arch::passed_to_libc;
use crate::ptrace::request::{event_message, request};

/// Something that a followed process did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// A process was made by another.
    Born {
        /// The process.
        pid: i32,
        /// The one that made it.
        parent: i32,
    },
    /// A process has executed a program.
    Executed {
        /// The process.
        pid: i32,
    },
    /// A process is about to execute the instruction that [`Follower::stop_at`] named.
    Reached {
        /// The process.
        pid: i32,
    },
    /// A thread of a process is about to end. Its memory is still there.
    Leaving {
        /// The process.
        pid: i32,
    },
    /// A process has ended.
    Gone {
        /// The process.
        pid: i32,
        /// Its raw wait status.
        status: i32,
    },
}

/// A command cannot be started or followed.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// A system call of the tracer failed.
    #[error("{call}")]
    Call {
        /// Which.
        call: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The program cannot be executed.
    #[error("the program cannot be executed")]
    Exec(#[source] io::Error),
}

fn failed(call: &'static str) -> impl FnOnce(io::Error) -> FollowError {
    move |source| FollowError::Call { call, source }
}

/// How a stopped task goes on.
#[derive(Debug, Clone, Copy)]
enum Onward {
    /// It runs, and gets this signal; zero: none.
    Run(i32),
    /// It stays stopped, as a signal of job control wants, until another lets it run.
    Listen,
}

/// A command that is followed.
#[derive(Debug)]
pub struct Follower {
    root: i32,
    /// The tasks, and which process each belongs to.
    tasks: HashMap<i32, i32>,
    /// Tasks whose first stop came before their parent's report.
    early: HashSet<i32>,
    /// The task whose report was given last.
    held: Option<(i32, Onward)>,
}

impl Follower {
    /// Starts a program and follows it. Interrupts from the terminal are ignored by this process from then on: they are
    /// the command's.
    ///
    /// # Errors
    /// [`FollowError::Exec`] when the program cannot be executed.
    pub fn start(path: &CStr, argv: &[&CStr], envp: &[&CStr]) -> Result<Follower, FollowError> {
        let (gate_out, gate_in) = pipe()?;
        let (report_out, report_in) = pipe()?;
        let pointers = |strings: &[&CStr]| -> Vec<*const libc::c_char> {
            strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let (argv, envp) = (pointers(argv), pointers(envp));
        // SAFETY: the child makes system calls only, on memory that was prepared before the fork.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => return Err(failed("fork")(io::Error::last_os_error())),
            // SAFETY: in the child of the fork; the path is NUL-terminated, the lists end with a null.
            0 => unsafe { child(gate_out.as_raw_fd(), report_in.as_raw_fd(), path.as_ptr(), &argv, &envp) },
            _ => {}
        }
        drop((gate_out, report_in));
        let follower =
            Follower { root: pid, tasks: HashMap::from([(pid, pid)]), early: HashSet::new(), held: None };
        let options = libc::PTRACE_O_TRACEEXEC
            | libc::PTRACE_O_TRACEFORK
            | libc::PTRACE_O_TRACEVFORK
            | libc::PTRACE_O_TRACECLONE
            | libc::PTRACE_O_TRACEEXIT;
        let options = usize::try_from(options).unwrap_or(0);
        request(libc::PTRACE_SEIZE, pid, 0, options).map_err(failed("ptrace"))?;
        ignore_interrupts();
        let mut gate = std::fs::File::from(gate_in);
        gate.write_all(&[1]).map_err(failed("write"))?;
        let mut errno = [0; 4];
        // The exec closes the other end. A child that reports has not ended: its end is a stop that nobody takes yet.
        let bytes = std::fs::File::from(report_out).read(&mut errno).map_err(failed("read"))?;
        if bytes == 0 {
            return Ok(follower);
        }
        follower.reap();
        Err(FollowError::Exec(io::Error::from_raw_os_error(i32::from_ne_bytes(errno))))
    }

    /// The process of the command itself.
    #[must_use]
    pub fn root(&self) -> i32 {
        self.root
    }

    /// Has [`Happened::Reached`] told once, when a process comes to an address of its code. For a process that has just been told of: it is stopped. An
    /// exec forgets it.
    ///
    /// # Errors
    /// As `ptrace(2)`; some virtual machines have no debug registers.
    pub fn stop_at(&self, pid: i32, address: u64) -> io::Result<()> {
        arch::set_breakpoint(pid, 0, Some(address))
    }

    /// The next thing that happens. `None` when no process is left. The process that was told of before goes on.
    ///
    /// # Errors
    /// [`FollowError::Call`].
    pub fn next_event(&mut self) -> Result<Option<Happened>, FollowError> {
        if let Some((task, onward)) = self.held.take() {
            go_on(task, onward);
        }
        loop {
            let mut status = 0;
            // SAFETY: the status is a live integer.
            let task = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) };
            if task < 0 {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EINTR) => continue,
                    Some(libc::ECHILD) => return Ok(None),
                    _ => return Err(failed("waitpid")(error)),
                }
            }
            if let Some(happened) = self.stopped(task, status) {
                return Ok(Some(happened));
            }
        }
    }

    /// Takes a wait status in. `None` for one that is no news; the task has gone on then.
    fn stopped(&mut self, task: i32, status: i32) -> Option<Happened> {
        if !libc::WIFSTOPPED(status) {
            let process = self.tasks.remove(&task)?;
            return (process == task).then_some(Happened::Gone { pid: task, status });
        }
        let signal = libc::WSTOPSIG(status);
        match status >> 16 {
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => self.born(task),
            libc::PTRACE_EVENT_EXEC => {
                // Other threads are gone, and the one that is left has the number of the process.
                self.tasks.insert(task, task);
                self.hold(task, Happened::Executed { pid: task })
            }
            libc::PTRACE_EVENT_EXIT => {
                let pid = self.tasks.get(&task).copied().unwrap_or(task);
                self.hold(task, Happened::Leaving { pid })
            }
            libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => {
                go_on(task, Onward::Listen);
                None
            }
            libc::PTRACE_EVENT_STOP => {
                if self.tasks.contains_key(&task) {
                    go_on(task, Onward::Run(0));
                } else {
                    self.early.insert(task);
                }
                None
            }
            0 if signal == libc::SIGTRAP && is_at_breakpoint(task) => {
                let pid = self.tasks.get(&task).copied().unwrap_or(task);
                self.hold(task, Happened::Reached { pid })
            }
            _ => {
                go_on(task, Onward::Run(signal));
                None
            }
        }
    }

    fn hold(&mut self, task: i32, happened: Happened) -> Option<Happened> {
        self.held = Some((task, Onward::Run(0)));
        Some(happened)
    }

    /// A task has made another one, which is a thread or a process.
    fn born(&mut self, maker: i32) -> Option<Happened> {
        let parent = self.tasks.get(&maker).copied().unwrap_or(maker);
        let Ok(child) = event_message(maker) else {
            go_on(maker, Onward::Run(0));
            return None;
        };
        let is_thread = process_of(child) == Some(parent);
        self.tasks.insert(child, if is_thread { parent } else { child });
        if self.early.remove(&child) {
            go_on(child, Onward::Run(0));
        }
        if is_thread {
            go_on(maker, Onward::Run(0));
            return None;
        }
        self.hold(maker, Happened::Born { pid: child, parent })
    }

    /// Takes the status of a child that could not execute its program.
    fn reap(&self) {
        loop {
            let mut status = 0;
            // SAFETY: the status is a live integer.
            let task = unsafe { libc::waitpid(self.root, &raw mut status, libc::__WALL) };
            if task != self.root || !libc::WIFSTOPPED(status) {
                return;
            }
            go_on(task, Onward::Run(0));
        }
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd), FollowError> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for both descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return Err(failed("pipe2")(io::Error::last_os_error()));
    }
    // SAFETY: the kernel has just made these descriptors, and nobody else owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Waits until it is traced, then executes the program; reports the error number when that fails.
///
/// # Safety
/// To be called in the child of a fork. The path is NUL-terminated, the lists end with a null.
unsafe fn child(
    gate: i32,
    report: i32,
    path: *const libc::c_char,
    argv: &[*const libc::c_char],
    envp: &[*const libc::c_char],
) -> ! {
    let mut byte = 0_u8;
    // SAFETY: system calls on the caller's descriptors and on memory that lives until the exec; `_exit` runs nothing.
    unsafe {
        // Nobody opens the gate when the tracer has failed: then its end is closed.
        if libc::read(gate, (&raw mut byte).cast(), 1) == 1 {
            libc::execve(path, argv.as_ptr(), envp.as_ptr());
            let errno = (*libc::__errno_location()).to_ne_bytes();
            libc::write(report, errno.as_ptr().cast(), errno.len());
        }
        libc::_exit(127)
    }
}

fn go_on(task: i32, onward: Onward) {
    // A task that was killed meanwhile is reported by the next wait.
    let _ = match onward {
        Onward::Run(signal) => request(libc::PTRACE_CONT, task, 0, usize::try_from(signal).unwrap_or(0)),
        Onward::Listen => request(libc::PTRACE_LISTEN, task, 0, 0),
    };
}

/// Whether a trap is that of a breakpoint of [`Follower::stop_at`], which is gone then. Programs may have traps of their own.
fn is_at_breakpoint(task: i32) -> bool {
    let is_fired = arch::take_fired_breakpoints(task).is_ok_and(|fired| fired & 1 != 0);
    is_fired && arch::set_breakpoint(task, 0, None).is_ok()
}

/// The process that a task belongs to.
fn process_of(task: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{task}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

fn ignore_interrupts() {
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: a disposition without a handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}
