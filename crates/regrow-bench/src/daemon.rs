//! `regrow bench --daemon`: what the daemon costs its clients.
//!
//! ```text
//!   connected   a client that stays connected: posix_spawn and a run in the body that the daemon has lent to it in turn, call to end
//!               seen; and the same with orders to the daemon
//!               32 of them at a time: runs per second by either method, blocks in turn
//!   commands    `regrow run -- PROG`, `env PROG` and PROG itself in turn, by posix_spawn and in a shell's loop
//!   launchers   a launcher and its program in turn, in a shell's loop
//!   own         the daemon of this benchmark, in a folder of its own
//! ```
//!
//! The benchmark checks every status, and fails when the daemon recycles fewer than 95 of 100 runs. A client starts a run
//! that the daemon declines by `posix_spawn`. It fails too when clients start fewer than 95 of 100 runs in bodies on lease.

mod builtins;
mod commands;
mod connected;
mod launchers;
mod own;
mod spawn;

use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use self::connected::DaemonClient;
use self::own::OwnDaemon;
use self::spawn::percentiles;
use crate::error::{BenchError, check_recycled};
use crate::figure::Figure;
use crate::samples::{Percentiles, Samples};

/// What is measured, for its errors.
const WHAT: &str = "the daemon's runs";
/// The same for those that the clients start by themselves.
const LEASED: &str = "runs in bodies on lease";
/// How many clients there are at a time.
const CLIENTS: usize = 32;
/// How many blocks there are of each method.
const ROUNDS: usize = 3;
/// How many runs each client makes in a block.
const BLOCK_RUNS: usize = 40;
/// How many loops of each launcher there are at most.
const LAUNCHER_RUNS: u32 = 40;
/// How many runs each client makes before them, so that there are an image and bodies enough.
const WARMUP: usize = 40;

/// Measures everything, with so many runs of each kind.
///
/// # Errors
/// [`BenchError`] when a run fails, or the daemon declines too many.
pub fn measure(runs: u32) -> Result<Vec<Figure>, BenchError> {
    let daemon = OwnDaemon::start()?;
    let mut figures = Vec::new();
    figures.extend(connected(&daemon, runs)?);
    figures.extend(many(&daemon)?);
    figures.extend(commands::measure(&daemon, runs)?);
    figures.extend(launchers::measure(&daemon, runs.min(LAUNCHER_RUNS))?);
    figures.extend(builtins::measure(&daemon, runs.min(LAUNCHER_RUNS))?);
    Ok(figures)
}

/// One client that stays connected.
fn connected(daemon: &OwnDaemon, runs: u32) -> Result<Vec<Figure>, BenchError> {
    let mut client = DaemonClient::new(daemon, Path::new("/bin/true"))?;
    let [ours, theirs] = in_turn(&mut client, runs)?;
    check_recycled(LEASED, client.leased(), client.runs)?;
    let mut client = DaemonClient::new(daemon, Path::new("/bin/true"))?;
    client.lease_nothing();
    let [ordered, _] = in_turn(&mut client, runs)?;
    Ok(vec![
        Figure::at_least(
            "/bin/true, connected client, against posix_spawn",
            theirs.p50 / ours.p50,
            10.0,
            "times",
        ),
        Figure::told("/bin/true, connected client, p50", ours.p50, "us"),
        Figure::told("/bin/true, connected client, p99", ours.p99, "us"),
        Figure::told("/bin/true, connected client that has every run by the daemon, p50", ordered.p50, "us"),
        Figure::told("/bin/true, posix_spawn, p50", theirs.p50, "us"),
    ])
}

/// Runs of a client, and of `posix_spawn`, in turn.
fn in_turn(client: &mut DaemonClient, runs: u32) -> Result<[Percentiles; 2], BenchError> {
    client.warm_up(WARMUP, Duration::from_millis(1))?;
    let (mut daemons, mut natives) = (Samples::default(), Samples::default());
    for _ in 0..runs {
        thread::sleep(Duration::from_micros(100));
        natives.push(client.by_posix_spawn()?);
        thread::sleep(Duration::from_micros(100));
        daemons.push(client.by_daemon()?);
    }
    check_recycled(WHAT, client.recycled, client.runs)?;
    Ok([percentiles(&daemons), percentiles(&natives)])
}

/// Many clients at a time.
fn many(daemon: &OwnDaemon) -> Result<Vec<Figure>, BenchError> {
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
    let (mut runs, mut recycled, mut leased) = (0, 0, 0);
    for outcome in outcomes {
        let panicked = |_| std::io::Error::other("the thread of a client panicked");
        let outcome =
            outcome.map_err(panicked).map_err(BenchError::system("many clients cannot be measured"))?;
        let (client, own) = outcome?;
        own.into_iter().for_each(|time| times.push(time));
        runs += client.runs;
        recycled += client.recycled;
        leased += client.leased();
    }
    check_recycled(WHAT, recycled, runs)?;
    check_recycled(LEASED, leased, runs)?;
    let ratio = took[0].as_secs_f64() / took[1].as_secs_f64();
    let seconds = took[1].as_secs_f64();
    let times = percentiles(&times);
    Ok(vec![
        Figure::at_least("/bin/true, 32 clients, runs per second against posix_spawn", ratio, 6.0, "times"),
        #[allow(clippy::cast_precision_loss, reason = "nobody makes 2^53 runs")]
        Figure::told(
            "/bin/true, 32 clients, runs per second",
            (CLIENTS * ROUNDS * BLOCK_RUNS) as f64 / seconds,
            "1/s",
        ),
        Figure::told("/bin/true, 32 clients, call to end seen, p99", times.p99, "us"),
    ])
}

/// What one client does: blocks by `posix_spawn` and by the daemon in turn. Whatever fails, it comes to every barrier.
fn work(daemon: &OwnDaemon, barrier: &Barrier) -> Result<(DaemonClient, Vec<u64>), BenchError> {
    let mut client = DaemonClient::new(daemon, Path::new("/bin/true")).and_then(|mut client| {
        client.warm_up(WARMUP, Duration::ZERO)?;
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
