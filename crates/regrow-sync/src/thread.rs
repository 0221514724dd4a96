//! Threads: the standard library's, and in a model check those of loom.

#[cfg(not(loom))]
pub use std::thread::{Builder, Thread, current, park, park_timeout, scope, sleep, yield_now};

#[cfg(loom)]
pub use crate::model::threads::{
    Builder, Scope, Thread, current, number, park, park_timeout, scope, sleep, yield_now,
};

/// The number of this thread, which no other one has as long as it is there. Miri knows of no thread pointers.
#[cfg(miri)]
pub fn number() -> usize {
    std::thread_local!(static OWN: u64 = const { 0 });
    OWN.with(|own| std::ptr::from_ref(own).addr())
}
