//! How children are scheduled, by what is predicted about them.

use regrow_abi::SchedAttr;
use regrow_abi::sites::{Channel, Class};

use crate::sys;

/// Has a process be scheduled as its class is; 0: the calling one. What is refused is left as it is.
pub fn apply(channel: Channel<'_>, process: u32, class: Class) {
    let Some(levers) = channel.levers() else { return };
    let Some(now) = sys::scheduling(process) else { return };
    let Some(wanted) = levers.change(class, &now) else { return };
    if !sys::set_scheduling(process, &wanted) && wanted.nice < now.nice {
        // Without the right to a lower niceness the slice can still be had.
        let kept = SchedAttr { nice: now.nice, ..wanted };
        sys::set_scheduling(process, &kept);
    }
}
