//! Mappings, both ways: what the run added goes, what it removed comes back, what it re-protected is undone.
//!
//! Both lists are sorted by address, with like neighbours joined. When they are equal, nothing is done. Otherwise the
//! differences are worked off in one pass, and the lists must be equal afterwards.

use core::sync::atomic::Ordering::Relaxed;

use regrow_abi::{Broken, VmaEntry, vma_flags};

use super::result::ResetResult;
use super::{query, track};
use crate::state::Agent;
use crate::sys::{self, map};

/// What decides whether a mapping is the image's.
const BACKING: u32 = vma_flags::SHARED | vma_flags::FILE;
/// What the kernel tells of a mapping.
const SEEN: u32 = vma_flags::PROTECTION | vma_flags::FILE;

/// Makes the mappings those of the image.
pub fn put_back(agent: &Agent) -> ResetResult {
    let brk = agent.image().brk;
    // A mapping that the run put in the heap's way goes first: then the break is set again.
    let moved = sys::brk(0) != brk;
    let blocked = moved && sys::brk(brk) != brk;
    if !blocked && read_and_compare(agent)? {
        return Ok(());
    }
    if blocked {
        write_down(agent)?;
        unmap_above(agent, brk)?;
        if sys::brk(brk) != brk {
            return Err((Broken::Brk, 0));
        }
        if read_and_compare(agent)? {
            return Ok(());
        }
    }
    undo(agent)?;
    if read_and_compare(agent)? { Ok(()) } else { Err((Broken::Mappings, 0)) }
}

/// Whether the mappings equal the image's. Where they do not, the private area has those that are there.
fn read_and_compare(agent: &Agent) -> Result<bool, (Broken, i32)> {
    if are_equal(agent)? {
        return Ok(true);
    }
    write_down(agent)?;
    Ok(false)
}

/// Writes the mappings that are there into the private area, where [`undo`] compares them with the image's.
fn write_down(agent: &Agent) -> ResetResult {
    let count = query::read_all(agent)?;
    // SAFETY: the private area is this body's.
    unsafe { (*agent.private()).vma_count = count as u32 };
    Ok(())
}

/// Whether the mappings that are there are the image's, neighbours that differ in nothing joined. The kernel does not tell advice, by which
/// neighbours of an image can differ: of these it tells as one.
fn are_equal(agent: &Agent) -> Result<bool, (Broken, i32)> {
    let mut want = agent.vmas().iter().peekable();
    let same = |want: &VmaEntry, have: &VmaEntry| same_backing(want, have) && same_protection(want, have);
    let mut is_wanted = |have: &VmaEntry| {
        let Some(first) = want.next_if(|want| want.start == have.start && same(want, have)) else {
            return false;
        };
        let mut end = first.end;
        while let Some(next) = want.next_if(|want| want.start == end && end < have.end && same(want, have)) {
            end = next.end;
        }
        end == have.end
    };
    let mut last: Option<VmaEntry> = None;
    let mut equal = true;
    query::each_vma(agent, &mut |vma| {
        match &mut last {
            Some(last) if query::joins(last, &vma) => last.end = vma.end,
            last => equal &= last.replace(vma).is_none_or(|last| is_wanted(&last)),
        }
        Ok(())
    })?;
    Ok(equal && last.is_none_or(|last| is_wanted(&last)) && want.next().is_none())
}

fn current(agent: &Agent, count: usize) -> &[VmaEntry] {
    // SAFETY: `read_all` wrote this many entries; nobody writes them while the slice lives.
    unsafe { core::slice::from_raw_parts((&raw const (*agent.private()).vmas).cast(), count) }
}

fn same_backing(want: &VmaEntry, have: &VmaEntry) -> bool {
    if want.flags & vma_flags::HANDS_OFF != 0 {
        return true;
    }
    (want.flags ^ have.flags) & BACKING == 0
        && want.inode == have.inode
        && want.dev_major == have.dev_major
        && want.dev_minor == have.dev_minor
        && (want.inode == 0 || want.offset.wrapping_sub(want.start) == have.offset.wrapping_sub(have.start))
}

fn same_protection(want: &VmaEntry, have: &VmaEntry) -> bool {
    want.flags & vma_flags::HANDS_OFF != 0 || (want.flags ^ have.flags) & vma_flags::PROTECTION & SEEN == 0
}

/// Walks both lists over all addresses and treats each piece that only one of them has, or that differs.
fn undo(agent: &Agent) -> ResetResult {
    // SAFETY: see `read_and_compare`.
    let count = unsafe { (*agent.private()).vma_count } as usize;
    let want = agent.vmas();
    let have = current(agent, count);
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
            return Ok(());
        }
        let wanted = wanted.filter(|vma| vma.start <= at);
        let had = had.filter(|vma| vma.start <= at);
        piece(agent, at, end, wanted, had)?;
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
            if !same_backing(wanted, had) {
                unmap(agent, start, end)?;
                map_again(agent, start, end, wanted)
            } else if !same_protection(wanted, had) {
                protect(agent, start, end, wanted)
            } else {
                Ok(())
            }
        }
    }
}

/// Unmaps what lies between the break and where it is to be, or right above: the kernel keeps a page free there. The
/// image has nothing in that place.
fn unmap_above(agent: &Agent, brk: u64) -> ResetResult {
    let at = sys::brk(0);
    // SAFETY: see `read_and_compare`.
    let count = unsafe { (*agent.private()).vma_count } as usize;
    let page = regrow_abi::PAGE_BYTES;
    let (from, to) = (at.next_multiple_of(page), brk.next_multiple_of(page) + page);
    for vma in current(agent, count).iter().filter(|vma| vma.start < to && vma.end > from) {
        unmap(agent, vma.start.max(from), vma.end.min(to))?;
    }
    Ok(())
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
