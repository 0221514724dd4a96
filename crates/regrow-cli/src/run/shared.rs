//! `regrow run` through the user's daemon.
//!
//! ```text
//!   a controlling terminal?  ── yes ─▶ exec: a child of the daemon is not in the caller's session
//!   a daemon?                ── no ──▶ start one for the next time, exec
//!   ask   ─▶ declined?       ── yes ─▶ exec
//!         ─▶ started ─▶ pass signals on, stop and go on with the run, end with its status
//! ```
//!
//! Whatever goes wrong before the program's first instruction ends in exec: this process becomes the program, as `env PROG`
//! does. See `docs/decisions/015-when-the-client-executes.md`.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use regrow_daemon::caller::{borrow, inherited_descriptors, spawn_message};
use regrow_daemon::client::{Answer, Client, ClientError};
use regrow_daemon::place::Place;
use regrow_sys::strings::NulFound;

use super::relay::{self, Relay, RunEnd};
use super::scheduled;
use super::signals::Signals;
use crate::env::place::is_found_by_path;
use crate::exit_status::{self, REGROW_FAILED};
use crate::message::{chain, complain};
use crate::{detach, program_search};

/// The program that the user asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramName<'a> {
    /// The modules that it finds imported, with commas between.
    pub(crate) preload: &'a OsStr,
    /// A path, or a name that stands in `PATH`.
    pub(crate) file: &'a OsStr,
    /// What the program sees as `argv[0]`.
    pub(crate) argv0: &'a OsStr,
    /// It is to have its body alone.
    pub(crate) single_use: bool,
    /// How long the scheduler lets it run before others; `None`: as long as others.
    pub(crate) slice: Option<Duration>,
}

/// Runs a program, or the program behind it if it is a launcher, and returns the exit status of the command. Does not return
/// where this process becomes the program. With `terminal`, the daemon runs it although there is a controlling terminal.
pub(crate) fn run(program: ProgramName<'_>, args: &[OsString], terminal: bool) -> u8 {
    let behind = match program_search::behind(program.file).transpose() {
        Ok(behind) => behind,
        Err(missing) => return missing.tell(),
    };
    let file = behind.as_deref().map_or(program.file, Path::as_os_str);
    run_as(ProgramName { file, ..program }, args, terminal)
}

/// The same for a program that is no launcher.
pub(crate) fn run_as(program: ProgramName<'_>, args: &[OsString], terminal: bool) -> u8 {
    if !terminal && has_terminal() {
        return execute(program, args, "there is a controlling terminal");
    }
    let place = match Place::of_user() {
        Ok(place) => place,
        Err(error) => return execute(program, args, &error.to_string()),
    };
    conclude(ask(&place, program, args), program, args)
}

/// Ends as the run does that was asked for, or becomes the program. Returns the exit status.
fn conclude(
    asked: Result<(Client, Answer, Signals), ClientError>,
    program: ProgramName<'_>,
    args: &[OsString],
) -> u8 {
    match asked {
        Ok((client, Answer::Started { pid, pidfd, how, not_loaded }, signals)) => {
            tracing::info!(pid, how, "started");
            if !not_loaded.is_empty() {
                tell_not_loaded(&program.preload.to_string_lossy(), &not_loaded);
            }
            let end = match pidfd {
                Some(pidfd) => Relay::new(client, pid, pidfd, signals).until_the_end(),
                None => {
                    drop(signals);
                    relay::without_signals(client)
                }
            };
            match end {
                RunEnd::Ended(status) => end_as(status),
                RunEnd::Unknown => REGROW_FAILED,
                RunEnd::Declined(why) => execute(program, args, &why),
            }
        }
        Ok((_, Answer::Ended(status), _)) => end_as(ExitStatus::from_raw(status)),
        Ok((_, Answer::Declined { reason, detail }, signals)) => {
            drop(signals);
            execute(program, args, &format!("the daemon declines: {reason}: {detail}"))
        }
        Err(error @ ClientError::Unknown(_)) => {
            complain(&chain(&error));
            REGROW_FAILED
        }
        Err(error) => {
            if let ClientError::NoDaemon { .. } = &error {
                detach::start_daemon();
            }
            execute(program, args, &chain(&error))
        }
    }
}

/// What a client of one page hands over of a run that it has asked for, see [`regrow_abi::client::HANDED_OVER`].
struct HandedOver<'a> {
    socket: OwnedFd,
    ticket: OwnedFd,
    /// The process with its number, where the daemon has told it.
    process: Option<(OwnedFd, i32)>,
    blocked: u64,
    program: &'a OsStr,
}

