//! Runs a front end under trace from exec to where it stops itself: the `warm` point (`docs/warm.md`).
//!
//! ```text
//!  entry ──> its loader, its runtime, its modules … ──> SIGSTOP to itself
//!             │ the tracer notes files and getenv        one thread: that is the point
//!             │ "fork" in the report, then fork: the child is the one that stops; its parent ends
//!             └ the tracer refuses what would change the task: a run does not inherit that
//! ```
//!
//! Unlike on the way to `main`, what a front end computes is its own affair: it knows that many runs get its state. The tracer
//! looks only at what a front end does to its task, because a run does not inherit that, and at the files that it reads, because
//! the image depends on them. The tracer follows threads, and programs that the front end starts; those must have ended when it
//! stops. The tracer makes an announced child the caller's own (`CLONE_PARENT`), because the child becomes the seed.
//!
//! To stop at each call takes as long as all the rest. An image that is to depend on no files can do without: then nobody looks at the
//! calls until the front end stops for the first time, and what its task has is compared with what it had (`own_state`).

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use regrow_front::DESCRIPTOR;
use regrow_front::report::FORK;
use regrow_sys::ptrace::{self, Resume, Stop, Stopped, SyscallEntry};

use crate::error::MakeError;
use crate::making::own_state::OwnState;
use crate::making::remote::{Access, Remote};
use crate::making::startup::{Startup, WRITES};
use crate::making::stat::stat_fields;
use crate::making::trace::{AtPoint, clear_breakpoints, note_trap, watch_loader, with_room};

/// How long the tracer looks for the next event without sleeping.
const AWAKE: Duration = Duration::from_micros(200);
const CLONE_PARENT: u64 = 0x8000;
const CLONE_THREAD: u64 = 0x1_0000;

/// Calls that give the front end's task what no run inherits, or that give all runs what only one process can have.
const REFUSED: &[(i64, &str)] = &[
    (libc::SYS_chdir, "changes its directory"),
    (libc::SYS_fchdir, "changes its directory"),
    (libc::SYS_chroot, "changes its root"),
    (libc::SYS_pivot_root, "changes its root"),
    (libc::SYS_umask, "changes its umask"),
    (libc::SYS_unshare, "changes its namespaces"),
    (libc::SYS_setns, "changes its namespaces"),
    (libc::SYS_setuid, "changes its user"),
    (libc::SYS_setreuid, "changes its user"),
    (libc::SYS_setresuid, "changes its user"),
    (libc::SYS_setfsuid, "changes its user"),
    (libc::SYS_setgid, "changes its group"),
    (libc::SYS_setregid, "changes its group"),
    (libc::SYS_setresgid, "changes its group"),
    (libc::SYS_setfsgid, "changes its group"),
    (libc::SYS_setgroups, "changes its groups"),
    (libc::SYS_capset, "changes its capabilities"),
    (libc::SYS_setsid, "changes its session"),
    (libc::SYS_setpgid, "changes its process group"),
    (libc::SYS_setrlimit, "changes its limits"),
    (libc::SYS_setpriority, "changes its niceness"),
    (libc::SYS_sched_setaffinity, "changes its processors"),
    (libc::SYS_sched_setscheduler, "changes its scheduling"),
    (libc::SYS_sched_setattr, "changes its scheduling"),
    (libc::SYS_ioprio_set, "changes its I/O priority"),
    (libc::SYS_seccomp, "sandboxes itself"),
    (libc::SYS_personality, "changes its personality"),
    (libc::SYS_timer_create, "has a timer"),
    (libc::SYS_setitimer, "has a timer"),
    (libc::SYS_io_setup, "uses asynchronous I/O"),
    (libc::SYS_io_uring_setup, "uses io_uring"),
    (libc::SYS_modify_ldt, "changes its LDT"),
    (libc::SYS_ptrace, "traces"),
];

/// The file that a system call is about, noted at the call's start for its end.
#[derive(Debug)]
struct FileAccess {
    path: PathBuf,
    /// Whether the call opens the file, or only looks at it.
    opens: bool,
}

