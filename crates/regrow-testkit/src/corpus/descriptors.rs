//! Keeps descriptors that the test has inherited away from the runs.
#![allow(
    unsafe_code,
    reason = "a descriptor that is known by its number alone can be borrowed in no other way"
)]

use std::os::fd::{BorrowedFd, RawFd};
use std::path::Path;

use rustix::io::{Errno, FdFlags, fcntl_setfd};

use super::error::{At, CorpusError};
use super::tree::sorted_names;

/// Marks every open descriptor above 2 close-on-exec. The standard library opens its own that way.
pub(super) fn close_strays_on_exec() -> Result<(), CorpusError> {
    let dir = Path::new("/proc/self/fd");
    let numbers = sorted_names(dir)?.into_iter().filter_map(|name| name.to_str()?.parse::<RawFd>().ok());
    for number in numbers.filter(|number| *number > 2) {
        // SAFETY: the number comes from the list of this process's descriptors, and is not -1. The borrow ends with
        // the call below, which changes a flag and neither reads, writes nor closes; had the descriptor been closed
        // since, the call would fail with EBADF, or mark a newer one with the flag that it has from the start.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        match fcntl_setfd(descriptor, FdFlags::CLOEXEC) {
            Ok(()) | Err(Errno::BADF) => {}
            Err(errno) => return Err(errno).at("mark the descriptors in", dir),
        }
    }
    Ok(())
}
