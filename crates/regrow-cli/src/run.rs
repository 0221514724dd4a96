//! `regrow run`: a program out of the daemon's pool (see [`shared`]), or out of a pool in this process.
//!
//! The run has the standard descriptors of the command and every other that the command was given, and the command ends
//! with its exit status, so that `regrow run -- PROG` stands where `env PROG` would.
//!
//! Where runs are to be recycled from the first one on (with `--repeat`, `--verify` or `--point`), the image is made
//! before it. A single run is not worth that, and is started by exec.

mod caller;
mod process;
mod relay;
mod report;
pub(crate) mod shared;
mod signals;

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use regrow::{Command, Fallback, Pool, PrepareError};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::cli::{PointArg, RunArgs};
use crate::error::{CliError, chain};
use crate::launcher;
use crate::run::report::{Line, Report};

/// The exit status when Regrow itself failed.
pub(crate) const REGROW_FAILED: u8 = 125;
/// The exit status when the program is there and cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The exit status when there is no such program.
pub(crate) const NOT_FOUND: u8 = 127;
/// What is added to the number of the signal that ended a run.
pub(crate) const SIGNALLED: i32 = 128;

/// Carries out the command.
pub(crate) fn run(args: &RunArgs) -> Result<u8, CliError> {
    if !args.wants_own_pool() {
        let preload = args.preload.join(",");
        return Ok(shared::run(&args.program, &args.args, args.no_tty, OsStr::new(&preload)));
    }
    let behind = match launcher::behind(&args.program).transpose() {
        Ok(behind) => behind,
        Err(missing) => return Ok(missing.tell()),
    };
    // Before this process opens anything of its own.
    let given =
        caller::given_descriptors().map_err(CliError::system("the given descriptors cannot be passed on"))?;
    let mut report = args.report.as_deref().map(Report::create).transpose()?;
    caller::forward_signals().map_err(CliError::system("signals cannot be passed on to the run"))?;

    let pool = Pool::builder().verify(args.verify).point(args.point.into()).build();
    let mut command = pool.command(behind.as_deref().map_or(args.program.as_os_str(), Path::as_os_str));
    command.arg0(&args.program).args(&args.args).preload(args.preload.iter().map(String::as_str));
    for (descriptor, number) in given {
        command.fd(descriptor, number);
    }
    if args.repeat > 1 || args.verify || args.point != PointArg::Auto {
        prepare(&pool, &command);
    }
    let mut first_failure = 0;
    // Of a single run, which the command stands for.
    let mut ended_by = None;
    for number in 1..=args.repeat {
        let line = run_once(&mut command, number);
        if let Some(report) = &mut report {
            report.write(&line)?;
        }
        if first_failure == 0 {
            first_failure = line.status;
        }
        ended_by = line.signal.filter(|_| args.repeat == 1);
        if line.error.is_some() {
            // The next would fail as well.
            break;
        }
        if let Some(signal) = caller::forwarded_signal().filter(|_| number < args.repeat) {
            first_failure = exit_status_of_signal(signal);
            break;
        }
    }
    tracing::info!(stats = ?pool.stats(), "all runs have ended");
    if args.verify && !all_bodies_equal(&pool) && first_failure == 0 {
        first_failure = REGROW_FAILED;
    }
    drop(command);
    drop(pool);
    if let Some(signal) = ended_by {
        crate::detach::die_by(signal);
    }
    Ok(first_failure)
}

/// Whether every body was equal to its image after every run. One that was not is told, and was not used again.
fn all_bodies_equal(pool: &Pool) -> bool {
    let reports = pool.reports();
    tracing::info!(compared = reports.compared, given_up = ?reports.given_up, "bodies");
    for difference in &reports.differences {
        crate::complain(&format!("a body differs from its image: {difference}"));
    }
    reports.differences.is_empty()
}

/// Makes the image. That there can be none is no failure: the runs are then started by exec, and say why.
fn prepare(pool: &Pool, command: &Command) {
    match pool.prepare(command) {
        Ok(point) => tracing::info!(%point, "the image is made"),
        // The run will say the same, with the right exit status.
        Err(
            error @ (PrepareError::Program { .. }
            | PrepareError::NotRecycled { why: Fallback::ResolveError, .. }),
        ) => tracing::debug!("{}", chain(&error)),
        Err(error) => tracing::warn!("{}", chain(&error)),
    }
}

