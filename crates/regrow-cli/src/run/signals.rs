//! The signals that the command passes on to its run. They do not act on the command itself.
//!
//! `SIGTSTP` is different from the others. It stays pending in the command until the run has stopped, and only then stops the
//! command. A `SIGCONT` that comes meanwhile takes it back, as the kernel does for every process. So the command never stops
//! for a run that goes on.
//!
//! Invariant: `SIGTSTP` and `SIGCONT` are never pending together; the later one takes the other away.

use std::os::fd::OwnedFd;

use regrow_daemon::client::Client;
use regrow_sys::raw;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The signals that the command passes on, without `SIGTSTP`.
const PASSED_ON: [i32; 8] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
    libc::SIGCONT,
];

/// Bytes of the kernel's `struct signalfd_siginfo`.
const RECORD: usize = 128;

/// How long a signal waits for the daemon's answer before it acts on the command.
const ANSWER_LIMIT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Holds the signals: they do not act on this process while this lives.
#[derive(Debug)]
pub(super) struct Signals {
    /// What all but `SIGTSTP` are read from.
    others: OwnedFd,
    /// Readable when `SIGTSTP` is pending.
    stop: OwnedFd,
    /// What this process blocked before.
    before: u64,
}

/// A signal that has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signal {
    pub(super) number: i32,
    /// Whether the kernel sent it, as for a key of a terminal, and so to a whole group.
    pub(super) from_kernel: bool,
}

impl Signals {
    /// Holds the signals from here on.
    pub(super) fn hold() -> std::io::Result<Signals> {
        let (others, before) = raw::signals_as_descriptor(others())?;
        let (stop, _) =
            raw::signals_as_descriptor(bit(libc::SIGTSTP)).inspect_err(|_| raw::set_signal_mask(before))?;
        Ok(Signals { others, stop, before })
    }

    /// Waits until the client has something to read. If the daemon hangs, a signal acts after a while.
    pub(super) fn wait_for(&self, client: &Client) {
        loop {
            let mut ready = [self.poll_others(), self.poll_stop(), PollFd::new(client, PollFlags::IN)];
            if poll(&mut ready, None).is_err() {
                continue;
            }
            if !ready[2].revents().is_empty() {
                return;
            }
            break;
        }
        let answered =
            |limit| rustix::io::retry_on_intr(|| poll(&mut [PollFd::new(client, PollFlags::IN)], limit));
        if answered(Some(&ANSWER_LIMIT)) == Ok(0) {
            // This ends the command, and so the connection and the run, or the signal is one that does nothing.
            raw::set_signal_mask(self.before);
            let _ = answered(None);
            raw::set_signal_mask(self.held());
        }
    }

    /// For `poll`: all but `SIGTSTP`.
    pub(super) fn poll_others(&self) -> PollFd<'_> {
        PollFd::new(&self.others, PollFlags::IN)
    }

    /// For `poll`: `SIGTSTP`.
    pub(super) fn poll_stop(&self) -> PollFd<'_> {
        PollFd::new(&self.stop, PollFlags::IN)
    }

    /// Takes the signals that have come, without `SIGTSTP`.
    pub(super) fn take_others(&self) -> Vec<Signal> {
        let mut buffer = [0u8; 16 * RECORD];
        let mut all = Vec::new();
        while let Ok(bytes @ 1..) = rustix::io::read(&self.others, &mut buffer) {
            all.extend(buffer.get(..bytes).unwrap_or_default().chunks_exact(RECORD).map(|record| {
                let field = |at: usize| {
                    let bytes = record.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
                    bytes.map_or(0, i32::from_ne_bytes)
                };
                Signal { number: field(0), from_kernel: field(8) == libc::SI_KERNEL }
            }));
        }
        all
    }

    pub(super) fn stop_is_pending(&self) -> bool {
        poll(&mut [self.poll_stop()], Some(&Timespec::default())) == Ok(1)
    }

    /// Takes a pending `SIGTSTP` away: it does nothing.
    pub(super) fn take_stop(&self) {
        let _ = rustix::io::read(&self.stop, &mut [0u8; RECORD]);
    }

    /// Lets a pending `SIGTSTP` stop this process. Returns when somebody continues it.
    pub(super) fn let_stop_act(&self) {
        raw::set_signal_mask(self.held() & !bit(libc::SIGTSTP));
        raw::set_signal_mask(self.held());
    }

    /// Goes on holding the signals for a client of one page that held them, and blocked these before.
    pub(super) fn held_since(before: u64) -> std::io::Result<Signals> {
        let (others, _) = raw::signals_as_descriptor(others())?;
        let (stop, _) = raw::signals_as_descriptor(bit(libc::SIGTSTP))?;
        Ok(Signals { others, stop, before })
    }

    fn held(&self) -> u64 {
        self.before | others() | bit(libc::SIGTSTP)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        raw::set_signal_mask(self.before);
    }
}

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

fn others() -> u64 {
    PASSED_ON.iter().fold(0, |set, &signal| set | bit(signal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_held_and_let_go() {
        let before = regrow_sys::caller::signal_mask();
        let signals = Signals::hold().unwrap();
        assert_eq!(regrow_sys::caller::signal_mask(), before | others() | bit(libc::SIGTSTP));
        assert_eq!(signals.take_others().len(), 0);
        drop(signals);
        assert_eq!(regrow_sys::caller::signal_mask(), before);
    }
}