impl HandedOver<'_> {
    fn parse(text: &OsStr) -> Option<HandedOver<'_>> {
        let mut fields = text.as_bytes().strip_prefix(b"/")?.splitn(6, |&byte| byte == b'/');
        let mut number = || {
            let field = std::str::from_utf8(fields.next()?).ok()?;
            Some(u64::from_str_radix(field, 16).ok())
        };
        let (socket, ticket, pidfd, pid) = (number()?, number()?, number()?, number()?);
        let blocked = number()??;
        let program = OsStr::from_bytes(fields.next()?);
        let descriptor = |number: Option<u64>| detach::handed_over(i32::try_from(number?).ok()?);
        let process = descriptor(pidfd).zip(pid.and_then(|pid| i32::try_from(pid).ok()));
        let (socket, ticket) = (descriptor(socket)?, descriptor(ticket)?);
        Some(HandedOver { socket, ticket, process, blocked, program })
    }
}

/// Goes on with a run that a client of one page has asked for; `args` begins with what the program sees as `argv[0]`. The signals that it
/// held wait still.
pub(crate) fn take_over(what: &OsStr, args: &[OsString]) -> u8 {
    let (Some(handed), Some((argv0, args))) = (HandedOver::parse(what), args.split_first()) else {
        complain("there is no run to be taken over");
        return REGROW_FAILED;
    };
    let argv0 = if is_found_by_path(Path::new(argv0)) { handed.program } else { argv0 };
    let program =
        ProgramName { preload: OsStr::new(""), file: handed.program, argv0, single_use: false, slice: None };
    let mut client = Client::taken_over(handed.socket, handed.ticket);
    let signals = match Signals::held_since(handed.blocked) {
        Ok(signals) => signals,
        Err(error) => {
            complain(&format!("the signals of the command: {error}"));
            return REGROW_FAILED;
        }
    };
    if let Some((pidfd, pid)) = handed.process {
        let told = Answer::Started {
            pid,
            pidfd: Some(pidfd),
            how: "by a client".to_owned(),
            not_loaded: String::new(),
        };
        return conclude(Ok((client, told, signals)), program, args);
    }
    signals.wait_for(&client);
    let asked = client.answer().map(|answer| (client, answer, signals));
    conclude(asked, program, args)
}

/// Tells the user that the run has not the modules loaded that it was to find.
pub(super) fn tell_not_loaded(modules: &str, why: &str) {
    complain(&format!("--preload {modules}: not loaded ahead: {why}"));
}

/// Asks the daemon for the run. Until it has been answered, and longer if it was started, signals wait: it is not known yet whom they
/// are for.
fn ask(
    place: &Place,
    program: ProgramName<'_>,
    args: &[OsString],
) -> Result<(Client, Answer, Signals), ClientError> {
    // Before anything is opened here.
    let numbers = inherited_descriptors()?;
    let mut client = Client::connect(place)?;
    let mut message = spawn_message(program.file, args)?;
    message.single_use = program.single_use;
    if let Some(slice) = program.slice {
        message.task.set_slice_ns(u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX));
    }
    message.arg0 = (program.argv0 != program.file).then(|| program.argv0.as_bytes().to_vec());
    let modules = program.preload.as_bytes().split(|&byte| byte == b',');
    for module in modules.filter(|module| !module.is_empty()) {
        let cannot =
            |source: NulFound| ClientError::Caller { what: "a module's name", source: source.into() };
        message.preload.push(&[module]).map_err(cannot)?;
    }
    let descriptors: Vec<_> = numbers.iter().map(|&number| borrow(number)).collect();
    message.targets = numbers;
    let signals = Signals::hold()
        .map_err(|source| ClientError::Caller { what: "the signals of the command", source })?;
    client.send_spawn(message, &descriptors)?;
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
fn execute(program: ProgramName<'_>, args: &[OsString], why: &str) -> u8 {
    tracing::info!(why, "executed by the command itself");
    scheduled::take(program.slice);
    let error = detach::become_program(program.file, program.argv0, args);
    complain(&format!("{}: {error}", program.file.display()));
    exit_status::of_error(&error)
}

/// Ends this process as the run ended, if by a signal: whoever waits for it learns what `env` would have told, and a shell
/// that was interrupted ends its loop. Returns the exit status otherwise.
fn end_as(status: ExitStatus) -> u8 {
    if let Some(signal) = status.signal() {
        detach::die_by(signal);
    }
    exit_status::of_run(status)
}
