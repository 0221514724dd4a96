//! `regrow run` through the user's daemon.
//!
//! ```text
//!   a controlling terminal?  ── yes ─▶ exec: a child of the daemon is not in the caller's session
//!   a daemon?                ── no ──▶ start one for the next time, exec
//!   order ─▶ declined?       ── yes ─▶ exec
//!         ─▶ started ─▶ pass signals on, stop and go on with the run, end with its status
//! ```
//!
//! Whatever goes wrong before the program's first instruction ends in exec: this process becomes the program, as it would
//! have by `env PROG`. See `docs/decisions/015-when-the-client-executes.md`.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use regrow_daemon::client::{
    Answer, Client, ClientError, Event, borrow, inherited_descriptors, order_of_caller,
};
use regrow_daemon::place::Place;
use regrow_sys::raw;
use rustix::event::{PollFd, PollFlags, poll};

use super::{REGROW_FAILED, end_as, status_of_error};
use crate::{detach, launcher};

/// The signals that are passed on to the run.
const PASSED_ON: [i32; 9] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
    libc::SIGTSTP,
    libc::SIGCONT,
];

/// Bytes of the kernel's `struct signalfd_siginfo`.
const SIGNAL_RECORD: usize = 128;

/// What is to be run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program<'a> {
    /// A path, or a name that is looked for in `PATH`.
    pub(crate) file: &'a OsStr,
    /// What the program sees as `argv[0]`.
    pub(crate) argv0: &'a OsStr,
}

/// Runs a program, or what it stands for if it is a launcher, and returns the status that the command is to end with. Does
/// not return where this process becomes the program. With `terminal`, a controlling terminal is no hindrance.
pub(crate) fn run(program: &OsStr, args: &[OsString], terminal: bool) -> u8 {
    let behind = match launcher::behind(program).transpose() {
        Ok(behind) => behind,
        Err(missing) => return missing.tell(),
    };
    let file = behind.as_deref().map_or(program, Path::as_os_str);
    run_as(Program { file, argv0: program }, args, terminal)
}

/// The same of a program that is no launcher.
pub(crate) fn run_as(program: Program<'_>, args: &[OsString], terminal: bool) -> u8 {
    if !terminal && has_terminal() {
        return execute(program, args, "there is a controlling terminal");
    }
    let place = match Place::of_user() {
        Ok(place) => place,
        Err(error) => return execute(program, args, &error.to_string()),
    };
    match order(&place, program, args) {
        Ok((client, Answer::Started { pid, pidfd, how })) => {
            tracing::info!(pid, how, "started");
            Relay { client, pidfd }.until_the_end(program, args)
        }
        Ok((_, Answer::Declined { reason, detail })) => {
            execute(program, args, &format!("the daemon declines: {reason}: {detail}"))
        }
        Err(error @ ClientError::Unknown(_)) => {
            crate::complain(&crate::error::chain(&error));
            REGROW_FAILED
        }
        Err(error) => {
            if let ClientError::NoDaemon { .. } = &error {
                detach::start_daemon();
            }
            execute(program, args, &error.to_string())
        }
    }
}

fn order(place: &Place, program: Program<'_>, args: &[OsString]) -> Result<(Client, Answer), ClientError> {
    // Before anything is opened here.
    let numbers = inherited_descriptors()?;
    let mut client = Client::connect(place)?;
    let mut order = order_of_caller(program.file, args)?;
    order.arg0 = (program.argv0 != program.file).then(|| program.argv0.as_bytes().to_vec());
    let descriptors: Vec<_> = numbers.iter().map(|&number| borrow(number)).collect();
    order.targets = numbers;
    let answer = client.order(order, &descriptors)?;
    Ok((client, answer))
}

/// Whether the program could open `/dev/tty`.
fn has_terminal() -> bool {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::open(c"/dev/tty", OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).is_ok()
}

