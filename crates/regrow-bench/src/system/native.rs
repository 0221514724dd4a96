//! Calls that have no safe form: `posix_spawn`, the clone and the fork of the floors, clocks of processes.
//!
//! A measure never includes its own set-up: each type here makes ahead what its call needs.

#![allow(unsafe_code, reason = "calls posix_spawn, clone and fork, which have no safe form")]

use std::ffi::{CString, OsStr, OsString, c_char, c_int, c_void};
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};
use std::time::Duration;

use regrow_sys::raw::SharedMapping;
use rustix::process::{Pid, WaitOptions};

/// The stack of the floor's clone, which calls nothing.
const STACK_BYTES: usize = 16 * 1024;
/// How many standard descriptors there are.
const STDIO: usize = 3;

/// Starts one program again and again by `posix_spawn`. Everything that the call needs is made ahead.
pub(crate) struct PosixSpawn {
    path: CString,
    /// Keeps what `argv` and `envp` point to.
    _strings: Vec<CString>,
    argv: Vec<*mut c_char>,
    envp: Vec<*mut c_char>,
    actions: Box<libc::posix_spawn_file_actions_t>,
    attributes: Box<libc::posix_spawnattr_t>,
    /// Keeps the descriptors that the file actions copy.
    _stdio: [OwnedFd; STDIO],
}

impl PosixSpawn {
    /// Prepares to start `path` with these arguments (the first is the program's own name), this process's environment
    /// and these standard descriptors.
    pub(crate) fn new(path: &Path, args: &[OsString], stdio: [OwnedFd; STDIO]) -> io::Result<Self> {
        Self::with_variable(path, args, stdio, None)
    }

    /// As [`Self::new`], with one variable of the environment set.
    pub(crate) fn with_variable(
        path: &Path,
        args: &[OsString],
        stdio: [OwnedFd; STDIO],
        variable: Option<(&OsStr, &OsStr)>,
    ) -> io::Result<Self> {
        let c_string = |text: &OsStr| CString::new(text.as_bytes());
        let args: Vec<CString> = args.iter().map(|arg| c_string(arg)).collect::<Result<_, _>>()?;
        let mut env = Vec::new();
        let own = std::env::vars_os().filter(|(name, _)| variable.is_none_or(|set| set.0 != name));
        let set = variable.map(|(name, value)| (name.to_owned(), value.to_owned()));
        for (name, value) in own.chain(set) {
            env.push(CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())?);
        }
        let pointers = |strings: &[CString]| -> Vec<*mut c_char> {
            strings.iter().map(|string| string.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
        };
        let (argv, envp) = (pointers(&args), pointers(&env));
        Ok(Self {
            path: c_string(path.as_os_str())?,
            _strings: args.into_iter().chain(env).collect(),
            argv,
            envp,
            actions: file_actions(&stdio)?,
            attributes: attributes()?,
            _stdio: stdio,
        })
    }

    /// Starts it.
    pub(crate) fn spawn(&self) -> io::Result<Spawned> {
        let mut pid = 0;
        // SAFETY: the path and all strings are NUL-terminated and kept by `self`, as are the lists, which end with a
        // null; actions and attributes were initialised by `file_actions` and `attributes`.
        let error = unsafe {
            libc::posix_spawn(
                &raw mut pid,
                self.path.as_ptr(),
                &raw const *self.actions,
                &raw const *self.attributes,
                self.argv.as_ptr(),
                self.envp.as_ptr(),
            )
        };
        check(error)?;
        let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Spawned { pid })
    }
}

// SAFETY: the pointers are to memory that the value owns and nobody changes; nothing in it belongs to a thread.
unsafe impl Send for PosixSpawn {}

impl Drop for PosixSpawn {
    fn drop(&mut self) {
        // SAFETY: both were initialised, and are not used after this.
        unsafe {
            libc::posix_spawn_file_actions_destroy(&raw mut *self.actions);
            libc::posix_spawnattr_destroy(&raw mut *self.attributes);
        }
    }
}

