//! The children of the probe allocate nothing.
//!
//! They are copies of a process that may have threads, and a lock that one of those held stays locked in the
//! copy. Here the allocator ends any other process than the one that began, so a trial that allocates, or even
//! frees, does not come to its end, and the report says so.

#![allow(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

use regrow_sys::disable::FeatureSet;
use regrow_sys::probe::{Feature, FeatureState, Kernel, NotTried};

struct OneProcess;

/// The process that may allocate; 0 while every process may.
static OWNER: AtomicI32 = AtomicI32::new(0);

fn check() {
    let owner = OWNER.load(SeqCst);
    // SAFETY: the calls take numbers; the second one ends a copy of the test.
    unsafe {
        if owner != 0 && owner != libc::getpid() {
            libc::kill(libc::getpid(), libc::SIGKILL);
        }
    }
}

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for OneProcess {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check();
        // SAFETY: the caller's contract is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        check();
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: OneProcess = OneProcess;

#[test]
fn children_do_not_allocate() {
    OWNER.store(i32::try_from(std::process::id()).unwrap(), SeqCst);
    let kernel = Kernel::probe(&FeatureSet::EMPTY);
    for feature in Feature::all() {
        let state = kernel.state(feature);
        let ended =
            matches!(state, FeatureState::NotTried { why: NotTried::Ended { .. } | NotTried::GaveUp });
        assert!(!ended, "{feature}: {state}");
    }
}
