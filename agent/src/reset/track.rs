//! Which pages of an image a run has written: userfaultfd in its asynchronous mode (Linux 6.7).
//!
//! The memory of the program is registered once, when the body is made, and write-protected. A small image is looked at as a whole.
//! The kernel lifts the protection of a page at the first write to it, without telling anybody, and `PAGEMAP_SCAN` finds those pages. A page
//! that was written once stays unprotected, and so is looked at after every run: most runs of a program write the same pages, and a fault
//! costs more than a comparison. Where runs are trusted, pages are protected again from time to time, so that those which few runs write
//! are not looked at for ever. A page that each run writes costs a fault then, so that is not done after every run. Where runs are not
//! trusted a page that is protected and yet this body's own is looked at in any case.
//!
//! A run can protect a page that it has written (`PAGEMAP_SCAN` does that too): then the scan passes it over. But a page that was written is
//! no longer shared with the seed, which no protection brings back: `scan::each_protected` finds such pages.
//!
//! What is mapped anew is not registered: by the break of the heap that is set again, or by a run in the place of what the image has there. The lists of
//! mappings do not tell it. Where runs are trusted the scan itself does (`PM_SCAN_CHECK_WPASYNC`), and then it is registered before it is looked at: of memory
//! that is not, `PAGEMAP_SCAN` passes over what has no table of pages, as if nobody had lost anything there. Some kernels do so in
//! memory that is registered as well (see `quick`).
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

/// Tracks the writes to a range of memory that is not the image's. False when the kernel refuses.
pub fn register_other(agent: &Agent, start: u64, bytes: u64) -> bool {
    // SAFETY: as above.
    register_range(unsafe { (*agent.private()).uffd }, start, bytes)
}

/// Tracks the writes to all that is to be tracked between two addresses. False when the kernel refuses.
pub fn resume_between(agent: &Agent, start: u64, end: u64) -> bool {
    // SAFETY: as above.
    let fd = unsafe { (*agent.private()).uffd };
    each_mapping(agent, |from, bytes| {
        let (from, to) = (from.max(start), (from + bytes).min(end));
        from >= to || register_range(fd, from, to - from)
    })
}

/// Protects a range of pages of one or more mappings that are tracked. False when the kernel refuses.
pub fn protect_again(agent: &Agent, start: u64, end: u64) -> bool {
    // SAFETY: as above.
    let fd = unsafe { (*agent.private()).uffd };
    // A run can have unmapped memory and mapped the like in its place: that is the image's mapping, and not registered.
    protect_range(fd, start, end) || (register(agent, fd) && protect_range(fd, start, end))
}

/// Whether the body's image is small. It is looked at as a whole, which is soon done, and a run can have guard pages in it
/// (`MADV_GUARD_INSTALL`), for which a protected page is in the way: the kernel tries for ever.
pub fn is_small(agent: &Agent) -> bool {
    agent.pages().len() < SMALL_PAGES
}

/// Whether a mapping with these flags is tracked. One that a fork wipes may be droppable, as the random numbers of the C library are, and
/// the kernel does not track that: each of its pages is found as written.
pub fn is_tracked(flags: u32) -> bool {
    flags & (vma_flags::HANDS_OFF | vma_flags::SHARED | vma_flags::WIPE) == 0
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
    let mut tracked = agent.vmas().iter().filter(|vma| is_tracked(vma.flags));
    tracked.all(|vma| {
        if vma.flags & vma_flags::FILE != 0 {
            return protect_range(fd, vma.start, vma.end);
        }
        let mut at = vma.start;
        while let Some((start, end)) = next_with_pages(agent, at, vma.end) {
            if !protect_range(fd, start, end) {
                return false;
            }
            at = end;
        }
        true
    })
}

/// What one table of pages maps.
pub const TABLE_BYTES: u64 = 2 << 20;

/// The next part of anonymous memory for which the image has pages, as far as the tables of pages that hold them go. In the rest a page
/// that is there was touched by a run: it needs no protection, which would fill a table for nothing that every scan goes through.
fn next_with_pages(agent: &Agent, from: u64, to: u64) -> Option<(u64, u64)> {
    let pages = agent.pages();
    let next = |at: u64| {
        let index = pages.partition_point(|saved| saved.address() < at);
        pages.get(index).map(|saved| saved.address()).filter(|&address| address < to)
    };
    let table_of = |address: u64| address & !(TABLE_BYTES - 1);
    let start = table_of(next(from)?);
    let mut end = start + TABLE_BYTES;
    while next(end).is_some_and(|address| table_of(address) == end) {
        end += TABLE_BYTES;
    }
    Some((start.max(from), end.min(to)))
}

fn protect_range(fd: i32, start: u64, end: u64) -> bool {
    let mut args = [start, end - start, PROTECT];
    // SAFETY: three words, as the request takes them. A write to a protected page goes on by itself.
    unsafe { sys::ioctl(fd, UFFDIO_WRITEPROTECT, args.as_mut_ptr()) == 0 }
}
