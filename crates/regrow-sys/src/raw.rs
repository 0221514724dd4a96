//! System calls that neither rustix nor libc wraps, or that must not touch `errno`.
//!
//! A task that shares memory with another (see [`crate::helper`]) shares its `errno` too, so the few calls that such
//! a task makes while the other runs go through [`syscall`], which returns the kernel's result as it is.

#![allow(unsafe_code, reason = "raw system calls are what this file is for")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

pub use crate::arch::{has_shadow_stack, syscall, thread_pointer};

/// A number as the kernel takes it: one register, sign kept.
#[must_use]
pub fn word(number: i32) -> usize {
    isize::try_from(number).map_or(0, isize::cast_unsigned)
}

/// Turns a raw result into a value or an error.
///
/// # Errors
/// The error that the kernel returned.
pub fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result)
        .map_err(|_| io::Error::from_raw_os_error(i32::try_from(-result).unwrap_or(libc::EINVAL)))
}

/// Sleeps while `word` has this value, at most `timeout`. The word may lie in memory shared between processes.
pub fn futex_wait(word: &AtomicU32, value: u32, timeout: Duration) {
    let time = libc::timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    let args = [word.as_ptr() as usize, 0, value as usize, &raw const time as usize, 0, 0];
    // SAFETY: the word and the time are live references; FUTEX_WAIT writes nothing.
    unsafe { syscall(libc::SYS_futex, args) };
}

/// Wakes all that sleep on `word`.
pub fn futex_wake(word: &AtomicU32) {
    let args = [word.as_ptr() as usize, 1, i32::MAX as usize, 0, 0, 0];
    // SAFETY: the word is a live reference.
    unsafe { syscall(libc::SYS_futex, args) };
}

/// A descriptor for a process.
///
/// # Errors
/// As `pidfd_open(2)`.
pub fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: numbers only.
    let fd = check(unsafe { syscall(libc::SYS_pidfd_open, [word(pid), 0, 0, 0, 0, 0]) })?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?) })
}

/// Blocks signals for the calling thread and gives a descriptor that they are read from; bit 0 of the set is signal 1.
/// The set that was blocked before is the second value.
///
/// # Errors
/// As `signalfd(2)`: `EMFILE`, `ENOMEM`.
pub fn signals_as_descriptor(set: u64) -> io::Result<(OwnedFd, u64)> {
    let mut before = 0u64;
    let (set_at, before_at) = (&raw const set as usize, &raw mut before as usize);
    let block = word(libc::SIG_BLOCK);
    // SAFETY: both sets are live and have the eight bytes of the kernel's own.
    check(unsafe { syscall(libc::SYS_rt_sigprocmask, [block, set_at, before_at, 8, 0, 0]) })?;
    let flags = word(libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
    // SAFETY: as above; -1 asks for a new descriptor.
    let opened = check(unsafe { syscall(libc::SYS_signalfd4, [word(-1), set_at, 8, flags, 0, 0]) });
    let fd = opened.inspect_err(|_| set_signal_mask(before))?;
    // SAFETY: the kernel has just made this descriptor for us.
    let fd = unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?) };
    Ok((fd, before))
}

/// Sets the signals that the calling thread blocks; bit 0 is signal 1.
pub fn set_signal_mask(set: u64) {
    let how = word(libc::SIG_SETMASK);
    // SAFETY: the set is live and has the eight bytes of the kernel's own.
    unsafe { syscall(libc::SYS_rt_sigprocmask, [how, &raw const set as usize, 0, 8, 0, 0]) };
}

/// Has a command begin with a set of blocked signals, whatever the calling thread blocks when it is started.
pub fn begin_with_signal_mask(command: &mut Command, set: u64) {
    let begin = move || {
        set_signal_mask(set);
        Ok(())
    };
    // SAFETY: a system call is all that the child makes there; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(begin) };
}

/// How long a new parent may take to wait for an orphan that has ended.
const REAPED_WITHIN: Duration = Duration::from_secs(2);

