//! The `regrow` command.
//!
//! ```text
//!   main      flags, log, exit status
//!     doctor  the kernel probe and two real runs, as a table or as JSON
//!     run     a program out of a pool, standard descriptors passed through, a report of each run
//!     web     a gateway that answers every request with a fresh process
//!     daemon  one pool for all programs of a user; stop ends it
//!     status, ls, show, top   what the daemon keeps
//!     completions, man        what the definition of the command line says, for shells and for man
//!     link    launchers, which run a program by its plain name; unlink removes them
//!     record  which processes are created below a command; replay runs that through policies of keeping
//!     bench   two ways to start a program, in turn: times, CPU, memory, throughput
//! ```
//!
//! What is asked for goes to standard output, everything else to standard error, as `regrow: …`. Standard output and
//! error of `regrow run` are the program's.

#![cfg_attr(not(test), no_main)]
#![allow(unsafe_code, reason = "the entry point is the C library's")]

mod bench;
mod cli;
mod completions;
mod daemon;
mod detach;
mod doctor;
mod error;
mod launcher;
mod link;
mod manual;
mod metrics;
mod record;
mod replay;
mod run;
mod status;
mod table;
mod top;
mod web;

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Write};

use clap::{CommandFactory, Parser};
use regrow_sys::disable::FeatureSet;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::cli::{Action, Cli};
use crate::error::{CliError, chain};

/// The exit status of a command line that is wrong, and of `doctor` and `bench` when they could not be carried out.
const FAILED: u8 = 2;

/// The entry point is the C library's, not the standard library's, which would ignore `SIGPIPE` and open standard
/// descriptors that are closed: a program that `regrow run` executes must find both as they were.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code, reason = "the test harness has a `main` of its own"))]
extern "C" fn main() -> std::ffi::c_int {
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(name) = launcher::started_as(&args) {
        std::process::exit(launcher::run(&name, &args).into());
    }
    let status = match plain_run(&args) {
        Some(plain) => run::shared::run(plain.program, plain.args, plain.no_tty, plain.preload),
        None => with_flags(&args),
    };
    let _ = std::io::stdout().flush();
    std::process::exit(status.into())
}

/// A plain `regrow run`.
struct PlainRun<'a> {
    no_tty: bool,
    preload: &'a OsStr,
    program: &'a OsString,
    args: &'a [OsString],
}

/// `regrow run [--no-tty] [--preload MODULES] [--] PROG ARGS`: the common case, for which reading the command line need not take
/// longer than the run.
fn plain_run(args: &[OsString]) -> Option<PlainRun<'_>> {
    let is_set = |name| std::env::var_os(name).is_some();
    if args.get(1)? != "run" || is_set("REGROW_LOG") || is_set("REGROW_DISABLE") {
        return None;
    }
    let mut rest = args.get(2..)?;
    let no_tty = rest.first()? == "--no-tty";
    if no_tty {
        rest = rest.get(1..)?;
    }
    let mut preload = OsStr::new("");
    if rest.first()? == "--preload" {
        preload = rest.get(1)?;
        rest = rest.get(2..)?;
    }
    let is_flag = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    if rest.first()? == "--" {
        rest = rest.get(1..)?;
    } else if is_flag(rest.first()?) {
        return None;
    }
    rest.split_first().map(|(program, args)| PlainRun { no_tty, preload, program, args })
}

fn with_flags(args: &[OsString]) -> u8 {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, args),
    };
    let failed = match cli.action {
        Action::Run(_) | Action::Record(_) => run::REGROW_FAILED,
        _ => FAILED,
    };
    act(&cli).unwrap_or_else(|error| {
        complain(&chain(&error));
        failed
    })
}

fn act(cli: &Cli) -> Result<u8, CliError> {
    start_log(&cli.log)?;
    let disabled = FeatureSet::from_env()?;
    match &cli.action {
        Action::Doctor(args) => doctor::doctor(args, &disabled),
        Action::Run(args) => run::run(args),
        Action::Record(args) => record::record(args),
        Action::Replay(args) => replay::replay(args),
        Action::Bench(args) => bench::bench(args),
        Action::Web(args) => web::web(args),
        Action::Daemon(args) => daemon::daemon(args),
        Action::Stop => daemon::stop(),
        Action::Budget(args) => daemon::budget(args),
        Action::Status(args) => status::status(args),
        Action::Ls(args) => status::ls(args),
        Action::Show(args) => status::show(args),
        Action::Top(args) => top::top(args),
        Action::Link(args) => link::link(args),
        Action::Unlink(args) => link::unlink(args),
        Action::Completions(args) => completions::completions(args),
        Action::Man(args) => manual::man(args),
    }
}

/// Prints help, or what is wrong with the command line.
fn usage(error: &clap::Error, args: &[OsString]) -> u8 {
    // Nothing is left to say when the terminal is gone.
    let _ = error.print();
    let command = Cli::command();
    let verb = args.iter().skip(1).find(|word| command.find_subcommand(word).is_some());
    let is_run = verb.is_some_and(|verb| verb == "run");
    match error.exit_code() {
        0 => 0,
        _ if is_run => run::REGROW_FAILED,
        _ => FAILED,
    }
}

/// Writes a line about the command itself to standard error.
fn complain(text: &str) {
    // Nothing is left to say when standard error is gone.
    let _ = writeln!(std::io::stderr(), "regrow: {text}");
}

fn start_log(filter: &str) -> Result<(), CliError> {
    // The filter takes any word for the name of a module, of which there is nothing to log.
    let mut words =
        filter.split(',').map(str::trim).filter(|word| !word.is_empty() && !word.contains(['=', '[']));
    let is_known = |word: &str| word.starts_with("regrow") || word.parse::<LevelFilter>().is_ok();
    if let Some(word) = words.find(|word| !is_known(word)) {
        return Err(CliError::LogLevel { word: word.to_owned() });
    }
    let parsed =
        EnvFilter::try_new(filter).map_err(|source| CliError::Log { filter: filter.to_owned(), source })?;
    tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(())
}
