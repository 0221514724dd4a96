//! Measures throughput: clients start one run after the other without a pause, by all methods in turn.
//!
//! ```text
//!   client 1 ─┐     posix_spawn ─┐   Regrow ─┐   posix_spawn ─┐
//!   client 2 ─┴ready             ┴           ┴                ┴ …      blocks of runs, all clients begin together
//! ```
//!
//! A client is a thread with a pool of its own: clients share nothing. At the end of a block its output is compared, inside
//! the time that is measured, as the statuses are.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::list::BenchProgram;
use super::method::{METHODS, SpawnMethod};
use super::runner::{CreationCounts, ProgramRunner};
use crate::error::BenchError;
use crate::samples::rounded;

/// How many blocks there are of each method.
const ROUNDS: u32 = 4;
/// How many runs each client makes by each method before the first block.
const WARMUP_RUNS: usize = 5;

/// How many runs a second a number of clients gets.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Throughput {
    /// Clients at a time.
    pub clients: u16,
    /// Runs a second by `posix_spawn`, of all clients together.
    pub posix_spawn_per_s: f64,
    /// Runs a second by Regrow.
    pub regrow_per_s: f64,
    /// The second over the first.
    pub ratio: f64,
    /// Runs a second by Regrow where a body serves one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single_use_per_s: Option<f64>,
    /// How many runs Regrow made.
    pub runs: u64,
    /// How many of them were recycled.
    pub recycled: u64,
    /// Why the others were not.
    pub fallbacks: BTreeMap<&'static str, u64>,
}

/// How many runs a client makes in one block, in the order of [`SpawnMethod::ALL`].
pub(super) type BlockRuns = [usize; METHODS];

/// Measures a program with so many clients.
pub(super) fn measure(
    program: &BenchProgram,
    clients: u16,
    block_runs: BlockRuns,
    single_use: bool,
) -> Result<Throughput, BenchError> {
    let methods = &*SpawnMethod::compared(single_use, false);
    let barrier = Barrier::new(usize::from(clients) + 1);
    let (took, all_counts) = thread::scope(|scope| {
        let workers: Vec<_> =
            (0..clients).map(|_| scope.spawn(|| work(program, methods, block_runs, &barrier))).collect();
        let took = time_blocks(methods, &barrier);
        let all_counts: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        (took, all_counts)
    });
    let mut regrow = CreationCounts::default();
    for counts in all_counts {
        let panicked = |_| {
            let source = std::io::Error::other("the thread of a runner panicked");
            BenchError::System { what: "the throughput cannot be measured", source }
        };
        regrow.add(&counts.map_err(panicked)??);
    }
    let per_s = |method: SpawnMethod| {
        let runs = f64::from(clients) * f64::from(ROUNDS) * as_f64(block_runs[method as usize]);
        runs / took[method as usize].as_secs_f64().max(f64::MIN_POSITIVE)
    };
    let (posix_spawn_per_s, regrow_per_s) = (per_s(SpawnMethod::PosixSpawn), per_s(SpawnMethod::Regrow));
    Ok(Throughput {
        clients,
        posix_spawn_per_s: rounded(posix_spawn_per_s),
        regrow_per_s: rounded(regrow_per_s),
        ratio: rounded(regrow_per_s / posix_spawn_per_s),
        single_use_per_s: single_use.then(|| rounded(per_s(SpawnMethod::SingleUse))),
        runs: regrow.runs,
        recycled: regrow.recycled,
        fallbacks: regrow.fallbacks,
    })
}

/// Lets the clients begin each block together, and adds up how long the blocks of each method take.
fn time_blocks(methods: &[SpawnMethod], barrier: &Barrier) -> [Duration; METHODS] {
    let mut took = [Duration::ZERO; METHODS];
    barrier.wait();
    for _ in 0..ROUNDS {
        for &method in methods {
            barrier.wait();
            let begun = Instant::now();
            barrier.wait();
            took[method as usize] += begun.elapsed();
        }
    }
    took
}

/// What one client does. Whatever fails, it comes to every barrier, so that the others do not wait in vain.
fn work(
    program: &BenchProgram,
    methods: &[SpawnMethod],
    block_runs: BlockRuns,
    barrier: &Barrier,
) -> Result<CreationCounts, BenchError> {
    let mut client = ProgramRunner::new(program, false, methods.contains(&SpawnMethod::SingleUse)).and_then(
        |mut runner| {
            for &method in methods {
                runner.run_block(method, WARMUP_RUNS)?;
            }
            Ok(runner)
        },
    );
    let mut counts = CreationCounts::default();
    barrier.wait();
    for _ in 0..ROUNDS {
        for &method in methods {
            barrier.wait();
            if let Ok(able) = &mut client {
                match able.run_block(method, block_runs[method as usize]) {
                    Ok(block) if method != SpawnMethod::SingleUse => counts.add(&block),
                    Ok(_) => {}
                    Err(error) => client = Err(error),
                }
            }
            barrier.wait();
        }
    }
    client.map(|_| counts)
}

#[allow(clippy::cast_precision_loss, reason = "nobody makes 2^53 runs")]
fn as_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_of_every_client_is_counted() {
        let program = BenchProgram {
            name: "true".to_owned(),
            path: "/bin/true".into(),
            args: Vec::new(),
            preload: Vec::new(),
        };
        let throughput = measure(&program, 2, [3, 5, 4, 1], true).unwrap();
        assert_eq!(throughput.clients, 2);
        assert_eq!(throughput.runs, 2 * u64::from(ROUNDS) * 5);
        let execs: u64 = throughput.fallbacks.values().sum();
        assert_eq!(throughput.recycled + execs, throughput.runs);
        assert!(throughput.posix_spawn_per_s > 0.0 && throughput.regrow_per_s > 0.0);
        assert!(throughput.single_use_per_s > Some(0.0));
    }

    #[test]
    fn a_client_that_fails_does_not_hold_up_the_others() {
        let args = vec!["-c".into(), "echo $$".into()];
        let program =
            BenchProgram { name: "sh".to_owned(), path: "/bin/sh".into(), args, preload: Vec::new() };
        let error = measure(&program, 2, [3, 3, 3, 3], true).unwrap_err();
        assert!(matches!(error, BenchError::Differs(_)), "{error}");
    }
}
