//! The arguments of `regrow env`.

use std::ffi::OsString;

use clap::{ArgGroup, Args, ValueHint};

/// What `regrow env --help` ends with.
const ENV_EXAMPLES: &str = "\
The command is executed with a folder of launchers in front of PATH: what it starts by the names of common small programs (sed, \
grep, cat, sh, as, git, perl, …) runs through the daemon. A launcher does what regrow run does with the program that PATH has behind the \
folder. Programs that may look for themselves in PATH have no launcher, nor have those that gain nothing by one: the daemon's \
figures tell, from the second use on. --explain lists all of them.

Where there can be no launchers, the command is executed as always; -v says so.

Exit status: that of the command; 126 when it cannot be executed, 127 when there is none.

Examples:
  regrow env -- ./configure
  regrow env -- make check
  regrow env -v -- sh tests/run.sh
  regrow env --explain";

/// The arguments of `regrow env`.
#[derive(Debug, Args)]
#[command(after_help = ENV_EXAMPLES, group = ArgGroup::new("what").args(["command", "explain", "learn"]).required(true))]
pub(crate) struct EnvArgs {
    /// Tell where the launchers are, or why there are none
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// Make launchers for all programs, whatever has been learned of them
    #[arg(long)]
    pub(crate) all: bool,

    /// Tell which programs have a launcher, and why the others have none
    #[arg(long)]
    pub(crate) explain: bool,

    /// Ask the daemon which programs gain, and measure what a launcher costs
    #[arg(long, hide = true)]
    pub(crate) learn: bool,

    /// The command and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true, value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}
