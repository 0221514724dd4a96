//! ELF facts, snapshot points, tracing and the image store.

pub mod elf;
pub mod envkey;
pub mod image;
pub mod initial_stack;
mod load;
pub mod make;
mod remote;
pub mod resolve;
pub mod script;
mod snapshot;
mod startup;
mod trace;
pub mod vmas;
mod warm;
mod wire;
