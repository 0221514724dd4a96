//! The reset: puts a body back to its image after a run, from inside.
//!
//! Order matters. First what decides which memory there is (locks, the break, mappings), then the pages, then what
//! belongs to the address space but lies in no page. A step that cannot be carried out gives the body up: the engine
//! sees the reason and makes another one.

pub mod bounds;
mod guards;
mod mappings;
mod pages;
mod query;
pub mod quick;
mod result;
mod scan;
mod seals;
mod sticky;
pub mod track;

use core::sync::atomic::Ordering::Relaxed;

use regrow_abi::{Broken, MappedSizes, PREFAULT_READ, fault};

use crate::state::{Agent, Private, fd};
use crate::sys;
use quick::Look;
use result::ResetResult;

const FAULT_RESET: u32 = fault::RESET_FAILS.number();
const FAULT_KILL: u32 = fault::KEEPER_DIES_IN_RESET.number();

/// Opens a file at a number that leaves the standard ones free for the descriptors of a run.
fn open_at_number(path: &[u8], flags: u32, number: i32) -> i32 {
    let low = sys::open(path, flags);
    if low < 0 {
        return low as i32;
    }
    let high = sys::move_to(low as i32, number);
    high as i32
}

/// Makes the seed what the image says, from which the kernel's writes to the task's areas and the loading of the agent have
/// taken it, and notes what all its copies have. A fork of it needs no reset: it has the seed's pages, mappings and what
/// else belongs to an address space (an image has no mapping that a fork leaves out; those that it wipes are zero in the
/// image).
pub fn make_seed(agent: &Agent) {
    let private = agent.private();
    // SAFETY: the private area is this process's own; here and below no reference to it is alive.
    unsafe {
        (*private).bounds = agent.image().bounds;
        (*private).uffd = -1;
        (*private).engine_gone = 0;
        (*private).trims = 0;
        (*private).is_shell = 0;
        (*private).ignored = sys::ignored_signals();
    }
    open_proc(agent);
    // SAFETY: as above.
    unsafe { (*private).oom_score_text = sticky::read_short((*private).oom_score) };
    bounds::begin(agent);
    seals::begin(agent);
    run(agent);
    // SAFETY: as above.
    let Private { pagemap, maps, clear_refs, coredump_filter, oom_score, status, .. } = unsafe { &*private };
    for &number in [pagemap, maps, clear_refs, coredump_filter, oom_score, status] {
        sys::close(number);
    }
    // SAFETY: as above.
    unsafe { (*private).was_reset = 0 };
}

/// Opens the seed's memory for its bodies, whose resets read pages there that their image does not have. False where the kernel refuses:
/// the image keeps all its pages then.
pub fn open_seed_memory() -> bool {
    const RDONLY_CLOEXEC: u32 = 0o2_000_000;
    open_at_number(b"/proc/self/mem\0", RDONLY_CLOEXEC, fd::SEED_MEMORY) >= 0
}

/// Opens the files of `/proc/self` that a reset reads. Gives the body up when there is no `/proc`. It is done before the first
/// run, which may make the memory undumpable: then `/proc/self` is root's.
pub fn open_proc(agent: &Agent) {
    const RDWR_CLOEXEC: u32 = 0o2_000_002;
    const WRONLY_CLOEXEC: u32 = 0o2_000_001;
    const RDONLY_CLOEXEC: u32 = 0o2_000_000;
    // SAFETY: the private area is this process's own, and no other reference to it is alive.
    let private = unsafe { &mut *agent.private() };
    private.pagemap = open_at_number(b"/proc/self/pagemap\0", RDONLY_CLOEXEC, fd::PAGEMAP);
    private.maps = open_at_number(b"/proc/self/maps\0", RDONLY_CLOEXEC, fd::MAPS);
    private.clear_refs = open_at_number(b"/proc/self/clear_refs\0", WRONLY_CLOEXEC, fd::CLEAR_REFS);
    private.coredump_filter =
        open_at_number(b"/proc/self/coredump_filter\0", RDWR_CLOEXEC, fd::COREDUMP_FILTER);
    private.oom_score = open_at_number(b"/proc/self/oom_score_adj\0", RDWR_CLOEXEC, fd::OOM_SCORE);
    (private.status, private.sizes) = (-1, MappedSizes::default());
    if agent.trusts_runs() {
        private.status = open_at_number(b"/proc/self/status\0", RDONLY_CLOEXEC, fd::STATUS);
    }
    if private.pagemap < 0 || private.maps < 0 {
        agent.give_up(Broken::Proc, 0);
    }
    guards::begin(agent);
}

