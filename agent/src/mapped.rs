//! Has the bodies of a seed begin with the pages of files mapped, so that no run takes a fault for them.
//!
//! A fork copies the page table of a mapping only where the mapping has had an anonymous page; the entries of all others it leaves to
//! faults, which take ten times as long. So each mapping of a file gets one, which is dropped at once: the file's page is there again.

use regrow_abi::{PAGE_BYTES, VmaEntry, vma_flags};

use crate::state::Agent;
use crate::sys;

/// Mappings that are larger are left to faults.
const MAX_BYTES: u64 = 4 << 20;
/// All of them together.
const MAX_BYTES_OF_ALL: u64 = 16 << 20;

/// Maps the files that the program can only read.
pub fn begin(agent: &Agent) {
    const RDWR_CLOEXEC: u32 = 0o2_000_002;
    let memory = sys::open(b"/proc/self/mem\0", RDWR_CLOEXEC) as i32;
    let mut room = MAX_BYTES_OF_ALL;
    for vma in agent.vmas().iter().filter(|vma| is_file(vma)) {
        let bytes = vma.end - vma.start;
        if bytes <= MAX_BYTES && bytes <= room {
            room -= bytes;
            map(agent, vma, memory);
        }
    }
    sys::close(memory);
}

fn is_file(vma: &VmaEntry) -> bool {
    const KIND: u32 = vma_flags::HANDS_OFF | vma_flags::SHARED | vma_flags::WRITE | vma_flags::FILE;
    vma.flags & KIND == vma_flags::FILE
}

/// Maps all of a mapping, and has forks copy that. Where the kernel refuses, faults do it.
fn map(agent: &Agent, vma: &VmaEntry, memory: i32) {
    const MADV_DONTNEED: u32 = 4;
    const MADV_POPULATE_READ: u32 = 22;
    let has_own = agent.pages().iter().any(|page| (vma.start..vma.end).contains(&page.address()));
    let mut byte = [0];
    // SAFETY: the buffer has a byte. The page is one of a file, and dropped it is that again; the program does not run.
    unsafe {
        if !has_own
            && sys::pread(memory, byte.as_mut_ptr(), 1, vma.start) == 1
            && sys::pwrite(memory, &byte, vma.start) == 1
        {
            sys::madvise(vma.start, PAGE_BYTES, MADV_DONTNEED);
        }
        sys::madvise(vma.start, vma.end - vma.start, MADV_POPULATE_READ);
    }
}