/// The wait status of a process that has ended, and that its parent waits for within two seconds (Linux 6.15); `None` where
/// the kernel does not tell it.
#[must_use]
pub fn pidfd_exit_status(pidfd: BorrowedFd<'_>) -> Option<i32> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let known = pidfd_exit_code(pidfd).ok()?;
    if known.is_some() {
        return known;
    }
    // The kernel hangs up when the process has been waited for; no other event is asked for.
    let timeout = Timespec::try_from(REAPED_WITHIN).ok();
    while let Err(rustix::io::Errno::INTR) =
        poll(&mut [PollFd::from_borrowed_fd(pidfd, PollFlags::empty())], timeout.as_ref())
    {}
    pidfd_exit_code(pidfd).ok().flatten()
}

/// The wait status of a process; `None` before its parent has waited for it.
///
/// # Errors
/// Where the kernel has no such request.
pub fn pidfd_exit_code(pidfd: BorrowedFd<'_>) -> io::Result<Option<i32>> {
    /// `PIDFD_GET_INFO` for a structure of 64 bytes.
    const GET_INFO: usize = 0xc040_ff0b;
    const EXIT: u64 = 1 << 3;
    /// The kernel's `struct pidfd_info`, its first version.
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        mask: u64,
        cgroup: u64,
        ids: [u32; 11],
        exit_code: i32,
    }
    let mut info = Info { mask: EXIT, ..Info::default() };
    let fd = word(pidfd.as_raw_fd());
    // SAFETY: the request writes a structure of the size that its number names.
    check(unsafe { syscall(libc::SYS_ioctl, [fd, GET_INFO, &raw mut info as usize, 0, 0, 0]) })?;
    Ok((info.mask & EXIT != 0).then_some(info.exit_code))
}

/// Whether the kernel tells the calling process everything of another one in `/proc`. Where it does not, numbers read as
/// zero.
#[must_use]
pub fn may_inspect(pid: i32) -> bool {
    // What is asked for does not matter: the call is refused by the same rule.
    share_memory(std::process::id().cast_signed(), pid).is_some()
}

/// Sends a signal to the process that a pidfd stands for, or to its whole process group.
///
/// # Errors
/// As `pidfd_send_signal(2)`: `ESRCH` when it has been waited for.
pub fn pidfd_signal(pidfd: BorrowedFd<'_>, signal: i32, group: bool) -> io::Result<()> {
    const PROCESS_GROUP: usize = 4;
    let flags = if group { PROCESS_GROUP } else { 0 };
    let fd = word(std::os::fd::AsRawFd::as_raw_fd(&pidfd));
    // SAFETY: numbers, and no `siginfo`.
    check(unsafe { syscall(libc::SYS_pidfd_send_signal, [fd, word(signal), 0, flags, 0, 0]) }).map(drop)
}

/// Sends a signal to a process by its descriptor.
///
/// # Errors
/// As `pidfd_send_signal(2)`.
pub fn pidfd_kill(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    let args = [word(pidfd.as_raw_fd()), word(signal), 0, 0, 0, 0];
    // SAFETY: numbers only.
    check(unsafe { syscall(libc::SYS_pidfd_send_signal, args) }).map(drop)
}

/// Has the kernel page a range of a process's memory out, as it does when memory is short. It needs `CAP_SYS_NICE`.
///
/// # Errors
/// As `process_madvise(2)`.
pub fn page_out(pidfd: BorrowedFd<'_>, start: u64, bytes: u64) -> io::Result<()> {
    let range = [start, bytes];
    let args = [word(pidfd.as_raw_fd()), range.as_ptr() as usize, 1, word(libc::MADV_PAGEOUT), 0, 0];
    // SAFETY: one `struct iovec`, which lives on this stack; the advice changes no content.
    check(unsafe { syscall(libc::SYS_process_madvise, args) }).map(drop)
}

/// Whether two processes share their memory; `None` where the kernel does not tell (`kcmp(2)`: it has no such call, or this process may
/// not look at them). Processes that have ended share none.
#[must_use]
pub fn share_memory(one: i32, other: i32) -> Option<bool> {
    Some(memory_is_alike(one, other)? && has_memory(one))
}

