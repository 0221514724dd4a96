//! What engine and agent must agree on about the machine. One file per architecture; all others use its items by the
//! neutral names.
//!
//! A file for an architecture provides:
//!
//! | item | what it is |
//! |---|---|
//! | `PAGE_BYTES`, `PAGE_LEN` | bytes in a page, as an address and as a length |
//! | [`Registers`] | the general registers at a snapshot point, in the order in which the agent loads them: `repr(C)`, without padding, with `stack_pointer`, `set_stack_pointer`, `argument`, `set_argument` and `keep_status_flags` |

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::{PAGE_BYTES, PAGE_LEN, Registers};
