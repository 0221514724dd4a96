//! `regrow bench --daemon`: what the daemon costs its clients.
//!
//! ```text
//!   a client that stays connected    posix_spawn and an order to the daemon in turn: call to end seen
//!   32 of them at a time             runs per second by either way, blocks in turn
//!   commands                         `regrow run -- PROG`, `env PROG` and PROG itself in turn, by posix_spawn and in a shell loop
//! ```
//!
//! The daemon is one of its own, in a folder of its own, and ends with the benchmark. Every status is checked; runs that
//! the daemon declines are started by `posix_spawn`, as a client would do, and counted.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use regrow_daemon::client::{Client, order_of_caller};
use regrow_daemon::place::Place;
use regrow_daemon::wire::Order;

use super::figure::{Figure, describe};
use super::native::PosixSpawn;
use super::samples::{Percentiles, Samples, now_ns};
use crate::error::CliError;

/// Clients at a time.
const CLIENTS: usize = 32;
/// Blocks of each way.
const ROUNDS: usize = 3;
/// Runs of each client in a block.
const BLOCK_RUNS: usize = 40;
/// Runs before anything is measured, so that there is an image and bodies enough.
const WARMUP: usize = 40;
/// Commands in a shell's loop.
const LOOP: u32 = 20;
/// The least share of the runs that must be recycled.
const LEAST_RECYCLED: f64 = 0.95;
/// How long the daemon may take to be there.
const PATIENCE: Duration = Duration::from_secs(10);

/// Measures everything, and returns it with the text for a person.
pub(super) fn measure(runs: u32) -> Result<(Vec<Figure>, String), CliError> {
    let daemon = Daemon::start()?;
    let mut figures = Vec::new();
    figures.extend(connected(&daemon, runs)?);
    figures.extend(many(&daemon)?);
    figures.extend(commands(&daemon, runs)?);
    let text = describe(&figures);
    Ok((figures, text))
}

/// A daemon of this benchmark alone.
struct Daemon {
    folder: tempfile::TempDir,
    process: Child,
    place: Place,
}