/// Whether two processes have the same memory, or have none both: as [`share_memory`], without its look at `/proc`.
#[must_use]
pub fn memory_is_alike(one: i32, other: i32) -> Option<bool> {
    const KCMP_VM: usize = 1;
    // SAFETY: numbers only.
    let order = unsafe { syscall(libc::SYS_kcmp, [word(one), word(other), KCMP_VM, 0, 0, 0]) };
    (order >= 0).then_some(order == 0)
}

/// Whether a process has memory.
fn has_memory(pid: i32) -> bool {
    std::fs::read(format!("/proc/{pid}/statm")).is_ok_and(|sizes| !sizes.starts_with(b"0"))
}

/// The group of a process: 0 where its leader is in no pid namespace of this process's, `None` where there is no such process.
#[must_use]
pub fn process_group(pid: i32) -> Option<i32> {
    // SAFETY: a query with a number only.
    let group = unsafe { libc::getpgid(pid) };
    (group >= 0).then_some(group)
}

/// The processor time of a process, all of its threads together, those that have ended included.
///
/// # Errors
/// As `clock_getcpuclockid(3)` and `clock_gettime(2)`.
pub fn processor_time(pid: i32) -> io::Result<Duration> {
    let mut clock = 0;
    // SAFETY: a live integer, which it fills.
    let errno = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if errno != 0 {
        return Err(io::Error::from_raw_os_error(errno));
    }
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: zeroed, and filled by the kernel; every bit pattern is valid.
    let time = unsafe {
        if libc::clock_gettime(clock, time.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        time.assume_init()
    };
    let (seconds, nanos) =
        (u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0));
    Ok(Duration::new(seconds, nanos))
}

/// Whether there is a process in a process group; one that has ended and was not waited for counts. There is none in the group 0.
#[must_use]
pub fn has_members(group: i32) -> bool {
    // SAFETY: numbers, and no signal is sent.
    group > 1
        && (unsafe { libc::kill(-group, 0) } == 0
            || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM))
}

/// Whether something that was sent on a socket of the family `AF_UNIX` has not been read yet (`SIOCOUTQ`).
#[must_use]
pub fn has_unread(fd: BorrowedFd<'_>) -> bool {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request writes one number to a live reference.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    result == 0 && bytes > 0
}

/// Waits for a child by its pid, whatever its exit signal, and reaps it. `None` when `no_hang` and it still lives.
/// Returns the raw wait status.
///
/// # Errors
/// As `wait4(2)`: `ECHILD` when somebody else has reaped it.
pub fn wait_pid(pid: i32, no_hang: bool) -> io::Result<Option<i32>> {
    let flags = libc::__WALL | if no_hang { libc::WNOHANG } else { 0 };
    let mut status = 0;
    loop {
        // SAFETY: `status` is a live reference.
        let got = unsafe { libc::waitpid(pid, &raw mut status, flags) };
        if got == pid {
            return Ok(Some(status));
        }
        if got == 0 {
            return Ok(None);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Waits for any child or traced process, whatever its exit signal, for so long without sleeping. Returns its number and the raw
/// wait status.
///
/// # Errors
/// As `wait4(2)`: `ECHILD` when there is none.
pub fn wait_any(awake: Duration) -> io::Result<(i32, i32)> {
    let mut status = 0;
    let started = Instant::now();
    loop {
        let sleeps = started.elapsed() >= awake;
        let flags = libc::__WALL | if sleeps { 0 } else { libc::WNOHANG };
        // SAFETY: `status` is a live reference.
        let got = unsafe { libc::waitpid(-1, &raw mut status, flags) };
        if got > 0 {
            return Ok((got, status));
        }
        let error = io::Error::last_os_error();
        if got < 0 && error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Whether a pidfd becomes readable (its process is gone) in time.
#[must_use]
pub fn ends_within(pidfd: BorrowedFd<'_>, timeout: Duration) -> bool {
    readable_within(pidfd, timeout)
}

/// Whether there is something to be read from a descriptor in time, or its other end is closed. A signal that this thread handles
/// meanwhile does not end the wait.
#[must_use]
pub fn readable_within(fd: BorrowedFd<'_>, timeout: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    // One that no clock reaches is none.
    let until = Instant::now().checked_add(timeout);
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, left.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            ready => return matches!(ready, Ok(1..)),
        }
    }
}

/// Gives memory that the allocator holds and does not use back to the kernel, where the allocator can.
pub fn trim_heap() {
    // SAFETY: takes a number, and moves nothing that is in use.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}

/// How long the agent waits for a message before it looks whether the engine is gone.
const LOOK_AFTER: Duration = Duration::from_secs(5);

/// The engine's end of a socket, and the agent's.
///
/// # Errors
/// As `socketpair(2)`.
pub fn agent_socket() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&theirs, sockopt::Timeout::Recv, Some(LOOK_AFTER))?;
    Ok((ours, theirs))
}

/// A memfd of this size that nobody else sees, close-on-exec and sealable.
///
/// # Errors
/// As `memfd_create(2)` and `ftruncate(2)`.
pub fn memfd(name: &str, bytes: u64) -> io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&fd, bytes)?;
    Ok(fd)
}

