//! A body that is lent to another process, as its owner has it: what the other one gets, and the end of the lease.
//!
//! The owner sees neither orders nor reports of a body that it has lent, so that the body never comes back: at the end of the lease its
//! keeper is killed. Its runs are the owner's children.
//!
//! Invariant: what the borrower may have written names a process for a hint. It is killed or waited for when it is a child of this
//! process that the kernel finds in the body, or that is nobody else's.

use std::io;
use std::os::fd::AsFd;

use regrow_sys::{child, raw};

use crate::body::Body;
use crate::lent::{LeaseEnd, Lending, Lent};
use crate::line::Waits;
use crate::reaping::END_TIMEOUT;

impl Body {
    /// Lends it: no run was in it, and this process starts none any more.
    ///
    /// # Errors
    /// When it was not made for that, does not wait, or there is no descriptor left.
    pub fn lend(&mut self) -> io::Result<Lent> {
        let Some(Waits::Armed { pid: armed, is_shell: false }) = self.line.waits() else {
            return Err(io::ErrorKind::ResourceBusy.into());
        };
        let socket = self.line.socket().try_clone_to_owned()?;
        match std::mem::replace(&mut self.lending, Lending::No) {
            Lending::Possible(control) if self.runs == 0 => {
                self.lending = Lending::Lent(armed);
                self.line.forget();
                Ok(Lent { socket, control, armed, keeper: self.keeper })
            }
            other => {
                self.lending = other;
                Err(io::ErrorKind::Unsupported.into())
            }
        }
    }

    /// Ends the lease: no order reaches the body any more, and its keeper is gone. `current` tells, when no more can be sent, which process the
    /// borrower says is its run; `is_others` whether a process is somebody else's. Gives the processes that are to be waited for.
    pub fn end_lease(
        &self,
        how: LeaseEnd,
        current: impl FnOnce() -> i32,
        is_others: impl Fn(i32) -> bool,
    ) -> Vec<i32> {
        self.line.close();
        let current = current();
        let mut ending: Vec<i32> = child::all().into_iter().filter(|&pid| self.has_inside(pid)).collect();
        // One that has executed another program has left the memory.
        let has_left = !ending.contains(&current) && child::leads_group(current) && !is_others(current);
        ending.extend(has_left.then_some(current));
        let killed = ending.iter().filter(|&&pid| how == LeaseEnd::RunIsKilled || pid != current);
        killed.for_each(|&pid| child::kill(pid));
        let _ = raw::pidfd_kill(self.keeper_pidfd.as_fd(), libc::SIGKILL);
        let _ = raw::ends_within(self.keeper_pidfd.as_fd(), END_TIMEOUT);
        // What waits for an order, or was made meanwhile, ends by itself.
        for pid in self.told().into_iter().chain([self.control.pid()]) {
            if !ending.contains(&pid) && child::is_child(pid) && !is_others(pid) {
                ending.push(pid);
            }
        }
        ending
    }

    /// The processes that the body has told of, as far as nobody else has read it.
    fn told(&self) -> Vec<i32> {
        let mut told = Vec::new();
        if let Lending::Lent(first) = self.lending {
            told.push(first);
        }
        while let Some(waits) = self.line.waits() {
            if let Waits::Armed { pid, .. } | Waits::Gone { pid } = waits {
                told.push(pid);
            }
            self.line.forget();
        }
        told
    }

    /// Whether a process other than the keeper uses the memory.
    fn has_inside(&self, pid: i32) -> bool {
        pid != self.keeper && raw::share_memory(pid, self.keeper) == Some(true)
    }

    /// The end of a lent body as such.
    pub(crate) fn drop_lent(&self) {
        self.line.close();
        let _ = raw::pidfd_kill(self.keeper_pidfd.as_fd(), libc::SIGKILL);
        child::reap_by(self.keeper_pidfd.as_fd(), END_TIMEOUT);
        self.keepers.remove(self.keeper);
    }
}
