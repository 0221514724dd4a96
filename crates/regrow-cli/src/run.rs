//! `regrow run`: a program out of the daemon's pool (see [`shared`]), or out of a pool in this process.
//!
//! The run has the standard descriptors of the command and every other that the command was given. The command ends with the
//! run's exit status, so that `regrow run -- PROG` does what `env PROG` does.
//!
//! With `--repeat`, `--verify` or `--point` the command makes the image before the first run. A single run is not worth that,
//! and starts by exec.

mod caller;
mod process;
mod relay;
mod report;
mod scheduled;
pub(crate) mod shared;
mod signals;

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::{Duration, Instant};

use regrow::{Command, Fallback, Pool, PrepareError, Reuse};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::cli::run::{PointArg, RunArgs};
use crate::error::CliError;
use crate::exit_status::{self, REGROW_FAILED};
use crate::message::{chain, complain};
use crate::program_search;

use self::report::{RunLine, RunReport};

/// Carries out the command.
pub(crate) fn run(args: &RunArgs) -> Result<u8, CliError> {
    let slice = args.schedule.and_then(|how| scheduled::slice(how, &args.program, &args.args));
    if !args.wants_own_pool() {
        let preload = args.preload.join(",");
        let program = shared::ProgramName {
            preload: OsStr::new(&preload),
            file: &args.program,
            argv0: &args.program,
            single_use: args.single_use,
            slice,
        };
        return Ok(shared::run(program, &args.args, args.no_tty));
    }
    let behind = match program_search::behind(&args.program).transpose() {
        Ok(behind) => behind,
        Err(missing) => return Ok(missing.tell()),
    };
    // Before this process opens anything of its own.
    let given =
        caller::given_descriptors().map_err(CliError::system("the given descriptors cannot be passed on"))?;
    let mut report = args.report.as_deref().map(RunReport::create).transpose()?;
    caller::forward_signals().map_err(CliError::system("signals cannot be passed on to the run"))?;

    let reuse = if args.single_use { Reuse::Never } else { Reuse::Always };
    let pool = Pool::builder().verify(args.verify).point(args.point.into()).reuse(reuse).build();
    let mut command = pool.command(behind.as_deref().map_or(args.program.as_os_str(), Path::as_os_str));
    command.arg0(&args.program).args(&args.args).preload(args.preload.iter().map(String::as_str));
    if let Some(slice) = slice {
        command.slice(slice);
    }
    for (descriptor, number) in given {
        command.fd(descriptor, number);
    }
    if args.repeat > 1 || args.verify || args.point != PointArg::Auto {
        prepare(&pool, &command);
    }
    let mut first_failure = 0;
    // The signal that ended a single run, for which the command stands.
    let mut ended_by = None;
    for number in 1..=args.repeat {
        let line = run_once(&mut command, number, &args.preload);
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
            first_failure = exit_status::of_signal(signal);
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

/// Whether every body was equal to its image after every run. Tells of each that was not; the pool did not use it again.
fn all_bodies_equal(pool: &Pool) -> bool {
    let reports = pool.reports();
    tracing::info!(compared = reports.compared, given_up = ?reports.given_up, "bodies");
    for difference in &reports.differences {
        complain(&format!("a body differs from its image: {difference}"));
    }
    reports.differences.is_empty()
}

/// Makes the image. Where there can be none, the runs start by exec, and say why.
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
fn run_once(command: &mut Command, number: u64, modules: &[String]) -> RunLine {
    let started = Instant::now();
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return could_not_start(command, number, &error),
    };
    caller::run_begins(child.id());
    if let Some(why) = child.not_loaded().filter(|_| number == 1) {
        shared::tell_not_loaded(&modules.join(","), why);
    }
    let creation = child.creation().clone();
    let seen = wait_for_end(&child, started);
    caller::run_ends();
    let pid = child.id();
    let ended = seen.and_then(|wall| Ok((child.wait()?, wall)));
    let mut line = RunLine::of(number, &creation, pid);
    match ended {
        Ok((status, wall)) => {
            line.status = exit_status::of_run(status);
            line.signal = status.signal();
            line.wall_us = Some(micros(wall));
        }
        Err(error) => {
            complain(&format!("process {pid}: the end of the run cannot be seen: {error}"));
            line.status = REGROW_FAILED;
            line.error = Some(error.to_string());
        }
    }
    line
}

/// Waits until the run has ended, and leaves its status: so no other process gets its number. Stops with the run meanwhile.
fn wait_for_end(child: &regrow::Child, started: Instant) -> io::Result<Duration> {
    let pid = Pid::from_raw(child.id().cast_signed()).ok_or(io::ErrorKind::InvalidData)?;
    // Whatever signal it sends at its end.
    let all_kinds = WaitIdOptions::from_bits_retain(libc::__WALL.cast_unsigned());
    let look = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT | all_kinds;
    let take_stop = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | all_kinds;
    loop {
        let status = retry_on_intr(|| waitid(WaitId::Pid(pid), look))?;
        let Some(signal) = status.and_then(|status| status.stopping_signal()) else {
            return Ok(started.elapsed());
        };
        // Where it goes on already, there is no stop to take.
        if retry_on_intr(|| waitid(WaitId::Pid(pid), take_stop))?.is_some() {
            caller::stop_as(signal)?;
        }
    }
}

fn could_not_start(command: &Command, number: u64, error: &io::Error) -> RunLine {
    complain(&format!("{}: {error}", command.get_program().display()));
    RunLine::not_started(number, exit_status::of_error(error), error)
}

/// Microseconds, with the fraction that a report shows.
fn micros(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e7).round() / 10.0
}