/// What a traced task is to the front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskKind {
    /// A thread of the process that is going to stop.
    Own,
    /// A thread of a process that the front end has started.
    Child,
    /// A thread of the process that has forked the one that is going to stop. It ends, and what it still does does not matter.
    Left,
}

/// The way from entry to the stop.
struct WarmUp {
    startup: Startup,
    /// The tasks that live.
    tasks: HashMap<i32, TaskKind>,
    /// Tasks whose first stop came before their maker's event, which says what they are.
    unknown: HashMap<i32, Stopped>,
    /// The file of the system call that a task is in.
    pending: HashMap<i32, FileAccess>,
    /// The files that the front end has opened to write: the image does not depend on them.
    written: HashSet<PathBuf>,
    /// Whether the call that a task is in makes a thread.
    makes_thread: HashMap<i32, bool>,
    /// The process that is going to stop.
    main: i32,
    /// The memory of that process; `None` after a fork, until it is needed.
    access: Option<Access>,
    /// Whether the next child is the one that stops.
    announced: bool,
    /// The directory in which the front end may read relative paths.
    directory: Option<PathBuf>,
    /// What the front end had at its entry, while nobody looks at its calls.
    before: Option<OwnState>,
}

/// Lets a front end that stands at its entry run until it stops itself. `directory` is where it may read relative paths.
/// `unfollowed` is whether nobody looks at its calls up to a first stop.
pub(crate) fn to_warm(
    entry: AtPoint,
    directory: Option<&Path>,
    unfollowed: bool,
) -> Result<AtPoint, MakeError> {
    let AtPoint { remote, stack, startup } = with_room(entry)?;
    let mut remote = tell_start_of_stack(remote, stack.pointer)?;
    let mut before = None;
    if unfollowed {
        let (after, state) = OwnState::read(remote)?;
        (remote, before) = (after, Some(state));
    } else {
        watch_loader(&remote, &stack)?;
    }
    let main = remote.pid();
    let (stopped, access) = remote.release();
    let mut way = WarmUp {
        startup,
        tasks: HashMap::from([(main, TaskKind::Own)]),
        unknown: HashMap::new(),
        pending: HashMap::new(),
        written: HashSet::new(),
        makes_thread: HashMap::new(),
        main,
        access: Some(access),
        announced: false,
        directory: directory.map(Path::to_owned),
        before,
    };
    way.resume(stopped, 0)?;
    // A front end makes ten thousand system calls and more. To sleep at each would take as long as all the rest.
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let awake = if processors > 1 { AWAKE } else { Duration::ZERO };
    loop {
        let (pid, stop) = ptrace::wait_any(awake).map_err(MakeError::tracing("waiting"))?;
        if let Some(stopped) = way.event(pid, stop)? {
            let remote = way.remote(stopped)?;
            clear_breakpoints(&remote)?;
            let remote = show_name_alone(remote)?;
            let WarmUp { mut startup, written, .. } = way;
            startup.opened.retain(|path| !written.contains(path));
            startup.absent.retain(|path| !written.contains(path));
            return Ok(AtPoint { remote, stack, startup });
        }
    }
}

/// Tells the kernel to which place the argument block of a program at its entry has moved: a front end finds it by
/// `/proc/PID/stat`.
fn tell_start_of_stack(remote: Remote, pointer: u64) -> Result<Remote, MakeError> {
    let stat = stat_fields(remote.pid())?;
    let field = |number: usize| stat.get(number - 3).copied().unwrap_or(0);
    set_bounds(remote, pointer, [pointer, field(48), field(49), field(50), field(51)])
}

