//! The numbers of `/proc/PID/stat`.

use crate::error::MakeError;

/// The numbers of `/proc/PID/stat` from its third field on.
pub(crate) fn stat_fields(pid: i32) -> Result<Vec<u64>, MakeError> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .map_err(MakeError::tracing("reading its stat"))?;
    let rest = text.rsplit_once(')').map_or("", |parts| parts.1);
    Ok(rest.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect())
}
