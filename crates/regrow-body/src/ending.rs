//! The end of a body: its keeper and the process that waits for an order end, and are waited for. A run goes on.
//!
//! Invariant: no process is killed or waited for of which only the control area tells, once a run can have written there.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use regrow_sys::{child, raw};

use crate::body::Body;
use crate::line::Waits;
use crate::reaping::END_TIMEOUT;

impl Drop for Body {
    fn drop(&mut self) {
        if std::process::id() != self.parent {
            // A forked copy of the caller: the keeper is its parent's.
            return;
        }
        if self.lending.is_lent() {
            return self.drop_lent();
        }
        let has_run_in_it = self.has_run_in_it();
        // The armed process sees the end of its socket and exits; then the keeper does.
        self.line.close();
        let settled = !has_run_in_it && self.keeper_ends();
        if !settled {
            let _ = raw::pidfd_kill(self.keeper_pidfd.as_fd(), libc::SIGKILL);
        }
        child::reap_by(self.keeper_pidfd.as_fd(), END_TIMEOUT);
        if let Some(armed) = self.last_armed() {
            child::reap(armed, END_TIMEOUT);
        }
        self.keepers.remove(self.keeper);
    }
}

impl Body {
    /// After the end of the keeper: the process that it armed last, if that has had no order. One that was made at the very end tells of
    /// itself before it ends; one that was killed before it could is known where no run can have written its number.
    fn last_armed(&self) -> Option<i32> {
        let started = Instant::now();
        loop {
            if let Some(Waits::Armed { pid, .. } | Waits::Gone { pid }) = self.line.waits() {
                // Of one that had an order somebody else sees the end, whatever state it has left in the control area.
                return (pid != self.last_run).then_some(pid);
            }
            let left = END_TIMEOUT.saturating_sub(started.elapsed());
            // What is waited for is the end of all who have the other end of the socket.
            if left.is_zero() || !self.line.await_report(left) {
                break;
            }
        }
        (self.runs == 0).then(|| self.control.pid())
    }

    /// Waits until the keeper has seen that its armed process is gone, and ended.
    fn keeper_ends(&self) -> bool {
        let started = Instant::now();
        let bell = self.bell();
        while started.elapsed() < END_TIMEOUT {
            bell.ring();
            // In verify mode the keeper waits for the state to change, not for the bell.
            self.control.wake();
            if raw::ends_within(self.keeper_pidfd.as_fd(), Duration::from_millis(1)) {
                return true;
            }
        }
        false
    }
}
