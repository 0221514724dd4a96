//! The registers of a stopped task.

#![allow(unsafe_code, reason = "ptrace fills plain memory")]

use std::io;
use std::mem::{MaybeUninit, offset_of};

use crate::ptrace::request::{poke_user, request};

/// The flag that has string instructions go backward.
const DIRECTION_FLAG: u64 = 1 << 10;
const NT_X86_XSTATE: usize = 0x202;
/// More than the floating-point state of any processor takes.
const MOST_STATE_BYTES: usize = 16 * 1024;

/// The general registers of a stopped task, as the kernel hands them out.
#[derive(Clone, Copy, Debug)]
pub struct TaskRegisters(libc::user_regs_struct);

impl TaskRegisters {
    /// Those of a task that the caller traces and that is stopped.
    pub(crate) fn read(pid: i32) -> io::Result<TaskRegisters> {
        let mut registers = MaybeUninit::<libc::user_regs_struct>::zeroed();
        request(libc::PTRACE_GETREGS, pid, 0, registers.as_mut_ptr() as usize)?;
        // SAFETY: plain numbers, zeroed, then filled by the kernel.
        Ok(TaskRegisters(unsafe { registers.assume_init() }))
    }

    /// Sets those of such a task. The kernel does not restart a system call that the stop interrupted.
    pub(crate) fn write(mut self, pid: i32) -> io::Result<()> {
        self.0.orig_rax = u64::MAX;
        request(libc::PTRACE_SETREGS, pid, 0, &raw const self.0 as usize).map(drop)
    }

    /// The registers by the machine's names, for the code of this architecture.
    #[must_use]
    pub fn by_name(&self) -> &libc::user_regs_struct {
        &self.0
    }

    /// The address of the next instruction.
    #[must_use]
    pub fn instruction_pointer(&self) -> u64 {
        self.0.rip
    }

    /// The stack pointer.
    #[must_use]
    pub fn stack_pointer(&self) -> u64 {
        self.0.rsp
    }

    /// Sets the stack pointer.
    pub fn set_stack_pointer(&mut self, address: u64) {
        self.0.rsp = address;
    }

    /// The register that thread-local storage is found by.
    #[must_use]
    pub fn thread_pointer(&self) -> u64 {
        self.0.fs_base
    }

    /// The first three arguments, at the first instruction of a function.
    #[must_use]
    pub fn arguments(&self) -> [u64; 3] {
        [self.0.rdi, self.0.rsi, self.0.rdx]
    }

    /// The result, behind a system call.
    #[must_use]
    pub fn result(&self) -> u64 {
        self.0.rax
    }

    /// Has the task make a system call by the instruction at an address.
    pub fn make_call(&mut self, instruction: u64, number: u64, args: [u64; 6]) {
        self.0.rip = instruction;
        self.0.rax = number;
        [self.0.rdi, self.0.rsi, self.0.rdx, self.0.r10, self.0.r8, self.0.r9] = args;
    }

    /// Has the task begin a function with one argument. `stack` is the top of an unused stack, on a multiple of 16.
    pub fn begin_function(&mut self, address: u64, argument: u64, stack: u64) {
        self.0.rip = address;
        self.0.rdi = argument;
        // As at a call: the stack is aligned before the return address.
        self.0.rsp = stack - 8;
        self.0.eflags &= !DIRECTION_FLAG;
    }
}

/// Changes the first argument of the system call at whose start a task stands.
pub(crate) fn set_first_argument(pid: i32, value: u64) -> io::Result<()> {
    let offset = offset_of!(libc::user, regs) + offset_of!(libc::user_regs_struct, rdi);
    poke_user(pid, offset, value)
}

/// The floating-point and vector registers of a stopped task, in the XSAVE format.
pub(crate) fn float_state(pid: i32) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0u8; MOST_STATE_BYTES];
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    request(libc::PTRACE_GETREGSET, pid, NT_X86_XSTATE, &raw mut vector as usize)?;
    buffer.truncate(vector.iov_len);
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zeroed() -> TaskRegisters {
        // SAFETY: plain numbers, of which zero is one.
        TaskRegisters(unsafe { MaybeUninit::zeroed().assume_init() })
    }

    #[test]
    fn a_call_has_its_number_and_arguments_where_the_kernel_looks() {
        let mut registers = zeroed();
        registers.make_call(0x1000, 9, [1, 2, 3, 4, 5, 6]);
        assert_eq!(registers.instruction_pointer(), 0x1000);
        assert_eq!(registers.arguments(), [1, 2, 3]);
        let named = registers.by_name();
        assert_eq!((named.rax, named.r10, named.r8, named.r9), (9, 4, 5, 6));
    }

    #[test]
    fn a_function_begins_as_behind_a_call() {
        let mut registers = zeroed();
        registers.0.eflags = DIRECTION_FLAG | 0x202;
        registers.begin_function(0x1000, 7, 0x8000);
        assert_eq!((registers.instruction_pointer(), registers.stack_pointer()), (0x1000, 0x7ff8));
        assert_eq!(registers.arguments()[0], 7);
        assert_eq!(registers.0.eflags, 0x202);
    }
}
