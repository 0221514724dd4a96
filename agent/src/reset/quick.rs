//! The quick look: where runs are trusted, most resets ask the kernel for what was written, and for nothing else.
//!
//! Kernels before the middle of 2026 then pass over what never was there and has no table of pages, also in memory that is registered with userfaultfd. A
//! trial tells them.

use super::{scan, track};
use crate::state::Agent;
use crate::sys::{self, map};

/// One in how many resets of a body whose runs are trusted looks closer, and one in how many at all that it would look at if they were not.
const RESETS_BETWEEN: u32 = 32;
const RESETS_BETWEEN_ALL: u32 = 32 * RESETS_BETWEEN;

/// How closely a reset looks at a body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// As runs are trusted or not: where they are, at sizes and at what was written.
    Usual,
    /// Where runs are trusted: at each mapping too; and pages that are as they should be are protected again.
    Closer,
    /// At all besides that a quick look passes over: a dropped page of a file, one that the kernel may drop.
    AtAll,
}

/// How closely the next reset looks at the body. It counts the resets.
pub fn look(agent: &Agent) -> Look {
    if !agent.trusts_runs() {
        return Look::Usual;
    }
    // SAFETY: the private area is this process's own, and no reference to it is alive.
    let resets = unsafe { &mut (*agent.private()).resets };
    *resets = resets.wrapping_add(1);
    match *resets {
        number if number.is_multiple_of(RESETS_BETWEEN_ALL) => Look::AtAll,
        number if number.is_multiple_of(RESETS_BETWEEN) => Look::Closer,
        _ => Look::Usual,
    }
}

/// Notes whether the kernel tells all that a quick look is to find. Called when a body is made whose writes are tracked, or not.
pub fn begin(agent: &Agent) {
    let tells_holes = track::is_on(agent) && agent.trusts_runs() && tells_holes(agent);
    // SAFETY: as above.
    unsafe { (*agent.private()).tells_holes = tells_holes.into() };
}

/// Whether resets may look for what was written alone.
pub fn is_on(agent: &Agent) -> bool {
    // SAFETY: as above.
    track::is_on(agent) && agent.trusts_runs() && unsafe { (*agent.private()).tells_holes != 0 }
}

/// Tries in a table of pages of its own whether what never was there is told.
fn tells_holes(agent: &Agent) -> bool {
    const BYTES: u64 = 2 * track::TABLE_BYTES;
    // SAFETY: a mapping in no other one's place.
    let at = unsafe { sys::mmap(0, BYTES, sys::prot::READ, map::PRIVATE | map::ANONYMOUS, -1, 0) };
    if at < 0 {
        return false;
    }
    let table = (at as u64).next_multiple_of(track::TABLE_BYTES);
    let are_told = track::register_other(agent, at as u64, BYTES)
        && scan::tells_holes(agent, table, table + track::TABLE_BYTES);
    // SAFETY: the mapping of above.
    unsafe { sys::munmap(at as u64, BYTES) };
    are_told
}
