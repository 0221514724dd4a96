//! What one trial says.

use std::io;

/// What one trial says.
pub(super) type TrialResult = Result<(), TrialError>;

/// How a trial fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrialError {
    /// A call that it needs failed.
    Errno(i32),
    /// Every call succeeded, and the effect is not what the kernel documents.
    Misbehaves,
}

impl From<io::Error> for TrialError {
    fn from(error: io::Error) -> Self {
        error.raw_os_error().map_or(Self::Misbehaves, Self::Errno)
    }
}

impl From<rustix::io::Errno> for TrialError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Errno(errno.raw_os_error())
    }
}

/// Fails a trial whose effect is not what it should be.
pub(super) fn expect(condition: bool) -> TrialResult {
    if condition { Ok(()) } else { Err(TrialError::Misbehaves) }
}
