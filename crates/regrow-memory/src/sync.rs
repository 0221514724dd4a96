//! Atomics, locks, fences and barriers: the standard library's and the kernel's, and in a model check (`--cfg loom`) those of loom.

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

/// A barrier of two sides: one costs nothing, the other one a system call.
#[cfg(not(loom))]
pub(crate) mod barrier {
    use std::sync::atomic::{Ordering, compiler_fence};
    use std::time::Duration;

    pub(crate) use regrow_sys::barrier::{heavy, prepare};
    pub(crate) use regrow_sys::raw::thread_pointer as thread;

    /// Neither the compiler moves a load before a store past it, nor the processor as far as who calls `heavy` can see.
    #[inline]
    pub(crate) fn light() {
        compiler_fence(Ordering::SeqCst);
    }

    /// Lets others run for so long, and changes no error's number.
    pub(crate) fn sleep(time: Duration) {
        if let Ok(time) = time.try_into() {
            let _ = rustix::thread::nanosleep(&time);
        }
    }
}

/// The same, each side a fence.
#[cfg(loom)]
pub(crate) mod barrier {
    use super::{Ordering, fence};

    pub(crate) fn prepare() -> bool {
        true
    }

    pub(crate) fn thread() -> usize {
        64
    }

    pub(crate) fn heavy() {
        fence(Ordering::SeqCst);
    }

    pub(crate) fn light() {
        fence(Ordering::SeqCst);
    }

    pub(crate) fn sleep(_: std::time::Duration) {
        loom::thread::yield_now();
    }
}
