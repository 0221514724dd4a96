//! x86-64: the names by which a program calls, system calls, and registers.

mod entry;
mod processor;

pub use processor::*;
