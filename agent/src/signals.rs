//! The signals of an armed process that becomes a run: what came before it was one is dropped, and it ignores and blocks what its
//! task says.

use regrow_abi::task::Task;

use crate::arch::nr;
use crate::state::Agent;
use crate::sys;

/// Drops what was sent to this process before it became the run, and takes the caller's ignored signals.
pub fn drop_signals(agent: &Agent, task: &Task) {
    let mut pending = 0u64;
    // SAFETY: a signal set is 8 bytes.
    unsafe { sys::raw(nr::RT_SIGPENDING, [&raw mut pending as usize, 8, 0, 0, 0, 0]) };
    if agent.is_warm() && !agent.is_shell() {
        // Its dispositions are the front end's.
        while pending != 0 && take_signal() {}
    } else if pending != 0 || task.ignored_signals().is_some() {
        set_dispositions(agent, task, pending);
    }
}

/// Takes one of the signals that are pending, all of which are blocked. False when there is none.
fn take_signal() -> bool {
    let (all, at_once) = (u64::MAX, [0u64; 2]);
    // SAFETY: a signal set is 8 bytes; the times and the set are live.
    unsafe {
        let args = [&raw const all as usize, 0, at_once.as_ptr() as usize, 8, 0, 0];
        sys::raw(nr::RT_SIGTIMEDWAIT, args) > 0
    }
}

/// Ignores the signals that the task ignores, and drops those that are pending.
fn set_dispositions(agent: &Agent, task: &Task, pending: u64) {
    // SAFETY: the private area is this body's, and the keeper sleeps.
    let have = unsafe { (*agent.private()).ignored };
    let want = task.ignored_signals().unwrap_or(have);
    let mut left = pending | (have ^ want);
    while left != 0 {
        let bit = left & left.wrapping_neg();
        left ^= bit;
        let signal = bit.trailing_zeros() as usize + 1;
        if pending & bit != 0 {
            // Ignoring a signal drops it.
            sys::set_ignored(signal, true);
        }
        sys::set_ignored(signal, want & bit != 0);
    }
}

/// Leaves those signals blocked that the run is to block.
pub fn unblock_signals(task: &Task) {
    let blocked = task.blocked_signals().unwrap_or(0);
    // SAFETY: a signal set is 8 bytes.
    unsafe { sys::raw(nr::RT_SIGPROCMASK, [2, &raw const blocked as usize, 0, 8, 0, 0]) };
}
