//! The bounds of arguments and environment that `/proc/PID/cmdline` and `environ` are read from.

use crate::state::Agent;
use crate::sys::{self, Res};

const PR_SET_MM: u32 = 35;
const PR_SET_MM_MAP: u64 = 14;

/// The kernel's `struct prctl_mm_map`.
#[repr(C)]
struct MmMap {
    layout: [u64; 5],
    brk: u64,
    bounds: [u64; 5],
    auxv: u64,
    auxv_size: u32,
    exe_fd: u32,
}

/// Sets `start_stack`, `arg_start`, `arg_end`, `env_start`, `env_end`. The other bounds are the image's; the saved
/// auxiliary vector and the executable stay.
pub fn set(agent: &Agent, wanted: [u64; 5]) -> Res {
    let image = agent.image();
    let map = MmMap {
        layout: image.layout,
        brk: image.brk,
        bounds: wanted,
        auxv: 0,
        auxv_size: 0,
        exe_fd: u32::MAX,
    };
    let result = sys::prctl(PR_SET_MM, PR_SET_MM_MAP, &raw const map as u64, size_of::<MmMap>() as u64);
    if result == 0 {
        // SAFETY: the private area belongs to this body, and the other task of it sleeps.
        unsafe { (*agent.private()).bounds = wanted };
    }
    result
}

/// Sets again what was last asked for, whatever the run made of it.
pub fn put_back(agent: &Agent) -> Res {
    // SAFETY: as above.
    let last = unsafe { (*agent.private()).bounds };
    set(agent, last)
}
