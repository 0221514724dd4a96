//! What belongs to one processor: how functions are wrapped, system calls, registers.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;
