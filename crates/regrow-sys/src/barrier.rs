//! A memory barrier in all threads of this process at once (`membarrier`, Linux 4.14): who calls it pays, and they do not.

#![allow(unsafe_code, reason = "a raw system call")]

use std::sync::atomic::{Ordering, fence};
use std::thread;
use std::time::Duration;

use crate::raw::{check, syscall};

const REGISTER: usize = 1 << 4;
const BARRIER: usize = 1 << 3;
/// No processor keeps a store to itself for so long: each interrupt drains its buffer.
const DRAINED_WITHIN: Duration = Duration::from_millis(20);

fn membarrier(command: usize) -> bool {
    // SAFETY: the call has no pointers.
    check(unsafe { syscall(libc::SYS_membarrier, [command, 0, 0, 0, 0, 0]) }).is_ok()
}

/// Has the kernel ready for [`heavy`]. False where it has no such barrier. Takes the least time while the process has one thread.
#[must_use]
pub fn prepare() -> bool {
    membarrier(REGISTER)
}

/// Whatever each other thread has stored before is seen by this thread afterwards; or that thread sees what this one has stored before.
pub fn heavy() {
    fence(Ordering::SeqCst);
    let is_done = membarrier(BARRIER) || prepare() && membarrier(BARRIER);
    if !is_done {
        // A filter of system calls came later: there is no barrier any more.
        thread::sleep(DRAINED_WITHIN);
    }
    fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_has_barriers_also_in_a_copy_of_this_process() {
        assert!(prepare() && membarrier(BARRIER));
        heavy();
    }
}
