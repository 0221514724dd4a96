//! x86-64.

use object::elf;
use regrow_abi::Registers;
use regrow_sys::ptrace::TaskRegisters;

/// `e_machine` of the programs that this machine runs.
pub(crate) const NATIVE_MACHINE: u16 = elf::EM_X86_64;

/// The `syscall` instruction.
pub(crate) const SYSTEM_CALL: &[u8] = &[0x0f, 0x05];

/// Bytes of the longest instruction.
pub(crate) const MAX_INSTRUCTION_BYTES: u64 = 15;

/// Bytes below the stack pointer that a function may use without moving it.
pub(crate) const RED_ZONE_BYTES: u64 = 128;

/// Where both C libraries keep the stack canary, from the thread pointer on.
pub(crate) const CANARY_OFFSET: u64 = 0x28;

/// A task's registers, in the order in which the agent loads them.
pub(crate) fn snapshot_registers(task: &TaskRegisters) -> Registers {
    let r = task.by_name();
    Registers {
        general: [
            r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13,
            r.r14, r.r15,
        ],
        instruction: r.rip,
        flags: r.eflags,
    }
}
