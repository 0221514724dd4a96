//! What one run is given, in the form that a body needs.

use std::os::fd::BorrowedFd;

use regrow_abi::task::Task;
use regrow_sys::strings::Strings;

use crate::place::Processors;

/// One run.
#[derive(Debug)]
pub struct Run<'a> {
    /// Arguments, the first one included.
    pub args: &'a Strings,
    /// Environment.
    pub env: &'a Strings,
    /// Descriptors and the numbers that they get.
    pub fds: &'a [(BorrowedFd<'a>, i32)],
    /// What is passed in the exchange: the order of a front end that takes it there.
    pub order: Option<&'a [u8]>,
    /// It gets ready with that order, and waits until it is let go.
    pub is_ahead: bool,
    /// What the run is told to be. What is not set it has from the keeper.
    pub task: &'a Task,
    /// The processors that the run may use, where a body's processes can be told.
    pub processors: Option<&'a Processors>,
    /// The calling thread is about to sleep until the run is over, or under way: it wakes on the caller's processor.
    pub caller_sleeps: bool,
    /// Working directory, without its NUL, where it is not the caller's.
    pub directory: Option<&'a [u8]>,
    /// The path given to exec, when it is not that of the image (a script's): `AT_EXECFN`, and the task's name.
    pub exec_path: Option<&'a [u8]>,
    /// 24 fresh random bytes.
    pub random: [u64; 3],
    /// Wait until the run has what it takes over from its caller.
    pub await_start: bool,
    /// That is busy-polled for a moment before it is slept for.
    pub busy_poll: bool,
    /// The calling thread traces the process from before its first instruction, so that it stops when it is about to end.
    pub traced: bool,
    /// The body serves no other run.
    pub single_use: bool,
    /// Note when the program is entered and when the body is ready again.
    pub timed: bool,
}

impl Run<'_> {
    /// Whether the descriptors are exactly 0, 1 and 2, in this order.
    #[must_use]
    pub fn has_plain_fds(&self) -> bool {
        self.fds.len() == 3 && (0..).zip(self.fds).all(|(number, fd)| fd.1 == number)
    }
}
