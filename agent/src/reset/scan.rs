//! Finds the pages that a reset must look at: by `PAGEMAP_SCAN`, else from the words of `/proc/self/pagemap`.

use core::mem::MaybeUninit;

use regrow_abi::{Broken, PAGE_BYTES, features};

use super::result::ResetResult;
use super::track;
use crate::state::{Agent, MAX_SCAN, PageRegion, TEXT_BYTES};
use crate::sys;

/// What a scan finds.
#[derive(Clone, Copy)]
pub enum PageFound {
    /// Anonymous pages; where writes are tracked, those that were written.
    Anonymous,
    /// Where writes are tracked: no page, one that was not written and is swapped, or the kernel's zero page.
    Absent,
    /// Guard pages.
    Guard,
    /// A page of the file that is mapped there, write-protected.
    OfFile,
}

pub type EachPage<'a> = dyn FnMut(u64, u64, PageFound) -> ResetResult + 'a;

/// Finds the pages of a span that can differ from the image, in order. Its mappings are tracked, or none of them is. With `is_quick` only what has
/// been written is looked for.
pub fn each_changed(
    agent: &Agent,
    (start, end): (u64, u64),
    is_tracked: bool,
    is_quick: bool,
    each: &mut EachPage<'_>,
) -> ResetResult {
    if is_quick {
        let each = &mut |from: u64, to: u64, _| {
            if to - from < LONG_PAGES * PAGE_BYTES {
                return each(from, to, PageFound::Anonymous);
            }
            // Most of it may be what the run has dropped, and nobody need look at page by page.
            let mut room = [MaybeUninit::<PageRegion>::uninit(); 16];
            each_written(agent, from, to, (room.as_mut_ptr().cast(), room.len()), each)
        };
        let wanted = Wanted { is_tracked, ..WRITTEN_ALONE };
        return by_ioctl(agent, start, end, &wanted, buffer(agent), each);
    }
    let guard = guard_category(agent);
    if track::is_on(agent) {
        each_written(agent, start, end, buffer(agent), each)
    } else if agent.has(features::PAGEMAP_SCAN) {
        let each = &mut |from, to, categories: u64| {
            each(from, to, if categories & guard != 0 { PageFound::Guard } else { PageFound::Anonymous })
        };
        by_ioctl(
            agent,
            start,
            end,
            &Wanted { told: ANONYMOUS.told | guard, ..ANONYMOUS },
            buffer(agent),
            each,
        )
    } else {
        by_reading(agent, start, end, each)
    }
}

/// Finds the pages that were written since they were last right, and those that are not there.
fn each_written(agent: &Agent, start: u64, end: u64, buffer: Buffer, each: &mut EachPage<'_>) -> ResetResult {
    let guard = guard_category(agent);
    let each = &mut |from, to, categories: u64| {
        // A page of a file that was read, not written, is no harm: dropped, it is the file's again.
        let is_written = categories & (IS_WRITTEN | IS_ZERO) == IS_WRITTEN;
        let is_there = categories & (IS_PRESENT | IS_SWAPPED) != 0;
        let found = if is_written && is_there { PageFound::Anonymous } else { PageFound::Absent };
        each(from, to, if categories & guard != 0 { PageFound::Guard } else { found })
    };
    by_ioctl(agent, start, end, &Wanted { told: WRITTEN.told | guard, ..WRITTEN }, buffer, each)
}

/// Finds the pages of mapped files that nobody may write to: anonymous ones in the place of the file's, the file's, and guard pages. Of
/// absent pages nothing is told.
pub fn each_of_files(agent: &Agent, start: u64, end: u64, each: &mut EachPage<'_>) -> ResetResult {
    // From the kernel on by which a scan tells of guard pages, a word does.
    let guard = if guard_category(agent) == 0 { 0 } else { GUARD };
    read_words(agent, start, end, &mut |at, word| {
        let found = match word {
            _ if word & guard != 0 => PageFound::Guard,
            _ if word & PRESENT_OR_SWAPPED == 0 => return Ok(()),
            _ if word & FILE_OR_SHARED != 0 => PageFound::OfFile,
            _ => PageFound::Anonymous,
        };
        each(at, at + PAGE_BYTES, found)
    })
}

const PRESENT: u64 = 1 << 63;
const PRESENT_OR_SWAPPED: u64 = 3 << 62;
const FILE_OR_SHARED: u64 = 1 << 61;
/// A guard page (Linux 6.15).
const GUARD: u64 = 1 << 58;
const WRITE_PROTECTED: u64 = 1 << 57;
const MAPPED_ONCE: u64 = 1 << 56;

