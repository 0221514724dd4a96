//! Everything that is measured of one program.
//!
//! ```text
//!   first run   by posix_spawn: what all others are compared with
//!   warm-up     both ways in turn, checked, not timed
//!   times       [pause, posix_spawn, pause, Regrow, pause, floor, pause, wake] × runs
//!   memory      of the bodies, at rest
//!   CPU         blocks of runs back to back, both ways in turn
//!   throughput  blocks of runs back to back, one client, then several
//! ```

use std::thread;
use std::time::Duration;

use super::client::{Client, MeasureError, Side, Tally};
use super::floors::Floors;
use super::processes::{CpuTime, body_kib};
use super::programs::Program;
use super::report::{CpuUs, Outcome};
use super::samples::{Percentiles, Samples, rounded};
use super::throughput::{self, BlockRuns, Throughput};
use super::timing;
use crate::cli::BenchArgs;
use crate::error::CliError;

/// How many blocks the CPU time is measured over, for each way.
const CPU_ROUNDS: u32 = 4;
/// How long a block of runs back to back is to take.
const BLOCK_US: f64 = 80_000.0;
/// The fewest runs of a block, unless fewer are asked for.
const BLOCK_RUNS_MIN: f64 = 4.0;
/// The most.
const BLOCK_RUNS_MAX: f64 = 4000.0;
/// How much the runs of a block may write in all.
const BLOCK_OUTPUT_BYTES: usize = 16 << 20;
/// After this long nothing is left to do for a run that has ended.
const REST: Duration = Duration::from_millis(5);

/// The times of a program's runs, and of the floors between them.
#[derive(Debug, Default)]
struct Times {
    posix_spawn: Samples,
    regrow: Samples,
    to_main: Samples,
    reset: Samples,
    floor: Samples,
    wake: Samples,
    tally: Tally,
}

/// Measures a program.
pub(super) fn measure(
    program: &Program,
    args: &BenchArgs,
    floors: &mut Floors,
) -> Result<Outcome, MeasureError> {
    let mut client = Client::new(program, true)?;
    let times = take_times(&mut client, args, floors)?;
    thread::sleep(REST);
    let body_kib = body_kib().map_err(CliError::system("the processes cannot be looked at"))?;
    let block_runs = block_runs(&times, args.runs, client.output_bytes());
    let cpu_us = cpu_us(&mut client, block_runs)?;
    drop(client);
    let mut throughput: Vec<Throughput> = vec![throughput::measure(program, 1, block_runs)?];
    if args.parallel > 1 {
        throughput.push(throughput::measure(program, args.parallel, block_runs)?);
    }
    let percentiles = Samples::percentiles;
    let (posix_spawn_us, regrow_us) = (percentiles(&times.posix_spawn), percentiles(&times.regrow));
    Ok(Outcome {
        program: program.name.clone(),
        runs: args.runs,
        floor_us: percentiles(&times.floor),
        wake_us: percentiles(&times.wake),
        posix_spawn_us,
        regrow_us,
        to_main_us: percentiles(&times.to_main),
        reset_us: percentiles(&times.reset),
        cpu_us,
        body_kib: body_kib.map(rounded),
        point: most_frequent(&times.tally),
        recycled: times.tally.recycled,
        fallbacks: times.tally.fallbacks,
        ratio_p50: posix_spawn_us
            .zip(regrow_us)
            .map(|(posix_spawn, regrow)| rounded(posix_spawn.p50 / regrow.p50)),
        throughput,
    })
}

/// Runs the program by both ways in turn.
fn take_times(client: &mut Client, args: &BenchArgs, floors: &mut Floors) -> Result<Times, MeasureError> {
    let pause = Duration::from_micros(args.pause_us.into());
    let mut times = Times::default();
    for _ in 0..args.warmup {
        // Their times are not kept.
        one_of_each(client, pause, &mut Times::default())?;
    }
    for _ in 0..args.runs {
        one_of_each(client, pause, &mut times)?;
        let mut floor = || {
            thread::sleep(pause);
            times.floor.push(floors.clone_once()?);
            thread::sleep(pause);
            times.wake.push(floors.wake_once()?);
            Ok(())
        };
        floor().map_err(CliError::system("the floors of the machine cannot be measured"))?;
    }
    Ok(times)
}

