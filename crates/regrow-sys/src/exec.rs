//! The ordinary way to start a process: by exec, in a child that shares the caller's memory until then.
//!
//! ```text
//!   caller                          child (CLONE_VM, CLONE_VFORK, its own stack)
//!   plan: everything allocated
//!   block all signals
//!   clone ────────────────────────▶ handlers to default
//!   (this thread stands still)      the task's session, group, then descriptors, directory, the rest of the task
//!                                   signal mask of the task, or of the caller
//!   ◀───────────────────────────── execve, candidate by candidate; if none works: errno, _exit
//!   unblock, read errno
//! ```
//!
//! It is `posix_spawn` with what that lacks (umask, limits, niceness, a pidfd without a race), at the same
//! price: measured side by side the medians are within the noise of each other, where a fork costs a
//! fifth more and, in a caller with 64 MiB of memory, five times as much. So there is one way for every
//! request, and one place where a run is given its descriptors and no other: marking the caller's other
//! descriptors takes one `close_range` per gap.
//!
//! Where the user changes, or a hook is to be called, the child has memory of its own: see `apart`. A caller that wants to
//! become the program itself takes the child's steps in its own process.
//!
//! Errors are the plain `errno` of the step that failed, as `posix_spawn` reports it: a program that is not
//! executable by its format is `ENOEXEC` and is not given to a shell.
//!
//! Invariants: between clone and exec the child allocates nothing, takes no lock, cannot panic and writes only
//! to its stack, to `errno` of the thread that stands still, and to the error of its `Plan`.

#![allow(unsafe_code, reason = "clones a child that shares this memory, and makes its raw system calls")]

mod apart;
mod hook;
mod identity;

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use regrow_abi::task::Task;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

pub use hook::Hook;
pub use identity::Identity;

use crate::caller::OF_C_LIBRARY;
use crate::raw::wait_pid;
use crate::scheduling;
use crate::search;
use crate::strings::Strings;

/// The size of the child's stack. It uses less than a fifth of it, in a build without optimization.
const STACK_BYTES: usize = 32 * 1024;

/// The size of the kernel's signal set.
const SIGSET_BYTES: usize = 8;

/// The highest signal number.
const SIGNAL_MAX: c_long = 64;

/// The exit status of a child that could not exec. Nobody but this module sees it.
const EXIT_NO_EXEC: c_int = 127;

/// A process that is to be started.
#[derive(Debug)]
pub struct Spawn<'a> {
    /// The files that may be the program, in the order in which exec tries them.
    pub candidates: &'a [CString],
    /// The first argument.
    pub argv0: &'a CStr,
    /// The arguments after it.
    pub args: &'a Strings,
    /// Environment.
    pub env: &'a Strings,
    /// Descriptors and the numbers that they get, which rise and are not negative. The process has no others.
    pub fds: &'a [(BorrowedFd<'a>, RawFd)],
    /// The directory that it starts in, where it is not the caller's.
    pub directory: Option<&'a CStr>,
    /// Its attributes. What is not set it has from the caller; `SIGPIPE` alone is set to its default then, as
    /// `std::process` does.
    pub task: &'a Task,
    /// Its user and groups.
    pub identity: &'a Identity,
    /// What it calls last, in this order. While it does, it has the caller's descriptors too, to be closed by the exec.
    pub hooks: &'a [Hook],
}

impl Spawn<'_> {
    /// Starts the process. Returns its number and a descriptor for it.
    ///
    /// # Errors
    /// What the step that failed says, before the program has run: `NotFound` when there is no such program or directory,
    /// `PermissionDenied`, `ENOEXEC`, `E2BIG`, `EBADF` for a target descriptor over the limit, `EMFILE`, `EAGAIN` or
    /// `ENOMEM` when there can be no further process, and the rest of `execve(2)`.
    pub fn start(&self) -> io::Result<(i32, OwnedFd)> {
        if !self.identity.is_callers() || !self.hooks.is_empty() {
            return Plan::new(self, Place::Fork)?.fork_child();
        }
        let plan = Plan::new(self, Place::SharedMemory)?;
        let (pid, pidfd) = plan.clone_child()?;
        match plan.error.load(Ordering::Acquire) {
            0 => Ok((pid, pidfd)),
            errno => {
                wait_pid(pid, false)?;
                Err(io::Error::from_raw_os_error(errno))
            }
        }
    }

    /// Makes the calling process the program. Returns only with an error, as [`Spawn::start`] has them: some of what the process
    /// was to become it is then.
    #[must_use]
    pub fn replace_caller(&self) -> io::Error {
        let become_planned = || {
            let plan = Plan::new(self, Place::Caller)?;
            let mut mask = 0;
            read_signal_mask(&mut mask).map_err(io::Error::from_raw_os_error)?;
            let mask = self.task.blocked_signals().unwrap_or(mask);
            become_program(&ChildStart { plan: &plan, mask }).map_err(io::Error::from_raw_os_error)
        };
        become_planned().err().unwrap_or_else(|| io::ErrorKind::Other.into())
    }
}

