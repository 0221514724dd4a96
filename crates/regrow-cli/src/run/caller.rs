//! Passes on to the run what the caller of `regrow run` gives to the command: descriptors and signals.
//!
//! ```text
//!   kill PID ──▶ forward() ──▶ the run, if there is one      sent by a process: the run has not seen it
//!   Ctrl-C   ──▶ forward()                                   sent by the terminal: the run has got it too
//!   the run is stopped ──▶ stop_as()                         Ctrl-Z, or whatever has stopped it: the command stops after it
//! ```
//!
//! The command stops after the run, never before it: a shell that sees its job stopped reads the terminal, and so would a run that has
//! not stopped yet.
//!
//! A signal that the caller ignores stays ignored, in the command and in the run. The run never inherits the handler: it
//! starts with the default of every other signal.
//!
//! Invariants: [`RUN`] is zero or the number of a child whose status was not taken, so that no other process has it.

#![allow(unsafe_code, reason = "installs a signal handler, and looks at descriptors that nothing here owns")]

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::io::FdFlags;

/// The signals that the command passes on: people and service managers send them to end a program, to poke it or to stop it.
const FORWARDED: [i32; 7] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2, libc::SIGTSTP];

/// The lowest number of a descriptor that is not a standard one.
const FIRST_EXTRA: RawFd = 3;

/// The number of the run, or zero.
static RUN: AtomicI32 = AtomicI32::new(0);
/// The last signal that came, or zero.
static CAME: AtomicI32 = AtomicI32::new(0);
/// The last signal that came while there was no run to pass it on to, or zero.
static LEFT: AtomicI32 = AtomicI32::new(0);

/// Copies of the descriptors that the caller gave beside the standard ones, with their numbers.
pub(super) fn given_descriptors() -> io::Result<Vec<(OwnedFd, RawFd)>> {
    let mut numbers: Vec<RawFd> = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        if let Ok(number) = entry?.file_name().to_string_lossy().parse() {
            numbers.push(number);
        }
    }
    let mut given = Vec::new();
    for number in numbers.into_iter().filter(|number| *number >= FIRST_EXTRA) {
        // SAFETY: the borrow ends with this turn, and nothing in this process closes a descriptor of another
        // meanwhile: no other thread is there yet. A number that is closed (that of the listing) is an error below.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        match rustix::io::fcntl_getfd(descriptor) {
            Ok(flags) if !flags.contains(FdFlags::CLOEXEC) => {
                given.push((rustix::io::fcntl_dupfd_cloexec(descriptor, FIRST_EXTRA)?, number));
            }
            _ => {}
        }
    }
    Ok(given)
}

/// Passes signals on to the run from here on.
pub(super) fn forward_signals() -> io::Result<()> {
    for signal in FORWARDED {
        let mut action = default_action();
        // SAFETY: reads the present action into a live structure.
        check(unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) })?;
        if action.sa_sigaction != libc::SIG_DFL {
            continue;
        }
        let handler: extern "C" fn(i32, *const libc::siginfo_t, *const libc::c_void) = forward;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        // SAFETY: the handler has the signature that `SA_SIGINFO` asks for, and calls only what may be called in a
        // handler: atomics and `kill`.
        check(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) })?;
    }
    Ok(())
}

fn default_action() -> libc::sigaction {
    // SAFETY: zeros are a valid `sigaction`: the default action, an empty mask, no flags.
    unsafe { std::mem::zeroed() }
}

/// Stops this process because this signal has stopped the run. Returns when somebody has continued it, and has the run go on.
pub(super) fn stop_as(signal: i32) -> io::Result<()> {
    // A shell tells by the signal whether its user has stopped the job.
    let own = if signal == libc::SIGTSTP { libc::SIGTSTP } else { libc::SIGSTOP };
    let (default, mut before) = (default_action(), default_action());
    // SAFETY: live structures; the handler that was installed is put back. `kill` sends to this process, and to the run, a child whose
    // status was not taken.
    unsafe {
        if own == libc::SIGTSTP {
            check(libc::sigaction(own, &raw const default, &raw mut before))?;
        }
        check(libc::kill(libc::getpid(), own))?;
        if own == libc::SIGTSTP {
            check(libc::sigaction(own, &raw const before, ptr::null_mut()))?;
        }
        check(libc::kill(RUN.load(Ordering::SeqCst), libc::SIGCONT))
    }
}

/// Names the run that gets the signals, and passes on one that came while it started.
pub(super) fn run_begins(pid: u32) {
    let pid = pid.cast_signed();
    RUN.store(pid, Ordering::SeqCst);
    let left = LEFT.swap(0, Ordering::SeqCst);
    if left != 0 {
        // SAFETY: sends a signal to a child whose status was not taken, so that the number is its own.
        unsafe { libc::kill(pid, left) };
    }
}

/// Ends the passing on: the run has ended, and the command is about to take its status.
pub(super) fn run_ends() {
    RUN.store(0, Ordering::SeqCst);
}

/// The last signal that came, if one did.
pub(super) fn forwarded_signal() -> Option<i32> {
    Some(CAME.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
}

extern "C" fn forward(signal: i32, info: *const libc::siginfo_t, _context: *const libc::c_void) {
    let pid = RUN.load(Ordering::SeqCst);
    if signal == libc::SIGTSTP && pid == 0 {
        // The next run gets it, whoever has sent it, unless something else comes: a run that it has stopped drops another.
        let _ = LEFT.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
        return;
    }
    if signal != libc::SIGTSTP {
        CAME.store(signal, Ordering::SeqCst);
    }
    // SAFETY: the kernel hands a handler with `SA_SIGINFO` a valid structure. Positive codes are the kernel's own:
    // the terminal has sent the signal to the whole group, to the run as well.
    if unsafe { (*info).si_code } > 0 {
        return;
    }
    if pid == 0 {
        LEFT.store(signal, Ordering::SeqCst);
        return;
    }
    // SAFETY: the child's status was not taken, see `run_ends`, so the number is its own. `errno` is the interrupted
    // code's and is put back.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::kill(pid, signal);
        *errno = before;
    }
}

fn check(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
