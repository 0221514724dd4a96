//! `regrow builtins`: the library of builtins for bash (`client/builtin/`), and the line by which a shell takes them.
//!
//! The library stands in the user's folder of data ([`data_file`]).

pub(crate) mod error;

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;

use regrow_daemon::client::{Client, ClientError};
use regrow_daemon::place::Place;

use crate::cli::setup::BuiltinsArgs;
use crate::error::CliError;
use crate::message::{chain, complain};
use crate::{data_file, detach, link, program_search};

use self::error::BuiltinsError;

/// The library.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/builtin.so"));
/// The names that it has builtins for, in order, separated by blanks.
const NAMES: &str = include_str!(concat!(env!("OUT_DIR"), "/builtins.txt"));

/// Puts the library in its place, sees that there is a daemon, and prints the line for a shell.
pub(crate) fn builtins(args: &BuiltinsArgs) -> Result<u8, CliError> {
    let known: Vec<&str> = NAMES.split_whitespace().collect();
    let is_there = |name: &OsStr| program_search::find_behind(name).is_ok();
    for name in &args.names {
        if !known.iter().any(|known| OsStr::new(known) == name) {
            return Err(BuiltinsError::NoBuiltin { name: name.clone(), known: NAMES }.into());
        }
        if !is_there(name) {
            return Err(CliError::NoProgram { program: name.clone() });
        }
    }
    let is_wanted = |name: &OsStr| {
        if args.names.is_empty() { is_there(name) } else { args.names.iter().any(|wanted| wanted == name) }
    };
    let names: Vec<&str> = known.into_iter().filter(|name| is_wanted(OsStr::new(name))).collect();
    let path = data_file::put("builtins.so", LIBRARY)?;
    look_for_daemon();
    let line = line(&path, &names);
    let _ = writeln!(io::stdout(), "{line}");
    Ok(0)
}

/// What a shell is to evaluate. All shells but bash do nothing.
fn line(library: &Path, names: &[&str]) -> String {
    let library = link::quoted(&library.to_string_lossy());
    format!("if [ -n \"${{BASH_VERSION-}}\" ]; then enable -f {library} {}; fi", names.join(" "))
}

/// Has a daemon there for the first builtin.
fn look_for_daemon() {
    let connected = Place::of_user().map(|place| Client::connect(&place).map(drop));
    match connected {
        Ok(Ok(())) => {}
        Ok(Err(ClientError::NoDaemon { .. })) => detach::start_daemon(),
        Ok(Err(error)) => complain(&format!("bash executes the programs: {}", chain(&error))),
        Err(error) => complain(&format!("bash executes the programs: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_builtins_for_what_scripts_start_and_for_none_that_bash_has() {
        let names: Vec<&str> = NAMES.split_whitespace().collect();
        for name in ["sed", "grep", "cat", "expr", "git", "perl"] {
            assert!(names.contains(&name), "{name}");
        }
        for name in ["true", "echo", "test", "printf", "env", "xargs", "sleep"] {
            assert!(!names.contains(&name), "{name}");
        }
        assert!(names.is_sorted(), "{NAMES}");
    }

    #[test]
    fn the_line_names_the_library_as_a_shell_reads_it() {
        let line = line(Path::new("/home/it's mine/builtins.so"), &["sed", "cat"]);
        let wanted =
            "if [ -n \"${BASH_VERSION-}\" ]; then enable -f '/home/it'\\''s mine/builtins.so' sed cat; fi";
        assert_eq!(line, wanted);
    }
}