/// Where the program is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In a child that shares the caller's memory.
    SharedMemory,
    /// In a child that has memory of its own.
    Fork,
    /// In the calling process.
    Caller,
}

/// A descriptor of the child: copied from `source` to `target`, open over exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Move {
    source: RawFd,
    target: RawFd,
}

/// Descriptor numbers, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u32,
    last: u32,
}

/// Everything that the child needs, allocated before it exists.
struct Plan<'a> {
    candidates: &'a [CString],
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    moves: Vec<Move>,
    /// Copies of the caller's descriptors that keep a source from being overwritten by an earlier move.
    _copies: Vec<OwnedFd>,
    gaps: Vec<Range>,
    directory: Option<&'a CStr>,
    task: &'a Task,
    identity: &'a Identity,
    hooks: &'a [Hook],
    place: Place,
    /// The `errno` of the step that failed in the child, 0 when none did.
    error: AtomicI32,
}

impl<'a> Plan<'a> {
    fn new(spawn: &Spawn<'a>, place: Place) -> io::Result<Self> {
        let (moves, copies) = plan_moves(spawn.fds)?;
        Ok(Self {
            candidates: spawn.candidates,
            argv: null_ended(std::iter::once(spawn.argv0).chain(spawn.args)),
            envp: null_ended(spawn.env),
            gaps: gaps(&moves),
            moves,
            _copies: copies,
            directory: spawn.directory,
            task: spawn.task,
            identity: spawn.identity,
            hooks: spawn.hooks,
            place,
            error: AtomicI32::new(0),
        })
    }

    /// Clones the child and stands still until it has executed the program or has ended.
    fn clone_child(&self) -> io::Result<(i32, OwnedFd)> {
        let stack = ChildStack::new()?;
        let signals = SignalsBlocked::new()?;
        let mask = self.task.blocked_signals().unwrap_or(signals.before);
        let start = ChildStart { plan: self, mask };
        let mut pidfd: RawFd = -1;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD;
        // SAFETY: the child runs `child_main` on a stack of its own, whose top is aligned as mappings are.
        // `CLONE_VFORK` keeps this thread, and so `start`, `self` and the stack, in place until the child has left this
        // memory by exec or exit. The child gets no signal while it shares this memory, as all are blocked,
        // except the two that end it. With `CLONE_PIDFD` the kernel writes a descriptor to the pointer
        // that follows the argument.
        let pid = unsafe {
            libc::clone(
                child_main,
                stack.top(),
                flags,
                ptr::from_ref(&start).cast_mut().cast::<c_void>(),
                ptr::from_mut(&mut pidfd),
            )
        };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the clone has succeeded, so the kernel has opened this descriptor for us alone.
        Ok((pid, unsafe { OwnedFd::from_raw_fd(pidfd) }))
    }
}

/// The strings' addresses, and a null. Valid as long as the strings are not moved or changed.
fn null_ended<'s>(strings: impl IntoIterator<Item = &'s CStr>) -> Vec<*const c_char> {
    strings.into_iter().map(CStr::as_ptr).chain([ptr::null()]).collect()
}

