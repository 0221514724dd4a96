//! Trials about making tasks, waiting for them and telling what they share.

#![allow(unsafe_code, reason = "raw system calls that make and compare tasks")]

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::probe::child::{self, arg};
use crate::probe::outcome::{TrialError, TrialResult, expect};
use crate::probe::sheet::Sheet;
use crate::probe::wire;
use crate::raw;

/// The exit code of a child that found what it should.
const AS_EXPECTED: i32 = 42;

/// A copy that sleeps until it is killed.
fn sleeper() -> std::io::Result<child::ProbeChild> {
    // SAFETY: `pause` is a system call and nothing else.
    unsafe {
        child::fork(|| {
            loop {
                child::pause();
            }
        })
    }
}

/// A handler becomes the default in a child made by `clone3`, and the child comes with a pidfd.
pub(super) fn clone3(_: &Sheet) -> TrialResult {
    extern "C" fn handler(_: i32) {}
    // SAFETY: zero is a valid action; the handler does nothing. The actions are those of the examiner alone.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(i32) as libc::sighandler_t;
        libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut());
    }
    let is_default = || {
        // SAFETY: zero is a valid action, and the kernel writes the one in force over it.
        let action = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGUSR2, std::ptr::null(), &raw mut action);
            action.sa_sigaction
        };
        if action == libc::SIG_DFL { AS_EXPECTED } else { 0 }
    };
    // SAFETY: the child asks for one action, a system call.
    let (child, pidfd) = unsafe { child::fork_with_pidfd(is_default)? };
    let status = child.wait()?;
    expect(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == AS_EXPECTED)?;
    expect(readable(&pidfd)?)
}

/// A pidfd is readable when its process has ended, and gives its status.
pub(super) fn pidfd(_: &Sheet) -> TrialResult {
    let child = sleeper()?;
    let pidfd = raw::pidfd_open(child.pid())?;
    expect(!readable(&pidfd)?)?;
    raw::pidfd_kill(pidfd.as_fd(), libc::SIGKILL)?;
    let options = WaitIdOptions::EXITED | WaitIdOptions::from_bits_retain(libc::__WALL.cast_unsigned());
    let status = waitid(WaitId::PidFd(pidfd.as_fd()), options)?;
    child.forget();
    expect(status.is_some_and(|status| status.terminating_signal() == Some(libc::SIGKILL)))?;
    expect(readable(&pidfd)?)
}

fn readable(pidfd: &impl AsFd) -> Result<bool, TrialError> {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    Ok(poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&at_once))? == 1)
}

/// A child made with `CLONE_PARENT` is the child of the maker's parent, who reaps it after the examination.
pub(super) fn clone_parent(sheet: &Sheet) -> TrialResult {
    extern "C" fn end(_: *mut libc::c_void) -> i32 {
        0
    }
    let flags = libc::CLONE_VFORK | libc::CLONE_PARENT;
    // SAFETY: `end` uses nothing, and the sheet's place for the pid is a live atomic.
    let pid = unsafe { child::clone_sharer(flags, end, 0, sheet.sibling.as_ptr())? };
    expect(sheet.sibling.load(SeqCst) == pid)?;
    match raw::wait_pid(pid, true) {
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_own_child) => Err(TrialError::Misbehaves),
    }
}

/// A task that shares memory has no rseq area of its own, may register one, and the kernel writes into it.
pub(super) fn rseq(_: &Sheet) -> TrialResult {
    /// What the task registers, as long and as aligned as the first kernels want it, and what came of it.
    #[repr(C, align(32))]
    struct Area {
        cpu_id_start: AtomicI32,
        cpu_id: AtomicI32,
        rest: [AtomicI32; 6],
        errno: AtomicI32,
        cpu_seen: AtomicI32,
    }
    const RSEQ_BYTES: usize = 32;
    extern "C" fn register(area: *mut libc::c_void) -> i32 {
        // SAFETY: `rseq` passes its own area, which lives while it sleeps.
        let area = unsafe { &*area.cast::<Area>().cast_const() };
        let place = (&raw const *area).expose_provenance();
        let call = |flags| {
            // SAFETY: the area has the length and alignment that the call wants. The kernel writes its
            // words, all atomics, until it is unregistered, which is before the area goes away.
            raw::check(unsafe {
                raw::syscall(libc::SYS_rseq, [place, RSEQ_BYTES, flags, wire::RSEQ_SIGNATURE, 0, 0])
            })
        };
        let result = call(0).and_then(|_| {
            // Coming back from this call the kernel has written where the task runs.
            std::thread::yield_now();
            area.cpu_seen.store(area.cpu_id.load(SeqCst), SeqCst);
            call(wire::RSEQ_UNREGISTER)
        });
        let errno = result.err().and_then(|error| error.raw_os_error()).unwrap_or_default();
        area.errno.store(errno, SeqCst);
        0
    }
    /// `RSEQ_CPU_ID_UNINITIALIZED`.
    const UNINITIALIZED: i32 = -1;
    let area = Area {
        cpu_id_start: AtomicI32::new(0),
        cpu_id: AtomicI32::new(UNINITIALIZED),
        rest: [const { AtomicI32::new(0) }; 6],
        errno: AtomicI32::new(0),
        cpu_seen: AtomicI32::new(UNINITIALIZED),
    };
    // SAFETY: `register` gets the area it expects, makes raw system calls and yields, and does not unwind.
    let status = unsafe { child::run_sharer(register, (&raw const area).expose_provenance())? };
    expect(status == 0)?;
    match area.errno.load(SeqCst) {
        0 => expect(area.cpu_seen.load(SeqCst) >= 0),
        errno => Err(TrialError::Errno(errno)),
    }
}

/// `unshare(CLONE_VM)` succeeds as long as nobody shares the memory, and refuses with `EINVAL` while a task does.
pub(super) fn share_check(_: &Sheet) -> TrialResult {
    let alone = || {
        // SAFETY: a number only. The kernel does nothing when nothing is shared, and refuses otherwise.
        raw::check(unsafe { raw::syscall(libc::SYS_unshare, [arg(libc::CLONE_VM), 0, 0, 0, 0, 0]) })
    };
    alone()?;
    let sharer = child::fork_sharer()?;
    let shared = alone();
    drop(sharer);
    expect(shared.is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL)))?;
    alone()?;
    Ok(())
}

/// `kcmp` says that a sharer has the same address space and a copy has another.
pub(super) fn kcmp(_: &Sheet) -> TrialResult {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let same = |other: &child::ProbeChild| {
        let args = [arg(own), arg(other.pid()), wire::KCMP_VM, 0, 0, 0];
        // SAFETY: numbers only.
        raw::check(unsafe { raw::syscall(libc::SYS_kcmp, args) }).map(|order| order == 0)
    };
    let sharer = child::fork_sharer()?;
    expect(same(&sharer)?)?;
    let copy = sleeper()?;
    expect(!same(&copy)?)
}

/// A registration for membarrier can be seen.
pub(super) fn membarrier_query(_: &Sheet) -> TrialResult {
    let call = |command| {
        // SAFETY: numbers only; the registration is that of the examiner's memory.
        raw::check(unsafe { raw::syscall(libc::SYS_membarrier, [command, 0, 0, 0, 0, 0]) })
    };
    call(wire::MEMBARRIER_GET_REGISTRATIONS)?;
    call(wire::MEMBARRIER_REGISTER)?;
    expect(call(wire::MEMBARRIER_GET_REGISTRATIONS)? & wire::MEMBARRIER_REGISTER != 0)
}
