//! Files in memory through which a call is told and answered.
//!
//! ```text
//!   free ──take──> order, answer of a call ──its process has ended as it should──> emptied, free
//!                                          └──anything else────────────────────> closed
//! ```
//!
//! A file has room for whatever a call returns, so that its process never waits for a reader, and its caller waits for one
//! thing alone, the end of the process. To make a file takes as long as the rest of the start: those of trusted calls are used again.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use rustix::fs::{MemfdFlags, SeekFrom};

use crate::errors::lock;

/// How many files are kept, and up to which size.
const MOST: usize = 32;
const LARGEST_BYTES: u64 = 1 << 20;

/// The files that no call has.
#[derive(Default)]
pub(crate) struct Files {
    free: Mutex<Vec<OwnedFd>>,
}

impl Files {
    /// An empty file, its offset at the start.
    pub(crate) fn take(&self) -> io::Result<OwnedFd> {
        if let Some(file) = lock(&self.free).pop() {
            return Ok(file);
        }
        Ok(rustix::fs::memfd_create("regrow-call", MemfdFlags::CLOEXEC)?)
    }

    /// Takes a file back that nobody else uses any more. One that cannot be emptied is closed.
    pub(crate) fn give(&self, file: OwnedFd) {
        if size(&file).is_ok_and(|bytes| bytes <= LARGEST_BYTES) && empty(&file).is_ok() {
            let mut free = lock(&self.free);
            if free.len() < MOST {
                free.push(file);
            }
        }
    }
}

/// How many bytes a file has.
pub(crate) fn size(file: &OwnedFd) -> io::Result<u64> {
    let size = rustix::fs::fstat(file)?.st_size;
    Ok(u64::try_from(size).unwrap_or(0))
}

fn empty(file: &OwnedFd) -> io::Result<()> {
    rustix::fs::ftruncate(file, 0)?;
    rustix::fs::seek(file, SeekFrom::Start(0))?;
    Ok(())
}

/// Writes the whole content of an empty file. Its offset stays at the start.
pub(crate) fn write_all(file: &OwnedFd, content: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while let Some(rest) = content.get(written..).filter(|rest| !rest.is_empty()) {
        let offset = u64::try_from(written).map_err(io::Error::other)?;
        written += rustix::io::retry_on_intr(|| rustix::io::pwrite(file, rest, offset))?;
    }
    Ok(())
}

/// Reads a file from its start, as far as there is room.
pub(crate) fn read_all(file: &OwnedFd, room: &mut [u8]) -> io::Result<()> {
    let mut read = 0;
    while let Some(rest) = room.get_mut(read..).filter(|rest| !rest.is_empty()) {
        let offset = u64::try_from(read).map_err(io::Error::other)?;
        match rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *rest, offset))? {
            0 => break,
            more => read += more,
        }
    }
    Ok(())
}
