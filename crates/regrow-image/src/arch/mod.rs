//! What the making of an image must know of the machine. One file per architecture; all others use its items by the neutral
//! names.
//!
//! A file for an architecture provides:
//!
//! | item | what it is |
//! |---|---|
//! | `NATIVE_MACHINE` | `e_machine` of the programs that this machine runs |
//! | `SYSTEM_CALL` | the bytes of an instruction that makes a system call |
//! | `MAX_INSTRUCTION_BYTES` | the length of the longest instruction: whatever goes further has jumped |
//! | `RED_ZONE_BYTES` | the bytes below the stack pointer that a function may use without moving it |
//! | `CANARY_OFFSET` | where the C libraries keep the stack canary, from the thread pointer on |
//! | `snapshot_registers` | a task's registers, as the agent loads them |

mod machine;
pub(crate) use machine::machine_name;

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{
    CANARY_OFFSET, MAX_INSTRUCTION_BYTES, NATIVE_MACHINE, RED_ZONE_BYTES, SYSTEM_CALL, snapshot_registers,
};