/// Orders the moves so that none overwrites the source of a later one: a source whose number is the target of
/// another is copied elsewhere first. The copies live as long as they are returned.
fn plan_moves(fds: &[(BorrowedFd<'_>, RawFd)]) -> io::Result<(Vec<Move>, Vec<OwnedFd>)> {
    let mut copies = Vec::new();
    let mut moves = Vec::with_capacity(fds.len());
    for &(fd, target) in fds {
        let source = fd.as_raw_fd();
        let is_overwritten = fds.iter().any(|&(_, other)| other == source && other != target);
        let source = if is_overwritten { copy_apart(fd, fds, &mut copies)? } else { source };
        moves.push(Move { source, target });
    }
    Ok((moves, copies))
}

/// Copies a descriptor to a number that is no target of `fds`.
fn copy_apart(
    fd: BorrowedFd<'_>,
    fds: &[(BorrowedFd<'_>, RawFd)],
    copies: &mut Vec<OwnedFd>,
) -> io::Result<RawFd> {
    let mut lowest = 3;
    loop {
        let copy = rustix::io::fcntl_dupfd_cloexec(fd, lowest)?;
        let number = copy.as_raw_fd();
        copies.push(copy);
        if fds.iter().all(|&(_, target)| target != number) {
            return Ok(number);
        }
        lowest = number.saturating_add(1);
    }
}

/// The numbers that are no target, as ranges. The targets of `moves` rise and are not negative.
fn gaps(moves: &[Move]) -> Vec<Range> {
    let mut gaps = Vec::new();
    let mut first = 0;
    for target in moves.iter().filter_map(|step| u32::try_from(step.target).ok()) {
        if target > first {
            gaps.push(Range { first, last: target - 1 });
        }
        first = target + 1;
    }
    gaps.push(Range { first, last: u32::MAX });
    gaps
}

/// The stack of the child, with a page beneath it that cannot be touched.
struct ChildStack {
    base: *mut c_void,
    size: usize,
}

impl ChildStack {
    fn new() -> io::Result<Self> {
        let guard = rustix::param::page_size();
        let size = STACK_BYTES + guard;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory that is in use.
        let base = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), size, access, MapFlags::PRIVATE)? };
        let stack = Self { base, size };
        // SAFETY: the page is the lowest of the mapping made above, which nothing uses yet.
        unsafe { rustix::mm::mprotect(base, guard, MprotectFlags::empty())? };
        Ok(stack)
    }

    fn top(&self) -> *mut c_void {
        self.base.wrapping_byte_add(self.size)
    }
}

impl Drop for ChildStack {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and the child that ran on it has left this memory.
        // That it can fail only for wrong arguments makes its result uninteresting.
        let _ = unsafe { rustix::mm::munmap(self.base, self.size) };
    }
}

/// All signals are blocked for this thread, also those that the C library keeps to itself.
struct SignalsBlocked {
    before: u64,
}

impl SignalsBlocked {
    fn new() -> io::Result<Self> {
        let mut before = 0;
        set_signal_mask(u64::MAX, &mut before).map_err(io::Error::from_raw_os_error)?;
        Ok(Self { before })
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // Fails for wrong arguments only.
        let _ = set_signal_mask(self.before, &mut 0);
    }
}

/// Tells the signal mask of this thread.
fn read_signal_mask(mask: &mut u64) -> Result<(), i32> {
    let (how, none, mask) = (libc::SIG_BLOCK, ptr::null::<u64>(), ptr::from_mut(mask));
    // SAFETY: the set is of the kernel's size, which is given, and lives over the call.
    check(unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, none, mask, SIGSET_BYTES) })
}

/// Sets the signal mask of this thread, and tells the one before.
fn set_signal_mask(mask: u64, before: &mut u64) -> Result<(), i32> {
    // SAFETY: both sets are of the kernel's size, which is given, and live over the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            ptr::from_ref(&mask),
            ptr::from_mut(before),
            SIGSET_BYTES,
        )
    })
}

/// What the child is handed.
struct ChildStart<'p> {
    plan: &'p Plan<'p>,
    /// The signal mask that the program starts with.
    mask: u64,
}

