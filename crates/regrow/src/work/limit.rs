//! How much memory a work may use more than it began with.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use regrow_sys::want_of_memory;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::exchange::{Answer, Exchange};

/// Limits the memory of this process; `0`: not at all. One that is refused memory and ends of it says so.
pub(crate) fn apply(exchange: &Exchange, more: u64) -> io::Result<()> {
    if more == 0 {
        return Ok(());
    }
    let limit = data_bytes()?.saturating_add(more);
    let present = getrlimit(Resource::Data);
    let limit = present.maximum.map_or(limit, |maximum| limit.min(maximum));
    setrlimit(Resource::Data, Rlimit { current: Some(limit), maximum: present.maximum })?;
    want_of_memory::note(exchange.as_fd().as_raw_fd(), exchange.answer_at(), Answer::WANT_OF_MEMORY)
}

/// How much memory the kernel counts towards the limit.
fn data_bytes() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kibibytes = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    Ok(kibibytes.ok_or(io::ErrorKind::InvalidData)? * 1024)
}
