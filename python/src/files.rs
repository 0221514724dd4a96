//! Files in memory through which a call is told and answered, where that does not go through memory that its process shares with the caller.
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
use std::sync::{Arc, Mutex};

use rustix::fs::{MemfdFlags, SeekFrom};
use rustix::mm::{MapFlags, ProtFlags};

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
        if size(&file).is_ok_and(|bytes| bytes <= LARGEST_BYTES && empty(&file, bytes).is_ok()) {
            let mut free = lock(&self.free);
            if free.len() < MOST {
                free.push(file);
            }
        }
    }
}

/// The files of one call.
#[derive(Default)]
pub(crate) struct CallFiles {
    order: Option<OwnedFd>,
    answer: Option<OwnedFd>,
    /// Where they go when the call is over.
    home: Option<Arc<Files>>,
}

impl CallFiles {
    /// Those that a call has, out of the free ones. They are used again only where that is said.
    pub(crate) fn new(
        files: &Arc<Files>,
        again: bool,
        (has_order, has_answer): (bool, bool),
    ) -> io::Result<Self> {
        let take = |wanted: bool| wanted.then(|| files.take()).transpose();
        let home = again.then(|| Arc::clone(files));
        Ok(Self { order: take(has_order)?, answer: take(has_answer)?, home })
    }

    /// The order, empty before it is written.
    pub(crate) fn order(&self) -> Option<&OwnedFd> {
        self.order.as_ref()
    }

    /// The answer, while it is there.
    pub(crate) fn answer(&self) -> Option<&OwnedFd> {
        self.answer.as_ref()
    }

    /// Maps part of the answer over pages of this process, private to it. The files are closed at the end of the call from here on:
    /// what a file has is not to change while it is mapped.
    pub(crate) fn map_answer(&mut self, address: usize, bytes: usize, offset: u64) -> io::Result<()> {
        let answer = self.answer.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let end = u64::try_from(bytes).ok().and_then(|bytes| offset.checked_add(bytes));
        if end.is_none_or(|end| size(answer).is_ok_and(|size| size < end)) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.home = None;
        map_over(address, bytes, answer, offset)
    }

    /// Closes the files of a process that has ended. Where it has ended as it should they are kept for other calls.
    pub(crate) fn close(&mut self, as_it_should: bool) {
        let files = [self.order.take(), self.answer.take()];
        if let Some(home) = self.home.take().filter(|_| as_it_should) {
            files.into_iter().flatten().for_each(|file| home.give(file));
        }
    }
}

/// Puts part of a file in the place of pages that the caller says are his.
fn map_over(address: usize, bytes: usize, file: &OwnedFd, offset: u64) -> io::Result<()> {
    let place = std::ptr::with_exposed_provenance_mut(address);
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
    #[allow(unsafe_code, reason = "memory is mapped over other memory")]
    // SAFETY: these pages are an object of Python's `mmap` and of nobody else: `regrow._call.answer`, which alone calls this, has made
    // the object for it and has not used its memory. Whatever is there is bytes for whoever gets it.
    unsafe { rustix::mm::mmap(place, bytes, protection, flags, file, offset) }?;
    Ok(())
}

/// How many bytes a file has.
pub(crate) fn size(file: &OwnedFd) -> io::Result<u64> {
    let size = rustix::fs::fstat(file)?.st_size;
    Ok(u64::try_from(size).unwrap_or(0))
}

fn empty(file: &OwnedFd, bytes: u64) -> io::Result<()> {
    if bytes > 0 {
        rustix::fs::ftruncate(file, 0)?;
    }
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
