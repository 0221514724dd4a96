//! Processes as descriptors, as `std::os::linux::process` has them.

use crate::Command;

/// What [`Command`] has on Linux, by the names of the standard library.
pub trait CommandExt: sealed::Sealed {
    /// Whether the process is opened as a descriptor when it starts. Without it the first [`Child::pidfd`](crate::Child::pidfd) opens it, which is
    /// the same process as long as nobody else has waited for it.
    fn create_pidfd(&mut self, opens: bool) -> &mut Command;
}

impl CommandExt for Command {
    fn create_pidfd(&mut self, opens: bool) -> &mut Command {
        self.opens_pidfd = opens;
        self
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::Command {}
}
