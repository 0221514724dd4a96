//! Trials about tracing a child.

#![allow(unsafe_code, reason = "makes a child, and stops it")]

use std::os::fd::OwnedFd;

use crate::probe::child::{self, ProbeChild, arg};
use crate::probe::outcome::{TrialError, TrialResult, expect};
use crate::probe::sheet::Sheet;
use crate::ptrace::{Resume, Stop, Stopped, seize};
use crate::raw;

/// A traced child that waits for a byte, calls [`landmark`] and exits.
struct Subject {
    /// Killed and reaped at the end of the trial, whatever its state.
    child: ProbeChild,
    go: OwnedFd,
}

/// A function to stop at. It is in the same place in a copy of this process.
#[inline(never)]
extern "C" fn landmark(value: i32) -> i32 {
    std::hint::black_box(value)
}

impl Subject {
    /// Makes one, seizes it and stops it.
    fn stopped() -> Result<(Self, Stopped), TrialError> {
        let (reader, go) = rustix::pipe::pipe()?;
        let work = || {
            let mut byte = [0];
            let _ = rustix::io::read(&reader, &mut byte);
            std::hint::black_box(landmark as extern "C" fn(i32) -> i32)(0)
        };
        // SAFETY: the child reads a pipe and calls a function that does nothing.
        let child = unsafe { child::fork(work)? };
        let subject = Self { child, go };
        let tracee = seize(subject.child.pid())?;
        let args = [libc::PTRACE_INTERRUPT as usize, arg(subject.child.pid()), 0, 0, 0, 0];
        // SAFETY: numbers only; the child is traced by this process.
        raw::check(unsafe { raw::syscall(libc::SYS_ptrace, args) })?;
        match tracee.wait()? {
            Stop::Attached(stopped) => Ok((subject, stopped)),
            _ => Err(TrialError::Misbehaves),
        }
    }

    /// Lets it call the landmark.
    fn go(&self) -> TrialResult {
        rustix::io::write(&self.go, &[1])?;
        Ok(())
    }
}

/// A child can be seized, stopped, looked at, and let go to its end.
pub(super) fn ptrace(_: &Sheet) -> TrialResult {
    let (subject, stopped) = Subject::stopped()?;
    let registers = stopped.registers()?;
    expect(registers.instruction_pointer() != 0 && registers.stack_pointer() != 0)?;
    let tracee = stopped.resume(Resume::Continue, 0)?;
    subject.go()?;
    match tracee.wait()? {
        Stop::Gone(0) => {
            // The wait of the trace has reaped it.
            subject.child.forget();
            Ok(())
        }
        _ => Err(TrialError::Misbehaves),
    }
}

/// The kernel tells where a stopped child has its rseq area.
pub(super) fn ptrace_rseq(_: &Sheet) -> TrialResult {
    let (_subject, stopped) = Subject::stopped()?;
    stopped.rseq()?;
    Ok(())
}

/// A child stops at an address that a hardware breakpoint is set to.
pub(super) fn hw_breakpoints(_: &Sheet) -> TrialResult {
    let (subject, stopped) = Subject::stopped()?;
    let place = (landmark as extern "C" fn(i32) -> i32 as usize) as u64;
    stopped.set_breakpoint(0, Some(place))?;
    let tracee = stopped.resume(Resume::Continue, 0)?;
    subject.go()?;
    match tracee.wait()? {
        Stop::Trap(stopped, fired) => {
            expect(fired == 1 && stopped.registers()?.instruction_pointer() == place)?;
            stopped.set_breakpoint(0, None)?;
            Ok(())
        }
        Stop::Gone(_) => {
            subject.child.forget();
            Err(TrialError::Misbehaves)
        }
        _ => Err(TrialError::Misbehaves),
    }
}
