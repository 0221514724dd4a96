//! What the client must know of the machine. One file per architecture; all others use its items by the neutral names.
//!
//! A file for an architecture provides:
//!
//! | item | what it is |
//! |---|---|
//! | `nr` | the numbers of the system calls that the client makes |
//! | `syscall6` | one system call |
//! | `entry!` | the entry of a program: calls `client_start` with the address of what the kernel has put on the stack |
//! | `copy` | bytes, without a call of the compiler's `memcpy` |
//! | `stat` | where the fields stand in the kernel's `struct stat` |

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub use x86_64::{copy, nr, stat, syscall6};
