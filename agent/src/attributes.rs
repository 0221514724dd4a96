//! What the keeper has as a task, and each process that it makes has of it: limits, scheduling, processors, I/O priority. A run can change them, as any
//! process of the user can. The hard limits cannot be raised again, so that the body is given up.

use crate::arch::nr;
use crate::state::{ATTRIBUTE_WORDS, Agent};
use crate::sys;

const LIMITS: usize = 16;

/// The attributes as the kernel tells them.
#[repr(C)]
struct Attributes {
    limits: [[u64; 2]; LIMITS],
    processors: [u64; 16],
    scheduling: [u64; 6],
    io_priority: isize,
}

impl Attributes {
    /// Reads those of this task to a place.
    ///
    /// # Safety
    /// The place is writable, and nobody else uses it.
    unsafe fn read(to: *mut Attributes) {
        // SAFETY: each call writes at most the field that it is given, of which it is told the size.
        unsafe {
            for number in 0..LIMITS {
                let limit = (&raw mut (*to).limits).cast::<[u64; 2]>().add(number) as usize;
                // Less than half of what `prlimit64` takes, which looks its process up.
                sys::raw(nr::GETRLIMIT, [number, limit, 0, 0, 0, 0]);
            }
            let processors = &raw mut (*to).processors;
            sys::raw(nr::SCHED_GETAFFINITY, [0, size_of_val(&*processors), processors as usize, 0, 0, 0]);
            let scheduling = &raw mut (*to).scheduling;
            sys::raw(nr::SCHED_GETATTR, [0, scheduling as usize, size_of_val(&*scheduling), 0, 0, 0]);
            (*to).io_priority = sys::raw(nr::IOPRIO_GET, [1, 0, 0, 0, 0, 0]);
        }
    }
}

const _: () =
    assert!(size_of::<Attributes>() == ATTRIBUTE_WORDS * 8, "the private area has room for exactly this");

/// Where what the keeper had stands, and what it has.
fn places(agent: &Agent) -> [*mut [u64; ATTRIBUTE_WORDS]; 2] {
    // SAFETY: takes addresses inside the private area, reads nothing.
    unsafe { [&raw mut (*agent.private()).attributes[0], &raw mut (*agent.private()).attributes[1]] }
}

/// Notes what the keeper has.
pub fn begin(agent: &Agent) {
    let [had, _] = places(agent);
    // SAFETY: the private area is this body's, and no reference to it is alive; the place has this size.
    unsafe { Attributes::read(had.cast()) };
}

/// Whether the keeper has what it had. The engine binds it to a processor, but for one of a front end.
pub fn are_unchanged(agent: &Agent) -> bool {
    let [had, has] = places(agent);
    // SAFETY: as above; both places have this many words.
    unsafe {
        Attributes::read(has.cast());
        if !agent.is_warm() {
            (&raw mut (*has.cast::<Attributes>()).processors).write((*had.cast::<Attributes>()).processors);
        }
        (0..ATTRIBUTE_WORDS).all(|word| *had.cast::<u64>().add(word) == *has.cast::<u64>().add(word))
    }
}
