//! Guard pages (`MADV_GUARD_INSTALL`, Linux 6.13): a touch of one is a SIGSEGV, and `MADV_DONTNEED` leaves it. An image has none.
//!
//! From Linux 6.15 on a scan finds them, and the body is given up. Before, every mapping is told to have none.

use regrow_abi::{Broken, VmaEntry, vma_flags};

use super::result::ResetResult;
use super::scan;
use crate::state::Agent;
use crate::sys;

const MADV_GUARD_REMOVE: u32 = 103;

/// The kernel has none.
const NONE: u32 = 0;
/// The kernel has them, and no scan tells.
const UNSEEN: u32 = 1;
/// Notes how this kernel lets guard pages be found. Called when a body is made.
pub fn begin(agent: &Agent) {
    let has_them = agent
        .vmas()
        .iter()
        .find(|vma| is_anonymous(vma))
        .is_some_and(|vma| remove(vma.start, vma.end).is_ok());
    let how = match (has_them, scan::knows_guards(agent)) {
        (_, true) => scan::GUARDS_SEEN,
        (true, false) => UNSEEN,
        (false, false) => NONE,
    };
    // SAFETY: the private area is this body's own, and no reference to it is alive.
    unsafe { (*agent.private()).guards = how };
}

/// Removes those that no scan tells of.
pub fn remove_unseen(agent: &Agent) -> ResetResult {
    // SAFETY: as above.
    if unsafe { (*agent.private()).guards } != UNSEEN {
        return Ok(());
    }
    // Before 6.15 nothing else can have one.
    let mut anonymous = agent.vmas().iter().filter(|vma| is_anonymous(vma));
    anonymous.try_for_each(|vma| remove(vma.start, vma.end))
}

fn is_anonymous(vma: &VmaEntry) -> bool {
    vma.flags & (vma_flags::HANDS_OFF | vma_flags::SHARED | vma_flags::FILE) == 0
}

/// Removes the guard pages of a range of the program.
fn remove(start: u64, end: u64) -> ResetResult {
    // SAFETY: without a guard a page is as if it had never been touched.
    let result = unsafe { sys::madvise(start, end - start, MADV_GUARD_REMOVE) };
    if result < 0 { Err((Broken::Pages, -result as i32)) } else { Ok(()) }
}
