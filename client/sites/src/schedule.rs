//! How children are scheduled, by what is predicted about them.

use regrow_abi::SchedAttr;
use regrow_abi::sites::{Channel, Class};

use crate::sys;

/// Has a process be scheduled as its class is; 0: the calling one.
pub fn apply(channel: Channel<'_>, process: u32, class: Class) {
    let change =
        channel.levers().zip(sys::scheduling(process)).and_then(|(levers, now)| levers.change(class, &now));
    if let Some(change) = change {
        set(process, &change);
    }
}

/// Has a process be scheduled so; 0: the calling one. What is refused is left as it is.
pub fn set(process: u32, wanted: &SchedAttr) {
    if !sys::set_scheduling(process, wanted)
        && let Some(now) = sys::scheduling(process)
    {
        // Without the right to a lower niceness the slice can still be had.
        sys::set_scheduling(process, &SchedAttr { nice: now.nice, ..*wanted });
    }
}