fn one_of_each(client: &mut Client, pause: Duration, times: &mut Times) -> Result<(), MeasureError> {
    thread::sleep(pause);
    let ran = client.run(Side::PosixSpawn)?;
    times.posix_spawn.push(ran.ended_ns - ran.called_ns);
    client.check_output(Side::PosixSpawn, 1, None)?;

    thread::sleep(pause);
    let ran = client.run(Side::Regrow)?;
    times.regrow.push(ran.ended_ns - ran.called_ns);
    client.check_output(Side::Regrow, 1, ran.creation.as_ref())?;
    if let Some(creation) = &ran.creation {
        times.tally.count(creation);
        if creation.is_recycled()
            && let Some(inside) = timing::last_run(client.pool())
        {
            times.to_main.push(inside.main_ns.saturating_sub(ran.called_ns));
            times.reset.push(inside.reset_ns);
        }
    }
    Ok(())
}

/// The CPU time of one run by each way, everything included: the caller, the run, and what Regrow does afterwards.
fn cpu_us(client: &mut Client, block_runs: BlockRuns) -> Result<CpuUs, MeasureError> {
    let look = || {
        thread::sleep(REST);
        CpuTime::now().map_err(CliError::system("the CPU time of the runs cannot be read"))
    };
    let mut used = [Duration::ZERO; 2];
    for _ in 0..CPU_ROUNDS {
        for side in Side::BOTH {
            let before = look()?;
            client.run_block(side, block_runs[side as usize])?;
            let after = look()?;
            used[side as usize] += after.sum().saturating_sub(before.sum());
            tracing::debug!(%side, runs = block_runs[side as usize], ?before, ?after, "CPU time of a block");
        }
    }
    let per_run = |side: Side| {
        let runs = u32::try_from(block_runs[side as usize]).unwrap_or(u32::MAX).saturating_mul(CPU_ROUNDS);
        rounded(used[side as usize].as_secs_f64() * 1e6 / f64::from(runs.max(1)))
    };
    Ok(CpuUs { posix_spawn: per_run(Side::PosixSpawn), regrow: per_run(Side::Regrow) })
}

/// How many runs make a block of the right length.
fn block_runs(times: &Times, runs_max: u32, output_bytes: usize) -> BlockRuns {
    let by_output = BLOCK_OUTPUT_BYTES / output_bytes.max(1);
    let count = |samples: &Samples| {
        let run_us = samples.percentiles().map_or(BLOCK_US, |Percentiles { p50, .. }| p50.max(1.0));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the value is clamped")]
        let by_time = (BLOCK_US / run_us).clamp(BLOCK_RUNS_MIN, BLOCK_RUNS_MAX) as usize;
        by_time.min(usize::try_from(runs_max).unwrap_or(usize::MAX)).min(by_output).max(1)
    };
    [count(&times.posix_spawn), count(&times.regrow)]
}

/// The snapshot point that most of the recycled runs started at.
fn most_frequent(tally: &Tally) -> Option<&'static str> {
    tally.points.iter().max_by_key(|(_, count)| **count).map(|(point, _)| *point)
}

#[cfg(test)]
mod tests {
    use super::*;
    use regrow::{Creation, Point};

    #[test]
    fn blocks_are_long_enough_and_not_too_long() {
        let mut times = Times::default();
        times.posix_spawn.push(400_000);
        times.regrow.push(20_000);
        assert_eq!(block_runs(&times, 10_000, 0), [200, 4000]);
        assert_eq!(block_runs(&times, 5, 0), [5, 5]);
        assert_eq!(block_runs(&times, 10_000, 1 << 20), [16, 16]);
        assert_eq!(block_runs(&times, 10_000, 1 << 30), [1, 1]);
        times.posix_spawn = Samples::default();
        times.posix_spawn.push(10_000_000_000);
        assert_eq!(block_runs(&times, 10_000, 0)[0], 4);
    }

    #[test]
    fn the_point_is_that_of_most_runs() {
        let mut tally = Tally::default();
        assert_eq!(most_frequent(&tally), None);
        tally.count(&Creation::Recycled { point: Point::Entry });
        tally.count(&Creation::Recycled { point: Point::Main });
        tally.count(&Creation::Recycled { point: Point::Main });
        assert_eq!(most_frequent(&tally), Some("main"));
    }
}
