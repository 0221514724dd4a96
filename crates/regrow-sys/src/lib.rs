//! Raw system calls, the maps reader and the kernel probe.

pub mod caller;
pub mod child;
pub mod disable;
pub mod follow;
pub mod helper;
pub mod maps;
pub mod pressure;
pub mod probe;
pub mod ptrace;
pub mod raw;
