//! What one run is given, in the form that a body needs.

use std::os::fd::BorrowedFd;

/// A list of NUL-terminated strings in one piece, and how many they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct StringBlock<'a> {
    /// The strings, each with its NUL.
    pub bytes: &'a [u8],
    /// How many.
    pub count: usize,
}

/// One run. Fields that are `None` leave what the run has from the caller.
#[derive(Debug, Default)]
pub struct Run<'a> {
    /// Arguments, the first one included.
    pub args: StringBlock<'a>,
    /// Environment.
    pub env: StringBlock<'a>,
    /// Descriptors and the numbers that they get.
    pub fds: &'a [(BorrowedFd<'a>, i32)],
    /// A session of its own.
    pub setsid: bool,
    /// Process group; 0: one of its own.
    pub process_group: Option<i32>,
    /// File mode creation mask.
    pub umask: Option<u32>,
    /// Niceness.
    pub nice: Option<i32>,
    /// Limits: number, soft, hard.
    pub limits: &'a [(u32, u64, u64)],
    /// Working directory, without its NUL.
    pub directory: Option<&'a [u8]>,
    /// Ignored signals, when they differ from those that the keeper has; bit 0 is signal 1.
    pub ignored_signals: Option<u64>,
    /// Signals that are blocked when the run starts; bit 0 is signal 1.
    pub signal_mask: u64,
    /// The path given to exec, when it is not that of the image (a script's): `AT_EXECFN`, and the task's name.
    pub exec_path: Option<&'a [u8]>,
    /// Processors that the run may use, the first 1,024.
    pub affinity: [u64; 16],
    /// The keeper has others, so that the run must be told.
    pub affinity_differs: bool,
    /// 24 fresh random bytes.
    pub random: [u64; 3],
    /// Wait until the run has what it takes over from its caller.
    pub await_start: bool,
    /// That is busy-polled for a moment before it is slept for.
    pub busy_poll: bool,
    /// The calling thread traces the process from before its first instruction, so that it stops when it is about to end.
    pub traced: bool,
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
