//! Children of the probe: copies of the caller that try something and end.
//!
//! The caller may be any program with any threads, so a child of the probe
//! - is made by a raw `clone` without an exit signal: no fork handler of the caller runs, no `SIGCHLD` reaches
//!   it, and a `wait` of its own does not see the child;
//! - makes system calls only: another thread may have held the allocator's lock at the moment of the copy, and
//!   nobody gives it back in the copy;
//! - has all signals blocked: a handler of the caller must not run twice;
//! - is killed when its maker ends, and is reaped by its pid.

#![allow(unsafe_code, reason = "makes processes that share or copy this memory")]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use super::wire::{CLONE_CLEAR_SIGHAND, CLONE_PIDFD, CloneArgs};
use crate::blocked_signals::BlockedSignals;
use crate::raw;

/// The stack of a task that shares memory; such a task calls next to nothing.
const STACK_BYTES: usize = 64 << 10;

/// The exit code of a child whose work panicked.
const PANICKED: i32 = 101;

/// A child that has not been reaped. It is killed and reaped when the value is dropped.
#[derive(Debug)]
pub(super) struct ProbeChild {
    /// Above 0: `kill` takes 0 and less for groups.
    pid: i32,
}

impl ProbeChild {
    /// Its pid, which no other process can have before the child is reaped.
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// It has been reaped by its pidfd.
    pub(super) fn forget(self) {
        std::mem::forget(self);
    }

    /// Waits for its end and reaps it. Returns the raw wait status.
    pub(super) fn wait(self) -> io::Result<i32> {
        let status = raw::wait_pid(self.pid, false);
        self.forget();
        Ok(status?.unwrap_or_default())
    }
}

impl Drop for ProbeChild {
    fn drop(&mut self) {
        // SAFETY: two numbers; the pid is that of a child that is not reaped.
        unsafe { raw::syscall(libc::SYS_kill, [arg(self.pid), arg(libc::SIGKILL), 0, 0, 0, 0]) };
        // A stop of a traced child comes before its end. An error says that somebody else has reaped it.
        while let Ok(Some(status)) = raw::wait_pid(self.pid, false)
            && libc::WIFSTOPPED(status)
        {}
    }
}

/// A number as the kernel takes it in a register: sign-extended.
pub(super) fn arg(number: i32) -> usize {
    // Bits are kept; the kernel looks at the lower half of a signed argument.
    isize::try_from(number).unwrap_or(-1).cast_unsigned()
}

/// Makes a child with a copy of this memory, which runs `work` and exits with its result.
///
/// # Safety
/// `work` makes system calls only: it neither allocates nor takes a lock.
pub(super) unsafe fn fork(work: impl FnOnce() -> i32) -> io::Result<ProbeChild> {
    let blocked = BlockedSignals::all();
    let maker = own_pid();
    // SAFETY: without flags, without an exit signal and with no stack given, the call copies this task as
    // `fork` does. The child never returns from this function.
    let pid = raw::check(unsafe { raw::syscall(libc::SYS_clone, [0; 6]) })?;
    if pid == 0 {
        end_with_maker(maker);
        let _guard = ExitOnUnwind;
        exit(work());
    }
    drop(blocked);
    let pid = i32::try_from(pid).map_err(|_large| io::ErrorKind::InvalidData)?;
    Ok(ProbeChild { pid })
}

/// As [`fork`], with `clone3`: the child has its signal dispositions reset, and comes with its pidfd. It is
/// made by a child of the probe, where all signals are blocked already.
///
/// # Safety
/// As for [`fork`].
pub(super) unsafe fn fork_with_pidfd(work: impl FnOnce() -> i32) -> io::Result<(ProbeChild, OwnedFd)> {
    let maker = own_pid();
    let mut pidfd: i32 = -1;
    let args = CloneArgs {
        flags: CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
        pidfd: (&raw mut pidfd).expose_provenance() as u64,
        ..CloneArgs::default()
    };
    let raw_args = [(&raw const args).expose_provenance(), size_of::<CloneArgs>(), 0, 0, 0, 0];
    // SAFETY: the structure and the descriptor's place live until the call returns. Without a stack the call
    // copies this task as `fork` does; the child never returns from this function.
    let pid = raw::check(unsafe { raw::syscall(libc::SYS_clone3, raw_args) })?;
    if pid == 0 {
        end_with_maker(maker);
        let _guard = ExitOnUnwind;
        exit(work());
    }
    let pid = i32::try_from(pid).map_err(|_large| io::ErrorKind::InvalidData)?;
    let child = ProbeChild { pid };
    if pidfd < 0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: the kernel has just put this descriptor into the table, and nobody else knows it.
    Ok((child, unsafe { OwnedFd::from_raw_fd(pidfd) }))
}

