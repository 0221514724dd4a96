//! State that belongs to the address space but lies in none of its pages: undone where it can be, else the body is
//! given up.

use regrow_abi::{Broken, VmaEntry, features, vma_flags};

use super::bounds;
use super::result::ResetResult;
use crate::arch::{self, nr};
use crate::state::{Agent, MAX_RANGES};
use crate::sys;

const PR_GET_DUMPABLE: u32 = 3;
const PR_SET_DUMPABLE: u32 = 4;
const PR_SET_THP_DISABLE: u32 = 41;
const PR_GET_THP_DISABLE: u32 = 42;
const PR_GET_MDWE: u32 = 66;
const PR_SET_MEMORY_MERGE: u32 = 67;
const PR_GET_MEMORY_MERGE: u32 = 68;
const MEMBARRIER_GET_REGISTRATIONS: usize = 1 << 9;

/// What cannot be undone: a descriptor table of the run's own, memory-deny-write-execute, `membarrier` registrations.
pub fn check(agent: &Agent) -> ResetResult {
    let image = agent.image();
    if arch::has_descriptor_table() {
        return Err((Broken::Sticky, 0));
    }
    if agent.has(features::MEMBARRIER) {
        // SAFETY: numbers; the call only asks.
        let have = unsafe { sys::raw(nr::MEMBARRIER, [MEMBARRIER_GET_REGISTRATIONS, 0, 0, 0, 0, 0]) };
        let kept = !image.membarrier_tolerated;
        if have >= 0 && have as u32 & kept != image.membarrier & kept {
            return Err((Broken::Sticky, 1));
        }
    }
    if sys::prctl(PR_GET_MDWE, 0, 0, 0) > 0 {
        return Err((Broken::Sticky, 2));
    }
    Ok(())
}

/// What can be undone: dumpable, huge pages, memory merge, protection keys, advice, core filter, bounds, peak memory.
pub fn put_back(agent: &Agent) -> ResetResult {
    let image = agent.image();
    put_back_prctl(PR_GET_DUMPABLE, PR_SET_DUMPABLE, image.dumpable)?;
    put_back_prctl(PR_GET_THP_DISABLE, PR_SET_THP_DISABLE, image.thp_disable)?;
    put_back_prctl(PR_GET_MEMORY_MERGE, PR_SET_MEMORY_MERGE, image.memory_merge)?;
    if agent.has(features::PKEYS) && !agent.trusts_runs() {
        for key in 1..16 {
            // SAFETY: freeing a key that is not allocated is an error without effect.
            unsafe { sys::raw(nr::PKEY_FREE, [key, 0, 0, 0, 0, 0]) };
        }
    }
    put_back_core_filter(agent)?;
    put_back_oom_score(agent)?;
    let result = bounds::put_back(agent);
    if result < 0 {
        return Err((Broken::Sticky, -result as i32));
    }
    // SAFETY: the private area is this body's. "5" resets the peak resident set size.
    sys::write(unsafe { (*agent.private()).clear_refs }, b"5");
    Ok(())
}

fn put_back_prctl(get: u32, set: u32, wanted: u32) -> ResetResult {
    let have = sys::prctl(get, 0, 0, 0);
    // A kernel without the option has nothing to undo.
    if have < 0 || have as u32 == wanted {
        return Ok(());
    }
    let result = sys::prctl(set, u64::from(wanted), 0, 0);
    if result < 0 { Err((Broken::Sticky, -result as i32)) } else { Ok(()) }
}

/// Advice that changes no content, and undoes advice that a run may have given.
const ADVICE: [u32; 5] = {
    const NORMAL: u32 = 0;
    const DOFORK: u32 = 11;
    const UNMERGEABLE: u32 = 13;
    const DODUMP: u32 = 17;
    const KEEPONFORK: u32 = 19;
    [DOFORK, KEEPONFORK, NORMAL, UNMERGEABLE, DODUMP]
};

/// The first of it that decide what a fork finds: what a run that is trusted can have given, for its own purposes. The others change no
/// program's way, and nobody gives them to memory that is not his.
const OF_FORKS: usize = 2;

/// Advice and memory policy of the image's mappings.
pub fn put_back_advice(agent: &Agent) {
    let advice = if agent.trusts_runs() { &ADVICE[..OF_FORKS] } else { &ADVICE[..] };
    if !advise_at_once(agent, advice) {
        advise_by_span(agent, advice);
    }
    advise_as_image(agent);
    if agent.trusts_runs() {
        return;
    }
    let (mut first, mut last) = (0, 0);
    for (start, end) in agent.spans() {
        first = if first == 0 { start } else { first };
        last = end;
    }
    // SAFETY: the default policy, without nodes: the agent's own mappings have it too, and holes are allowed for it.
    unsafe { sys::raw(nr::MBIND, [first as usize, (last - first) as usize, 0, 0, 0, 0]) };
}

