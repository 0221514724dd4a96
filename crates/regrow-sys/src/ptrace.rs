//! `ptrace`, as far as making an image needs it: a stopped process is a value of type [`Stopped`]; only that type
//! reads and writes registers, and letting the process go on consumes it.

#![allow(unsafe_code, reason = "ptrace takes pointers")]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::time::Duration;

use crate::arch;
pub use crate::arch::{BREAKPOINTS, TaskRegisters};
use crate::raw::word;
use request::{event_message, request};

pub(crate) mod request;

/// A process that this thread group traces and that is stopped.
#[derive(Debug)]
pub struct Stopped {
    pid: i32,
}

/// A process that this thread group traces and that runs.
#[derive(Debug)]
pub struct Tracee {
    pid: i32,
}

/// How a stopped process goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Until the next event.
    Continue,
    /// Until the next start or end of a system call, or event.
    Syscall,
    /// For one instruction.
    Step,
}

/// What a traced process did.
#[derive(Debug)]
pub enum Stop {
    /// It is at the start of a system call.
    SyscallEnter(Stopped, SyscallEntry),
    /// It is at the end of a system call, with this result.
    SyscallExit(Stopped, i64),
    /// It has executed a new program.
    Exec(Stopped),
    /// It made this thread or child, which is traced too.
    Clone(Stopped, i32),
    /// It is a thread or child that was just made and has run nothing, or it was stopped as one of a group.
    Attached(Stopped),
    /// A breakpoint or the end of a step: which breakpoints fired (bit 0 is breakpoint 0).
    Trap(Stopped, u64),
    /// It is about to get this signal.
    Signal(Stopped, i32),
    /// It is gone, with this raw wait status.
    Gone(i32),
}

/// A system call as it starts.
#[derive(Clone, Copy, Debug)]
pub struct SyscallEntry {
    /// Its number.
    pub number: u64,
    /// Its arguments.
    pub args: [u64; 6],
}

/// Where the kernel writes a task's `struct rseq`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RseqConfig {
    /// Address, or zero.
    pub address: u64,
    /// Size.
    pub bytes: u32,
    /// Signature.
    pub signature: u32,
}

const SYSCALL_STOP: i32 = libc::SIGTRAP | 0x80;
const PTRACE_GET_RSEQ_CONFIGURATION: u32 = 0x420f;

/// Attaches to a process without stopping it; it is killed when the tracer dies.
///
/// # Errors
/// As `ptrace(2)` with `PTRACE_SEIZE`.
pub fn seize(pid: i32) -> io::Result<Tracee> {
    let options = libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_EXITKILL
        | libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK;
    request(libc::PTRACE_SEIZE, pid, 0, usize::try_from(options).unwrap_or(0))?;
    Ok(Tracee { pid })
}

/// Attaches to a process without stopping it, so that it stops when it is about to end: its memory is still there.
///
/// # Errors
/// As `ptrace(2)` with `PTRACE_SEIZE`.
pub fn seize_to_exit(pid: i32) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACEEXIT | libc::PTRACE_O_EXITKILL;
    request(libc::PTRACE_SEIZE, pid, 0, usize::try_from(options).unwrap_or(0)).map(drop)
}

