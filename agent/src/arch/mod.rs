//! What knows registers and calling conventions. One file per architecture, each with the same items.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;
