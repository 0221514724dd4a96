//! Raw system calls, the maps reader and the kernel probe.

pub mod maps;