/// Finds the pages that are write-protected, as if nobody had written them, and yet are not what the seed has: anonymous ones that are
/// this body's own, as the seed and all bodies share what nobody has written; and all of files, as an anonymous page may have been there.
pub fn each_protected(agent: &Agent, each: &mut EachPage<'_>) -> ResetResult {
    let (mut from, mut to) = (0, 0);
    let mut result = Ok(());
    // Neighbours are read at once.
    let all = track::each_mapping(agent, |start, bytes| {
        if start != to {
            result = protected(agent, from, to, each);
            from = start;
        }
        to = start + bytes;
        result.is_ok()
    });
    if all { protected(agent, from, to, each) } else { result }
}

/// The same in a range.
fn protected(agent: &Agent, from: u64, to: u64, each: &mut EachPage<'_>) -> ResetResult {
    const IS_PROTECTED: u64 = PRESENT | WRITE_PROTECTED;
    read_words(agent, from, to, &mut |at, word| {
        if word & IS_PROTECTED != IS_PROTECTED {
            Ok(())
        } else if word & FILE_OR_SHARED != 0 {
            each(at, at + PAGE_BYTES, PageFound::OfFile)
        } else if word & MAPPED_ONCE != 0 {
            each(at, at + PAGE_BYTES, PageFound::Anonymous)
        } else {
            Ok(())
        }
    })
}

/// The category of a guard page in a scan; zero where no scan tells.
fn guard_category(agent: &Agent) -> u64 {
    // SAFETY: the private area is this body's own, and no reference to it is alive.
    if unsafe { (*agent.private()).guards } == GUARDS_SEEN { IS_GUARD } else { 0 }
}

/// Whether the quick scan tells of pages that never were there where writes are tracked but there is no table of pages: kernels before the middle of 2026
/// pass over them. The memory is one table and nobody else's.
pub fn tells_holes(agent: &Agent, start: u64, end: u64) -> bool {
    let mut told = 0;
    let each = &mut |from: u64, to: u64, _| {
        told += to - from;
        Ok(())
    };
    by_ioctl(agent, start, end, &WRITTEN_ALONE, buffer(agent), each).is_ok() && told == end - start
}

/// Whether a scan tells of guard pages: the kernel refuses a category that it does not know.
pub fn knows_guards(agent: &Agent) -> bool {
    let own = agent.private() as u64;
    let wanted = Wanted { inverted: 0, all_of: 0, any_of: IS_GUARD, told: IS_GUARD, is_tracked: false };
    agent.has(features::PAGEMAP_SCAN)
        && by_ioctl(agent, own, own + PAGE_BYTES, &wanted, buffer(agent), &mut |_, _, _| Ok(())).is_ok()
}

/// The kernel's `struct pm_scan_arg`.
#[repr(C)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

const PAGEMAP_SCAN: usize = 0xc060_6610;
/// Has a scan of a mapping that is not tracked fail, with this error.
const CHECK_TRACKED: u64 = 1 << 1;
const NOT_TRACKED: isize = -1;
const IS_WRITTEN: u64 = 1 << 1;
const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;
const IS_ZERO: u64 = 1 << 5;
/// A guard page (Linux 6.15).
const IS_GUARD: u64 = 1 << 8;
/// What stands in the private area where a scan tells of guard pages.
pub const GUARDS_SEEN: u32 = 2;

/// Which pages a scan is to find.
struct Wanted {
    inverted: u64,
    all_of: u64,
    any_of: u64,
    told: u64,
    /// All mappings are tracked: one that is not is tracked first.
    is_tracked: bool,
}

/// Anonymous pages.
const ANONYMOUS: Wanted = Wanted {
    inverted: IS_FILE | IS_ZERO,
    all_of: IS_FILE | IS_ZERO,
    any_of: IS_PRESENT | IS_SWAPPED,
    told: IS_PRESENT,
    is_tracked: false,
};

/// Pages that were written, and places without one or with the kernel's zero page. Whether a page is a file's is not asked for: the kernel would have to look at each
/// page, and not at its entry in the page table alone, which takes ten times as long.
const WRITTEN: Wanted = Wanted {
    inverted: IS_PRESENT,
    all_of: 0,
    any_of: IS_WRITTEN | IS_PRESENT | IS_ZERO,
    told: IS_WRITTEN | IS_PRESENT | IS_SWAPPED | IS_ZERO,
    is_tracked: false,
};