/// The first function of the child.
extern "C" fn child_main(start: *mut c_void) -> c_int {
    // SAFETY: `clone_child` passes a `ChildStart`, which stays in place while this runs, and which nobody
    // writes to.
    let start = unsafe { &*start.cast::<ChildStart<'_>>() };
    if let Err(errno) = become_program(start) {
        start.plan.error.store(errno, Ordering::Release);
    }
    // SAFETY: ends this process alone, without the exit handlers of the memory that it shares.
    unsafe { libc::_exit(EXIT_NO_EXEC) }
}

/// Makes this process what the plan says, and executes the program. Returns only with an `errno`.
fn become_program(start: &ChildStart<'_>) -> Result<(), i32> {
    let plan = start.plan;
    set_dispositions(plan)?;
    set_group(plan.task)?;
    place_descriptors(plan)?;
    set_attributes(plan.task)?;
    if plan.place != Place::SharedMemory {
        plan.identity.take_on()?;
    }
    if let Some(directory) = plan.directory {
        // SAFETY: a string ended by a NUL byte, which the plan borrows.
        check(unsafe { libc::chdir(directory.as_ptr()) }.into())?;
    }
    set_signal_mask(start.mask, &mut 0)?;
    if plan.place != Place::SharedMemory {
        plan.hooks.iter().try_for_each(Hook::call)?;
    }
    execute(plan)
}

/// Has the process ignore the signals that its task says, and sets all others to their default. Without a set, those that the
/// caller ignores stay ignored, but for `SIGPIPE`. A handler would run in the caller's memory if a signal came between the
/// unblocking and the exec. The caller itself keeps its handlers: the exec removes them.
fn set_dispositions(plan: &Plan<'_>) -> Result<(), i32> {
    let ignored = plan.task.ignored_signals();
    for signal in 1..=SIGNAL_MAX {
        let bit = 1_u64 << (signal - 1);
        let handler = handler_of(signal)?;
        let is_ignored = handler == libc::SIG_IGN as u64;
        let ignores = match ignored {
            Some(ignored) if bit & OF_C_LIBRARY == 0 => ignored & bit != 0,
            Some(_) => is_ignored,
            None => is_ignored && signal != c_long::from(libc::SIGPIPE),
        };
        let wanted = if ignores { libc::SIG_IGN } else { libc::SIG_DFL } as u64;
        let is_left_to_exec = plan.place == Place::Caller && !ignores && !is_ignored;
        if handler == wanted || is_left_to_exec {
            continue;
        }
        // No flags and an empty mask.
        let action = [wanted, 0, 0, 0];
        // SAFETY: the kernel's structure is at most as large as `action`, and is only read. The dispositions are the
        // child's own: it was cloned without `CLONE_SIGHAND`.
        check(unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                action.as_ptr(),
                ptr::null_mut::<u64>(),
                SIGSET_BYTES,
            )
        })?;
    }
    Ok(())
}

/// What the child does about a signal: a handler's address, `SIG_DFL` or `SIG_IGN`.
fn handler_of(signal: c_long) -> Result<u64, i32> {
    // Handler, flags, restorer (on some architectures), mask: the handler is the first word on all.
    let mut action = [0_u64; 4];
    // SAFETY: the kernel's structure is at most as large as `action`, and is only written to.
    check(unsafe {
        libc::syscall(libc::SYS_rt_sigaction, signal, ptr::null::<u64>(), action.as_mut_ptr(), SIGSET_BYTES)
    })?;
    let [handler, ..] = action;
    Ok(handler)
}

fn set_group(task: &Task) -> Result<(), i32> {
    if task.session() {
        // SAFETY: changes the child alone.
        check(unsafe { libc::setsid() }.into())?;
    }
    if let Some(group) = task.process_group() {
        // SAFETY: changes the child alone.
        check(unsafe { libc::setpgid(0, group) }.into())?;
    }
    Ok(())
}

/// Puts every given descriptor at its number and closes all others, or has the exec close them.
fn place_descriptors(plan: &Plan<'_>) -> Result<(), i32> {
    for step in &plan.moves {
        // SAFETY: the descriptor table is the child's own: it was cloned without `CLONE_FILES`. What is at the
        // target is no source of a later move, see `plan_moves`. A caller that becomes the program has said what takes its numbers.
        check(unsafe {
            if step.source == step.target {
                libc::fcntl(step.target, libc::F_SETFD, 0)
            } else {
                libc::dup3(step.source, step.target, 0)
            }
            .into()
        })?;
    }
    // Those who look on have a use for theirs until the exec: a hook, the caller, and the end of the caller's socket.
    let how = if plan.place == Place::SharedMemory { 0 } else { libc::CLOSE_RANGE_CLOEXEC };
    for gap in &plan.gaps {
        // SAFETY: as above; the numbers are no targets.
        check(unsafe { libc::syscall(libc::SYS_close_range, gap.first, gap.last, how) })?;
    }
    Ok(())
}

