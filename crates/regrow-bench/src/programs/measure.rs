//! Measures one program.
//!
//! ```text
//!   first run   by posix_spawn: all others are compared with it
//!   warm-up     all methods in turn, checked, not timed
//!   times       [pause, posix_spawn, pause, Regrow, (pause, single use,) (pause, prototype,)
//!                pause, floor, pause, wake] × runs; in every other one the prototype comes before Regrow
//!   memory      of the bodies, when nothing runs
//!   CPU         blocks of runs back to back, all methods in turn
//!   throughput  blocks of runs back to back, one client, then several
//! ```

use std::thread;
use std::time::Duration;

use super::list::BenchProgram;
use super::method::{METHODS, SpawnMethod};
use super::prototype::PrototypeAgent;
use super::result::{CpuUs, ProgramResult, PrototypeResult, SingleUseResult};
use super::runner::{CreationCounts, ProgramRunner};
use super::throughput::{self, BlockRuns, Throughput};
use super::timing;
use crate::error::BenchError;
use crate::samples::{Percentiles, Samples, rounded, rounded_finely};
use crate::system::floors::Floors;
use crate::system::processes::{CpuTime, body_kib};

/// How a program is measured.
#[derive(Debug, Clone, Copy)]
pub struct BenchOptions {
    /// How many timed runs there are by each method.
    pub runs: u32,
    /// How many runs come before them, checked and not timed.
    pub warmup: u32,
    /// How long the benchmark pauses before each timed run.
    pub pause: Duration,
    /// How many clients there are at a time in the second measure of throughput; one: there is no second.
    pub parallel: u16,
    /// Whether runs whose body serves one run are measured, too.
    pub single_use: bool,
    /// Whether the prototype runs the programs, too.
    pub prototype: bool,
}

/// How many blocks of each method the CPU time is measured over.
const CPU_ROUNDS: u32 = 4;
/// How long a block of runs back to back should take.
const BLOCK_US: f64 = 80_000.0;
/// The fewest runs of a block, unless the user asks for fewer.
const BLOCK_RUNS_MIN: f64 = 4.0;
/// The most runs of a block.
const BLOCK_RUNS_MAX: f64 = 4000.0;
/// How much the runs of one block may write together.
const BLOCK_OUTPUT_BYTES: usize = 16 << 20;
/// After this long, nothing is left to do for a run that has ended.
const REST: Duration = Duration::from_millis(5);

/// The times of a program's runs, and of the floors that are measured between them.
#[derive(Debug, Default)]
struct ProgramSamples {
    posix_spawn: Samples,
    regrow: Samples,
    to_main: Samples,
    reset: Samples,
    floor: Samples,
    wake: Samples,
    counts: CreationCounts,
    single_use: Samples,
    single_use_counts: CreationCounts,
    prototype: Samples,
    prototype_to_main: Samples,
}

/// Measures a program. The prototype takes part where there is an `agent`, and it can keep the program.
pub(super) fn measure(
    program: &BenchProgram,
    options: &BenchOptions,
    agent: Option<&PrototypeAgent>,
    floors: &mut Floors,
) -> Result<ProgramResult, BenchError> {
    let mut runner = ProgramRunner::new(program, true, options.single_use)?;
    let without_prototype = agent.and_then(|agent| runner.add_prototype(agent, program).err());
    let keeper = runner.prototype_keeper();
    let methods = SpawnMethod::compared(options.single_use, keeper.is_some());
    let times = take_times(&mut runner, options, &methods, floors)?;
    thread::sleep(REST);
    let body_kib = body_kib(keeper).map_err(BenchError::system("the processes cannot be looked at"))?;
    let block_runs = block_runs(&times, options.runs, runner.output_bytes());
    let cpu_us = cpu_us(&mut runner, &methods, block_runs)?;
    drop(runner);
    let mut throughput: Vec<Throughput> =
        vec![throughput::measure(program, 1, block_runs, options.single_use)?];
    if options.parallel > 1 {
        throughput.push(throughput::measure(program, options.parallel, block_runs, options.single_use)?);
    }
    let result = result(program, options, times, cpu_us);
    Ok(ProgramResult {
        body_kib: body_kib.map(rounded),
        without_prototype: without_prototype.map(|why| why.to_string()),
        throughput,
        ..result
    })
}

