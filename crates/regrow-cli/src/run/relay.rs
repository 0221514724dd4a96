//! A run of the daemon's, seen from the command that ordered it: signals go to the run, what becomes of the run becomes of
//! the command.
//!
//! ```text
//!   a signal for the command ─▶ to the run, by its pidfd; what a terminal sends to a group, and stops: to the run's group
//!   stopped                  ─▶ the command stops too; SIGCONT lets it go on, and is passed on like any other
//!   ended                    ─▶ the command ends with its status, or by the same signal
//!   the daemon is gone       ─▶ the same by what the kernel tells of the run
//! ```
//!
//! See `docs/decisions/016-signals-of-a-run.md`.
//!
//! Invariant: from before the order until the run has ended, no signal that is passed on acts on the command, but for
//! `SIGTSTP` when the run is stopped.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use regrow_daemon::client::{Client, ClientError, Event};
use regrow_sys::raw;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::process::{self, Dispositions, Stat};
use super::signals::Signals;

/// How long a run that blocks every signal is taken for one that has not begun.
const BEGIN_LIMIT: Duration = Duration::from_secs(1);
/// How long to wait before it is looked at again.
const BEGIN_PAUSE: Duration = Duration::from_micros(200);
/// How long a run may take to stop that was sent `SIGTSTP`.
const STOP_LIMIT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// How often a run that has no daemon is looked at: nobody tells that it has stopped.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// How a run has ended for the command.
pub(super) enum End {
    /// With this wait status.
    Ended(ExitStatus),
    /// In a way that nobody can tell any more; the command has said so.
    Unknown,
    /// Nothing of the program has run, for this reason.
    Declined(String),
}

/// A run, and the connection on which its end will be told.
#[derive(Debug)]
pub(super) struct Relay {
    client: Client,
    /// The number of the run.
    pid: i32,
    pidfd: OwnedFd,
    signals: Signals,
    /// Whether the run is known to take signals.
    has_begun: bool,
    /// `SIGTSTP` was passed on, and is still pending here unless `SIGCONT` has come.
    stop_is_under_way: bool,
    /// The daemon is gone.
    is_alone: bool,
}

impl Relay {
    pub(super) fn new(client: Client, pid: i32, pidfd: OwnedFd, signals: Signals) -> Relay {
        Relay { client, pid, pidfd, signals, has_begun: false, stop_is_under_way: false, is_alone: false }
    }

    /// Passes signals on until the run has ended.
    pub(super) fn until_the_end(mut self) -> End {
        let end = self.relay();
        if !matches!(end, End::Declined(_)) {
            // They were for the run, which has ended before they could reach it.
            self.signals.take_stop();
            self.signals.take_others();
        }
        end
    }

    fn relay(&mut self) -> End {
        loop {
            let limit = self.stop_is_under_way.then_some(&STOP_LIMIT);
            let has_event = self.wait(&self.client, limit);
            self.pass_on(has_event.is_none());
            if has_event != Some(true) {
                continue;
            }
            match self.client.next_event() {
                Ok(Event::Ended(status)) => return End::Ended(ExitStatus::from_raw(status)),
                Ok(Event::Stopped(_)) => self.stop_too(),
                Ok(Event::Continued) => {}
                Ok(Event::Declined(why)) => return End::Declined(why),
                Err(error) => return self.without_daemon(&error),
            }
        }
    }

    /// Waits for a signal, or for what is waited for beside; true when that has come. `None` when nothing has.
    fn wait(&self, beside: impl AsFd, limit: Option<&Timespec>) -> Option<bool> {
        let stop = if self.stop_is_under_way { None } else { Some(self.signals.poll_stop()) };
        let first = [PollFd::new(&beside, PollFlags::IN), self.signals.poll_others()];
        let mut ready: Vec<_> = first.into_iter().chain(stop).collect();
        match poll(&mut ready, limit) {
            Ok(0) => None,
            Ok(_) => ready.first().map(|beside| !beside.revents().is_empty()),
            // A signal that is not passed on.
            Err(_) => Some(false),
        }
    }

    /// Sends the run what was sent to this process. `is_late`: a run that was to stop has had its time.
    fn pass_on(&mut self, is_late: bool) {
        self.pass_others_on();
        // Looked at afterwards: a SIGCONT that was taken is older than a SIGTSTP that is pending.
        if !self.stop_is_under_way && self.signals.stop_is_pending() {
            self.pass_stop_on();
        } else if self.stop_is_under_way && is_late && !self.is_stopped() {
            self.signals.take_stop();
            self.stop_is_under_way = false;
        }
    }

