//! A client's message as the engine's request.

use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use regrow_engine::run::creation::{Fallback, RequestPart};
use regrow_engine::run::request::{ExtraFd, Request, StdioFd};

use crate::ticket::Ticket;
use crate::wire::SpawnMessage;

/// What the engine is to start, and the ticket that is to be taken before. Every descriptor that was sent has its number;
/// one that was not is closed in the run.
pub(super) fn request(
    mut message: SpawnMessage,
    descriptors: &[Arc<OwnedFd>],
) -> Result<(Request, Ticket), Fallback> {
    let (ticket, descriptors) = descriptors.split_last().ok_or_else(malformed)?;
    if descriptors.len() != message.targets.len() || message.targets.iter().any(|&target| target < 0) {
        return Err(malformed());
    }
    let targets = std::mem::take(&mut message.targets);
    let mut request = without_descriptors(message)?;
    for (descriptor, target) in descriptors.iter().zip(targets) {
        let descriptor = Arc::clone(descriptor);
        match usize::try_from(target).ok().and_then(|target| request.stdio.get_mut(target)) {
            Some(stdio) => *stdio = StdioFd::Given(descriptor),
            None => request.extra_fds.push(ExtraFd { source: descriptor, target }),
        }
    }
    Ok((request, Ticket::from(Arc::clone(ticket))))
}

fn malformed() -> Fallback {
    Fallback::UnsupportedRequest { what: RequestPart::Message }
}

/// The same without descriptors, where a body is to be lent for such runs.
pub(super) fn without_descriptors(message: SpawnMessage) -> Result<Request, Fallback> {
    let c_string = |bytes: Vec<u8>| CString::new(bytes).map_err(|_| malformed());
    // Session and group of a run are the daemon's to say.
    if message.task.session() || message.task.process_group().is_some() {
        return Err(malformed());
    }
    let mut request = Request::new(c_string(message.program)?);
    let words = message.args.iter().map(CStr::to_bytes);
    let argv = std::iter::once(request.program.to_bytes()).chain(words);
    request.site = Some(regrow_sites::place::of_call(request.program.to_bytes(), argv));
    request.arg0 = message.arg0.map(c_string).transpose()?;
    request.args = message.args;
    request.env = message.env;
    request.current_dir = Some(c_string(message.directory)?);
    request.task = message.task;
    // A signal to the group of a run is a signal to what it has started, and to nobody else.
    request.task.set_process_group(0);
    request.waits_for_end = true;
    request.single_use = message.single_use;
    request.stdio = [const { StdioFd::Closed }; 3];
    for module in &message.preload {
        request.preload.push(module.to_str().map_err(|_| malformed())?.to_owned());
    }
    Ok(request)
}
