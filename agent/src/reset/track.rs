//! Which pages of an image a run has written: userfaultfd in its asynchronous mode (Linux 6.7).
//!
//! The memory of the program is registered once, when the body is made, and write-protected. A small image is looked at as a whole.
//! The kernel lifts the protection of a page at the first write to it, without telling anybody, and `PAGEMAP_SCAN` finds those pages. A page
//! that was written once stays unprotected, and so is looked at after every run: most runs of a program write the same pages, and a fault
//! costs more than a comparison.
//!
//! A run can protect a page that it has written (`PAGEMAP_SCAN` does that too): then the scan passes it over. But a page that was written is
//! no longer shared with the seed, which no protection brings back: `scan::each_protected` finds such pages.
//!
//! A body without it (the kernel has none, the user may not, a range cannot be registered) compares all pages.

use regrow_abi::{features, vma_flags};

use crate::arch::nr;
use crate::state::Agent;
use crate::sys;

/// An image of fewer saved pages is small.
const SMALL_PAGES: usize = 256;

const UFFD_USER_MODE_ONLY: usize = 1;
const O_CLOEXEC: usize = 0o2_000_000;
const UFFD_API: u64 = 0xaa;
const FEATURE_WP_ASYNC: u64 = 1 << 15;
const UFFDIO_API: usize = 0xc018_aa3f;
const UFFDIO_REGISTER: usize = 0xc020_aa00;
const UFFDIO_WRITEPROTECT: usize = 0xc018_aa06;
const MODE_WP: u64 = 1 << 1;
const PROTECT: u64 = 1 << 0;

/// Begins to track the writes of a body's runs.
pub fn begin(agent: &Agent) {
    // SAFETY: the private area is this process's own.
    unsafe { (*agent.private()).uffd = -1 };
    if !agent.has(features::TRACK_WRITES) || !agent.has(features::PAGEMAP_SCAN) || is_small(agent) {
        return;
    }
    // SAFETY: numbers only.
    let low = unsafe { sys::raw(nr::USERFAULTFD, [O_CLOEXEC | UFFD_USER_MODE_ONLY, 0, 0, 0, 0, 0]) };
    if low < 0 {
        return;
    }
    let fd = sys::move_to(low as i32, crate::state::fd::UFFD) as i32;
    let mut api = [UFFD_API, FEATURE_WP_ASYNC, 0];
    // SAFETY: the request takes these three words.
    let has_api = fd >= 0 && unsafe { sys::ioctl(fd, UFFDIO_API, api.as_mut_ptr()) } == 0;
    if has_api && register(agent, fd) && protect(agent, fd) {
        // SAFETY: as above.
        unsafe { (*agent.private()).uffd = fd };
    } else if fd >= 0 {
        sys::close(fd);
    }
}

/// Whether the body's writes are tracked.
pub fn is_on(agent: &Agent) -> bool {
    // SAFETY: the private area is this process's own.
    unsafe { (*agent.private()).uffd >= 0 }
}

/// Tracks the writes to a part of a mapping with these flags that was mapped again, if they were tracked. False when the kernel refuses.
pub fn resume(agent: &Agent, flags: u32, start: u64, bytes: u64) -> bool {
    // SAFETY: as above.
    let fd = unsafe { (*agent.private()).uffd };
    fd < 0 || !is_tracked(flags) || register_range(fd, start, bytes)
}

/// Whether the body's image is small. It is looked at as a whole, which is soon done, and a run can have guard pages in it
/// (`MADV_GUARD_INSTALL`), for which a protected page is in the way: the kernel tries for ever.
pub fn is_small(agent: &Agent) -> bool {
    agent.pages().len() < SMALL_PAGES
}

/// Whether a mapping with these flags is tracked.
fn is_tracked(flags: u32) -> bool {
    flags & (vma_flags::HANDS_OFF | vma_flags::SHARED) == 0
}

/// Each mapping that is tracked.
pub fn each_mapping(agent: &Agent, mut each: impl FnMut(u64, u64) -> bool) -> bool {
    let mut tracked = agent.vmas().iter().filter(|vma| is_tracked(vma.flags));
    tracked.all(|vma| each(vma.start, vma.end - vma.start))
}

fn register(agent: &Agent, fd: i32) -> bool {
    each_mapping(agent, |start, bytes| register_range(fd, start, bytes))
}

fn register_range(fd: i32, start: u64, bytes: u64) -> bool {
    let mut args = [start, bytes, MODE_WP, 0];
    // SAFETY: the request takes these four words; the range is the program's.
    unsafe { sys::ioctl(fd, UFFDIO_REGISTER, args.as_mut_ptr()) == 0 }
}

fn protect(agent: &Agent, fd: i32) -> bool {
    each_mapping(agent, |start, bytes| {
        let mut args = [start, bytes, PROTECT];
        // SAFETY: as above, three words. A write to a protected page goes on by itself.
        unsafe { sys::ioctl(fd, UFFDIO_WRITEPROTECT, args.as_mut_ptr()) == 0 }
    })
}