/// Memory shared with a body: a mapping of a memfd that stays as long as the value lives.
#[derive(Debug)]
pub struct SharedMapping {
    address: std::ptr::NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; all access goes through raw pointers whose users
// synchronise (see `as_ptr`).
unsafe impl Send for SharedMapping {}

// SAFETY: as above; a shared reference gives out nothing but the address.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
    /// Maps the first `bytes` bytes of a memfd, readable and writable.
    ///
    /// # Errors
    /// As `mmap(2)`.
    pub fn new(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<SharedMapping> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so that no memory in use is replaced.
        let address = unsafe { mmap(std::ptr::null_mut(), bytes, prot, MapFlags::SHARED, fd, 0)? };
        let address = std::ptr::NonNull::new(address.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(SharedMapping { address, bytes })
    }

    /// The first byte. Others write this memory at any time: use atomics, or a protocol that hands parts over.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.address.as_ptr()
    }

    /// Its length.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// As words that others change at any time; bytes behind the last whole word are left out.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: a mapping begins at a page, has so many bytes for as long as it is borrowed, and is only looked at by atomic operations.
        unsafe {
            std::slice::from_raw_parts(self.address.as_ptr().cast(), self.bytes / size_of::<AtomicU64>())
        }
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` and nothing outlives the value.
        let _ = unsafe { rustix::mm::munmap(self.address.as_ptr().cast(), self.bytes) };
    }
}

/// The stack of a [`detached_thread`].
const THREAD_STACK_BYTES: usize = 1024 * 1024;

/// Runs something on a thread of its own that nobody waits for. In contrast to `std::thread`, a thread that gets no memory
/// for its signal stack does not end the process: it has none.
///
/// # Errors
/// `EAGAIN`: there can be no further thread, or no memory for its stack.
pub fn detached_thread(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    extern "C" fn start(work: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the box that was made below, which is given to this thread alone.
        let work = unsafe { Box::from_raw(work.cast::<Box<dyn FnOnce() + Send>>()) };
        // A panic has been told of by its hook; it must not leave this function.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(*work));
        std::ptr::null_mut()
    }
    let work: Box<Box<dyn FnOnce() + Send>> = Box::new(Box::new(work));
    let work = Box::into_raw(work);
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut thread: libc::pthread_t = 0;
    // SAFETY: the attributes are initialized before they are used, and destroyed once; `work` is the new thread's if there
    // is one, and is taken back if there is none.
    unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), THREAD_STACK_BYTES);
        libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
        let error = libc::pthread_create(&raw mut thread, attributes.as_ptr(), start, work.cast());
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        if error != 0 {
            drop(Box::from_raw(work));
            return Err(io::Error::from_raw_os_error(error));
        }
    }
    Ok(())
}