impl Daemon {
    fn start() -> Result<Daemon, CliError> {
        let cannot = |what: &'static str| CliError::system(what);
        let folder = tempfile::tempdir().map_err(cannot("there is no folder for a daemon"))?;
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700))
            .map_err(cannot("there is no folder for a daemon"))?;
        let user = rustix::process::geteuid().as_raw();
        let place = Place::at(folder.path().to_owned(), user)?;
        let process = Command::new(own_path()?)
            .args(["daemon", "--idle", "0"])
            .env("XDG_RUNTIME_DIR", folder.path())
            .stdin(Stdio::null())
            .spawn()
            .map_err(cannot("a daemon cannot be started"))?;
        let daemon = Daemon { folder, process, place };
        let begun = Instant::now();
        while let Err(error) = Client::connect(&daemon.place) {
            if begun.elapsed() > PATIENCE {
                return Err(error.into());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(daemon)
    }

    /// A program that finds this daemon, to be started by `posix_spawn`.
    fn command(&self, program: &Path, args: &[&str]) -> Result<PosixSpawn, CliError> {
        let mut argv = vec![program.as_os_str().to_owned()];
        argv.extend(args.iter().map(OsString::from));
        let stdio = [open_null()?.into(), open_null()?.into(), open_null()?.into()];
        let variable = (OsStr::new("XDG_RUNTIME_DIR"), self.folder.path().as_os_str());
        PosixSpawn::with_variable(program, &argv, stdio, Some(variable))
            .map_err(CliError::system("a program cannot be prepared for posix_spawn"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It leaves by itself when its last run has ended.
        let told = Client::connect(&self.place).and_then(|mut client| client.stop());
        if told.is_err() {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

fn own_path() -> Result<PathBuf, CliError> {
    std::env::current_exe().map_err(CliError::system("the path of this program cannot be told"))
}

/// A client that stays connected, and starts one program by either way.
struct Connected {
    client: Client,
    order: Order,
    null: File,
    posix_spawn: PosixSpawn,
    runs: u64,
    recycled: u64,
}

impl Connected {
    fn new(daemon: &Daemon, program: &Path) -> Result<Connected, CliError> {
        let null = open_null()?;
        let mut order = order_of_caller::<&OsStr>(program.as_os_str(), &[])?;
        order.targets = vec![0, 1, 2];
        let client = Client::connect(&daemon.place)?;
        Ok(Connected { client, order, null, posix_spawn: spawner(program)?, runs: 0, recycled: 0 })
    }

    /// One run by the daemon, from the call to its end seen.
    fn by_daemon(&mut self) -> Result<u64, CliError> {
        let called_ns = now_ns();
        let null = self.null.as_fd();
        self.runs += 1;
        match self.client.complete(self.order.clone(), &[null, null, null])? {
            Some(status) => check(ExitStatus::from_raw(status))?,
            None => {
                check(spawn(&self.posix_spawn)?)?;
                return Ok(now_ns() - called_ns);
            }
        }
        self.recycled += 1;
        Ok(now_ns() - called_ns)
    }

    fn by_posix_spawn(&self) -> Result<u64, CliError> {
        let called_ns = now_ns();
        check(spawn(&self.posix_spawn)?)?;
        Ok(now_ns() - called_ns)
    }
}

fn spawner(program: &Path) -> Result<PosixSpawn, CliError> {
    let null = || open_null().map(Into::into);
    PosixSpawn::new(program, &[program.as_os_str().to_owned()], [null()?, null()?, null()?])
        .map_err(CliError::system("a program cannot be prepared for posix_spawn"))
}

fn open_null() -> Result<File, CliError> {
    let null = File::options().read(true).write(true).open("/dev/null");
    null.map_err(CliError::system("/dev/null cannot be opened"))
}

fn spawn(spawner: &PosixSpawn) -> Result<ExitStatus, CliError> {
    spawner
        .spawn()
        .and_then(super::native::Spawned::wait)
        .map_err(CliError::system("a program cannot be started by posix_spawn"))
}

fn check(status: ExitStatus) -> Result<(), CliError> {
    if status.success() {
        return Ok(());
    }
    let source = std::io::Error::other(format!("it ended with {status}"));
    Err(CliError::System { what: "a run was not what it should be", source })
}

/// One client that stays connected.
fn connected(daemon: &Daemon, runs: u32) -> Result<Vec<Figure>, CliError> {
    let mut client = Connected::new(daemon, Path::new("/bin/true"))?;
    for _ in 0..WARMUP {
        client.by_daemon()?;
        thread::sleep(Duration::from_millis(1));
    }
    (client.runs, client.recycled) = (0, 0);
    let (mut daemons, mut natives) = (Samples::default(), Samples::default());
    for _ in 0..runs {
        thread::sleep(Duration::from_micros(100));
        natives.push(client.by_posix_spawn()?);
        thread::sleep(Duration::from_micros(100));
        daemons.push(client.by_daemon()?);
    }
    enough_recycled(client.recycled, client.runs)?;
    let (ours, theirs) = (percentiles(&daemons), percentiles(&natives));
    Ok(vec![
        Figure::at_least(
            "/bin/true, connected client, against posix_spawn",
            theirs.p50 / ours.p50,
            8.0,
            "times",
        ),
        Figure::told("/bin/true, connected client, p50", ours.p50, "us"),
        Figure::told("/bin/true, connected client, p99", ours.p99, "us"),
        Figure::told("/bin/true, posix_spawn, p50", theirs.p50, "us"),
    ])
}

/// Many clients at a time.
fn many(daemon: &Daemon) -> Result<Vec<Figure>, CliError> {
    let barrier = Barrier::new(CLIENTS + 1);
    let mut took = [Duration::ZERO; 2];
    let outcomes = thread::scope(|scope| {
        let workers: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| work(daemon, &barrier))).collect();
        barrier.wait();
        for _ in 0..ROUNDS {
            for took in &mut took {
                barrier.wait();
                let begun = Instant::now();
                barrier.wait();
                *took += begun.elapsed();
            }
        }
        workers.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let mut times = Samples::default();
    let (mut runs, mut recycled) = (0, 0);
    for outcome in outcomes {
        let panicked = |_| std::io::Error::other("the thread of a client panicked");
        let outcome =
            outcome.map_err(panicked).map_err(CliError::system("many clients cannot be measured"))?;
        let (client, own) = outcome?;
        own.into_iter().for_each(|time| times.push(time));
        runs += client.runs;
        recycled += client.recycled;
    }
    enough_recycled(recycled, runs)?;
    let ratio = took[0].as_secs_f64() / took[1].as_secs_f64();
    let seconds = took[1].as_secs_f64();
    let times = percentiles(&times);
    Ok(vec![
        Figure::at_least("/bin/true, 32 clients, runs per second against posix_spawn", ratio, 5.0, "times"),
        #[allow(clippy::cast_precision_loss, reason = "nobody makes 2^53 runs")]
        Figure::told(
            "/bin/true, 32 clients, runs per second",
            (CLIENTS * ROUNDS * BLOCK_RUNS) as f64 / seconds,
            "1/s",
        ),
        Figure::told("/bin/true, 32 clients, call to end seen, p99", times.p99, "us"),
    ])
}

/// A client's part: blocks by `posix_spawn` and by the daemon in turn. Whatever fails, it comes to every barrier.
fn work(daemon: &Daemon, barrier: &Barrier) -> Result<(Connected, Vec<u64>), CliError> {
    let mut client = Connected::new(daemon, Path::new("/bin/true")).and_then(|mut client| {
        (0..WARMUP).try_for_each(|_| client.by_daemon().map(drop))?;
        (client.runs, client.recycled) = (0, 0);
        Ok(client)
    });
    let mut times = Vec::new();
    barrier.wait();
    for _ in 0..ROUNDS {
        for by_daemon in [false, true] {
            barrier.wait();
            if let Ok(able) = &mut client {
                let block = (0..BLOCK_RUNS).try_for_each(|_| {
                    let time = if by_daemon { able.by_daemon()? } else { able.by_posix_spawn()? };
                    times.extend(by_daemon.then_some(time));
                    Ok(())
                });
                if let Err(error) = block {
                    client = Err(error);
                }
            }
            barrier.wait();
        }
    }
    client.map(|client| (client, times))
}

/// Commands that are started by `posix_spawn`, and by a shell's loop.
fn commands(daemon: &Daemon, runs: u32) -> Result<Vec<Figure>, CliError> {
    let own = own_path()?;
    let in_loop =
        |command: &str| format!("i=0; while [ $i -lt {LOOP} ]; do {command} || exit 1; i=$((i + 1)); done");
    let run_true = in_loop("\"$0\" run --no-tty -- /bin/true");
    let shell = |script: &str| daemon.command(Path::new("/bin/sh"), &["-c", script, &own.to_string_lossy()]);
    let ways = [
        daemon.command(&own, &["run", "--no-tty", "--", "/bin/true"])?,
        daemon.command(Path::new("/usr/bin/env"), &["/bin/true"])?,
        daemon.command(&own, &["run", "--no-tty", "--", "/usr/bin/perl", "-e", "1"])?,
        daemon.command(Path::new("/usr/bin/perl"), &["-e", "1"])?,
        shell(&run_true)?,
        shell(&in_loop("/usr/bin/env /bin/true"))?,
        shell(&in_loop("/bin/true"))?,
    ];
    for _ in 0..3 {
        for way in &ways {
            check(spawn(way)?)?;
            thread::sleep(Duration::from_millis(50));
        }
    }
    let mut times = [(); 7].map(|()| Samples::default());
    for _ in 0..runs {
        for (way, times) in ways.iter().zip(&mut times) {
            thread::sleep(Duration::from_micros(100));
            let called_ns = now_ns();
            check(spawn(way)?)?;
            times.push(now_ns() - called_ns);
        }
    }
    let [run_true, env_true, run_perl, perl, loops @ ..] = times.map(|times| percentiles(&times).p50);
    let [loop_run, loop_env, loop_true] = loops.map(|time| time / f64::from(LOOP));
    Ok(vec![
        Figure::at_least("regrow run -- /bin/true, against env /bin/true", env_true / run_true, 1.0, "times"),
        Figure::told("regrow run -- /bin/true, p50", run_true, "us"),
        Figure::told("env /bin/true, p50", env_true, "us"),
        Figure::at_least("regrow run -- perl -e 1, against perl -e 1", perl / run_perl, 1.0, "times"),
        Figure::told("regrow run -- perl -e 1, p50", run_perl, "us"),
        Figure::told("perl -e 1, p50", perl, "us"),
        Figure::at_least("in a shell loop: regrow run, against env", loop_env / loop_run, 1.0, "times"),
        Figure::told("in a shell loop: regrow run, against /bin/true itself", loop_true / loop_run, "times"),
        Figure::told("in a shell loop: regrow run -- /bin/true, each", loop_run, "us"),
        Figure::told("in a shell loop: /bin/true, each", loop_true, "us"),
    ])
}

fn percentiles(samples: &Samples) -> Percentiles {
    samples.percentiles().unwrap_or(Percentiles { p50: f64::NAN, p99: f64::NAN })
}

/// A benchmark of runs that were not recycled says nothing.
fn enough_recycled(recycled: u64, runs: u64) -> Result<(), CliError> {
    #[allow(clippy::cast_precision_loss, reason = "nobody makes 2^53 runs")]
    let share = recycled as f64 / runs.max(1) as f64;
    if share >= LEAST_RECYCLED {
        return Ok(());
    }
    let source = std::io::Error::other(format!("{recycled} of {runs} runs were recycled"));
    Err(CliError::System { what: "the daemon has declined too many runs", source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_recycled_runs_are_an_error() {
        assert!(enough_recycled(95, 100).is_ok());
        let error = enough_recycled(94, 100).expect_err("94 are too few");
        assert!(crate::error::chain(&error).contains("94 of 100"), "{error}");
    }
}