/// Becomes the program. Returns the status for when that fails.
fn execute(program: Program<'_>, args: &[OsString], why: &str) -> u8 {
    tracing::info!(why, "executed by the command itself");
    let error = detach::become_program(program, args);
    crate::complain(&format!("{}: {error}", program.file.display()));
    status_of_error(&error)
}

/// A run, and the connection on which its end will be told.
struct Relay {
    client: Client,
    /// Without it signals cannot be passed on.
    pidfd: Option<OwnedFd>,
}

impl Relay {
    fn until_the_end(mut self, program: Program<'_>, args: &[OsString]) -> u8 {
        let set = PASSED_ON.iter().fold(0, |set, signal| set | 1u64 << (signal - 1));
        let (signals, before) = match raw::signals_as_descriptor(set) {
            Ok(signals) => signals,
            Err(error) => {
                crate::complain(&format!("signals cannot be passed on to the run: {error}"));
                return self.event_by_event();
            }
        };
        loop {
            let mut ready = [PollFd::new(&self.client, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
            if poll(&mut ready, None).is_err() {
                continue;
            }
            let (has_event, has_signal) = (!ready[0].revents().is_empty(), !ready[1].revents().is_empty());
            if has_signal {
                self.pass_on(&signals);
            }
            if has_event {
                match self.client.next_event() {
                    Ok(Event::Ended(status)) => return end_as(ExitStatus::from_raw(status)),
                    Ok(Event::Stopped(_)) => stop_too(),
                    Ok(Event::Continued) => {}
                    Ok(Event::Declined(why)) => {
                        raw::set_signal_mask(before);
                        return execute(program, args, &why);
                    }
                    Err(error) => return self.without_daemon(&error),
                }
            }
        }
    }

    /// Without signals.
    fn event_by_event(mut self) -> u8 {
        loop {
            match self.client.next_event() {
                Ok(Event::Ended(status)) => return end_as(ExitStatus::from_raw(status)),
                Ok(_) => {}
                Err(error) => return self.without_daemon(&error),
            }
        }
    }

    /// Sends the run what was sent to this process; what came from a terminal goes to its whole group, as there. So does
    /// SIGCONT, which is the shell's answer to what the terminal has stopped.
    fn pass_on(&self, signals: &OwnedFd) {
        let mut buffer = [0u8; 16 * SIGNAL_RECORD];
        while let Ok(bytes) = rustix::io::read(signals, &mut buffer) {
            for record in buffer.get(..bytes).unwrap_or_default().chunks_exact(SIGNAL_RECORD) {
                let field = |at: usize| {
                    let bytes = record.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
                    bytes.map_or(0, i32::from_ne_bytes)
                };
                let (number, code) = (field(0), field(8));
                let to_group = code == libc::SI_KERNEL || number == libc::SIGCONT;
                // The run may have ended meanwhile.
                if let Some(pidfd) = &self.pidfd {
                    let _ = raw::pidfd_signal(pidfd.as_fd(), number, to_group);
                }
            }
        }
    }

    /// The daemon is gone: the run goes on, and the kernel tells its end.
    fn without_daemon(&self, error: &ClientError) -> u8 {
        tracing::warn!(%error, "the run goes on without the daemon");
        let status = self.pidfd.as_ref().and_then(|pidfd| {
            let mut ready = [PollFd::new(pidfd, PollFlags::IN)];
            while let Err(rustix::io::Errno::INTR) = poll(&mut ready, None) {}
            raw::pidfd_exit_status(pidfd.as_fd())
        });
        match status {
            Some(status) => end_as(ExitStatus::from_raw(status)),
            None => {
                crate::complain(&format!("the status of the run is not known: {error}"));
                REGROW_FAILED
            }
        }
    }
}

/// Stops as the run has, until somebody continues this process.
fn stop_too() {
    let own = rustix::process::getpid();
    let _ = rustix::process::kill_process(own, rustix::process::Signal::STOP);
}