/// Notes that the body is put back or trimmed. True when it is for the first time.
fn mark_reset(agent: &Agent) -> bool {
    // SAFETY: the private area is this process's own, and no reference to it is alive.
    unsafe { core::mem::replace(&mut (*agent.private()).was_reset, 1) == 0 }
}

/// Puts the body back, or gives it up.
pub fn run(agent: &Agent) {
    let control = agent.control();
    let counters = &control.reset;
    for counter in
        [&counters.compared, &counters.copied, &counters.zeroed, &counters.dropped, &counters.mappings]
    {
        counter.store(0, Relaxed);
    }
    match control.fault.load(Relaxed) {
        FAULT_RESET => agent.give_up(Broken::Fault, 0),
        FAULT_KILL => sys::exit(137),
        _ => {}
    }
    sys::munlockall();
    if let Err((why, errno)) = everything(agent, mark_reset(agent)) {
        agent.give_up(why, errno);
    }
}

/// Gives all pages back that the image does not have: at once, or at the next reset where the armed process uses the memory already.
pub fn trim(agent: &Agent) {
    if agent.is_woken_ahead() {
        // SAFETY: the private area is this process's own, and no reference to it is alive.
        unsafe { (*agent.private()).trims = 1 };
        return;
    }
    if agent.is_for_one_run() {
        return;
    }
    mark_reset(agent);
    if let Err((why, errno)) = pages::put_back(agent, 0, false, Look::Usual) {
        agent.give_up(why, errno);
    }
}

/// Maps the pages of the ranges that the engine has written, as far as they are the program's and the kernel can.
pub fn prefault(agent: &Agent) {
    const MADV_POPULATE_READ: u32 = 22;
    const MADV_POPULATE_WRITE: u32 = 23;
    let mut range = agent.args().cast::<[u64; 2]>();
    let end = agent.args() as usize + regrow_abi::ARG_AREA_BYTES;
    while (range as usize) < end {
        // SAFETY: inside the arg area, checked above; populating changes no content, and the ranges are the program's.
        unsafe {
            let [start, bytes] = *range;
            if bytes == 0 {
                return;
            }
            let (how, bytes) = match bytes & PREFAULT_READ {
                0 => (MADV_POPULATE_WRITE, bytes),
                _ => (MADV_POPULATE_READ, bytes & !PREFAULT_READ),
            };
            if agent.spans().any(|(first, last)| first <= start && start + bytes <= last) {
                sys::madvise(start, bytes, how);
            }
            range = range.add(1);
        }
    }
}

fn everything(agent: &Agent, is_first: bool) -> ResetResult {
    let look = quick::look(agent);
    sticky::check(agent)?;
    mappings::put_back(agent, look != Look::Usual)?;
    if !agent.trusts_runs() {
        seals::check(agent)?;
    }
    // Before the pages: what was merged with pages of others is a page of its own again.
    sticky::put_back_advice(agent);
    guards::remove_unseen(agent)?;
    // SAFETY: the private area is this process's own, and no reference to it is alive.
    let trims = unsafe { core::mem::replace(&mut (*agent.private()).trims, 0) != 0 };
    let hot = if trims { 0 } else { agent.image().hot_zero_pages };
    pages::put_back(agent, hot, is_first, look)?;
    sticky::put_back(agent)
}
