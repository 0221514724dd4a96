//! `regrow bench`: chooses a benchmark, prints what it measured, and writes it as JSON.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use regrow_bench::error::{BenchError, check_recycled};
use regrow_bench::programs::list::{BenchProgram, ProgramList};
use regrow_bench::programs::measure::BenchOptions;
use regrow_bench::programs::report;
use regrow_bench::programs::result::ProgramResult;
use regrow_bench::programs::session::BenchSession;
use regrow_bench::{daemon, figure, ladder, memory, pool, resources, sites};

use crate::cli::measure::BenchArgs;
use crate::error::CliError;
use crate::message::complain;
use crate::output::{JsonFile, print};

/// The exit status when a run differed, too few of the built-in programs' runs were recycled, or a simulation is too far from what was measured.
const WRONG_RUNS: u8 = 1;

/// Carries out the command.
pub(crate) fn bench(args: &BenchArgs) -> Result<u8, CliError> {
    if args.ladder {
        ladder::ready();
    }
    // Before the benchmark: a file that cannot be written fails at once.
    let json = args.json.as_deref().map(JsonFile::create).transpose()?;
    if let Some(socket) = &args.memory_receiver {
        memory::domain::receive(socket)?;
        return Ok(0);
    }
    if args.resources {
        let costs = resources::measure()?;
        print(&resources::describe(&costs))?;
        write(json, &costs)?;
        return Ok(0);
    }
    let figures = match &args.pool {
        _ if args.daemon => daemon::measure(args.runs)?,
        _ if args.ladder => ladder::measure()?,
        _ if args.memory => memory::measure()?,
        _ if args.sites => sites::measure()?,
        Some(folder) => pool::measure(folder, |what| eprintln!("{what}"))?,
        None => return bench_programs(args, json),
    };
    let shown = if args.memory { memory::shown(&figures) } else { figures.clone() };
    print(&figure::describe(&shown))?;
    write(json, &figures)?;
    // After the figures are written, which are worth to be looked at.
    if args.memory
        && let Err(error) = memory::check(&figures)
    {
        complain(&error.to_string());
        return Ok(WRONG_RUNS);
    }
    Ok(0)
}

/// Measures programs, by `posix_spawn` and by Regrow in turn.
fn bench_programs(args: &BenchArgs, json: Option<JsonFile>) -> Result<u8, CliError> {
    let programs = match &args.program {
        Some(program) => ProgramList::of(program, &args.args)?,
        None => ProgramList::common(args.static_program.as_deref())?,
    };
    let mut session = BenchSession::new(BenchOptions {
        runs: args.runs,
        warmup: args.warmup,
        pause: Duration::from_micros(args.pause_us.into()),
        parallel: args.parallel,
        single_use: args.single_use,
        prototype: args.prototype,
    })?;
    print(&format!("{}\n", session.head()?))?;
    let mut results = Vec::new();
    let mut status = 0;
    for (number, program) in programs.list.iter().enumerate() {
        progress(number, programs.list.len(), program);
        match session.measure(program) {
            Ok(result) => results.push(result),
            Err(BenchError::Differs(mismatch)) => {
                status = WRONG_RUNS;
                complain(&mismatch.to_string());
            }
            Err(error) => return Err(error.into()),
        }
    }
    if !results.is_empty() {
        print(&report::tables(&results))?;
    }
    for program in &programs.left_out {
        complain(&format!("left out: {program}"));
    }
    if programs.is_built_in && !are_recycled(&results) {
        status = WRONG_RUNS;
    }
    write(json, &results)?;
    Ok(status)
}

/// Whether Regrow recycled nearly all runs of each program. Tells of each where it did not.
fn are_recycled(results: &[ProgramResult]) -> bool {
    let mut all = true;
    for result in results {
        let checked = check_recycled(&result.program, result.recycled, result.runs.into());
        if let Err(error) = checked {
            complain(&error.to_string());
            all = false;
        }
    }
    all
}

fn write(json: Option<JsonFile>, value: &impl serde::Serialize) -> Result<(), CliError> {
    json.map_or(Ok(()), |json| json.write(value))
}

/// Tells somebody who watches what comes next.
fn progress(number: usize, count: usize, program: &BenchProgram) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        // Where standard error is gone, nobody reads it.
        let _ = writeln!(stderr, "[{}/{count}] {}", number + 1, program.name);
    }
}
