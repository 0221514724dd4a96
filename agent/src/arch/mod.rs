//! What the agent must know of the machine. One file per architecture; all others use its items by the neutral names.
//!
//! A file for an architecture provides:
//!
//! | item | what it is |
//! |---|---|
//! | `nr` | the numbers of the system calls that the agent makes |
//! | `syscall6` | one system call |
//! | `sleep`, `CloneCall`, `Wake`, `woken` | the keeper's sleep, which uses no memory; what it makes before, where it goes on, and why |
//! | `jump` | loads the registers of the snapshot point, and goes on there |
//! | `copy`, `fill` | bytes, without a call of the compiler's `memcpy` or `memset` |
//! | `LINE_BYTES`, `restore_line`, `prefetch` | a cache line: its size, its comparison and copy in one, and fetching it ahead |
//! | `has_descriptor_table` | whether the program has given the address space processor state that nobody can undo |
//! | `STAT_WORDS` | words of the kernel's `struct stat`, of which device and inode are the first two |

pub mod woken;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub use x86_64::{
    CloneCall, LINE_BYTES, STAT_WORDS, Wake, copy, fill, has_descriptor_table, jump, nr, prefetch,
    restore_line, sleep, syscall6,
};