/// What the times and the CPU time say. What else was measured is left empty.
fn result(
    program: &BenchProgram,
    options: &BenchOptions,
    times: ProgramSamples,
    cpu_us: CpuUs,
) -> ProgramResult {
    let percentiles = Samples::percentiles;
    let (posix_spawn_us, regrow_us) = (percentiles(&times.posix_spawn), percentiles(&times.regrow));
    let (to_main_us, wake_us) = (percentiles(&times.to_main), percentiles(&times.wake));
    let prototype_us = percentiles(&times.prototype);
    ProgramResult {
        program: program.name.clone(),
        runs: options.runs,
        floor_us: percentiles(&times.floor),
        wake_us,
        posix_spawn_us,
        regrow_us,
        to_main_us,
        reset_us: percentiles(&times.reset),
        cpu_us,
        body_kib: None,
        point: most_frequent(&times.counts),
        recycled: times.counts.recycled,
        fallbacks: times.counts.fallbacks,
        ratio_p50: of_medians(posix_spawn_us, regrow_us),
        to_main_of_wake_p50: of_medians(to_main_us, wake_us),
        cpu_of_posix_spawn: (cpu_us.posix_spawn > 0.0)
            .then(|| rounded_finely(cpu_us.regrow / cpu_us.posix_spawn)),
        single_use: options.single_use.then(|| SingleUseResult {
            us: percentiles(&times.single_use),
            recycled: times.single_use_counts.recycled,
            fallbacks: times.single_use_counts.fallbacks,
        }),
        prototype: (times.prototype.count() > 0).then(|| PrototypeResult {
            runs: times.prototype.count(),
            us: prototype_us,
            to_main_us: percentiles(&times.prototype_to_main),
            regrow_of_prototype_p50: of_medians(regrow_us, prototype_us),
        }),
        without_prototype: None,
        throughput: Vec::new(),
    }
}

/// How many times the second median the first one is.
fn of_medians(one: Option<Percentiles>, other: Option<Percentiles>) -> Option<f64> {
    one.zip(other).map(|(one, other)| rounded(one.p50 / other.p50))
}

/// Runs the program by all methods in turn.
fn take_times(
    runner: &mut ProgramRunner,
    options: &BenchOptions,
    methods: &[SpawnMethod],
    floors: &mut Floors,
) -> Result<ProgramSamples, BenchError> {
    let pause = options.pause;
    let mut times = ProgramSamples::default();
    for _ in 0..options.warmup {
        // These times are dropped.
        one_of_each(runner, options, methods, &mut ProgramSamples::default())?;
    }
    for _ in 0..options.runs {
        one_of_each(runner, options, methods, &mut times)?;
        let mut floor = || {
            thread::sleep(pause);
            times.floor.push(floors.clone_once()?);
            thread::sleep(pause);
            times.wake.push(floors.wake_once()?);
            Ok(())
        };
        floor().map_err(BenchError::system("the floors of the machine cannot be measured"))?;
    }
    Ok(times)
}

fn one_of_each(
    runner: &mut ProgramRunner,
    options: &BenchOptions,
    methods: &[SpawnMethod],
    times: &mut ProgramSamples,
) -> Result<(), BenchError> {
    thread::sleep(options.pause);
    let ran = runner.run(SpawnMethod::PosixSpawn)?;
    times.posix_spawn.push(ran.ended_ns - ran.called_ns);
    runner.check_output(SpawnMethod::PosixSpawn, 1, None)?;

    // What runs right after `posix_spawn` finds colder caches. So the prototype and Regrow take turns in it.
    let has_prototype = methods.contains(&SpawnMethod::Prototype);
    let prototype_first = times.regrow.count() % 2 == 1;
    if has_prototype && prototype_first {
        one_by_prototype(runner, options, times)?;
    }
    one_by_regrow(runner, options, times)?;
    if methods.contains(&SpawnMethod::SingleUse) {
        one_single_use(runner, options, times)?;
    }
    if has_prototype && !prototype_first {
        one_by_prototype(runner, options, times)?;
    }
    Ok(())
}

/// A run out of the pool that uses bodies again.
fn one_by_regrow(
    runner: &mut ProgramRunner,
    options: &BenchOptions,
    times: &mut ProgramSamples,
) -> Result<(), BenchError> {
    thread::sleep(options.pause);
    let ran = runner.run(SpawnMethod::Regrow)?;
    times.regrow.push(ran.ended_ns - ran.called_ns);
    runner.check_output(SpawnMethod::Regrow, 1, ran.creation.as_ref())?;
    if let Some(creation) = &ran.creation {
        times.counts.count(creation);
        if creation.is_recycled()
            && let Some(inside) = timing::last_run(runner.pool())
        {
            times.to_main.push(inside.main_ns.saturating_sub(ran.called_ns));
            times.reset.push(inside.reset_ns);
        }
    }
    Ok(())
}

/// A run in the task that the prototype has armed.
fn one_by_prototype(
    runner: &mut ProgramRunner,
    options: &BenchOptions,
    times: &mut ProgramSamples,
) -> Result<(), BenchError> {
    runner.await_prototype()?;
    thread::sleep(options.pause);
    let ran = runner.run(SpawnMethod::Prototype)?;
    times.prototype.push(ran.ended_ns - ran.called_ns);
    if let Some(main_ns) = ran.main_ns {
        times.prototype_to_main.push(main_ns - ran.called_ns);
    }
    runner.check_output(SpawnMethod::Prototype, 1, None)?;
    // The memory is put back in no other's time.
    runner.await_prototype()
}

