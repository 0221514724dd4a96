//! The arguments of `regrow run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use regrow::{Point, PointChoice};

/// What `regrow run --help` ends with.
const RUN_EXAMPLES: &str = "\
The daemon starts the program; where there is no daemon, the command starts one for the next time. The command becomes \
the program (exec) where the daemon is missing or declines, and where there is a controlling terminal: a run of the \
daemon has the descriptors of the terminal and gets the signals of its keys, but cannot open /dev/tty. --no-tty says that \
the program does without that. With --embedded, --repeat, --verify, --point or --report, the command keeps a pool itself \
and uses no daemon.

The report has one JSON line for each run, with the keys
  run        its number, from 1
  how        recycled, forked_body or exec; null when it could not be started
  point      the snapshot point, entry, main or warm; null for exec
  fallback   why it was started by exec; null when it was recycled
  detail     the same in words
  status     its exit status, by the rule above
  signal     the signal that ended it, or null
  error      why it could not be started, or null
  pid        the number of the process, or null
  wall_us    microseconds from the call to its end seen, or null

Exit status: that of the first run that failed, as env(1) gives it, or 0. It is the program's own; or 128 and the number \
of the signal that ended it, as a shell tells it (the command of a single run ends by that signal itself); 127 when there \
is no such program; 126 when it cannot be executed; 125 when Regrow itself failed, or --verify found a difference.

Examples:
  regrow run -- git --version
  regrow run --no-tty -- make
  regrow run --schedule -- cc -O2 -c large.c
  regrow run --single-use -- python3 from-somebody.py
  regrow run --repeat 100 --verify --report runs.jsonl -- sh -c 'echo hello'";

/// The arguments of `regrow run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// Keep the pool in this process, and use no daemon
    #[arg(long, visible_alias = "no-daemon")]
    pub(crate) embedded: bool,

    /// Let the daemon start the program although there is a terminal: the program does not open it
    #[arg(long, conflicts_with = "embedded")]
    pub(crate) no_tty: bool,

    /// Modules that Regrow imports once, and each run of a Python program finds imported
    #[arg(long, value_name = "MODULES", value_delimiter = ',')]
    pub(crate) preload: Vec<String>,

    /// Give the run a body of its own, which no run was in before and none comes after
    #[arg(long)]
    pub(crate) single_use: bool,

    /// How many times to run the program, one after the other
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) repeat: u64,

    /// Compare the body with its image, byte for byte, after every run
    #[arg(long)]
    pub(crate) verify: bool,

    /// The snapshot point: the deepest that is safe, or only this one
    #[arg(long, value_name = "POINT", default_value = "auto")]
    pub(crate) point: PointArg,

    /// Write a JSON line for each run to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,

    /// Give the program the slice of one that will use much processor time, so that others come before it at once
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "predicted")]
    pub(crate) schedule: Option<ScheduleArg>,

    /// The program: a path, or a name that stands in PATH
    #[arg(value_name = "PROG", value_hint = ValueHint::CommandName)]
    pub(crate) program: OsString,

    /// Its arguments
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<OsString>,
}

impl RunArgs {
    /// Whether only a pool in this process can do what the flags ask for.
    pub(crate) fn wants_own_pool(&self) -> bool {
        let many = self.repeat > 1 || self.verify || self.report.is_some();
        self.embedded || many || self.point != PointArg::Auto
    }
}

/// When a run is scheduled as a long one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScheduleArg {
    /// Where `regrow schedule` has learned that such a call of the program takes long
    Predicted,
    /// Always
    Long,
}

/// A snapshot point on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PointArg {
    /// The deepest point that is safe
    Auto,
    /// At the call of main
    Main,
    /// Before the first instruction of the program
    Entry,
    /// Where a front end has prepared its interpreter and stopped it
    Warm,
}

impl From<PointArg> for PointChoice {
    fn from(point: PointArg) -> Self {
        match point {
            PointArg::Auto => Self::Auto,
            PointArg::Main => Self::Only(Point::Main),
            PointArg::Entry => Self::Only(Point::Entry),
            PointArg::Warm => Self::Only(Point::Warm),
        }
    }
}
