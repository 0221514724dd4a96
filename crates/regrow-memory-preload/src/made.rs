//! The service of this process, once it is made.

#![allow(unsafe_code, reason = "it is reached by the address that was noted when it was made")]

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Acquire, Ordering::Release};

use regrow_memory::{RawClient, Service};

/// What serves the program.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) service: Service,
    pub(crate) client: RawClient,
    /// The smallest mapping that is served.
    pub(crate) mmap_from: usize,
}

static SERVED: AtomicPtr<Served> = AtomicPtr::new(null_mut());

/// The service, if it is made.
#[inline]
pub(crate) fn get() -> Option<&'static Served> {
    // SAFETY: it is set once, to what lives as long as the process.
    unsafe { SERVED.load(Acquire).as_ref() }
}

/// Notes the service, once.
pub(crate) fn set(served: Box<Served>) {
    SERVED.store(Box::into_raw(served), Release);
}