/// Has the kernel show the first argument alone of a front end that has stopped: its others hold its whole source, which would be what
/// `ps` shows of the image's processes. A run has the bounds of its own arguments.
fn show_name_alone(remote: Remote) -> Result<Remote, MakeError> {
    let stat = stat_fields(remote.pid())?;
    let field = |number: usize| stat.get(number - 3).copied().unwrap_or(0);
    let (start, end) = (field(48), field(49));
    let name = remote.read_string(start)?.len() as u64 + 1;
    let registers = remote.stopped().registers().map_err(MakeError::tracing("reading registers"))?;
    let bounds = [field(28), start, end.min(start + name), field(50), field(51)];
    set_bounds(remote, registers.stack_pointer(), bounds)
}

/// Sets where the kernel takes stack, arguments and environment of a process to be: `start_stack`, `arg_start`, `arg_end`, `env_start`,
/// `env_end`. The memory some way below the stack pointer is the process's, and in no use.
fn set_bounds(remote: Remote, stack_pointer: u64, bounds: [u64; 5]) -> Result<Remote, MakeError> {
    const PR_SET_MM_MAP: u64 = 14;
    const MAP_BYTES: u64 = 104;
    let stat = stat_fields(remote.pid())?;
    let field = |number: usize| stat.get(number - 3).copied().unwrap_or(0);
    let (remote, brk) = remote.must("reading the break", libc::SYS_brk, [0; 6])?;
    let mut words: Vec<u64> = [26, 27, 45, 46, 47].into_iter().map(field).collect();
    words.push(brk);
    words.extend(bounds);
    // The auxiliary vector and the executable stay.
    words.extend([0, u64::from(u32::MAX) << 32]);
    let scratch = (stack_pointer - 1024) & !15;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let before = remote.read(scratch, bytes.len())?;
    remote.write(scratch, &bytes)?;
    let args = [u64::from(libc::PR_SET_MM.unsigned_abs()), PR_SET_MM_MAP, scratch, MAP_BYTES, 0, 0];
    let (remote, _) = remote.must("telling the bounds of stack and arguments", libc::SYS_prctl, args)?;
    remote.write(scratch, &before)?;
    Ok(remote)
}

/// Whether a task is a thread of a process.
fn is_of(task: i32, process: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{task}/status")).unwrap_or_default();
    let number = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    number.and_then(|number| number.trim().parse().ok()) == Some(process)
}

fn refuse<T>(what: impl Into<String>) -> Result<T, MakeError> {
    Err(MakeError::Refused(what.into()))
}

impl WarmUp {
    fn resume(&self, stopped: Stopped, signal: i32) -> Result<(), MakeError> {
        let how = if self.before.is_some() { Resume::Continue } else { Resume::Syscall };
        stopped.resume(how, signal).map(drop).map_err(MakeError::tracing("resuming"))
    }

    /// Handles one event. Returns the process when it has stopped itself.
    fn event(&mut self, pid: i32, stop: Stop) -> Result<Option<Stopped>, MakeError> {
        let kind = self.tasks.get(&pid).copied();
        match (stop, kind) {
            (Stop::Gone(_), _) if pid == self.main => {
                return Err(MakeError::Died { step: "its preparation" });
            }
            (Stop::Gone(_), _) => drop(self.tasks.remove(&pid)),
            (Stop::Attached(stopped), None) => drop(self.unknown.insert(pid, stopped)),
            (Stop::Attached(stopped), _) => self.resume(stopped, 0)?,
            (Stop::Clone(stopped, made), kind) => {
                self.made(made, pid, kind.unwrap_or(TaskKind::Child))?;
                self.resume(stopped, 0)?;
            }
            (Stop::SyscallExit(stopped, result), _) => {
                self.exit(pid, result);
                self.resume(stopped, 0)?;
            }
            (Stop::Signal(stopped, libc::SIGSTOP), _) if pid == self.main => {
                if let Some(before) = self.before.take() {
                    let remote = self.remote(stopped)?;
                    let remote = before.check(remote)?;
                    self.go_on(remote)?;
                    return Ok(None);
                }
                return if self.tasks.values().any(|&kind| kind == TaskKind::Child) {
                    refuse("a process that it has started is still there when it stops")
                } else {
                    Ok(Some(stopped))
                };
            }
            (Stop::Signal(stopped, signal), _) => self.resume(stopped, signal)?,
            (stop, Some(TaskKind::Own)) => self.own_event(stop)?,
            (Stop::SyscallEnter(stopped, call), Some(TaskKind::Child)) => self.childs_call(stopped, call)?,
            (Stop::SyscallEnter(stopped, _) | Stop::Trap(stopped, _) | Stop::Exec(stopped), _) => {
                self.resume(stopped, 0)?;
            }
        }
        Ok(None)
    }

