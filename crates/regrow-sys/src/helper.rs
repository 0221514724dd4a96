//! A helper process that shares this process's memory and descriptors, for work that must not be seen by the rest of
//! the program.
//!
//! Stops of traced processes are reported by `wait`, and announced by `SIGCHLD`, to every thread of the tracer. If a
//! thread of the caller traced, the caller's own `waitpid(-1)` could take a stop away, and its handler for `SIGCHLD`
//! would run. So the tracing is done in a process of its own, made as `vfork` makes one: it uses the memory, and the
//! thread-local storage, of the calling thread, which sleeps until the helper is done. (`posix_spawn` of glibc works the
//! same way.) Children that the helper makes with `CLONE_PARENT` are the caller's own.

#![allow(unsafe_code, reason = "clone with shared memory")]

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use crate::blocked_signals::BlockedSignals;
use crate::caller;
use crate::raw;

const STACK_BYTES: usize = 1024 * 1024;

/// Runs `work` in a helper process and returns its result.
///
/// # Errors
/// When the process cannot be made, or when it died before it was done.
pub fn run<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    struct HelperJob<F, T> {
        work: Option<F>,
        result: Option<T>,
    }
    extern "C" fn start<F: FnOnce() -> T, T>(job: *mut libc::c_void) -> i32 {
        // SAFETY: the caller passes its own job and sleeps until this process is gone.
        let job = unsafe { &mut *job.cast::<HelperJob<F, T>>() };
        if let Some(work) = job.work.take() {
            job.result = catch_unwind(AssertUnwindSafe(work)).ok();
        }
        0
    }
    fn starter<F: FnOnce() -> T, T>(_: &HelperJob<F, T>) -> extern "C" fn(*mut libc::c_void) -> i32 {
        start::<F, T>
    }
    let mut job = HelperJob { work: Some(work), result: None };
    let entry = starter(&job);
    let mut stack = vec![0u8; STACK_BYTES];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES | libc::CLONE_FS;
    let pid = {
        let _blocked = BlockedSignals::all();
        // SAFETY: CLONE_VFORK suspends this thread until the helper is gone, so that `job`, `stack` and the thread-local
        // storage are used by one task at a time; the stack's top is inside the vector and aligned by the kernel's ABI
        // requirement of 16 bytes.
        unsafe {
            let top = stack.as_mut_ptr().add(STACK_BYTES & !15);
            let top = top.sub(top as usize & 15);
            libc::clone(entry, top.cast(), flags, (&raw mut job).cast())
        }
    };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    raw::wait_pid(pid, false)?;
    job.result.ok_or_else(|| io::Error::other("the helper process died before it was done"))
}

/// A program to be started for tracing.
#[derive(Debug)]
pub struct Exec<'a> {
    /// Path.
    pub path: &'a std::ffi::CStr,
    /// Arguments, NULL-terminated.
    pub argv: &'a [*const libc::c_char],
    /// Environment, NULL-terminated.
    pub envp: &'a [*const libc::c_char],
    /// Descriptors that it gets: source and target, targets rising, sources above all targets. All others are closed.
    pub fds: &'a [(i32, i32)],
    /// The signals that it ignores, bit 0 is signal 1; `None` for those of the caller, but `SIGPIPE`. Those of the C library are
    /// the caller's either way.
    pub ignored: Option<u64>,
    /// The soft limit of its stack, in bytes: exec lays the memory out by it.
    pub stack_limit: u64,
}

/// A process that waits, before its exec, until it is let go. Its parent is the caller of [`run`].
#[derive(Debug)]
pub struct PreparedExec {
    pid: i32,
    gate: Box<Gate>,
    _stack: Vec<u8>,
}

#[derive(Debug)]
struct Gate {
    open: AtomicU32,
    errno: AtomicI32,
    path: *const libc::c_char,
    argv: *const *const libc::c_char,
    envp: *const *const libc::c_char,
    fds: *const (i32, i32),
    fd_count: usize,
    ignored: Option<u64>,
    stack_limit: u64,
}