/// A run whose body is ready, and serves no other.
fn one_single_use(
    runner: &mut ProgramRunner,
    options: &BenchOptions,
    times: &mut ProgramSamples,
) -> Result<(), BenchError> {
    runner.await_unused();
    thread::sleep(options.pause);
    let ran = runner.run(SpawnMethod::SingleUse)?;
    times.single_use.push(ran.ended_ns - ran.called_ns);
    runner.check_output(SpawnMethod::SingleUse, 1, ran.creation.as_ref())?;
    if let Some(creation) = &ran.creation {
        times.single_use_counts.count(creation);
    }
    // The next body is made, and the last one taken down, in no other's time.
    runner.await_unused();
    Ok(())
}

/// The CPU time of one run by each method: of the caller, of the run, and of what Regrow does after it.
fn cpu_us(
    runner: &mut ProgramRunner,
    methods: &[SpawnMethod],
    block_runs: BlockRuns,
) -> Result<CpuUs, BenchError> {
    let look = || {
        thread::sleep(REST);
        CpuTime::now().map_err(BenchError::system("the CPU time of the runs cannot be read"))
    };
    let mut used = [Duration::ZERO; METHODS];
    for _ in 0..CPU_ROUNDS {
        for &method in methods {
            let before = look()?;
            runner.run_block(method, block_runs[method as usize])?;
            let after = look()?;
            used[method as usize] += after.sum().saturating_sub(before.sum());
            tracing::debug!(%method, runs = block_runs[method as usize], ?before, ?after, "CPU time of a block");
        }
    }
    let per_run = |method: SpawnMethod| {
        let runs = u32::try_from(block_runs[method as usize]).unwrap_or(u32::MAX).saturating_mul(CPU_ROUNDS);
        rounded(used[method as usize].as_secs_f64() * 1e6 / f64::from(runs.max(1)))
    };
    let if_compared = |method| methods.contains(&method).then(|| per_run(method));
    Ok(CpuUs {
        posix_spawn: per_run(SpawnMethod::PosixSpawn),
        regrow: per_run(SpawnMethod::Regrow),
        single_use: if_compared(SpawnMethod::SingleUse),
        prototype: if_compared(SpawnMethod::Prototype),
    })
}

/// How many runs make a block of the right length.
fn block_runs(times: &ProgramSamples, runs_max: u32, output_bytes: usize) -> BlockRuns {
    let by_output = BLOCK_OUTPUT_BYTES / output_bytes.max(1);
    let count = |samples: &Samples| {
        let run_us = samples.percentiles().map_or(BLOCK_US, |Percentiles { p50, .. }| p50.max(1.0));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the value is clamped")]
        let by_time = (BLOCK_US / run_us).clamp(BLOCK_RUNS_MIN, BLOCK_RUNS_MAX) as usize;
        by_time.min(usize::try_from(runs_max).unwrap_or(usize::MAX)).min(by_output).max(1)
    };
    let regrow = count(&times.regrow);
    [count(&times.posix_spawn), regrow, regrow, count(&times.prototype)]
}

/// The snapshot point at which most of the recycled runs started.
fn most_frequent(counts: &CreationCounts) -> Option<&'static str> {
    counts.points.iter().max_by_key(|(_, count)| **count).map(|(point, _)| *point)
}

#[cfg(test)]
mod tests {
    use super::*;
    use regrow::{Creation, Point};

    #[test]
    fn blocks_are_long_enough_and_not_too_long() {
        let mut times = ProgramSamples::default();
        times.posix_spawn.push(400_000);
        times.regrow.push(20_000);
        times.prototype.push(10_000);
        assert_eq!(block_runs(&times, 10_000, 0), [200, 4000, 4000, 4000]);
        assert_eq!(block_runs(&times, 5, 0), [5, 5, 5, 5]);
        assert_eq!(block_runs(&times, 10_000, 1 << 20), [16, 16, 16, 16]);
        assert_eq!(block_runs(&times, 10_000, 1 << 30), [1, 1, 1, 1]);
        times.posix_spawn = Samples::default();
        times.posix_spawn.push(10_000_000_000);
        assert_eq!(block_runs(&times, 10_000, 0)[0], 4);
    }

    #[test]
    fn the_point_is_that_of_most_runs() {
        let mut counts = CreationCounts::default();
        assert_eq!(most_frequent(&counts), None);
        counts.count(&Creation::Recycled { point: Point::Entry });
        counts.count(&Creation::Recycled { point: Point::Main });
        counts.count(&Creation::Recycled { point: Point::Main });
        assert_eq!(most_frequent(&counts), Some("main"));
    }
}