fn file_actions(stdio: &[OwnedFd; STDIO]) -> io::Result<Box<libc::posix_spawn_file_actions_t>> {
    let mut actions = Box::new(MaybeUninit::uninit());
    // SAFETY: initialises the structure, which the box keeps in place.
    check(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
    // SAFETY: initialised by the call above.
    let mut actions = unsafe { actions.assume_init() };
    for (target, descriptor) in (0..).zip(stdio) {
        // SAFETY: the structure is initialised; the descriptor is open as long as its owner lives.
        check(unsafe {
            libc::posix_spawn_file_actions_adddup2(&raw mut *actions, descriptor.as_raw_fd(), target)
        })?;
    }
    Ok(actions)
}

/// Sets `SIGPIPE` to its default: a Rust program ignores it, and runs must not inherit that.
fn attributes() -> io::Result<Box<libc::posix_spawnattr_t>> {
    let mut attributes = Box::new(MaybeUninit::uninit());
    // SAFETY: initialises the structure, which the box keeps in place.
    check(unsafe { libc::posix_spawnattr_init(attributes.as_mut_ptr()) })?;
    // SAFETY: initialised by the call above.
    let mut attributes = unsafe { attributes.assume_init() };
    let mut signals = MaybeUninit::uninit();
    let flags =
        libc::c_short::try_from(libc::POSIX_SPAWN_SETSIGDEF).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: `sigemptyset` initialises the set before it is used; the attributes are initialised.
    unsafe {
        libc::sigemptyset(signals.as_mut_ptr());
        libc::sigaddset(signals.as_mut_ptr(), libc::SIGPIPE);
        check(libc::posix_spawnattr_setsigdefault(&raw mut *attributes, signals.as_ptr()))?;
        check(libc::posix_spawnattr_setflags(&raw mut *attributes, flags))?;
    }
    Ok(attributes)
}

/// A process that has started. Wait for it once.
pub(crate) struct Spawned {
    pid: Pid,
}

impl Spawned {
    /// A child of this process that something else has made, and that nothing else waits for.
    pub(crate) fn child(pid: Pid) -> Self {
        Self { pid }
    }

    /// Waits for its end.
    pub(crate) fn wait(self) -> io::Result<ExitStatus> {
        let waited =
            rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(self.pid), WaitOptions::empty()))?;
        let (_, status) = waited.ok_or(io::ErrorKind::InvalidData)?;
        Ok(ExitStatus::from_raw(status.as_raw()))
    }
}

/// The stack of the clones that measure the floor.
pub(crate) struct CloneStack(Box<[u128]>);

impl CloneStack {
    /// Makes the stack, and touches its pages.
    pub(crate) fn new() -> Self {
        Self(vec![1; STACK_BYTES / size_of::<u128>()].into_boxed_slice())
    }

    /// Clones a process that shares the memory and ends at once, and waits for it: the least that a new process costs.
    pub(crate) fn clone_and_wait(&mut self) -> io::Result<()> {
        extern "C" fn end(_: *mut c_void) -> c_int {
            0
        }
        let top = self.0.as_mut_ptr_range().end.cast::<c_void>();
        // SAFETY: the child runs `end` on a stack of its own, aligned to 16 bytes, which nobody uses until it has been
        // waited for below. It touches no other memory.
        let pid = unsafe { libc::clone(end, top, libc::CLONE_VM | libc::SIGCHLD, ptr::null_mut()) };
        let pid = Pid::from_raw(check_pid(pid)?).ok_or(io::ErrorKind::InvalidData)?;
        Spawned { pid }.wait().map(drop)
    }
}

/// What the two sides of a wake share.
#[repr(C)]
pub(crate) struct WakeCounters {
    /// Counts the wakes that the caller asked for; the partner sleeps on it.
    pub(crate) asked: AtomicU32,
    /// Counts the wakes that the partner answered; the caller sleeps on it.
    pub(crate) answered: AtomicU32,
    /// When the partner ran, in nanoseconds of the monotonic clock.
    pub(crate) woke_ns: AtomicU64,
}