/// One call for each advice (`process_madvise` of this process itself). False when the kernel does not know that (Linux
/// 6.14), or stopped on the way.
fn advise_at_once(agent: &Agent, advice: &[u32]) -> bool {
    const PIDFD_SELF_PROCESS: isize = -10_001;
    // SAFETY: the private area is this body's; nobody else uses this table meanwhile.
    let table = unsafe { &raw mut (*agent.private()).ranges }.cast::<(u64, u64)>();
    let (mut count, mut end, mut bytes) = (0, 0, 0);
    // A trusted run gives such advice for memory that it writes to, and not for code and constants.
    let kind = if agent.trusts_runs() { vma_flags::WRITE } else { 0 };
    let is_advised = |vma: &&VmaEntry| vma.flags & (vma_flags::HANDS_OFF | kind) == kind;
    for vma in agent.vmas().iter().filter(is_advised) {
        let length = vma.end - vma.start;
        bytes += length;
        // SAFETY: `count` is at most `MAX_RANGES`, and entries below it are written.
        unsafe {
            if count > 0 && vma.start == end {
                (*table.add(count - 1)).1 += length;
            } else if count == MAX_RANGES {
                return false;
            } else {
                table.add(count).write((vma.start, length));
                count += 1;
            }
        }
        end = vma.end;
    }
    // SAFETY: mappings of the image, named one by one; see `ADVICE`.
    advice.iter().all(|&advice| unsafe {
        let args = [PIDFD_SELF_PROCESS as usize, table as usize, count, advice as usize, 0, 0];
        sys::raw(nr::PROCESS_MADVISE, args) == bytes as isize
    })
}

/// A call for each advice and each span, holes included.
fn advise_by_span(agent: &Agent, advice: &[u32]) {
    for (start, end) in agent.spans() {
        for &advice in advice {
            // SAFETY: see `ADVICE`; `HANDS_OFF` mappings are not in the spans.
            unsafe { sys::madvise(start, end - start, advice) };
        }
    }
}

/// Gives mappings the advice that they have in the image.
fn advise_as_image(agent: &Agent) {
    const NOHUGEPAGE: u32 = 15;
    const DONTDUMP: u32 = 16;
    const WIPEONFORK: u32 = 18;
    // Rust's standard library has a stack for signal handlers, which it unmaps at the end: the mapping that takes its place is to have its advice.
    let advice_of =
        [(vma_flags::WIPE, WIPEONFORK), (vma_flags::NO_DUMP, DONTDUMP), (vma_flags::NO_HUGE, NOHUGEPAGE)];
    for vma in agent.vmas() {
        for (flag, advice) in advice_of {
            if vma.flags & (flag | vma_flags::HANDS_OFF) == flag {
                // SAFETY: a mapping of the program; the advice changes no content. A droppable mapping refuses it, and is wiped all the same.
                unsafe { sys::madvise(vma.start, vma.end - vma.start, advice) };
            }
        }
    }
}

fn put_back_core_filter(agent: &Agent) -> ResetResult {
    // SAFETY: the private area is this body's.
    let fd = unsafe { (*agent.private()).coredump_filter };
    let mut text = [0u8; 16];
    // SAFETY: the buffer has 16 bytes.
    let got = unsafe { sys::pread(fd, text.as_mut_ptr(), text.len(), 0) };
    if got <= 0 {
        return Ok(());
    }
    let mut value = 0u32;
    for byte in text.iter().take(got as usize) {
        value = match byte {
            b'0'..=b'9' => value << 4 | u32::from(byte - b'0'),
            b'a'..=b'f' => value << 4 | u32::from(byte - b'a' + 10),
            _ => value,
        };
    }
    let wanted = agent.image().coredump_filter;
    if value == wanted {
        return Ok(());
    }
    let mut out = *b"0x00000000";
    for (index, byte) in out.iter_mut().skip(2).enumerate() {
        let digit = (wanted >> (28 - 4 * index) & 15) as u8;
        *byte = if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
    }
    let result = sys::write(fd, &out);
    if result < 0 { Err((Broken::Sticky, -result as i32)) } else { Ok(()) }
}

/// A short file of `/proc`, padded with zeros.
pub fn read_short(fd: i32) -> [u8; 8] {
    let mut text = [0; 8];
    // SAFETY: the buffer has 8 bytes.
    unsafe { sys::pread(fd, text.as_mut_ptr(), text.len(), 0) };
    text
}

/// The kernel copies a new score to every process that shares the memory: to the keeper too.
fn put_back_oom_score(agent: &Agent) -> ResetResult {
    // SAFETY: the private area is this body's.
    let (fd, wanted) = unsafe { ((*agent.private()).oom_score, (*agent.private()).oom_score_text) };
    if read_short(fd) == wanted {
        return Ok(());
    }
    let length = wanted.iter().take_while(|&&byte| byte != 0).count();
    // SAFETY: `length` is at most the size of the array.
    let text = unsafe { core::slice::from_raw_parts(wanted.as_ptr(), length) };
    let result = sys::write(fd, text);
    if result < 0 { Err((Broken::Sticky, -result as i32)) } else { Ok(()) }
}
