//! `regrow bench`: programs started by `posix_spawn` and by Regrow in turn.
//!
//! ```text
//!   programs ──▶ client ──▶ measure ──▶ report         one program after the other
//!                  ├── native, output                  both ways to start, what runs write
//!                  ├── timing                          what the library tells of the inside of a run
//!                  ├── floors, processes               the machine's floors; CPU and memory behind a pool
//!                  └── throughput                      several clients
//!   daemon                                              the same through the daemon
//! ```
//!
//! Nothing that is printed was measured at another time: both ways, and the floors, are taken in one run, interleaved.
//! Every run is checked, and a benchmark whose runs differ has failed.

mod client;
mod daemon;
mod figure;
mod floors;
mod machine;
mod measure;
mod native;
mod output;
mod pool;
mod processes;
mod programs;
mod report;
mod resources;
mod samples;
mod throughput;
mod timing;

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use self::client::MeasureError;
use self::floors::Floors;
use self::machine::Machine;
pub(crate) use self::processes::held_kib;
use self::programs::Program;
pub(crate) use self::programs::find_in;
pub(crate) use self::samples::{median, now_ns};
use crate::cli::BenchArgs;
use crate::error::CliError;

/// The exit status when a run differed.
const DIFFERED: u8 = 1;
/// How often each floor of the head is measured.
const SURVEY_TIMES: u32 = 200;

/// Carries out the command.
pub(crate) fn bench(args: &BenchArgs) -> Result<u8, CliError> {
    // Before anything takes long.
    let mut json = args.json.as_deref().map(create).transpose()?;
    if args.daemon {
        return bench_daemon(args, json.as_mut());
    }
    if args.resources {
        return bench_resources(args, json.as_mut());
    }
    if let Some(folder) = &args.pool {
        let figures = pool::measure(folder)?;
        print(&figure::describe(&figures))?;
        if let (Some(file), Some(path)) = (&mut json, &args.json) {
            write_json(file, path, &figures)?;
        }
        return Ok(0);
    }
    let programs = programs::choose(args)?;

    let machine = Machine::look();
    let pause = Duration::from_micros(args.pause_us.into());
    let floors = CliError::system("the floors of the machine cannot be measured");
    let survey = floors::survey(args.runs.min(SURVEY_TIMES), pause).map_err(floors)?;
    print(&format!("{}\n", report::head(&machine, &survey)))?;

    let floors = CliError::system("the process that is woken cannot be made");
    let mut floors = Floors::new().map_err(floors)?;
    let mut outcomes = Vec::new();
    let mut differed = false;
    for (number, program) in programs.list.iter().enumerate() {
        progress(number, programs.list.len(), program);
        match measure::measure(program, args, &mut floors) {
            Ok(outcome) => outcomes.push(outcome),
            Err(MeasureError::Failed(error)) => return Err(error),
            Err(difference @ MeasureError::Differs(_)) => {
                differed = true;
                crate::complain(&difference.to_string());
            }
        }
    }
    if !outcomes.is_empty() {
        print(&report::tables(&outcomes))?;
    }
    for program in &programs.left_out {
        crate::complain(&format!("left out: {program}"));
    }
    if let (Some(file), Some(path)) = (&mut json, &args.json) {
        write_json(file, path, &outcomes)?;
    }
    Ok(if differed { DIFFERED } else { 0 })
}

/// Measures what the daemon costs its clients.
fn bench_daemon(args: &BenchArgs, json: Option<&mut File>) -> Result<u8, CliError> {
    let (figures, text) = daemon::measure(args.runs)?;
    print(&text)?;
    if let (Some(file), Some(path)) = (json, &args.json) {
        write_json(file, path, &figures)?;
    }
    Ok(0)
}

/// Measures what each resource costs, made anew and from the pool.
fn bench_resources(args: &BenchArgs, json: Option<&mut File>) -> Result<u8, CliError> {
    let rows = resources::measure()?;
    print(&resources::describe(&rows))?;
    if let (Some(file), Some(path)) = (json, &args.json) {
        write_json(file, path, &rows)?;
    }
    Ok(0)
}

fn create(path: &Path) -> Result<File, CliError> {
    File::create(path).map_err(|source| CliError::Write { path: path.to_owned(), source })
}

fn write_json<T: serde::Serialize>(file: &mut File, path: &Path, outcomes: &[T]) -> Result<(), CliError> {
    let mut text = serde_json::to_vec_pretty(outcomes).map_err(CliError::Json)?;
    text.push(b'\n');
    file.write_all(&text).map_err(|source| CliError::Write { path: path.to_owned(), source })
}

/// Tells somebody who watches what is being measured.
fn progress(number: usize, count: usize, program: &Program) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        // Nobody is told when standard error is gone.
        let _ = writeln!(stderr, "[{}/{count}] {}", number + 1, program.name);
    }
}

fn print(text: &str) -> Result<(), CliError> {
    let mut stdout = std::io::stdout();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(CliError::Print)
}