/// Pages that were written, dropped or never there, without a word of which. The kernel looks for exactly this in a fifth of the time. A page that is
/// not there is as one of zeros, or the file's, to whoever compares it. Of a mapping that is not tracked it passes over what has no table of pages, and
/// in a mapping of a file it passes over a protected page that was dropped.
const WRITTEN_ALONE: Wanted =
    Wanted { inverted: 0, all_of: IS_WRITTEN, any_of: 0, told: IS_WRITTEN, is_tracked: true };

/// Where a scan has its regions written to, and how many there is room for. A scan that is made while another one goes on has its own.
type Buffer = (*mut PageRegion, usize);

/// The buffer of the private area.
fn buffer(agent: &Agent) -> Buffer {
    // SAFETY: takes an address inside the private area, reads nothing.
    (unsafe { &raw mut (*agent.private()).scan }.cast(), MAX_SCAN)
}

/// From how many pages on a range without a gap is looked at more closely.
const LONG_PAGES: u64 = 64;

/// Calls a closure of its caller for each region: inlined, or the table of that closure's functions would have to be relocated.
#[inline(always)]
fn by_ioctl(
    agent: &Agent,
    start: u64,
    end: u64,
    wanted: &Wanted,
    (buffer, room): Buffer,
    each: &mut dyn FnMut(u64, u64, u64) -> ResetResult,
) -> ResetResult {
    // SAFETY: the private area is this body's own, and no reference to it is alive.
    let fd = unsafe { (*agent.private()).pagemap };
    let (mut at, mut checks) = (start, wanted.is_tracked);
    while at < end {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            flags: if checks { CHECK_TRACKED } else { 0 },
            start: at,
            end,
            walk_end: 0,
            vec: buffer as u64,
            vec_len: room as u64,
            max_pages: 0,
            category_inverted: wanted.inverted,
            category_mask: wanted.all_of,
            category_anyof_mask: wanted.any_of,
            return_mask: wanted.told,
        };
        // SAFETY: the request takes this struct; the kernel writes at most as many regions as there is room for.
        let found = unsafe { sys::ioctl(fd, PAGEMAP_SCAN, &raw mut scan) };
        if found == NOT_TRACKED && checks {
            // A run, or the break of the heap, has mapped anew what lists of mappings do not tell from the image's.
            checks = false;
            if !track::resume_between(agent, at, end) {
                return Err((Broken::Mappings, 1));
            }
            continue;
        }
        if found < 0 {
            return Err((Broken::Proc, -found as i32));
        }
        let mut index = 0;
        while index < found as usize {
            // SAFETY: the kernel wrote `found` regions.
            let region = unsafe { *buffer.add(index) };
            each(region.start, region.end, region.categories)?;
            index += 1;
        }
        if scan.walk_end <= at {
            return Err((Broken::Proc, 0));
        }
        at = scan.walk_end;
    }
    Ok(())
}

/// Without the ioctl: what `/proc/self/pagemap` says of each page, mapping by mapping. The kernel's zero page cannot be
/// told apart there; it is zeroed like any other.
fn by_reading(agent: &Agent, start: u64, end: u64, each: &mut EachPage<'_>) -> ResetResult {
    let mut vmas = agent.vmas().iter().filter(|vma| vma.start >= start && vma.end <= end);
    vmas.try_for_each(|vma| {
        read_words(agent, vma.start, vma.end, &mut |at, word| {
            if word & PRESENT_OR_SWAPPED != 0 && word & FILE_OR_SHARED == 0 {
                return each(at, at + PAGE_BYTES, PageFound::Anonymous);
            }
            Ok(())
        })
    })
}

/// What `/proc/self/pagemap` says of each page of a range: 8 bytes.
fn read_words(
    agent: &Agent,
    start: u64,
    end: u64,
    each: &mut dyn FnMut(u64, u64) -> ResetResult,
) -> ResetResult {
    // SAFETY: the private area is this body's; only this function uses the text buffer meanwhile.
    let (fd, buffer) =
        unsafe { ((*agent.private()).pagemap, (&raw mut (*agent.private()).text).cast::<u64>()) };
    let mut at = start;
    while at < end {
        let pages = ((end - at) / PAGE_BYTES).min(TEXT_BYTES as u64 / 8);
        // SAFETY: the buffer holds this many words.
        let got = unsafe { sys::pread(fd, buffer.cast(), pages as usize * 8, at / PAGE_BYTES * 8) };
        if got <= 0 {
            return Err((Broken::Proc, -got as i32));
        }
        let mut index = 0;
        while index < got as usize / 8 {
            // SAFETY: the kernel wrote this word.
            each(at, unsafe { *buffer.add(index) })?;
            at += PAGE_BYTES;
            index += 1;
        }
    }
    Ok(())
}