/// Waits until such a process is about to end. Signals reach it meanwhile.
///
/// # Errors
/// As `waitpid(2)` and `ptrace(2)`; `UnexpectedEof` when it has ended without a stop.
pub fn await_exit(pid: i32) -> io::Result<()> {
    loop {
        let Some(status) = crate::raw::wait_pid(pid, false)? else { continue };
        if !libc::WIFSTOPPED(status) {
            let what = format!("it has ended with wait status {status:#x}");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
        if status >> 16 == libc::PTRACE_EVENT_EXIT {
            return Ok(());
        }
        // A group stop is listened through; any other signal is passed on.
        let signal = if status >> 16 == 0 { libc::WSTOPSIG(status) } else { 0 };
        request(libc::PTRACE_CONT, pid, 0, usize::try_from(signal).unwrap_or(0))?;
    }
}

/// Lets a process end that is about to.
///
/// # Errors
/// As `ptrace(2)`.
pub fn let_exit(pid: i32) -> io::Result<()> {
    request(libc::PTRACE_CONT, pid, 0, 0).map(drop)
}

impl Tracee {
    /// Waits for the next stop.
    ///
    /// # Errors
    /// As `waitpid(2)` and `ptrace(2)`.
    pub fn wait(self) -> io::Result<Stop> {
        loop {
            let Some(status) = crate::raw::wait_pid(self.pid, false)? else { continue };
            if !libc::WIFSTOPPED(status) {
                return Ok(Stop::Gone(status));
            }
            return Stopped { pid: self.pid }.classify(status);
        }
    }
}

/// Waits for the next stop of any process that this one traces, for so long without sleeping. Gives its number too.
///
/// # Errors
/// As `waitpid(2)` and `ptrace(2)`; `ECHILD` when there is none left.
pub fn wait_any(awake: Duration) -> io::Result<(i32, Stop)> {
    let (pid, status) = crate::raw::wait_any(awake)?;
    if !libc::WIFSTOPPED(status) {
        return Ok((pid, Stop::Gone(status)));
    }
    Ok((pid, Stopped { pid }.classify(status)?))
}

impl Stopped {
    fn classify(self, status: i32) -> io::Result<Stop> {
        let signal = libc::WSTOPSIG(status);
        match status >> 16 {
            libc::PTRACE_EVENT_EXEC => return Ok(Stop::Exec(self)),
            libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => {
                let made = event_message(self.pid)?;
                return Ok(Stop::Clone(self, made));
            }
            libc::PTRACE_EVENT_STOP => return Ok(Stop::Attached(self)),
            _ => {}
        }
        if signal == SYSCALL_STOP {
            return self.syscall_stop();
        }
        if signal == libc::SIGTRAP && (status >> 16) == 0 {
            let fired = arch::take_fired_breakpoints(self.pid)?;
            return Ok(Stop::Trap(self, fired));
        }
        Ok(Stop::Signal(self, signal))
    }

    fn syscall_stop(self) -> io::Result<Stop> {
        let mut info = MaybeUninit::<libc::ptrace_syscall_info>::zeroed();
        let bytes = size_of::<libc::ptrace_syscall_info>();
        request(libc::PTRACE_GET_SYSCALL_INFO, self.pid, bytes, info.as_mut_ptr() as usize)?;
        // SAFETY: zeroed, then filled by the kernel; every bit pattern is valid. The operation tells which member
        // of the union the kernel wrote.
        unsafe {
            let info = info.assume_init();
            if info.op == libc::PTRACE_SYSCALL_INFO_ENTRY {
                let entry = SyscallEntry { number: info.u.entry.nr, args: info.u.entry.args };
                Ok(Stop::SyscallEnter(self, entry))
            } else {
                Ok(Stop::SyscallExit(self, info.u.exit.sval))
            }
        }
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Lets the process go on.
    ///
    /// # Errors
    /// As `ptrace(2)`.
    pub fn resume(self, how: Resume, signal: i32) -> io::Result<Tracee> {
        let how = match how {
            Resume::Continue => libc::PTRACE_CONT,
            Resume::Syscall => libc::PTRACE_SYSCALL,
            Resume::Step => libc::PTRACE_SINGLESTEP,
        };
        request(how, self.pid, 0, usize::try_from(signal).unwrap_or(0))?;
        Ok(Tracee { pid: self.pid })
    }

    /// Stops tracing and lets the process go on.
    ///
    /// # Errors
    /// As `ptrace(2)`.
    pub fn detach(self) -> io::Result<()> {
        request(libc::PTRACE_DETACH, self.pid, 0, 0).map(drop)
    }

    /// General registers.
    ///
    /// # Errors
    /// As `ptrace(2)`.
    pub fn registers(&self) -> io::Result<TaskRegisters> {
        TaskRegisters::read(self.pid)
    }

    /// Sets the general registers. The kernel does not restart a system call that the stop interrupted.
    ///
    /// # Errors
    /// As `ptrace(2)`.
    pub fn set_registers(&self, registers: TaskRegisters) -> io::Result<()> {
        registers.write(self.pid)
    }

    /// Changes the first argument of the system call at whose start the process is stopped.
    ///
    /// # Errors
    /// As `ptrace(2)`.
    pub fn set_first_argument(&self, value: u64) -> io::Result<()> {
        arch::set_first_argument(self.pid, value)
    }

    /// Floating-point and vector registers, as the kernel saves them.
    ///
    /// # Errors
    /// As `ptrace(2)`.
    pub fn float_state(&self) -> io::Result<Vec<u8>> {
        arch::float_state(self.pid)
    }

    /// Where the kernel writes this task's `struct rseq`.
    ///
    /// # Errors
    /// As `ptrace(2)`; kernels before 5.13 do not have it.
    pub fn rseq(&self) -> io::Result<RseqConfig> {
        #[repr(C)]
        #[derive(Default)]
        struct Raw {
            address: u64,
            bytes: u32,
            signature: u32,
            flags: u32,
            pad: u32,
        }
        let mut raw = Raw::default();
        request(PTRACE_GET_RSEQ_CONFIGURATION, self.pid, size_of::<Raw>(), &raw mut raw as usize)?;
        Ok(RseqConfig { address: raw.address, bytes: raw.bytes, signature: raw.signature })
    }

    /// The robust list of the process: head and size.
    ///
    /// # Errors
    /// As `get_robust_list(2)`.
    pub fn robust_list(&self) -> io::Result<(u64, u64)> {
        let (mut head, mut bytes) = (0u64, 0u64);
        let args = [word(self.pid), &raw mut head as usize, &raw mut bytes as usize, 0, 0, 0];
        // SAFETY: two live words.
        crate::raw::check(unsafe { crate::raw::syscall(libc::SYS_get_robust_list, args) })?;
        Ok((head, bytes))
    }

    /// Sets or clears hardware breakpoint `index` (below [`BREAKPOINTS`]): the process traps before it executes the address.
    ///
    /// # Errors
    /// As `ptrace(2)`; some virtual machines have no debug registers.
    pub fn set_breakpoint(&self, index: usize, address: Option<u64>) -> io::Result<()> {
        arch::set_breakpoint(self.pid, index, address)
    }
}
