//! What the benchmarks ask of Linux directly.

pub(crate) mod floors;
pub(crate) mod memory;
pub(crate) mod native;
pub(crate) mod processes;
