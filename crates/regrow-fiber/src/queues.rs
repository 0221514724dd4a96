//! Queues between threads: crossbeam's, and in a model check stand-ins that promise less.

#[cfg(loom)]
mod model;

#[cfg(not(loom))]
pub(crate) use crossbeam_deque::{Steal, Stealer, Worker as Deque};
#[cfg(not(loom))]
pub(crate) use crossbeam_queue::SegQueue;

#[cfg(loom)]
pub(crate) use model::{Deque, SegQueue, Steal, Stealer};
