//! ELF facts, snapshot points, tracing and the image store.

mod arch;
mod error;
pub mod image;
mod making;
mod patch;
pub mod point;
mod program;
mod recipe;
pub mod saved;
mod seed;
pub mod stack_plan;
mod store;
pub mod vmas;

pub use making::make;
pub use program::{elf, envkey, resolve, script};