/// Sets umask, niceness, processors, slice and limits: the limits last, as they bind the child from then on.
fn set_attributes(task: &Task) -> Result<(), i32> {
    if let Some(mask) = task.umask() {
        // SAFETY: the mask is the child's own: it was cloned without `CLONE_FS`.
        unsafe { libc::umask(mask) };
    }
    if let Some(niceness) = task.nice() {
        // SAFETY: changes the child alone, which number 0 names. By its number, as the first argument's type
        // differs between C libraries.
        check(unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, 0, niceness) })?;
    }
    if let Some(processors) = task.affinity() {
        let (bytes, set) = (size_of_val(processors), processors.as_ptr());
        // SAFETY: changes the child alone, which number 0 names. The set has the size that is named, and is only read.
        check(unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, bytes, set) })?;
    }
    if let Some(slice_ns) = task.slice_ns() {
        set_slice(slice_ns).map_err(|error| error.raw_os_error().unwrap_or(libc::EINVAL))?;
    }
    for (resource, limit) in task.limits() {
        let (limit, none) = (ptr::from_ref(limit), ptr::null_mut::<u64>());
        // SAFETY: changes the child alone, which number 0 names. The limit has the layout of the kernel's structure, and
        // is only read.
        check(unsafe { libc::syscall(libc::SYS_prlimit64, 0, resource, limit, none) })?;
    }
    Ok(())
}

/// Gives the child a slice. Only the ordinary policies have one.
fn set_slice(slice_ns: u64) -> io::Result<()> {
    let changed = scheduling::read()?.with_slice(slice_ns);
    scheduling::set(&changed.ok_or(io::Error::from_raw_os_error(libc::EINVAL))?)
}

/// Executes the first candidate that can be. Like `execvp` it goes on after errors that say that this
/// candidate is none, and remembers that one could not be accessed.
fn execute(plan: &Plan<'_>) -> Result<(), i32> {
    let mut last = libc::ENOENT;
    let mut was_denied = false;
    for candidate in plan.candidates {
        // SAFETY: path and arrays are ended by NUL and null, and stay in place: the plan borrows their strings.
        unsafe { libc::execve(candidate.as_ptr(), plan.argv.as_ptr(), plan.envp.as_ptr()) };
        last = errno();
        if !search::goes_on(last) {
            return Err(last);
        }
        was_denied |= last == libc::EACCES;
    }
    Err(if was_denied { libc::EACCES } else { last })
}

/// The result of a system call of the C library, negative when it failed.
fn check(result: c_long) -> Result<(), i32> {
    if result < 0 { Err(errno()) } else { Ok(()) }
}

