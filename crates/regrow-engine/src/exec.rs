//! The ordinary way to start a process: by exec, in a child that shares the caller's memory until then.
//!
//! ```text
//!   caller                          child (CLONE_VM, CLONE_VFORK, its own stack)
//!   plan: everything allocated
//!   block all signals
//!   clone ────────────────────────▶ handlers to default
//!   (this thread stands still)      session, group, descriptors, directory, umask, niceness, limits
//!                                   signal mask of the caller
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
//! Errors are the plain `errno` of the step that failed, as `posix_spawn` reports it: a program that is not
//! executable by its format is `ENOEXEC` and is not given to a shell.
//!
//! Invariants: between clone and exec the child allocates nothing, takes no lock, cannot panic and writes only
//! to its stack, to `errno` of the thread that stands still, and to the error of its `Plan`.

#![allow(unsafe_code, reason = "clones a child that shares this memory, and makes its raw system calls")]

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

use crate::creation::{Creation, Fallback};
use crate::request::{GivenFd, Limit, Request};
use crate::started::Started;

/// The size of the child's stack. It uses less than a tenth of it, in a build without optimization.
const STACK_BYTES: usize = 64 * 1024;

/// The size of the kernel's signal set.
const SIGSET_BYTES: usize = 8;

/// The highest signal number.
const SIGNAL_MAX: c_long = 64;

/// The exit status of a child that could not exec. Nobody but this module sees it.
const EXIT_NO_EXEC: c_int = 127;

/// Starts the process that `request` describes by exec. `why` is the reason that it is not recycled.
///
/// The run has the descriptors of [`Request::descriptors`] and no others, the caller's signal mask and
/// ignored signals (`SIGPIPE` alone is set to its default, as `std::process` does), and everything else from the
/// caller that the request does not set.
///
/// # Errors
/// What the step that failed says, before the program has run: `NotFound` when there is no such program or
/// directory, `PermissionDenied`, `ENOEXEC`, `E2BIG`, `EBADF` for a target descriptor over the limit, `EMFILE`,
/// `EAGAIN` or `ENOMEM` when there can be no further process, and the rest of `execve(2)`.
pub fn spawn_exec(request: &Request, why: Fallback) -> io::Result<Started> {
    let plan = Plan::new(request)?;
    let (pid, pidfd) = plan.clone_child()?;
    let started = Started::with_pidfd(pid, pidfd, Creation::Exec { why });
    match plan.error.load(Ordering::Acquire) {
        0 if request.traced => trace(started),
        0 => Ok(started),
        errno => {
            started.wait()?;
            Err(io::Error::from_raw_os_error(errno))
        }
    }
}

/// Traces a process that has just executed its program. One that is over already, on a busy machine, cannot be traced
/// any more: `Interrupted`.
fn trace(started: Started) -> io::Result<Started> {
    if let Err(error) = regrow_sys::ptrace::seize_to_exit(started.pid) {
        let _ = started.kill();
        started.wait()?;
        let is_over = error.raw_os_error() == Some(libc::EPERM);
        return Err(if is_over { io::ErrorKind::Interrupted.into() } else { error });
    }
    Ok(started)
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
    candidates: Vec<CString>,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    moves: Vec<Move>,
    /// Copies of the caller's descriptors that keep a source from being overwritten by an earlier move.
    _copies: Vec<OwnedFd>,
    gaps: Vec<Range>,
    current_dir: Option<&'a CStr>,
    setsid: bool,
    process_group: Option<i32>,
    umask: Option<u32>,
    nice: Option<i32>,
    limits: &'a [Limit],
    /// The `errno` of the step that failed in the child, 0 when none did.
    error: AtomicI32,
}

impl<'a> Plan<'a> {
    fn new(request: &'a Request) -> io::Result<Self> {
        let given = request.descriptors()?;
        let (moves, copies) = plan_moves(&given)?;
        // The leader of a session leads its group as well, and may not be asked to.
        let group_is_made = request.setsid && request.process_group == Some(0);
        Ok(Self {
            candidates: request.candidates(),
            argv: null_ended(request.argv()),
            envp: null_ended(&request.env),
            gaps: gaps(&moves),
            moves,
            _copies: copies,
            current_dir: request.current_dir.as_deref(),
            setsid: request.setsid,
            process_group: request.process_group.filter(|_| !group_is_made),
            umask: request.umask,
            nice: request.nice,
            limits: &request.limits,
            error: AtomicI32::new(0),
        })
    }

