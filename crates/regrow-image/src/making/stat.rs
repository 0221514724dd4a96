//! The numbers of `/proc/PID/stat`, and of `schedstat` beside it.

use std::time::Duration;

use crate::error::MakeError;

/// The numbers of `/proc/PID/stat` from its third field on.
pub(crate) fn stat_fields(pid: i32) -> Result<Vec<u64>, MakeError> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .map_err(MakeError::tracing("reading its stat"))?;
    let rest = text.rsplit_once(')').map_or("", |parts| parts.1);
    Ok(rest.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect())
}

/// The processor time of a process with one thread; `None` where the kernel does not tell.
pub(crate) fn processor_time(pid: i32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}