/// One run, from its start to its end.
fn run_once(command: &mut Command, number: u64) -> Line {
    let started = Instant::now();
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return could_not_start(command, number, &error),
    };
    caller::run_begins(child.id());
    let creation = child.creation().clone();
    let seen = wait_for_end(&child, started);
    caller::run_ends();
    let pid = child.id();
    let ended = seen.and_then(|wall| Ok((child.wait()?, wall)));
    let mut line = Line::of(number, &creation, pid);
    match ended {
        Ok((status, wall)) => {
            line.status = exit_status(status);
            line.signal = status.signal();
            line.wall_us = Some(micros(wall));
        }
        Err(error) => {
            crate::complain(&format!("process {pid}: the end of the run cannot be seen: {error}"));
            line.status = REGROW_FAILED;
            line.error = Some(error.to_string());
        }
    }
    line
}

/// Waits until the run has ended, without taking its status: until then its number is nobody else's.
fn wait_for_end(child: &regrow::Child, started: Instant) -> io::Result<Duration> {
    let pid = Pid::from_raw(child.id().cast_signed()).ok_or(io::ErrorKind::InvalidData)?;
    // A recycled run sends no SIGCHLD, and is found by a wait for all kinds of children alone.
    let all_kinds = WaitIdOptions::from_bits_retain(libc::__WALL.cast_unsigned());
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | all_kinds;
    retry_on_intr(|| waitid(WaitId::Pid(pid), options))?;
    Ok(started.elapsed())
}

fn could_not_start(command: &Command, number: u64, error: &io::Error) -> Line {
    crate::complain(&format!("{}: {error}", command.get_program().display()));
    Line::not_started(number, status_of_error(error), error)
}

/// The exit status that `env` has when it cannot execute a program.
fn status_of_error(error: &io::Error) -> u8 {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) => NOT_FOUND,
        // There can be no further process: nothing is wrong with the program.
        None | Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => REGROW_FAILED,
        Some(_) => NOT_EXECUTABLE,
    }
}

/// The exit status of a run, as a shell tells it.
fn exit_status(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code & 0xff).unwrap_or(u8::MAX),
        (None, Some(signal)) => exit_status_of_signal(signal),
        (None, None) => REGROW_FAILED,
    }
}

/// Ends this process as the run has ended, if by a signal: whoever waits for it learns what `env` would have had it learn,
/// and a shell that was interrupted ends its loop. Returns the exit status otherwise.
fn end_as(status: ExitStatus) -> u8 {
    if let Some(signal) = status.signal() {
        crate::detach::die_by(signal);
    }
    exit_status(status)
}

fn exit_status_of_signal(signal: i32) -> u8 {
    u8::try_from(SIGNALLED + signal).unwrap_or(u8::MAX)
}

/// Microseconds, with the fraction that a report shows.
fn micros(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e7).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_has_the_status_that_a_shell_gives_it() {
        assert_eq!(exit_status(ExitStatus::from_raw(0)), 0);
        assert_eq!(exit_status(ExitStatus::from_raw(255 << 8)), 255);
        assert_eq!(exit_status(ExitStatus::from_raw(libc::SIGKILL)), 137);
        assert_eq!(exit_status(ExitStatus::from_raw(libc::SIGSEGV | 0x80)), 139);
    }

    #[test]
    fn a_start_that_failed_has_the_status_that_env_has() {
        let status = |errno| status_of_error(&io::Error::from_raw_os_error(errno));
        assert_eq!(status(libc::ENOENT), 127);
        for errno in [libc::EACCES, libc::ENOEXEC, libc::ENOTDIR, libc::E2BIG, libc::ELOOP] {
            assert_eq!(status(errno), 126);
        }
        for errno in [libc::EAGAIN, libc::ENOMEM, libc::EMFILE] {
            assert_eq!(status(errno), 125);
        }
        assert_eq!(status_of_error(&io::Error::from(io::ErrorKind::InvalidInput)), 125);
    }
}
