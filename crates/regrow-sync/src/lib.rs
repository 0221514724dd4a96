//! Atomics, locks and fences: the standard library's, and in a model check (`--cfg loom`) those of loom. And locks made of them that more
//! than one crate takes.

#![cfg_attr(loom, allow(missing_docs, reason = "the public face is that of the standard library's"))]

pub mod biased;
pub mod handed;
#[cfg(loom)]
mod model;
pub mod owned;
pub mod thread;

#[cfg(not(loom))]
pub use std::sync::{
    Mutex, MutexGuard, OnceLock,
    atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(not(loom))]
pub use std::thread_local;

#[cfg(loom)]
pub use model::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Local, Mutex, MutexGuard, OnceLock, Place,
};

/// For the macros.
#[cfg(loom)]
#[doc(hidden)]
pub use loom;
#[cfg(loom)]
pub use loom::sync::atomic::{Ordering, fence};

/// Statics. A model check begins each of its runs with fresh ones.
#[cfg(not(loom))]
#[macro_export]
macro_rules! statics {
    ($($(#[$meta:meta])* static $name:ident: $type:ty = $value:expr;)+) => {
        $($(#[$meta])* static $name: $type = $value;)+
    };
}

#[cfg(loom)]
#[macro_export]
macro_rules! statics {
    ($($(#[$meta:meta])* static $name:ident: $type:ty = $value:expr;)+) => {
        $crate::loom::lazy_static! { $($(#[$meta])* static ref $name: $type = $value;)+ }
    };
}

#[cfg(loom)]
#[macro_export]
macro_rules! thread_local {
    ($(#[$meta:meta])* static $name:ident: $type:ty = const $value:block;) => {
        $(#[$meta])* static $name: $crate::Local<$type> = $crate::Local::new(|| $value);
    };
}

/// A barrier of two sides: one costs nothing, the other one a system call.
#[cfg(not(any(loom, miri)))]
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

/// The same, each side a fence: for model checks, and for Miri.
#[cfg(any(loom, miri))]
pub mod barrier {
    use crate::{Ordering, fence};

    pub use crate::thread::{number as thread, sleep, yield_now as give_way};

    /// There is one.
    pub fn prepare() -> bool {
        true
    }

    /// The side that costs more elsewhere.
    pub fn heavy() {
        fence(Ordering::SeqCst);
    }

    /// The other side.
    pub fn light() {
        fence(Ordering::SeqCst);
    }
}
