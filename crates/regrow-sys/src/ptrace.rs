//! `ptrace`, as far as making an image needs it: a stopped process is a value of type [`Stopped`]; only that type
//! reads and writes registers, and letting the process go on consumes it.

#![allow(unsafe_code, reason = "ptrace takes pointers")]

use std::io;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::time::Duration;

use crate::raw::word;

/// General registers, as the kernel hands them out.
pub type Registers = libc::user_regs_struct;

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
    /// A breakpoint or the end of a step: which debug registers fired (bits 0 to 3).
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
const NT_X86_XSTATE: usize = 0x202;
const PTRACE_GET_RSEQ_CONFIGURATION: u32 = 0x420f;

fn request(request: u32, pid: i32, address: usize, data: usize) -> io::Result<i64> {
    // SAFETY: callers pass the pointers that their request takes, to memory that lives across the call.
    let result = unsafe { libc::ptrace(request, pid, address, data) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

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
                let made = self.event_message()?;
                return Ok(Stop::Clone(self, made));
            }
            libc::PTRACE_EVENT_STOP => return Ok(Stop::Attached(self)),
            _ => {}
        }
        if signal == SYSCALL_STOP {
            return self.syscall_stop();
        }
        if signal == libc::SIGTRAP && (status >> 16) == 0 {
            let fired = self.debug_register(6)?;
            self.set_debug_register(6, 0)?;
            return Ok(Stop::Trap(self, fired & 15));
        }
        Ok(Stop::Signal(self, signal))
    }

    fn event_message(&self) -> io::Result<i32> {
        let mut message: libc::c_ulong = 0;
        request(libc::PTRACE_GETEVENTMSG, self.pid, 0, &raw mut message as usize)?;
        i32::try_from(message).map_err(|_| io::ErrorKind::InvalidData.into())
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
    pub fn registers(&self) -> io::Result<Registers> {
        let mut registers = MaybeUninit::<Registers>::zeroed();
        request(libc::PTRACE_GETREGS, self.pid, 0, registers.as_mut_ptr() as usize)?;
        // SAFETY: plain numbers, filled by the kernel.
        Ok(unsafe { registers.assume_init() })
    }

    /// Sets the general registers. A system call that the stop interrupted is not restarted.
    ///
    /// # Errors
    /// As `ptrace(2)`.
    pub fn set_registers(&self, mut registers: Registers) -> io::Result<()> {
        registers.orig_rax = u64::MAX;
        request(libc::PTRACE_SETREGS, self.pid, 0, &raw const registers as usize).map(drop)
    }

    /// Changes the first argument of the system call at whose start the process is stopped.
    ///
    /// # Errors
    /// As `ptrace(2)`.
    pub fn set_first_argument(&self, value: u64) -> io::Result<()> {
        let offset = offset_of!(libc::user, regs) + offset_of!(Registers, rdi);
        let value = usize::try_from(value).map_err(|_| io::ErrorKind::InvalidInput)?;
        request(libc::PTRACE_POKEUSER, self.pid, offset, value).map(drop)
    }

    /// Floating-point and vector state in the XSAVE format.
    ///
    /// # Errors
    /// As `ptrace(2)`.
    pub fn xstate(&self) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0u8; 16 * 1024];
        let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        request(libc::PTRACE_GETREGSET, self.pid, NT_X86_XSTATE, &raw mut vector as usize)?;
        buffer.truncate(vector.iov_len);
        Ok(buffer)
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

    fn debug_register(&self, index: usize) -> io::Result<u64> {
        let mut value = 0u64;
        let offset = offset_of!(libc::user, u_debugreg) + index * 8;
        let args = [libc::PTRACE_PEEKUSER as usize, word(self.pid), offset, &raw mut value as usize, 0, 0];
        // SAFETY: the raw call writes the word to `value`.
        crate::raw::check(unsafe { crate::raw::syscall(libc::SYS_ptrace, args) })?;
        Ok(value)
    }

    fn set_debug_register(&self, index: usize, value: u64) -> io::Result<()> {
        let offset = offset_of!(libc::user, u_debugreg) + index * 8;
        let value = usize::try_from(value).map_err(|_| io::ErrorKind::InvalidInput)?;
        request(libc::PTRACE_POKEUSER, self.pid, offset, value).map(drop)
    }

    /// Sets or clears hardware breakpoint `index` (0 to 3): the process traps before it executes the address.
    ///
    /// # Errors
    /// As `ptrace(2)`; some virtual machines have no debug registers.
    pub fn set_breakpoint(&self, index: usize, address: Option<u64>) -> io::Result<()> {
        let enabled = 1u64 << (index * 2);
        let control = self.debug_register(7)?;
        self.set_debug_register(7, control & !enabled)?;
        if let Some(address) = address {
            self.set_debug_register(index, address)?;
            // Type (bits 16 and 17 of each group) 0: execution; length 0: one byte.
            let group = 0xfu64 << (16 + index * 4);
            self.set_debug_register(7, (control & !group) | enabled)?;
        }
        Ok(())
    }
}
