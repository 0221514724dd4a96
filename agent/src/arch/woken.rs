//! Why the keeper wakes up: what `sleep` says.

/// The process waits for its order.
pub const NOT_BEGUN: u64 = 0;
/// Nobody shares the memory.
pub const ALONE: u64 = 1;
/// The process is gone, and somebody shares the memory.
pub const NOT_ALONE: u64 = 2;
/// The process could not be made.
pub const NOT_MADE: u64 = 3;
