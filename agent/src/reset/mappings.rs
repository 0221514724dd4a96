//! Mappings, both ways: what the run added goes, what it removed comes back, what it re-protected is undone.
//!
//! Both lists are sorted by address, with like neighbours joined. When they are equal, nothing is done. Otherwise the
//! differences are worked off in one pass, and the lists must be equal afterwards.
//!
//! To ask the kernel for each mapping is much of a reset. Where runs are trusted and writes tracked it is asked for those that can be written to, and how much is
//! mapped in all, and of that how much can be executed:
//!
//! ```text
//!   sizes, and mappings that can be written to ──equal──> nothing is done
//!     └──no──> those are made equal, and asked for again ──equal──> done
//!                └──no──> all mappings are made equal, and asked for again
//! ```
//!
//! What this does not tell: what cannot be written to is another thing of the same size, or can be read no more. No program does that to
//! memory that it has not mapped itself. Such a body is put back by the next of its resets that looks closer, which is one in 32.

use core::sync::atomic::Ordering::Relaxed;

use regrow_abi::{Broken, Comparison, MappedSizes, VmaEntry, features, vma_flags};

use super::result::ResetResult;
use super::{query, track};
use crate::state::Agent;
use crate::sys::{self, map};

/// Which mappings the kernel is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    All,
    /// The program's that can be written to.
    Writable,
}

/// Makes the mappings those of the image. With `looks_closer` each is looked at, whether runs are trusted or not.
pub fn put_back(agent: &Agent, looks_closer: bool) -> ResetResult {
    let brk = agent.image().brk;
    // A mapping that the run put in the heap's way goes first: then the break is set again.
    let moved = sys::brk(0) != brk;
    let blocked = moved && sys::brk(brk) != brk;
    let asks_for_some = !blocked && !looks_closer && knows_sizes(agent);
    if asks_for_some && (seem_equal(agent)? || undo(agent, Asked::Writable)? && seem_equal(agent)?) {
        return Ok(());
    }
    if blocked {
        unmap_above(agent, brk)?;
    }
    if blocked || asks_for_some || !are_equal(agent)? {
        undo(agent, Asked::All)?;
        if !are_equal(agent)? {
            return Err((Broken::Mappings, 0));
        }
    }
    note_sizes(agent);
    Ok(())
}

/// Whether the mappings that are there are the image's.
fn are_equal(agent: &Agent) -> Result<bool, (Broken, i32)> {
    let mut comparison = Comparison::with_all(agent.vmas());
    query::each_vma(agent, &mut |vma| {
        comparison.add(vma);
        Ok(())
    })?;
    Ok(comparison.is_equal())
}

/// Whether as much is mapped as there was when all mappings were the image's, and those are the image's that can be written to.
fn seem_equal(agent: &Agent) -> Result<bool, (Broken, i32)> {
    // SAFETY: the private area is this body's.
    if query::sizes(agent) != Some(unsafe { (*agent.private()).sizes }) {
        return Ok(false);
    }
    let mut comparison = Comparison::with_writable(agent.vmas());
    query::each_writable(agent, &mut |vma| Ok(comparison.add(vma)))?;
    Ok(comparison.is_equal())
}

/// Whether a look at some of the mappings can be enough. Where writes are not tracked each page is read, and so must be readable.
fn may_ask_for_some(agent: &Agent) -> bool {
    agent.trusts_runs() && agent.has(features::PROCMAP_QUERY) && track::is_on(agent)
}

/// Whether it is, because it is known how much is mapped.
fn knows_sizes(agent: &Agent) -> bool {
    // SAFETY: as above.
    may_ask_for_some(agent) && unsafe { (*agent.private()).sizes } != MappedSizes::default()
}

/// Notes how much is mapped, which is the image's mappings.
fn note_sizes(agent: &Agent) {
    if may_ask_for_some(agent) {
        // SAFETY: as above.
        unsafe { (*agent.private()).sizes = query::sizes(agent).unwrap_or_default() };
    }
}

/// The mappings that are there, which are written into the private area.
fn current(agent: &Agent, asked: Asked) -> Result<&[VmaEntry], (Broken, i32)> {
    let count = query::read(agent, asked == Asked::All)?;
    // SAFETY: this many entries were written; nobody writes them while the slice lives.
    Ok(unsafe { core::slice::from_raw_parts((&raw const (*agent.private()).vmas).cast(), count) })
}

/// Walks both lists over all addresses and treats each piece that only one of them has, or that differs. False where it must be asked for
/// all mappings to know what to do.
fn undo(agent: &Agent, asked: Asked) -> Result<bool, (Broken, i32)> {
    let want = agent.vmas();
    let have = current(agent, asked)?;
    let (mut w, mut h) = (0, 0);
    let mut at = 0u64;
    loop {
        while want.get(w).is_some_and(|vma| vma.end <= at) {
            w += 1;
        }
        while have.get(h).is_some_and(|vma| vma.end <= at) {
            h += 1;
        }
        let wanted = want.get(w);
        let had = have.get(h);
        let next = |vma: Option<&VmaEntry>| {
            vma.map_or(u64::MAX, |vma| if vma.start > at { vma.start } else { vma.end })
        };
        let end = next(wanted).min(next(had));
        if end == u64::MAX && wanted.is_none() && had.is_none() {
            return Ok(true);
        }
        let wanted = wanted.filter(|vma| vma.start <= at);
        let had = had.filter(|vma| vma.start <= at);
        match wanted {
            Some(wanted) if asked == Asked::Writable && had.is_none() => {
                if wanted.flags & vma_flags::WRITE != 0 {
                    return Ok(false);
                }
            }
            _ => piece(agent, at, end, wanted, had)?,
        }
        at = end;
    }
}

