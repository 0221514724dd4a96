//! Signals that a collector holds back for a command, and that go on to it.

use std::os::fd::BorrowedFd;

use regrow_sys::raw;

/// Gives those that somebody has sent on to a process. What a terminal sends it has itself.
pub fn pass_on(signals: BorrowedFd<'_>, process: BorrowedFd<'_>) {
    /// Bytes of `signalfd_siginfo`, and where in it the number of the signal stands and how it came.
    const BYTES: usize = 128;
    const FROM_KERNEL: i32 = 0x80;
    let mut info = [0; BYTES];
    while rustix::io::read(signals, &mut info) == Ok(BYTES) {
        let number = |at: usize| {
            info.get(at..at + 4).and_then(|part| part.try_into().ok()).map_or(0, i32::from_ne_bytes)
        };
        let (signal, code) = (number(0), number(8));
        if code != FROM_KERNEL {
            // It may have ended.
            let _ = raw::pidfd_signal(process, signal, false);
        }
    }
}