    /// All but `SIGTSTP`. False when there was none.
    fn pass_others_on(&mut self) -> bool {
        let all = self.signals.take_others();
        for signal in &all {
            let continues = signal.number == libc::SIGCONT;
            // What stops has been taken back.
            self.stop_is_under_way &= !continues;
            self.send(signal.number, signal.from_kernel || continues);
        }
        !all.is_empty()
    }

    /// Where the program leaves `SIGTSTP` to the kernel, it stays pending here until the run has stopped. Without a daemon
    /// nothing but `SIGSTOP` stops the run, because its group is orphaned.
    fn pass_stop_on(&mut self) {
        let mut number = libc::SIGTSTP;
        self.wait_until_it_has_begun();
        match Dispositions::read(self.pid) {
            Some(signals) if signals.is_default(libc::SIGTSTP) => {
                if process::group_is_orphaned() {
                    // The program would not be stopped, were it this process.
                    self.signals.take_stop();
                    return;
                }
                self.stop_is_under_way = true;
                if self.is_alone {
                    number = libc::SIGSTOP;
                }
            }
            _ => self.signals.take_stop(),
        }
        self.send(number, true);
    }

    /// The run may have ended meanwhile.
    fn send(&mut self, number: i32, to_group: bool) {
        self.wait_until_it_has_begun();
        let _ = raw::pidfd_signal(self.pidfd.as_fd(), number, to_group);
    }

    /// A process that has its order and has not become the run yet drops what it is sent, and is in the daemon's group.
    /// It blocks every signal, as a program does for an instant at most.
    fn wait_until_it_has_begun(&mut self) {
        let deadline = Instant::now() + BEGIN_LIMIT;
        let waits = || Dispositions::read(self.pid).is_some_and(|signals| signals.all_blocked());
        while !self.has_begun && waits() && Instant::now() < deadline {
            std::thread::sleep(BEGIN_PAUSE);
        }
        self.has_begun = true;
    }

    /// Stops as the run has, until somebody continues this process. What was told may be out of date: a run that goes on
    /// again stops nothing.
    fn stop_too(&mut self) {
        while self.is_stopped() {
            if self.stop_is_under_way {
                self.stop_is_under_way = false;
                return self.signals.let_stop_act();
            }
            // The run has stopped itself, or somebody else has stopped it.
            if !self.pass_others_on() {
                let own = rustix::process::getpid();
                let _ = rustix::process::kill_process(own, rustix::process::Signal::STOP);
                return;
            }
        }
    }

    fn is_stopped(&self) -> bool {
        Stat::read(self.pid).is_some_and(|stat| stat.state == 'T')
    }

    /// The daemon is gone: the run goes on, and the kernel tells what becomes of it.
    fn without_daemon(&mut self, error: &ClientError) -> End {
        self.is_alone = true;
        tracing::warn!(%error, "the run goes on without the daemon");
        if self.stop_is_under_way {
            // It may have come when the group was orphaned already.
            self.send(libc::SIGSTOP, true);
        }
        loop {
            let has_ended = self.wait(&self.pidfd, Some(&LOOK_EVERY));
            if has_ended == Some(true) {
                break;
            }
            self.pass_on(has_ended.is_none());
            self.stop_too();
        }
        match self.status_without_daemon() {
            Some(status) => End::Ended(ExitStatus::from_raw(status)),
            None => status_is_unknown(error),
        }
    }

    /// The wait status of a run that has ended, which its parent of this time may or may not have waited for.
    fn status_without_daemon(&self) -> Option<i32> {
        // As long as the pidfd's process is there, the number is its own.
        let is_there = || raw::pidfd_signal(self.pidfd.as_fd(), 0, false).is_ok();
        process::status_of_zombie(self.pid, is_there).or_else(|| raw::pidfd_exit_status(self.pidfd.as_fd()))
    }
}

/// Waits for the end of a run that signals cannot be passed on to: they act on the command, and its end is the run's.
pub(super) fn without_signals(mut client: Client) -> End {
    loop {
        match client.next_event() {
            Ok(Event::Ended(status)) => return End::Ended(ExitStatus::from_raw(status)),
            Ok(Event::Declined(why)) => return End::Declined(why),
            Ok(_) => {}
            Err(error) => return status_is_unknown(&error),
        }
    }
}

fn status_is_unknown(error: &ClientError) -> End {
    crate::complain(&format!("the status of the run is not known: {error}"));
    End::Unknown
}