/// Makes a task that shares this memory and sleeps until it is killed.
pub(super) fn fork_sharer() -> io::Result<ProbeChild> {
    let maker = own_pid();
    // SAFETY: `sleep_forever` takes the pid of its maker in place of a pointer, makes raw system calls only,
    // and so touches neither `errno` nor anything else that it shares with this task.
    let pid = unsafe { clone_sharer(0, sleep_forever, arg(maker), std::ptr::null_mut())? };
    Ok(ProbeChild { pid })
}

/// Runs `entry` in a task that shares this memory while this one sleeps, and reaps it. Returns its wait status.
///
/// # Safety
/// `entry` must be sound to run with `argument` in this task's place, and must not unwind.
pub(super) unsafe fn run_sharer(
    entry: extern "C" fn(*mut libc::c_void) -> i32,
    argument: usize,
) -> io::Result<i32> {
    // SAFETY: with CLONE_VFORK this task sleeps until the other has exited, so the two never use the
    // thread-local storage at once; the rest is the caller's contract.
    let pid = unsafe { clone_sharer(libc::CLONE_VFORK, entry, argument, std::ptr::null_mut())? };
    ProbeChild { pid }.wait()
}

/// Makes a task that shares this memory, with a stack of its own, and exits when `entry` returns. The stack
/// stays mapped: the address space ends soon.
///
/// # Safety
/// `entry` must be sound to run with `argument` in a task that shares this one's thread-local storage, beside
/// this task unless `flags` has `CLONE_VFORK`. `child_pid` is null or valid for a write.
pub(super) unsafe fn clone_sharer(
    flags: i32,
    entry: extern "C" fn(*mut libc::c_void) -> i32,
    argument: usize,
    child_pid: *mut i32,
) -> io::Result<i32> {
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the place, so no memory in use is replaced.
    let stack = unsafe { mmap_anonymous(std::ptr::null_mut(), STACK_BYTES, prot, MapFlags::PRIVATE)? };
    let note = if child_pid.is_null() { 0 } else { libc::CLONE_PARENT_SETTID };
    // SAFETY: the stack's end is one past a mapping of STACK_BYTES that nobody else uses, on a page boundary;
    // the rest is the caller's contract.
    let pid = unsafe {
        let top = stack.byte_add(STACK_BYTES);
        let argument = std::ptr::without_provenance_mut(argument);
        libc::clone(entry, top, libc::CLONE_VM | flags | note, argument, child_pid)
    };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid) }
}

extern "C" fn sleep_forever(maker: *mut libc::c_void) -> i32 {
    end_with_maker(i32::try_from(maker.addr()).unwrap_or_default());
    loop {
        pause();
    }
}

/// Sleeps until a signal comes. All are blocked in a child of the probe, so only a deadly one does.
pub(super) fn pause() {
    // SAFETY: no descriptors, no time, no mask: the pointers are null and the count is 0.
    unsafe { raw::syscall(libc::SYS_ppoll, [0; 6]) };
}

/// Has the kernel end this process with `SIGALRM` after some seconds, whatever the caller does with that signal.
pub(super) fn end_after(seconds: u32) {
    // SAFETY: the action and the set are plain bits that live until the calls return; zero is a valid action,
    // the default one. The process is a copy, so the caller's own action and timer are not touched.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        let mut alarm: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut alarm, libc::SIGALRM);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const alarm, std::ptr::null_mut());
        libc::alarm(seconds);
    }
}

/// Ends this process, without the caller's exit handlers.
pub(super) fn exit(code: i32) -> ! {
    // SAFETY: takes a number and does not return.
    unsafe { libc::_exit(code) }
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Has the kernel kill this process when the thread that made it ends, and ends now if that has happened.
fn end_with_maker(maker: i32) {
    let args = [arg(libc::PR_SET_PDEATHSIG), arg(libc::SIGKILL), 0, 0, 0, 0];
    // SAFETY: numbers only.
    unsafe { raw::syscall(libc::SYS_prctl, args) };
    // SAFETY: takes nothing.
    let parent = unsafe { raw::syscall(libc::SYS_getppid, [0; 6]) };
    // 0: the maker is in another pid namespace and cannot be told.
    if parent != 0 && Ok(parent) != isize::try_from(maker) {
        // SAFETY: ends this process; a task that shares memory must not run the C library's exit.
        unsafe { raw::syscall(libc::SYS_exit_group, [0; 6]) };
    }
}

/// Ends a child whose work panics: it must not return into the caller's code.
struct ExitOnUnwind;

impl Drop for ExitOnUnwind {
    fn drop(&mut self) {
        exit(PANICKED);
    }
}
