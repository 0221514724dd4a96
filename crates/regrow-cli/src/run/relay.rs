//! Relays between the command and its run, which is the daemon's: the run gets the command's signals, and the command stops
//! and ends as the run does.
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
//! Invariant: from before the request until the run has ended, a signal that the command passes on does not act on the command
//! itself, except `SIGTSTP` when the run has stopped.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use regrow_daemon::client::{Client, ClientError, RunEvent};
use regrow_sys::raw;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::process::{self, ProcessStat, SignalDispositions};
use super::signals::Signals;

/// A run that blocks every signal counts as one that has not begun, for so long at most.
const BEGIN_LIMIT: Duration = Duration::from_secs(1);
/// How long the command waits before it looks at the run again.
const BEGIN_PAUSE: Duration = Duration::from_micros(200);
/// How long a run may take to stop after `SIGTSTP`.
const STOP_LIMIT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// How often the command looks at a run without a daemon: nobody tells when it stops.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// How a run ended, for the command.
pub(super) enum RunEnd {
    /// With this wait status.
    Ended(ExitStatus),
    /// In a way that nobody can tell; the command has said so.
    Unknown,
    /// Nothing of the program ran, for this reason.
    Declined(String),
}

/// A run, and the connection on which the daemon tells its end.
#[derive(Debug)]
pub(super) struct Relay {
    client: Client,
    /// The number of the run.
    pid: i32,
    pidfd: OwnedFd,
    signals: Signals,
    /// Whether the run is known to take signals.
    has_begun: bool,
    /// The run got a `SIGTSTP`, which is still pending here unless a `SIGCONT` has come.
    stop_is_under_way: bool,
    /// The daemon is gone.
    is_alone: bool,
}

impl Relay {
    pub(super) fn new(client: Client, pid: i32, pidfd: OwnedFd, signals: Signals) -> Relay {
        Relay { client, pid, pidfd, signals, has_begun: false, stop_is_under_way: false, is_alone: false }
    }

    /// Passes signals on until the run has ended.
    pub(super) fn until_the_end(mut self) -> RunEnd {
        let end = self.relay();
        if !matches!(end, RunEnd::Declined(_)) {
            // They were for the run, which has ended before they could reach it.
            self.signals.take_stop();
            self.signals.take_others();
        }
        end
    }

    fn relay(&mut self) -> RunEnd {
        loop {
            let limit = self.stop_is_under_way.then_some(&STOP_LIMIT);
            let has_event = self.wait(&self.client, limit);
            self.pass_on(has_event.is_none());
            if has_event != Some(true) {
                continue;
            }
            match self.client.next_event() {
                Ok(RunEvent::Ended(status)) => return RunEnd::Ended(ExitStatus::from_raw(status)),
                Ok(RunEvent::Stopped(_)) => self.stop_too(),
                Ok(RunEvent::Continued) => {}
                Ok(RunEvent::Declined(why)) => return RunEnd::Declined(why),
                Err(error) => return self.without_daemon(&error),
            }
        }
    }

    /// Waits for a signal or for `beside`. True when `beside` has something, `None` when the time is over.
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

    /// Passes on what this process got. `is_late`: the run has had its time to stop.
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

    /// Passes on all signals but `SIGTSTP`. False when there was none.
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

    /// Where the program leaves `SIGTSTP` to the kernel, the signal stays pending here until the run has stopped. Without a
    /// daemon only `SIGSTOP` stops the run, because its group is orphaned.
    fn pass_stop_on(&mut self) {
        let mut number = libc::SIGTSTP;
        self.wait_until_it_has_begun();
        match SignalDispositions::read(self.pid) {
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

    /// A process that has its order and is not the run yet is in the daemon's group, and drops every signal. It blocks all
    /// signals, which a program does for an instant at most.
    fn wait_until_it_has_begun(&mut self) {
        let deadline = Instant::now() + BEGIN_LIMIT;
        let waits = || SignalDispositions::read(self.pid).is_some_and(|signals| signals.all_blocked());
        while !self.has_begun && waits() && Instant::now() < deadline {
            std::thread::sleep(BEGIN_PAUSE);
        }
        self.has_begun = true;
    }

    /// Stops as the run did, until somebody continues this process. The news may be out of date: where the run goes on already,
    /// this process does not stop.
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
        ProcessStat::read(self.pid).is_some_and(|stat| stat.state == 'T')
    }

    /// The daemon is gone: the run goes on, and the kernel tells what becomes of it.
    fn without_daemon(&mut self, error: &ClientError) -> RunEnd {
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
            Some(status) => RunEnd::Ended(ExitStatus::from_raw(status)),
            None => status_is_unknown(error),
        }
    }

    /// The wait status of a run that has ended. Its parent may have waited for it already.
    fn status_without_daemon(&self) -> Option<i32> {
        // As long as the pidfd's process is there, the number is its own.
        let is_there = || raw::pidfd_signal(self.pidfd.as_fd(), 0, false).is_ok();
        process::status_of_zombie(self.pid, is_there).or_else(|| raw::pidfd_exit_status(self.pidfd.as_fd()))
    }
}

/// Waits for the end of a run without its pidfd. Signals act on the command, and the end of the command ends the run.
pub(super) fn without_signals(mut client: Client) -> RunEnd {
    loop {
        match client.next_event() {
            Ok(RunEvent::Ended(status)) => return RunEnd::Ended(ExitStatus::from_raw(status)),
            Ok(RunEvent::Declined(why)) => return RunEnd::Declined(why),
            Ok(_) => {}
            Err(error) => return status_is_unknown(&error),
        }
    }
}

fn status_is_unknown(error: &ClientError) -> RunEnd {
    crate::message::complain(&format!("the status of the run is not known: {error}"));
    RunEnd::Unknown
}
