//! Descriptors that Python code knows by their numbers.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;

/// Uses a descriptor for one call of the system.
///
/// # Errors
/// `EBADF` where nothing is open under the number, and what the call gives.
pub(crate) fn with_descriptor<T>(
    number: RawFd,
    mut call: impl FnMut(BorrowedFd<'_>) -> Result<T, Errno>,
) -> Result<T, Errno> {
    if number < 0 {
        return Err(Errno::BADF);
    }
    #[allow(unsafe_code, reason = "Python names descriptors by number")]
    // SAFETY: the number is not -1, and borrowed for this call alone. If nothing is open under it the call fails, and if
    // another thread closes it meanwhile the call is about what is there then, as with a function of `os`.
    call(unsafe { BorrowedFd::borrow_raw(number) })
}

/// A copy of a descriptor, which programs that are executed do not have.
pub(crate) fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    Ok(with_descriptor(number, |fd| rustix::io::fcntl_dupfd_cloexec(fd, 0))?)
}

/// Closes a descriptor that nobody else uses.
pub(crate) fn close(number: RawFd) {
    #[allow(unsafe_code, reason = "Python names descriptors by number")]
    // SAFETY: the caller was given this number to be the only one that uses it. If nothing is open under it the call fails.
    unsafe {
        rustix::io::close(number);
    }
}
