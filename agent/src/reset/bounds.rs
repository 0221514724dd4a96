//! The bounds of arguments and environment that `/proc/PID/cmdline` and `environ` are read from.

use crate::state::{AUXV_BYTES, Agent};
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

/// Notes the auxiliary vector that the kernel shows for this process.
pub fn begin(agent: &Agent) {
    let fd = sys::open(b"/proc/self/auxv\0", 0o2_000_000) as i32;
    // SAFETY: the private area is this process's own; the buffer has this many bytes.
    unsafe {
        let private = agent.private();
        let got = sys::pread(fd, (&raw mut (*private).auxv).cast(), AUXV_BYTES, 0);
        // A vector that fills the room may be longer.
        (*private).auxv_bytes = if got > 0 && got < AUXV_BYTES as isize { got as u32 } else { 0 };
    }
    sys::close(fd);
}

/// Sets `start_stack`, `arg_start`, `arg_end`, `env_start`, `env_end`. The other bounds and the auxiliary vector are the
/// image's; the executable stays.
pub fn set(agent: &Agent, wanted: [u64; 5]) -> Res {
    let image = agent.image();
    // SAFETY: the private area belongs to this body; takes an address, and reads a word.
    let (auxv, auxv_size) =
        unsafe { (&raw const (*agent.private()).auxv as u64, (*agent.private()).auxv_bytes) };
    let map =
        MmMap { layout: image.layout, brk: image.brk, bounds: wanted, auxv, auxv_size, exe_fd: u32::MAX };
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