    /// Handles an event that only the process that is going to stop can have.
    fn own_event(&mut self, stop: Stop) -> Result<(), MakeError> {
        match stop {
            Stop::SyscallEnter(stopped, call) => {
                let remote = self.remote(stopped)?;
                self.enter(&remote, call)?;
                self.go_on(remote)
            }
            Stop::Trap(stopped, fired) => {
                let remote = self.remote(stopped)?;
                note_trap(&remote, fired, &mut self.startup)?;
                self.go_on(remote)
            }
            _ => refuse("it executes another program while it prepares itself"),
        }
    }

    /// Notes a task that another one has made.
    fn made(&mut self, made: i32, by: i32, maker: TaskKind) -> Result<(), MakeError> {
        let is_thread = self.makes_thread.remove(&by).unwrap_or_else(|| is_of(made, self.main));
        let kind = match maker {
            TaskKind::Own if is_thread => TaskKind::Own,
            TaskKind::Own if std::mem::take(&mut self.announced) => {
                self.tasks
                    .values_mut()
                    .filter(|kind| **kind == TaskKind::Own)
                    .for_each(|kind| *kind = TaskKind::Left);
                // The child has a copy of the memory.
                (self.main, self.access) = (made, None);
                TaskKind::Own
            }
            TaskKind::Own | TaskKind::Child => TaskKind::Child,
            TaskKind::Left => TaskKind::Left,
        };
        self.tasks.insert(made, kind);
        self.unknown.remove(&made).map_or(Ok(()), |stopped| self.resume(stopped, 0))
    }

    /// Notes the file that a process is about to look at which the front end has started.
    fn childs_call(&mut self, stopped: Stopped, call: SyscallEntry) -> Result<(), MakeError> {
        let remote = Remote::to_look_at(stopped)?;
        // A file that the child's own directory decides is no file of the front end's.
        let _ = self.look_at_file(&remote, call);
        self.resume(remote.release().0, 0)
    }

    /// Joins a stopped thread with the memory of its process.
    fn remote(&mut self, stopped: Stopped) -> Result<Remote, MakeError> {
        match self.access.take() {
            Some(access) => Ok(access.stopped(stopped)),
            None => Remote::new(stopped),
        }
    }

    fn go_on(&mut self, remote: Remote) -> Result<(), MakeError> {
        let (stopped, access) = remote.release();
        self.access = Some(access);
        self.resume(stopped, 0)
    }

    /// Judges a system call at its start.
    fn enter(&mut self, remote: &Remote, call: SyscallEntry) -> Result<(), MakeError> {
        let number = i64::try_from(call.number).unwrap_or(-1);
        let [first, second, third, ..] = call.args;
        if let Some((_, what)) = REFUSED.iter().find(|refused| refused.0 == number) {
            return refuse(format!("it {what} while it prepares itself"));
        }
        match number {
            libc::SYS_write if first == u64::from(DESCRIPTOR.unsigned_abs()) => {
                self.announced |= third == FORK.len() as u64 && remote.read(second, FORK.len())? == FORK;
                Ok(())
            }
            libc::SYS_prlimit64 if third != 0 => refuse("it changes its limits while it prepares itself"),
            libc::SYS_alarm if first != 0 => refuse("it has a timer when it stops"),
            libc::SYS_clone | libc::SYS_clone3 => {
                let flags = match number {
                    libc::SYS_clone => first,
                    _ => remote.read(first, 8)?.try_into().map_or(0, u64::from_ne_bytes),
                };
                let is_thread = flags & CLONE_THREAD != 0;
                self.makes_thread.insert(remote.pid(), is_thread);
                if is_thread || !self.announced {
                    return Ok(());
                }
                if number == libc::SYS_clone3 {
                    let flags = (flags | CLONE_PARENT).to_ne_bytes();
                    return remote.write(first, &flags);
                }
                let parent = remote.stopped().set_first_argument(flags | CLONE_PARENT);
                parent.map_err(MakeError::tracing("making its child the caller's"))
            }
            libc::SYS_fork | libc::SYS_vfork if self.announced => {
                refuse("it forks by a system call that cannot make the child the caller's")
            }
            _ => self.look_at_file(remote, call),
        }
    }

