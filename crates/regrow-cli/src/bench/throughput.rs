//! Throughput: clients that start one run after the other without a pause, by either way in turn.
//!
//! ```text
//!   client 1 ─┐     posix_spawn ─┐   Regrow ─┐   posix_spawn ─┐
//!   client 2 ─┴ready             ┴           ┴                ┴ …      blocks of runs, all clients begin together
//! ```
//!
//! A client is a thread with a pool of its own: nothing is shared between clients. What a block wrote is compared at
//! its end, inside the time that is measured, as the statuses are.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::client::{Client, MeasureError, Side, Tally};
use super::programs::Program;
use super::samples::rounded;
use crate::error::CliError;

/// How many blocks there are for each way.
const ROUNDS: u32 = 4;
/// How many runs each client makes by each way before the first block.
const WARMUP_RUNS: usize = 5;

/// How many runs a second so many clients get.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Throughput {
    /// Clients at a time.
    pub(super) clients: u16,
    /// Runs a second by `posix_spawn`, of all clients together.
    pub(super) posix_spawn_per_s: f64,
    /// Runs a second by Regrow.
    pub(super) regrow_per_s: f64,
    /// The second over the first.
    pub(super) ratio: f64,
    /// How many runs Regrow made.
    pub(super) runs: u64,
    /// How many of them were recycled.
    pub(super) recycled: u64,
    /// Why the others were not.
    pub(super) fallbacks: BTreeMap<&'static str, u64>,
}

/// How many runs a client makes in one block, by `posix_spawn` and by Regrow.
pub(super) type BlockRuns = [usize; 2];

/// Measures.
pub(super) fn measure(
    program: &Program,
    clients: u16,
    block_runs: BlockRuns,
) -> Result<Throughput, MeasureError> {
    let barrier = Barrier::new(usize::from(clients) + 1);
    let (took, tallies) = thread::scope(|scope| {
        let workers: Vec<_> =
            (0..clients).map(|_| scope.spawn(|| work(program, block_runs, &barrier))).collect();
        let took = time_blocks(&barrier);
        let tallies: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        (took, tallies)
    });
    let mut regrow = Tally::default();
    for tally in tallies {
        let panicked = |_| {
            let source = std::io::Error::other("the thread of a client panicked");
            CliError::System { what: "the throughput cannot be measured", source }
        };
        regrow.add(&tally.map_err(panicked)??);
    }
    let per_s = |side: Side| {
        let runs = f64::from(clients) * f64::from(ROUNDS) * as_f64(block_runs[side as usize]);
        runs / took[side as usize].as_secs_f64().max(f64::MIN_POSITIVE)
    };
    let (posix_spawn_per_s, regrow_per_s) = (per_s(Side::PosixSpawn), per_s(Side::Regrow));
    Ok(Throughput {
        clients,
        posix_spawn_per_s: rounded(posix_spawn_per_s),
        regrow_per_s: rounded(regrow_per_s),
        ratio: rounded(regrow_per_s / posix_spawn_per_s),
        runs: regrow.runs,
        recycled: regrow.recycled,
        fallbacks: regrow.fallbacks,
    })
}

/// Lets the clients begin each block together, and adds up how long the blocks of each way take.
fn time_blocks(barrier: &Barrier) -> [Duration; 2] {
    let mut took = [Duration::ZERO; 2];
    barrier.wait();
    for _ in 0..ROUNDS {
        for side in Side::BOTH {
            barrier.wait();
            let begun = Instant::now();
            barrier.wait();
            took[side as usize] += begun.elapsed();
        }
    }
    took
}

/// A client's part. Whatever fails, it comes to every barrier, so that nobody waits for it in vain.
fn work(program: &Program, block_runs: BlockRuns, barrier: &Barrier) -> Result<Tally, MeasureError> {
    let mut client = Client::new(program, false).and_then(|mut client| {
        for side in Side::BOTH {
            client.run_block(side, WARMUP_RUNS)?;
        }
        Ok(client)
    });
    let mut tally = Tally::default();
    barrier.wait();
    for _ in 0..ROUNDS {
        for side in Side::BOTH {
            barrier.wait();
            if let Ok(able) = &mut client {
                match able.run_block(side, block_runs[side as usize]) {
                    Ok(block) => tally.add(&block),
                    Err(error) => client = Err(error),
                }
            }
            barrier.wait();
        }
    }
    client.map(|_| tally)
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
        let program = Program { name: "true".to_owned(), path: "/bin/true".into(), args: Vec::new() };
        let throughput = measure(&program, 2, [3, 5]).unwrap();
        assert_eq!(throughput.clients, 2);
        assert_eq!(throughput.runs, 2 * u64::from(ROUNDS) * 5);
        let execs: u64 = throughput.fallbacks.values().sum();
        assert_eq!(throughput.recycled + execs, throughput.runs);
        assert!(throughput.posix_spawn_per_s > 0.0 && throughput.regrow_per_s > 0.0);
    }

    #[test]
    fn a_client_that_fails_does_not_hold_up_the_others() {
        let args = vec!["-c".into(), "echo $$".into()];
        let program = Program { name: "sh".to_owned(), path: "/bin/sh".into(), args };
        let error = measure(&program, 2, [3, 3]).unwrap_err();
        assert!(matches!(error, MeasureError::Differs(_)), "{error}");
    }
}
