//! Atomics, locks and fences: the standard library's, and in a model check (`--cfg loom`) those of loom. And locks made of them that more
//! than one crate takes.

#![cfg_attr(loom, allow(missing_docs, reason = "the public face is that of the standard library's"))]

pub mod biased;
#[cfg(loom)]
mod model;

#[cfg(not(loom))]
pub use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(loom)]
pub use model::{AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard, Place};

#[cfg(loom)]
pub use loom::sync::atomic::{Ordering, fence};

/// A barrier of two sides: one costs nothing, the other one a system call.
#[cfg(not(loom))]
pub mod barrier {
    use std::sync::atomic::{Ordering, compiler_fence};
    use std::time::Duration;

    pub use regrow_sys::barrier::{heavy, prepare};
    pub use regrow_sys::raw::thread_pointer as thread;

    /// Neither the compiler moves a load before a store past it, nor the processor as far as who calls `heavy` can see.
    #[inline]
    pub fn light() {
        compiler_fence(Ordering::SeqCst);
    }

    /// Lets others run for a moment.
    pub fn give_way() {
        std::thread::yield_now();
    }

    /// Lets others run for so long, and changes no error's number.
    pub fn sleep(time: Duration) {
        if let Ok(time) = time.try_into() {
            let _ = rustix::thread::nanosleep(&time);
        }
    }
}

/// The same, each side a fence.
#[cfg(loom)]
pub mod barrier {
    use crate::{Ordering, fence};

    pub fn prepare() -> bool {
        true
    }

    pub fn thread() -> usize {
        64
    }

    pub fn heavy() {
        fence(Ordering::SeqCst);
    }

    pub fn light() {
        fence(Ordering::SeqCst);
    }

    pub fn give_way() {
        loom::thread::yield_now();
    }

    pub fn sleep(_: std::time::Duration) {
        loom::thread::yield_now();
    }
}
