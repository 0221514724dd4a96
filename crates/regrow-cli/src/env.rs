//! `regrow env`: a command below which programs go through launchers.
//!
//! ```text
//!   regrow env -- ./configure
//!      │ a folder of launchers, made once          place, folder
//!      │ which programs, and which not             programs, choice, learned
//!      └─▶ exec ./configure, with the folder in front of PATH, and another in COMPILER_PATH
//!             └─▶ sed ─▶ the launcher ─▶ the first sed behind the folder in PATH, recycled       crate::launcher
//! ```
//!
//! Whatever stands in the way, the command is executed as always. See `docs/decisions/038-regrow-env.md`.

mod choice;
mod compilers;
mod explain;
mod folder;
mod learn;
pub(crate) mod learned;
pub(crate) mod place;
mod programs;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use regrow_daemon::client::{Client, ClientError};
use regrow_daemon::place::Place;

use crate::cli::env::EnvArgs;
use crate::detach;
use crate::error::CliError;
use crate::exit_status;
use crate::message::{chain, complain};

use self::folder::prepare;
use self::place::{EnvError, EnvFolder, EnvPlace};

/// Carries out the command, or one of its questions.
pub(crate) fn env(args: &EnvArgs) -> Result<u8, CliError> {
    if args.learn {
        return learn::learn();
    }
    if args.explain {
        return explain::explain(args.all);
    }
    match args.command.split_first() {
        Some((program, rest)) => Ok(run(program, rest, EnvOptions { all: args.all, verbose: args.verbose })),
        None => Ok(0),
    }
}

/// How `regrow env` runs a command.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EnvOptions {
    /// What has been learned is not asked.
    pub(crate) all: bool,
    /// It tells what it does.
    pub(crate) verbose: bool,
}

/// Becomes the command, with launchers in front of its `PATH` where there can be any. Returns the exit status for when that fails.
pub(crate) fn run(program: &OsStr, args: &[OsString], options: EnvOptions) -> u8 {
    let tell = |text: &str| {
        if options.verbose {
            complain(&format!("env: {text}"));
        }
    };
    let variables = match prepared(options) {
        Ok(folder) => {
            tell(&format!("launchers in {}", folder.launchers().display()));
            if let Some(text) = look_for_daemon() {
                tell(&text);
            }
            variables(&folder)
        }
        Err(error) => {
            tell(&format!("programs are executed as always: {}", chain(&error)));
            Vec::new()
        }
    };
    let error = detach::become_program_with(program, args, &variables);
    complain(&format!("{}: {error}", program.display()));
    exit_status::of_error(&error)
}

/// The folder of the launchers, up to date.
fn prepared(options: EnvOptions) -> Result<EnvFolder, EnvError> {
    use rustix::process::{getegid, geteuid, getgid, getuid};
    if getuid() != geteuid() || getgid() != getegid() {
        return Err(EnvError::OtherRights);
    }
    let path = std::env::var_os("PATH").ok_or(EnvError::NoPath)?;
    let place = EnvPlace::of_user()?;
    let folder = prepare(&place, &place.without_ours(&path), options.all)?;
    if !options.all && learn::is_due(&place) {
        learn::note_asked(&place)?;
        detach::start_learning();
    } else if !place.asked().exists() {
        // The first use has nothing to ask the daemon about.
        learn::note_asked(&place)?;
    }
    Ok(folder)
}

/// Has a daemon there for the first launcher. What there is to tell of it, if there is something.
fn look_for_daemon() -> Option<String> {
    let error = match Place::of_user() {
        Ok(place) => Client::connect(&place).err()?,
        Err(error) => return Some(format!("launchers execute their programs: {error}")),
    };
    if let ClientError::NoDaemon { .. } = &error {
        detach::start_daemon();
    }
    Some(format!("launchers execute their programs until there is a daemon: {}", chain(&error)))
}

/// What the command finds in its environment. A user's own `COMPILER_PATH` stays as it is.
fn variables(folder: &EnvFolder) -> Vec<(&'static str, OsString)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let rest = EnvPlace::of_user().map_or_else(|_| path.clone(), |place| place.without_ours(&path));
    let launchers = folder.launchers();
    let front =
        OsStr::from_bytes(&[launchers.as_os_str().as_bytes(), b":", rest.as_bytes()].concat()).to_owned();
    let mut variables = vec![("PATH", front)];
    let compilers = folder.compilers();
    let has_none = std::env::var_os("COMPILER_PATH").is_none_or(|path| path == compilers);
    if has_none && compilers.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        variables.push(("COMPILER_PATH", compilers.into_os_string()));
    }
    variables
}
