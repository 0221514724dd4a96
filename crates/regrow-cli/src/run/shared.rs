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
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use regrow_daemon::client::{Answer, Client, ClientError, borrow, inherited_descriptors, order_of_caller};
use regrow_daemon::place::Place;

use super::relay::{self, End, Relay};
use super::signals::Signals;
use super::{REGROW_FAILED, end_as, status_of_error};
use crate::{detach, launcher};

/// What is to be run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program<'a> {
    /// Modules that it is to find imported, with commas between.
    pub(crate) preload: &'a OsStr,
    /// A path, or a name that is looked for in `PATH`.
    pub(crate) file: &'a OsStr,
    /// What the program sees as `argv[0]`.
    pub(crate) argv0: &'a OsStr,
}

/// Runs a program, or what it stands for if it is a launcher, and returns the status that the command is to end with. Does
/// not return where this process becomes the program. With `terminal`, a controlling terminal is no hindrance.
pub(crate) fn run(program: &OsStr, args: &[OsString], terminal: bool, preload: &OsStr) -> u8 {
    let behind = match launcher::behind(program).transpose() {
        Ok(behind) => behind,
        Err(missing) => return missing.tell(),
    };
    let file = behind.as_deref().map_or(program, Path::as_os_str);
    run_as(Program { file, argv0: program, preload }, args, terminal)
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
        Ok((client, Answer::Started { pid, pidfd, how }, signals)) => {
            tracing::info!(pid, how, "started");
            let end = match pidfd {
                Some(pidfd) => Relay::new(client, pid, pidfd, signals).until_the_end(),
                None => {
                    drop(signals);
                    relay::without_signals(client)
                }
            };
            match end {
                End::Ended(status) => end_as(status),
                End::Unknown => REGROW_FAILED,
                End::Declined(why) => execute(program, args, &why),
            }
        }
        Ok((_, Answer::Declined { reason, detail }, signals)) => {
            drop(signals);
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

/// Orders the run. Until it has been answered, and longer if it was started, signals wait: it is not known yet whom they
/// are for.
fn order(
    place: &Place,
    program: Program<'_>,
    args: &[OsString],
) -> Result<(Client, Answer, Signals), ClientError> {
    // Before anything is opened here.
    let numbers = inherited_descriptors()?;
    let mut client = Client::connect(place)?;
    let mut order = order_of_caller(program.file, args)?;
    order.arg0 = (program.argv0 != program.file).then(|| program.argv0.as_bytes().to_vec());
    let modules = program.preload.as_bytes().split(|&byte| byte == b',');
    for module in modules.filter(|module| !module.is_empty()) {
        order.preload.0.extend_from_slice(module);
        order.preload.0.push(0);
    }
    let descriptors: Vec<_> = numbers.iter().map(|&number| borrow(number)).collect();
    order.targets = numbers;
    let signals = Signals::hold()
        .map_err(|source| ClientError::Caller { what: "the signals of the command", source })?;
    client.send_order(order, &descriptors)?;
    signals.wait_for(&client);
    let answer = client.answer()?;
    Ok((client, answer, signals))
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
