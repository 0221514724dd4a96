//! Seals (`mseal`, Linux 6.10) and protection keys: a run can give them to mappings of the image. A seal cannot be taken back, so that the body is given
//! up; a key is.
//!
//! No file of `/proc` tells of them quickly. To give a mapping the protection that it has changes nothing, and fails where it is sealed.

use regrow_abi::{Broken, VmaEntry, features, vma_flags};

use super::result::ResetResult;
use crate::arch::nr;
use crate::state::{Agent, MAX_VMAS};
use crate::sys;

const EPERM: sys::Res = -1;

/// Notes which mappings the program had sealed when its image was made.
pub fn begin(agent: &Agent) {
    for (index, vma) in agent.vmas().iter().enumerate().take(MAX_VMAS) {
        if is_ours(vma) && touch(agent, vma) == EPERM {
            // SAFETY: the private area is this process's own; `index` is below the number of bits.
            unsafe { *bits(agent).add(index / 64) |= 1 << (index % 64) };
        }
    }
}

/// Takes protection keys away, and gives the body up where a run has sealed a mapping.
pub fn check(agent: &Agent) -> ResetResult {
    for (index, vma) in agent.vmas().iter().enumerate().take(MAX_VMAS) {
        // SAFETY: as above.
        let was_sealed = unsafe { *bits(agent).add(index / 64) } >> (index % 64) & 1 != 0;
        if is_ours(vma) && !was_sealed {
            let result = touch(agent, vma);
            if result < 0 {
                return Err((Broken::Sealed, -result as i32));
            }
        }
    }
    Ok(())
}

fn bits(agent: &Agent) -> *mut u64 {
    // SAFETY: takes an address inside the private area, reads nothing.
    unsafe { (&raw mut (*agent.private()).sealed).cast() }
}

fn is_ours(vma: &VmaEntry) -> bool {
    vma.flags & vma_flags::HANDS_OFF == 0
}

/// Gives a mapping its own protection, without a key.
fn touch(agent: &Agent, vma: &VmaEntry) -> sys::Res {
    let (bytes, protection) = (vma.end - vma.start, vma.flags & 7);
    // SAFETY: a mapping of the program, which has this protection.
    unsafe {
        if agent.has(features::PKEYS) {
            let args = [vma.start as usize, bytes as usize, protection as usize, 0, 0, 0];
            sys::raw(nr::PKEY_MPROTECT, args)
        } else {
            sys::mprotect(vma.start, bytes, protection)
        }
    }
}