/// What the caller and the prototype's process share. `struct orders` in `prototype/agent.h` has the same fields.
#[repr(C)]
pub(crate) struct OrderSheet {
    /// The caller sets it to 1: run. The task sets it to 0.
    pub(crate) go: AtomicU32,
    /// The task sets it to 1: it waits for `go`. The caller sets it to 0.
    pub(crate) armed: AtomicU32,
    /// The caller sets it to 1: the run has ended. The keeper sets it to 0.
    pub(crate) reset: AtomicU32,
    /// The armed task, from its clone on. The caller sets it to 0 when it has waited for it.
    pub(crate) pid: AtomicI32,
    /// When the run was entered, in nanoseconds of the monotonic clock.
    pub(crate) main_ns: AtomicU64,
}

/// What may stand in memory that another process changes.
///
/// # Safety
/// Zeros are a value of the type, it is no larger than a page, and all its fields are atomic.
pub(crate) unsafe trait Sheet {}

// SAFETY: three atomic integers, whose zeros are values.
unsafe impl Sheet for WakeCounters {}

// SAFETY: five atomic integers, whose zeros are values.
unsafe impl Sheet for OrderSheet {}

/// Memory that holds a sheet, shared with another process.
pub(crate) struct SharedSheet<T> {
    mapping: SharedMapping,
    memfd: OwnedFd,
    sheet: PhantomData<T>,
}

impl<T: Sheet> SharedSheet<T> {
    /// Maps the memory.
    pub(crate) fn new() -> io::Result<Self> {
        let bytes = size_of::<T>();
        let memfd = regrow_sys::raw::memfd("regrow-sheet", bytes as u64)?;
        Ok(Self { mapping: SharedMapping::new(memfd.as_fd(), bytes)?, memfd, sheet: PhantomData })
    }

    /// The sheet.
    pub(crate) fn sheet(&self) -> &T {
        // SAFETY: the mapping is page-aligned, has room for a sheet and lives as long as `self`; by the contract of
        // `Sheet` zeros are a valid sheet, and all its fields are atomic.
        unsafe { &*self.mapping.as_ptr().cast::<T>() }
    }

    /// Where another process of this user finds the memory, as long as the value lives.
    pub(crate) fn path(&self) -> String {
        let own = rustix::process::getpid().as_raw_nonzero();
        format!("/proc/{own}/fd/{}", self.memfd.as_raw_fd())
    }
}

/// Forks a process that runs `body` and ends.
///
/// `body` runs in a copy of a process that may have threads: it must allocate nothing and take no lock.
pub(crate) fn fork(body: impl FnOnce()) -> io::Result<Pid> {
    // SAFETY: the child calls nothing but `body`, which keeps to what is safe after a fork, and `_exit`.
    let pid = check_pid(unsafe { libc::fork() })?;
    match Pid::from_raw(pid) {
        Some(pid) => Ok(pid),
        None => {
            body();
            // SAFETY: ends the child without the exit handlers of the process that it is a copy of.
            unsafe { libc::_exit(0) }
        }
    }
}

/// The CPU time that a living process has used with all its threads; nothing when it is gone.
pub(crate) fn cpu_time(pid: i32) -> Option<Duration> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls write to live variables alone; a clock of a process that has gone is an error.
    unsafe {
        if libc::clock_getcpuclockid(pid, &raw mut clock) != 0
            || libc::clock_gettime(clock, &raw mut time) != 0
        {
            return None;
        }
    }
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

/// The CPU time that this process has used with all its threads.
pub(crate) fn own_cpu_time() -> io::Result<Duration> {
    usage(libc::RUSAGE_SELF)
}

/// The CPU time of the children that this process has waited for, and of those that they have waited for.
pub(crate) fn waited_cpu_time() -> io::Result<Duration> {
    usage(libc::RUSAGE_CHILDREN)
}

fn usage(whose: c_int) -> io::Result<Duration> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: writes a whole structure when it succeeds, and is read only then.
    let usage = unsafe {
        check_pid(libc::getrusage(whose, usage.as_mut_ptr()))?;
        usage.assume_init()
    };
    let time = |time: libc::timeval| {
        let (seconds, micros) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_usec));
        Duration::from_secs(seconds.unwrap_or(0)) + Duration::from_micros(micros.unwrap_or(0))
    };
    Ok(time(usage.ru_utime) + time(usage.ru_stime))
}

fn check(error: c_int) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

fn check_pid(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
