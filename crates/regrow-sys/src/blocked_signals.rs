//! A stretch of code in which no signal reaches this thread.

#![allow(unsafe_code, reason = "signal masks are set by pointer")]

/// Blocks all signals of this thread until the value is dropped. A child that ends by `_exit` never drops it.
pub(crate) struct BlockedSignals {
    old: libc::sigset_t,
}

impl BlockedSignals {
    pub(crate) fn all() -> BlockedSignals {
        // SAFETY: both sets live on this stack; zero is a valid set.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut old: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
            BlockedSignals { old }
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the set was filled by `all`.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.old, std::ptr::null_mut()) };
    }
}