fn errno() -> i32 {
    // SAFETY: the address is that of the calling thread's `errno`. In the child that is the `errno` of the thread
    // that stands still.
    unsafe { *libc::__errno_location() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    /// Runs a script of `sh` as a task to its end, and gives its exit status.
    fn status_of(script: &CStr, task: &Task) -> i32 {
        let mut args = Strings::new();
        args.push_c_str(c"-c");
        args.push_c_str(script);
        let spawn = Spawn {
            candidates: &[c"/nowhere/sh".to_owned(), c"/bin/sh".to_owned()],
            argv0: c"sh",
            args: &args,
            env: &Strings::new(),
            fds: &[],
            directory: Some(c"/"),
            task,
            identity: &Identity::default(),
            hooks: &[],
        };
        let (pid, _pidfd) = spawn.start().expect("it starts");
        wait_pid(pid, false).expect("it is a child").expect("it has ended") >> 8
    }

    #[test]
    fn a_task_is_what_the_process_is_told_to_be() {
        let bit = |signal: i32| 1_u64 << (signal - 1);
        let mut task = Task::new();
        task.set_session(true).set_process_group(0).set_umask(0o31).set_nice(7);
        task.set_ignored_signals(bit(libc::SIGUSR2)).set_blocked_signals(bit(libc::SIGUSR1));
        let mut processors = [0; regrow_abi::task::AFFINITY_WORDS];
        processors[0] = 1;
        task.set_affinity(&processors);
        let script = c"test $(umask) = 0031 || exit 1
            set -- $(/bin/cat /proc/self/stat)
            test $5 = $$ && test $6 = $$ && test ${19} = 7 || exit 2
            while read name value rest; do
                case $name in
                SigIgn:) test $((0x$value & 0x7fffffff)) = 2048 || exit 3;;
                SigBlk:) test $value = 0000000000000200 || exit 4;;
                Cpus_allowed_list:) test $value = 0 || exit 5;;
                esac
            done </proc/self/status";
        assert_eq!(status_of(script, &task), 0);
        let script = c"test $(umask) != 0031 && set -- $(/bin/cat /proc/self/stat) && test $6 != $$";
        assert_eq!(status_of(script, &Task::new()), 0);
    }

    #[test]
    fn signals_are_as_after_exec() {
        extern "C" fn handler(_: c_int) {}
        // SAFETY: the handler does nothing; no other test of this process uses the two signals.
        unsafe {
            libc::signal(libc::SIGUSR1, handler as *const () as libc::sighandler_t);
            libc::signal(libc::SIGVTALRM, libc::SIG_IGN);
        }
        let block = 1_u64 << (libc::SIGUSR2 - 1);
        let (mut before, mut after) = (0, 0);
        set_signal_mask(block, &mut before).expect("the mask can be set");
        // SIGVTALRM is 26, SIGPIPE 13, SIGUSR2 12, SIGUSR1 10.
        let script = c"while read name value rest; do
                case $name in
                SigBlk:) test $((0x$value)) = $((1 << 11)) || exit 1;;
                SigIgn:) test $((0x$value & (1 << 25 | 1 << 12 | 1 << 9))) = $((1 << 25)) || exit 2;;
                SigCgt:) test $((0x$value & 1 << 9)) = 0 || exit 3;;
                esac
            done </proc/self/status";
        let status = status_of(script, &Task::new());
        set_signal_mask(before, &mut after).expect("the mask can be set");
        assert_eq!(status, 0);
        assert_eq!(after, block, "the caller's mask is put back");
    }

    #[test]
    fn what_cannot_be_set_starts_nothing() {
        let mut task = Task::new();
        task.set_process_group(i32::MAX);
        let spawn = Spawn {
            candidates: &[c"/bin/true".to_owned()],
            argv0: c"true",
            args: &Strings::new(),
            env: &Strings::new(),
            fds: &[],
            directory: None,
            task: &task,
            identity: &Identity::default(),
            hooks: &[],
        };
        let error = spawn.start().expect_err("there is no such group");
        assert!(
            [libc::EPERM, libc::ESRCH].contains(&error.raw_os_error().expect("of the kernel")),
            "{error}"
        );
        let nothing = Spawn { candidates: &[], task: &Task::new(), ..spawn };
        let error = nothing.start().expect_err("there is no candidate");
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn a_hook_that_fails_starts_nothing_and_one_that_does_not_is_called_in_the_child() {
        let (task, identity) = (Task::new(), Identity::default());
        let own = rustix::process::getpid();
        let elsewhere = Hook::new(move || {
            let is_child = rustix::process::getpid() != own;
            if is_child { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EXDEV)) }
        });
        let refuses = Hook::new(|| Err(io::Error::from_raw_os_error(libc::ELOOP)));
        let start = |hooks: &[Hook]| {
            let spawn = Spawn {
                candidates: &[c"/bin/true".to_owned()],
                argv0: c"true",
                args: &Strings::new(),
                env: &Strings::new(),
                fds: &[],
                directory: None,
                task: &task,
                identity: &identity,
                hooks,
            };
            spawn.start()
        };
        let (pid, _pidfd) = start(std::slice::from_ref(&elsewhere)).expect("it starts");
        assert_eq!(wait_pid(pid, false).expect("a child"), Some(0));
        let error = start(&[elsewhere, refuses]).expect_err("the second refuses");
        assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
    }

    #[test]
    fn moves_spare_the_sources_of_later_moves() {
        let one = File::open("/dev/null").expect("a device");
        let two = File::open("/dev/null").expect("a device");
        let swap = [(two.as_fd(), one.as_raw_fd()), (one.as_fd(), two.as_raw_fd())];
        let (moves, copies) = plan_moves(&swap).expect("descriptors are free");
        assert_eq!(copies.len(), 2);
        for (index, step) in moves.iter().enumerate() {
            assert!(moves.iter().take(index).all(|earlier| earlier.target != step.source), "{moves:?}");
        }
    }

    #[test]
    fn gaps_are_everything_but_the_targets() {
        let at = |targets: &[RawFd]| {
            let moves: Vec<Move> = targets.iter().map(|&target| Move { source: 99, target }).collect();
            gaps(&moves).iter().map(|gap| (gap.first, gap.last)).collect::<Vec<_>>()
        };
        assert_eq!(at(&[]), [(0, u32::MAX)]);
        assert_eq!(at(&[0, 1, 2]), [(3, u32::MAX)]);
        assert_eq!(at(&[1, 5, 6]), [(0, 0), (2, 4), (7, u32::MAX)]);
    }
}
