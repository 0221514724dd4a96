//! Waits for keepers and armed processes that there is no body of, and says how long any of them may take to end.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use regrow_sys::{child, raw};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};

use crate::control::ControlArea;

/// How long a keeper may take to end after its socket is closed.
pub(crate) const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Waits for the end of a keeper, and of its armed process, that the seed may have made without telling of it: it was killed before it
/// could. They end because the engine sends no more; then nobody has the other end of the socket.
pub(crate) fn reap_unannounced(control: &ControlArea, socket: BorrowedFd<'_>) {
    let _ = shutdown(socket, Shutdown::Write);
    let started = Instant::now();
    let mut bytes = [0; 64];
    while raw::readable_within(socket, END_TIMEOUT.saturating_sub(started.elapsed())) {
        match recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) => break,
            Ok(_) | Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => break,
        }
    }
    if control.keeper() > 0 {
        reap_unseen(control, control.keeper());
    }
}

/// Waits for the end of a keeper that there is no body of, and of its armed process.
pub(crate) fn reap_unseen(control: &ControlArea, keeper: i32) {
    child::reap(keeper, END_TIMEOUT);
    child::reap(control.pid(), END_TIMEOUT);
}
