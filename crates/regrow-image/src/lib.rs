//! ELF facts, snapshot points, tracing and the image store.

pub mod elf;
