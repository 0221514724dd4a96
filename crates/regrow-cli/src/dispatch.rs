//! From the command line to the subcommand, and to the exit status.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use clap::{CommandFactory, Parser};
use regrow_abi::client::HANDED_OVER;
use regrow_sys::disable::FeatureSet;

use crate::cli::{Action, Cli};
use crate::error::CliError;
use crate::exit_status::{FAILED, REGROW_FAILED};
use crate::message::{chain, complain};
use crate::run::shared::ProgramName;
use crate::{
    bench, builtins, completions, daemon, doctor, env, launcher, link, log, manual, memory, record, replay,
    run, schedule, sites, status, top, web,
};

/// Does what the command line says, and returns the exit status.
pub(crate) fn start() -> u8 {
    let args: Vec<OsString> = std::env::args_os().collect();
    if args.get(1).is_some_and(|word| word.as_bytes() == HANDED_OVER) {
        return handed_over(&args);
    }
    if let Some(name) = launcher::started_as(&args) {
        return launcher::run(&name, &args);
    }
    let status = match (plain_run(&args), plain_env(&args)) {
        (Some(plain), _) => run::shared::run(plain.program, plain.args, plain.no_tty),
        (None, Some((program, rest))) => env::run(program, rest, env::EnvOptions::default()),
        (None, None) => with_flags(&args),
    };
    let _ = std::io::stdout().flush();
    status
}

/// Goes on where the client of one page has stopped ([`HANDED_OVER`]).
fn handed_over(args: &[OsString]) -> u8 {
    let what = args.get(2).map(OsString::as_os_str).unwrap_or_default();
    let rest = args.get(3..).unwrap_or_default();
    if what.as_bytes().starts_with(b"/") {
        return run::shared::take_over(what, rest);
    }
    launcher::run(what, rest)
}

/// A plain `regrow run`.
struct PlainRun<'a> {
    no_tty: bool,
    program: ProgramName<'a>,
    args: &'a [OsString],
}

/// `regrow run [--no-tty] [--single-use] [--preload MODULES] [--] PROG ARGS`: in this common case, reading the command line must not take
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
    let single_use = rest.first()? == "--single-use";
    if single_use {
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
    let (file, args) = rest.split_first()?;
    let program = ProgramName { file, argv0: file, preload, single_use, slice: None };
    Some(PlainRun { no_tty, program, args })
}

/// `regrow env -- COMMAND ARGS`, which must not take long either.
fn plain_env(args: &[OsString]) -> Option<(&OsStr, &[OsString])> {
    let [_, verb, dashes, program, rest @ ..] = args else { return None };
    let is_plain = verb == "env" && dashes == "--" && std::env::var_os("REGROW_LOG").is_none();
    is_plain.then_some((program.as_os_str(), rest))
}

fn with_flags(args: &[OsString]) -> u8 {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, args),
    };
    let failed = match cli.action {
        Action::Run(_) | Action::Record(_) | Action::Sites(_) | Action::Schedule(_) => REGROW_FAILED,
        _ => FAILED,
    };
    act(&cli).unwrap_or_else(|error| {
        complain(&chain(&error));
        failed
    })
}

fn act(cli: &Cli) -> Result<u8, CliError> {
    log::start(&cli.log)?;
    let disabled = FeatureSet::from_env()?;
    match &cli.action {
        Action::Doctor(args) => doctor::doctor(args, &disabled),
        Action::Run(args) => run::run(args),
        Action::Sites(args) => sites::sites(args),
        Action::Schedule(args) => schedule::schedule(args),
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
        Action::Memory(args) => memory::memory(args),
        Action::Env(args) => env::env(args),
        Action::Link(args) => link::link(args),
        Action::Unlink(args) => link::unlink(args),
        Action::Builtins(args) => builtins::builtins(args),
        Action::Completions(args) => completions::completions(args),
        Action::Man(args) => manual::man(args),
    }
}

/// Prints help, or what is wrong with the command line.
fn usage(error: &clap::Error, args: &[OsString]) -> u8 {
    // Where the terminal is gone, nobody reads it.
    let _ = error.print();
    let command = Cli::command();
    let verb = args.iter().skip(1).find(|word| command.find_subcommand(word).is_some());
    let is_run = verb.is_some_and(|verb| verb == "run");
    match error.exit_code() {
        0 => 0,
        _ if is_run => REGROW_FAILED,
        _ => FAILED,
    }
}
