//! The arguments of what looks at the machine, and sets the command up: doctor, launchers, completions, manual pages.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum, ValueHint};

/// What `regrow doctor --help` ends with.
const DOCTOR_EXAMPLES: &str = "\
Exit status: 0 when Regrow can recycle processes here, 1 when it cannot, 2 when it could not find that out.

Examples:
  regrow doctor
  regrow doctor --json | jq '.features[] | select(.state != \"works\")'
  REGROW_DISABLE=pagemap_scan regrow doctor";

/// What `regrow link --help` ends with.
const LINK_EXAMPLES: &str = "\
A launcher is a small file that has the path of this command in it; the launchers of a folder are one file with many names. It runs the first program of its own name in PATH that is no launcher. The folder \
of the launchers must stand at the front of PATH; where it does not, the command prints the line to add. Where a file of a \
name is there and is no launcher, the command leaves it alone and makes no launcher at all.

Exit status: 0 when all launchers are there, else 2.

Examples:
  regrow link git perl
  regrow link --dir ~/bin git";

/// What `regrow unlink --help` ends with.
const BUILTINS_EXAMPLES: &str = "\
A script in bash that evaluates the line has the daemon run these programs: nothing is forked or
executed for them. Where the daemon cannot run one (there is a terminal, it is not kept as yet, the
daemon is gone), the shell executes it as before. The line does nothing in other shells.

The library is put to $XDG_DATA_HOME/regrow/builtins.so, or ~/.local/share/regrow/builtins.so.

Exit status: 0 when the line is printed, else 2.

Examples:
  eval \"$(regrow builtins)\"
  eval \"$(regrow builtins sed grep git)\"
  regrow builtins > ~/.builtins; BASH_ENV=~/.builtins bash script.sh";
const UNLINK_EXAMPLES: &str = "\
The command removes nothing but launchers.

Exit status: 0 when they are gone; 2 when one is missing or is no launcher, and then the command removes none.

Examples:
  regrow unlink perl
  regrow unlink --all";

/// What `regrow completions --help` ends with.
const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  regrow completions bash >~/.local/share/bash-completion/completions/regrow
  regrow completions zsh >~/.zfunc/_regrow
  regrow completions fish >~/.config/fish/completions/regrow.fish";

/// What `regrow man --help` ends with.
const MAN_EXAMPLES: &str = "\
The command has a page, and so has each subcommand: regrow.1, regrow-run.1 and so on.

Examples:
  regrow man ~/.local/share/man/man1
  man regrow-run";

/// The arguments of `regrow doctor`.
#[derive(Debug, Args)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Print everything as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments of `regrow link`.
#[derive(Debug, Args)]
#[command(after_help = LINK_EXAMPLES)]
pub(crate) struct LinkArgs {
    /// The folder [default: $XDG_DATA_HOME/regrow/bin, or ~/.local/share/regrow/bin]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,

    /// The programs, as you type them
    #[arg(value_name = "NAME", required = true, value_hint = ValueHint::CommandName)]
    pub(crate) names: Vec<OsString>,
}

/// The arguments of `regrow unlink`.
#[derive(Debug, Args)]
#[command(after_help = UNLINK_EXAMPLES, group = ArgGroup::new("which").args(["names", "all"]).required(true))]
pub(crate) struct UnlinkArgs {
    /// The folder [default: $XDG_DATA_HOME/regrow/bin, or ~/.local/share/regrow/bin]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,

    /// Every launcher in the folder
    #[arg(long)]
    pub(crate) all: bool,

    /// The programs, as you type them
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<OsString>,
}

/// The arguments of `regrow builtins`.
#[derive(Debug, Args)]
#[command(after_help = BUILTINS_EXAMPLES)]
pub(crate) struct BuiltinsArgs {
    /// The programs [default: all for which there is a builtin and which are in PATH]
    #[arg(value_name = "NAME", value_hint = ValueHint::CommandName)]
    pub(crate) names: Vec<OsString>,
}

/// The arguments of `regrow completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: ShellArg,
}

/// A shell on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShellArg {
    /// GNU bash
    Bash,
    /// Z shell
    Zsh,
    /// fish
    Fish,
}

/// The arguments of `regrow man`.
#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct ManArgs {
    /// The folder of the pages; the command makes it if it is missing
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
}