/// Makes a child that will execute a program. To be called inside [`run`].
///
/// # Errors
/// As `clone(2)`.
pub fn prepare(exec: &Exec<'_>) -> io::Result<PreparedExec> {
    let gate = Box::new(Gate {
        open: AtomicU32::new(0),
        errno: AtomicI32::new(0),
        path: exec.path.as_ptr(),
        argv: exec.argv.as_ptr(),
        envp: exec.envp.as_ptr(),
        fds: exec.fds.as_ptr(),
        fd_count: exec.fds.len(),
        ignored: exec.ignored,
        stack_limit: exec.stack_limit,
    });
    let mut stack = vec![0u8; 64 * 1024];
    let flags = libc::CLONE_VM | libc::CLONE_PARENT | libc::CLONE_FS;
    // SAFETY: the child has its own stack, uses nothing of thread-local storage (raw system calls only), and the gate,
    // the stack and what `exec` borrows live until it has executed or exited: `PreparedExec` keeps the first two, and `go`
    // returns after the exec or the failure.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(stack.len());
        let top = top.sub(top as usize & 15);
        libc::clone(pending_child, top.cast(), flags, (&raw const *gate).cast_mut().cast())
    };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(PreparedExec { pid, gate, _stack: stack }) }
}

impl PreparedExec {
    /// The child.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Lets it execute its program.
    pub fn go(&self) {
        self.gate.open.store(1, Ordering::SeqCst);
        raw::futex_wake(&self.gate.open);
    }

    /// Why the exec failed, if it did.
    #[must_use]
    pub fn error(&self) -> Option<io::Error> {
        match self.gate.errno.load(Ordering::SeqCst) {
            0 => None,
            errno => Some(io::Error::from_raw_os_error(errno)),
        }
    }
}

extern "C" fn pending_child(gate: *mut libc::c_void) -> i32 {
    // SAFETY: `prepare` passes its gate, which outlives this task's use of the memory.
    let gate = unsafe { &*gate.cast::<Gate>() };
    while gate.open.load(Ordering::SeqCst) == 0 {
        raw::futex_wait(&gate.open, 0, Duration::from_secs(1));
    }
    // SAFETY: raw system calls on live pointers of the gate.
    let result = unsafe { execute(gate) };
    gate.errno.store(i32::try_from(-result).unwrap_or(libc::EINVAL), Ordering::SeqCst);
    // SAFETY: ends this task only.
    unsafe { raw::syscall(libc::SYS_exit_group, [127, 0, 0, 0, 0, 0]) };
    127
}

/// Sets the soft limit of the stack.
fn limit_stack(soft: u64) -> isize {
    let stack = libc::RLIMIT_STACK as usize;
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one limit, and reads one.
    unsafe {
        raw::syscall(libc::SYS_prlimit64, [0, stack, 0, &raw mut limit as usize, 0, 0]);
        limit.rlim_cur = soft;
        raw::syscall(libc::SYS_prlimit64, [0, stack, &raw const limit as usize, 0, 0, 0])
    }
}

/// # Safety
/// The gate's pointers are live and NULL-terminated where they must be.
unsafe fn execute(gate: &Gate) -> isize {
    let call = |number: i64, a: usize, b: usize, c: usize, d: usize| {
        // SAFETY: each use below passes what its call takes.
        unsafe { raw::syscall(number, [a, b, c, d, 0, 0]) }
    };
    for index in 0..gate.fd_count {
        // SAFETY: below the count of live pairs.
        let (source, target) = unsafe { *gate.fds.add(index) };
        let result = call(libc::SYS_dup3, raw::word(source), raw::word(target), 0, 0);
        if result < 0 {
            return result;
        }
    }
    let mut first_unused = 0;
    for index in 0..gate.fd_count {
        // SAFETY: as above.
        let target = raw::word(unsafe { *gate.fds.add(index) }.1);
        if target > first_unused {
            call(libc::SYS_close_range, first_unused, target - 1, 0, 0);
        }
        first_unused = target + 1;
    }
    call(libc::SYS_close_range, first_unused, u32::MAX as usize, 0, 0);
    for signal in 1..=64 {
        let bit = 1u64 << (signal - 1);
        let ignored = match gate.ignored {
            Some(ignored) if bit & caller::OF_C_LIBRARY == 0 => ignored & bit != 0,
            // As the standard library does for every child: SIGPIPE is default.
            None if signal == libc::SIGPIPE as usize => false,
            _ => continue,
        };
        // No handler's address: the default, or that it is ignored.
        let action = [usize::from(ignored), 0, 0, 0];
        call(libc::SYS_rt_sigaction, signal, action.as_ptr() as usize, 0, 8);
    }
    let result = limit_stack(gate.stack_limit);
    if result < 0 {
        return result;
    }
    // The mask is empty.
    let none = 0u64;
    call(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK as usize, &raw const none as usize, 0, 8);
    call(libc::SYS_execve, gate.path as usize, gate.argv as usize, gate.envp as usize, 0)
}
