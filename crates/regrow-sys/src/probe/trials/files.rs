//! Trials about descriptors.

#![allow(unsafe_code, reason = "maps a file and closes descriptors by number")]

use std::os::fd::{AsRawFd, IntoRawFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, inotify as notify, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::probe::child::arg;
use crate::probe::outcome::{TrialError, TrialResult, expect};
use crate::probe::sheet::Sheet;
use crate::raw;

/// A sealed memory file refuses to be written and can be mapped privately, executable.
pub(super) fn memfd_seals(_: &Sheet) -> TrialResult {
    const CONTENT: [u8; 4096] = [0x5a; 4096];
    let file = memfd_create(c"regrow-probe", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::io::write(&file, &CONTENT)?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    fcntl_add_seals(&file, seals)?;
    expect(fcntl_get_seals(&file)? == seals)?;
    expect(rustix::io::pwrite(&file, &[0], 0) == Err(Errno::PERM))?;
    let prot = ProtFlags::READ | ProtFlags::EXEC;
    // SAFETY: the kernel chooses the place. The file is sealed, so its bytes stay; the first one is read while
    // it is mapped, and nothing keeps a reference.
    let first = unsafe {
        let bytes = mmap(std::ptr::null_mut(), CONTENT.len(), prot, MapFlags::PRIVATE, &file, 0)?;
        let first = bytes.cast::<u8>().read_volatile();
        munmap(bytes, CONTENT.len())?;
        first
    };
    expect(first == CONTENT[0])
}

/// A queue can be made and takes watches.
///
/// The file to watch does not exist: a queue that has held a watch takes 10 to 20 ms to close, because the kernel
/// waits for all its readers first. The limit of watches is met when one is set, not here.
pub(super) fn inotify(_: &Sheet) -> TrialResult {
    let queue = notify::init(notify::CreateFlags::CLOEXEC | notify::CreateFlags::NONBLOCK)?;
    match notify::add_watch(&queue, c"", notify::WatchFlags::ATTRIB) {
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
        Ok(_watch) => Err(TrialError::Misbehaves),
    }
}

/// A range of descriptors is marked close-on-exec, then closed.
pub(super) fn close_range(_: &Sheet) -> TrialResult {
    let (reader, writer) = rustix::pipe::pipe()?;
    let close = |fd: i32, flags: usize| {
        // SAFETY: numbers only; the descriptor is the one that this trial opened and gives away.
        raw::check(unsafe { raw::syscall(libc::SYS_close_range, [arg(fd), arg(fd), flags, 0, 0, 0]) })
    };
    close(reader.as_raw_fd(), libc::CLOSE_RANGE_CLOEXEC as usize)?;
    expect(rustix::io::fcntl_getfd(&reader)?.contains(rustix::io::FdFlags::CLOEXEC))?;
    close(writer.into_raw_fd(), 0)?;
    // Without a writer a pipe is at its end.
    let mut byte = [0];
    expect(rustix::io::read(&reader, &mut byte)? == 0)
}
