//! What the calling process would become by executing a program: its attributes, its environment, its descriptors.

use std::ffi::{CStr, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use regrow_sys::caller::{Caller, signal_mask};
use regrow_sys::environ;
use regrow_sys::strings::Strings;
use rustix::io::{Errno, FdFlags};

use crate::client::ClientError;
use crate::wire::SpawnMessage;

/// The message for a run that is what the calling process would become by executing the program, but for its descriptors.
///
/// # Errors
/// [`ClientError::Caller`] when there is no working directory, or an argument holds a NUL byte.
pub fn spawn_message<A: AsRef<OsStr>>(program: &OsStr, args: &[A]) -> Result<SpawnMessage, ClientError> {
    let Caller { domain, mut task } = Caller::read();
    let directory = rustix::process::getcwd(Vec::new())
        .map_err(|source| ClientError::Caller { what: "the working directory", source: source.into() })?;
    // There is no way to read the mask but to set it; a process that asks for a run has one thread.
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(umask);
    task.set_umask(umask.bits()).set_blocked_signals(signal_mask()).unset_process_group();
    let mut strings = Strings::new();
    for arg in args {
        strings
            .push(&[arg.as_ref().as_bytes()])
            .map_err(|source| ClientError::Caller { what: "an argument", source: source.into() })?;
    }
    Ok(SpawnMessage {
        program: program.as_bytes().to_vec(),
        args: strings,
        env: environ::current(),
        directory: directory.into_bytes(),
        task,
        domain: domain.fingerprint(),
        cgroup: domain.cgroup,
        ..SpawnMessage::default()
    })
}

/// The numbers of the descriptors that exec would pass on, in rising order.
///
/// # Errors
/// When `/proc/self/fd` cannot be read.
pub fn inherited_descriptors() -> Result<Vec<RawFd>, ClientError> {
    let failed = |source: Errno| ClientError::Caller { what: "/proc/self/fd", source: source.into() };
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    let folder = rustix::fs::open(c"/proc/self/fd", flags, rustix::fs::Mode::empty()).map_err(failed)?;
    let mut space = [MaybeUninit::uninit(); 2048];
    let mut entries = rustix::fs::RawDir::new(&folder, &mut space);
    let mut numbers = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(failed)?;
        numbers.extend(number(entry.file_name()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn number(name: &CStr) -> Option<RawFd> {
    let number: RawFd = name.to_str().ok()?.parse().ok()?;
    is_inherited(number).then_some(number)
}

fn is_inherited(number: RawFd) -> bool {
    rustix::io::fcntl_getfd(borrow(number)).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC))
}

/// A descriptor of the calling process by its number.
#[must_use]
#[allow(unsafe_code, reason = "descriptors that the caller was given are known by number only")]
pub fn borrow<'a>(number: RawFd) -> BorrowedFd<'a> {
    // SAFETY: what was given to the process before it started is closed by nobody in it; a number that is closed
    // makes the calls that use it fail.
    unsafe { BorrowedFd::borrow_raw(number) }
}
