//! A client's order as the engine's request.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use regrow_engine::creation::Fallback;
use regrow_engine::request::{ExtraFd, Request, StdioFd, Strings};
use regrow_engine::shard::Bequest;
use regrow_sys::caller::Settable;

use crate::wire::Order;

/// What the engine is to start, and the ticket that is to be taken before. Every descriptor that was sent has its number;
/// one that was not is closed in the run.
pub(super) fn request(
    order: Order,
    mut descriptors: Vec<OwnedFd>,
) -> Result<(Request, Bequest, OwnedFd), Fallback> {
    let malformed = || Fallback::UnsupportedRequest;
    let c_string = |bytes: Vec<u8>| CString::new(bytes).map_err(|_| malformed());
    let ticket = descriptors.pop().ok_or_else(malformed)?;
    if descriptors.len() != order.targets.len() || order.targets.iter().any(|&target| target < 0) {
        return Err(malformed());
    }
    let mut request = Request::new(c_string(order.program)?);
    request.arg0 = order.arg0.map(c_string).transpose()?;
    request.args = Strings::from_block(order.args.0).ok_or_else(malformed)?;
    request.env = Strings::from_block(order.env.0).ok_or_else(malformed)?;
    request.current_dir = Some(c_string(order.directory)?);
    request.umask = Some(order.umask);
    // A signal to the group of a run is a signal to what it has started, and to nobody else.
    request.process_group = Some(0);
    request.waits_for_end = true;
    request.stdio = [const { StdioFd::Closed }; 3];
    for (descriptor, target) in descriptors.into_iter().zip(order.targets) {
        let descriptor = Arc::new(descriptor);
        match usize::try_from(target).ok().and_then(|target| request.stdio.get_mut(target)) {
            Some(stdio) => *stdio = StdioFd::Given(descriptor),
            None => request.extra_fds.push(ExtraFd { source: descriptor, target }),
        }
    }
    let preload = Strings::from_block(order.preload.0).ok_or_else(malformed)?;
    for module in &preload {
        request.preload.push(module.to_str().map_err(|_| malformed())?.to_owned());
    }
    let settable = Settable {
        process_group: 0,
        nice: order.nice,
        limits: order.limits,
        ignored: order.ignored,
        affinity: order.affinity,
    };
    Ok((request, Bequest { settable, signal_mask: order.blocked }, ticket))
}