    /// Clones the child and stands still until it has executed the program or has ended.
    fn clone_child(&self) -> io::Result<(i32, OwnedFd)> {
        let stack = ChildStack::new()?;
        let signals = SignalsBlocked::new()?;
        let start = ChildStart { plan: self, mask: signals.before };
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
fn plan_moves(given: &[GivenFd<'_>]) -> io::Result<(Vec<Move>, Vec<OwnedFd>)> {
    let mut copies = Vec::new();
    let mut moves = Vec::with_capacity(given.len());
    for fd in given {
        let source = fd.source_number();
        let is_overwritten = given.iter().any(|other| other.target == source && other.target != fd.target);
        let source = if is_overwritten { copy_apart(fd.source, given, &mut copies)? } else { source };
        moves.push(Move { source, target: fd.target });
    }
    Ok((moves, copies))
}

/// Copies a descriptor to a number that is no target of `given`.
fn copy_apart(fd: BorrowedFd<'_>, given: &[GivenFd<'_>], copies: &mut Vec<OwnedFd>) -> io::Result<RawFd> {
    let mut lowest = 3;
    loop {
        let copy = rustix::io::fcntl_dupfd_cloexec(fd, lowest)?;
        let number = copy.as_raw_fd();
        copies.push(copy);
        if given.iter().all(|other| other.target != number) {
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

/// Makes the child what the request asks for, and executes the program. Returns only with an `errno`.
fn become_program(start: &ChildStart<'_>) -> Result<(), i32> {
    let plan = start.plan;
    reset_signals()?;
    set_group(plan)?;
    place_descriptors(plan)?;
    if let Some(directory) = plan.current_dir {
        // SAFETY: a string ended by a NUL byte, which the plan borrows.
        check(unsafe { libc::chdir(directory.as_ptr()) }.into())?;
    }
    set_attributes(plan)?;
    set_signal_mask(start.mask, &mut 0)?;
    execute(plan)
}

/// Sets every signal that has a handler to its default, and `SIGPIPE`. A handler would run in the caller's
/// memory if a signal came between the unblocking and the exec.
fn reset_signals() -> Result<(), i32> {
    const DEFAULT: [u64; 4] = [0; 4];
    for signal in 1..=SIGNAL_MAX {
        // Handler, flags, restorer (on some architectures), mask: the handler is the first word on all.
        let mut action = [0_u64; 4];
        // SAFETY: the kernel's structure is at most as large as `action`, and is only written to.
        let read = unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                ptr::null::<u64>(),
                action.as_mut_ptr(),
                SIGSET_BYTES,
            )
        };
        check(read)?;
        let [handler, ..] = action;
        let is_handled = handler != libc::SIG_DFL as u64 && handler != libc::SIG_IGN as u64;
        if is_handled || (signal == c_long::from(libc::SIGPIPE) && handler != libc::SIG_DFL as u64) {
            // SAFETY: zeros are the default action with no flags and an empty mask. The dispositions are the
            // child's own: it was cloned without `CLONE_SIGHAND`.
            check(unsafe {
                libc::syscall(
                    libc::SYS_rt_sigaction,
                    signal,
                    DEFAULT.as_ptr(),
                    ptr::null_mut::<u64>(),
                    SIGSET_BYTES,
                )
            })?;
        }
    }
    Ok(())
}

fn set_group(plan: &Plan<'_>) -> Result<(), i32> {
    if plan.setsid {
        // SAFETY: changes the child alone.
        check(unsafe { libc::setsid() }.into())?;
    }
    if let Some(group) = plan.process_group {
        // SAFETY: changes the child alone.
        check(unsafe { libc::setpgid(0, group) }.into())?;
    }
    Ok(())
}

/// Puts every given descriptor at its number and closes all others.
fn place_descriptors(plan: &Plan<'_>) -> Result<(), i32> {
    for step in &plan.moves {
        // SAFETY: the descriptor table is the child's own: it was cloned without `CLONE_FILES`. What is at the
        // target is no source of a later move, see `plan_moves`.
        check(unsafe {
            if step.source == step.target {
                libc::fcntl(step.target, libc::F_SETFD, 0)
            } else {
                libc::dup3(step.source, step.target, 0)
            }
            .into()
        })?;
    }
    for gap in &plan.gaps {
        // SAFETY: as above; the numbers are no targets.
        check(unsafe { libc::syscall(libc::SYS_close_range, gap.first, gap.last, 0) })?;
    }
    Ok(())
}

/// Sets umask, niceness and limits: the limits last, as they bind the child from then on.
fn set_attributes(plan: &Plan<'_>) -> Result<(), i32> {
    if let Some(umask) = plan.umask {
        // SAFETY: the mask is the child's own: it was cloned without `CLONE_FS`.
        unsafe { libc::umask(umask) };
    }
    if let Some(nice) = plan.nice {
        // SAFETY: changes the child alone, which number 0 names. By its number, as the first argument's type
        // differs between C libraries.
        check(unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, 0, nice) })?;
    }
    for limit in plan.limits {
        let values = [limit.soft, limit.hard];
        // SAFETY: changes the child alone, which number 0 names. The kernel's structure is two 64-bit
        // words, soft and hard, and is only read.
        check(unsafe {
            libc::syscall(
                libc::SYS_prlimit64,
                0,
                limit.resource.number(),
                values.as_ptr(),
                ptr::null_mut::<u64>(),
            )
        })?;
    }
    Ok(())
}

/// Executes the first candidate that can be. Like `execvp` it goes on after errors that say that this
/// candidate is none, and remembers that one could not be accessed.
fn execute(plan: &Plan<'_>) -> Result<(), i32> {
    let mut last = libc::ENOENT;
    let mut was_denied = false;
    for candidate in &plan.candidates {
        // SAFETY: path and arrays are ended by NUL and null, and stay in place: the plan borrows their strings.
        unsafe { libc::execve(candidate.as_ptr(), plan.argv.as_ptr(), plan.envp.as_ptr()) };
        last = errno();
        match last {
            libc::EACCES => was_denied = true,
            libc::ENOENT | libc::ESTALE | libc::ENOTDIR | libc::ENODEV | libc::ETIMEDOUT => {}
            _ => return Err(last),
        }
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
mod tests;