    /// Notes the file that a system call is about.
    fn look_at_file(&mut self, remote: &Remote, call: SyscallEntry) -> Result<(), MakeError> {
        let [first, second, third, ..] = call.args;
        match i64::try_from(call.number).unwrap_or(-1) {
            libc::SYS_open => self.file(remote, None, first, second),
            libc::SYS_openat => self.file(remote, Some(first), second, third),
            libc::SYS_execve => self.note(remote, None, first, true),
            libc::SYS_access | libc::SYS_stat | libc::SYS_lstat | libc::SYS_readlink => {
                self.note(remote, None, first, false)
            }
            libc::SYS_newfstatat
            | libc::SYS_faccessat
            | libc::SYS_faccessat2
            | libc::SYS_readlinkat
            | libc::SYS_statx => self.note(remote, Some(first), second, false),
            _ => Ok(()),
        }
    }

    /// Notes a file that a call opens with these flags.
    fn file(
        &mut self,
        remote: &Remote,
        directory: Option<u64>,
        path: u64,
        flags: u64,
    ) -> Result<(), MakeError> {
        let noted = self.note(remote, directory, path, true);
        if flags & WRITES == 0 {
            return noted;
        }
        self.written.extend(self.pending.remove(&remote.pid()).map(|pending| pending.path));
        Ok(())
    }

    /// Notes the file that a call is about, by the address of its path.
    fn note(
        &mut self,
        remote: &Remote,
        directory: Option<u64>,
        path: u64,
        opens: bool,
    ) -> Result<(), MakeError> {
        if path == 0 {
            return Ok(());
        }
        let path = PathBuf::from(std::ffi::OsString::from_vec(remote.read_string(path)?));
        // An empty path stands for the file of the descriptor.
        if path.as_os_str().is_empty() {
            return Ok(());
        }
        let path = self.absolute(remote, directory, path)?;
        if !["/proc", "/sys", "/dev"].iter().any(|kernels| path.starts_with(kernels)) {
            self.pending.insert(remote.pid(), FileAccess { path, opens });
        }
        Ok(())
    }

    /// Completes a path. `directory` is the descriptor of a directory, where the call has one.
    fn absolute(&self, remote: &Remote, directory: Option<u64>, path: PathBuf) -> Result<PathBuf, MakeError> {
        if path.is_absolute() {
            return Ok(path);
        }
        // The kernel takes the low half of the argument.
        let number = directory.and_then(|number| i32::try_from(number & 0xffff_ffff).ok());
        let base = match number {
            Some(number) => std::fs::read_link(format!("/proc/{}/fd/{number}", remote.pid())).ok(),
            None => self.directory.clone(),
        };
        match base {
            Some(base) => Ok(base.join(path)),
            None => refuse(format!("it reads {}, which depends on its directory", path.display())),
        }
    }

    /// Notes the outcome of a system call.
    fn exit(&mut self, pid: i32, result: i64) {
        let Some(FileAccess { path, opens }) = self.pending.remove(&pid) else { return };
        if result == -i64::from(libc::ENOENT) {
            self.startup.absent.insert(path);
        } else if result >= 0 && (opens || path.is_file()) && !path.is_dir() {
            self.startup.opened.insert(path);
        }
    }
}