/// Treats one piece of address space, in which neither list changes.
fn piece(
    agent: &Agent,
    start: u64,
    end: u64,
    wanted: Option<&VmaEntry>,
    had: Option<&VmaEntry>,
) -> ResetResult {
    match (wanted, had) {
        (None, None) => Ok(()),
        (None, Some(_)) => unmap(agent, start, end),
        (Some(wanted), None) => map_again(agent, start, end, wanted),
        (Some(wanted), Some(had)) => {
            if !wanted.has_backing_of(had) {
                unmap(agent, start, end)?;
                map_again(agent, start, end, wanted)
            } else if !wanted.has_protection_of(had) {
                protect(agent, start, end, wanted)
            } else {
                Ok(())
            }
        }
    }
}

/// Unmaps what lies between the break and where it is to be, or right above: the kernel keeps a page free there. The
/// image has nothing in that place. Then it sets the break.
fn unmap_above(agent: &Agent, brk: u64) -> ResetResult {
    let at = sys::brk(0);
    let page = regrow_abi::PAGE_BYTES;
    let (from, to) = (at.next_multiple_of(page), brk.next_multiple_of(page) + page);
    for vma in current(agent, Asked::All)?.iter().filter(|vma| vma.start < to && vma.end > from) {
        unmap(agent, vma.start.max(from), vma.end.min(to))?;
    }
    if sys::brk(brk) == brk { Ok(()) } else { Err((Broken::Brk, 0)) }
}

fn count(agent: &Agent) {
    agent.control().reset.mappings.fetch_add(1, Relaxed);
}

fn done(why: Broken, result: isize) -> ResetResult {
    if result < 0 { Err((why, -result as i32)) } else { Ok(()) }
}

fn unmap(agent: &Agent, start: u64, end: u64) -> ResetResult {
    query::end_aio(start);
    count(agent);
    // SAFETY: the image has nothing here, and the run that had is gone.
    done(Broken::Mappings, unsafe { sys::munmap(start, end - start) })
}

fn map_again(agent: &Agent, start: u64, end: u64, wanted: &VmaEntry) -> ResetResult {
    if wanted.flags & (vma_flags::SHARED | vma_flags::HANDS_OFF) != 0 {
        return Err((Broken::MappingLost, 0));
    }
    let stack = if wanted.flags & vma_flags::STACK != 0 { map::GROWSDOWN } else { 0 };
    let private = map::PRIVATE | map::FIXED;
    count(agent);
    if wanted.flags & vma_flags::FILE == 0 {
        // SAFETY: nothing is mapped here.
        let result = unsafe {
            sys::mmap(start, end - start, wanted.flags & 7, private | map::ANONYMOUS | stack, -1, 0)
        };
        return done(Broken::Mappings, result).and_then(|()| track_again(agent, start, end, wanted));
    }
    let file = open_file(agent, wanted)?;
    let offset = wanted.offset + (start - wanted.start);
    // SAFETY: as above.
    let result = unsafe { sys::mmap(start, end - start, wanted.flags & 7, private, file, offset) };
    sys::close(file);
    done(Broken::MappingLost, result).and_then(|()| track_again(agent, start, end, wanted))
}

/// What was mapped again is not registered for the tracking of writes.
fn track_again(agent: &Agent, start: u64, end: u64, wanted: &VmaEntry) -> ResetResult {
    if track::resume(agent, wanted.flags, start, end - start) { Ok(()) } else { Err((Broken::Mappings, 1)) }
}

/// Opens the file of a mapping again; it must be the one that was mapped.
fn open_file(agent: &Agent, wanted: &VmaEntry) -> Result<i32, (Broken, i32)> {
    const RDONLY_CLOEXEC: u32 = 0o2_000_000;
    if wanted.path_offset == 0 {
        return Err((Broken::MappingLost, 0));
    }
    let fd = sys::open_at(agent.path(wanted.path_offset), RDONLY_CLOEXEC);
    if fd < 0 {
        return Err((Broken::MappingLost, -fd as i32));
    }
    let (device, inode) = sys::identity(fd as i32);
    let major = (device >> 8 & 0xfff | device >> 32 & 0xffff_f000) as u32;
    let minor = (device & 0xff | device >> 12 & 0xffff_ff00) as u32;
    if (inode, major, minor) == (wanted.inode, wanted.dev_major, wanted.dev_minor) {
        return Ok(fd as i32);
    }
    sys::close(fd as i32);
    Err((Broken::MappingLost, 0))
}

fn protect(agent: &Agent, start: u64, end: u64, wanted: &VmaEntry) -> ResetResult {
    count(agent);
    // SAFETY: a mapping of the program, not the agent's (those are `HANDS_OFF`).
    done(Broken::Mappings, unsafe { sys::mprotect(start, end - start, wanted.flags & 7) })
}
