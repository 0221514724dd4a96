//! The arguments of `regrow sites`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use regrow_profile::report::Order;

/// What `regrow sites --help` ends with.
const EXAMPLES: &str = "\
A site is the place at which a process was created: the program and file:line in it, or the script. The table has, for each site, what the processes
executed, their number, mean and 99th percentile of processor time and life, which share of the life was start-up (exec to main), and about how much
time recycled starts would have saved. It goes to standard error when a COMMAND runs, whose output is its own. In a terminal the table is live while
the command runs, and the command's output follows at its end.

With --system or --pid the kernel tells what happens (BPF): it needs root's rights, or CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE, and Linux 5.15.

Exit status: the command's own, as env(1) gives it; 127 when there is no such program;
126 when it cannot be executed; 125 when a FILE cannot be written, or Regrow itself failed;
2 when the machine may not be looked at.

Examples:
  regrow sites -- make -j2
  regrow sites --html build.html --pprof build.pb.gz -- make -j2
  regrow sites --sort saved --json - -- ./configure >/dev/null
  sudo regrow sites --system --for 10
  go tool pprof -top build.pb.gz";

/// The arguments of `regrow sites`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SitesArgs {
    /// Follow the command by ptrace: every end is seen, and a creation takes some tens of microseconds more
    #[arg(long)]
    pub(crate) trace: bool,

    /// Show no live table while the command runs: it has the terminal to itself
    #[arg(long)]
    pub(crate) no_live: bool,

    #[command(flatten)]
    pub(crate) machine: MachineArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,

    /// The command: a path, or a name that stands in PATH
    #[arg(value_name = "COMMAND", required_unless_present_any = ["system", "pid"])]
    pub(crate) program: Option<OsString>,

    /// Its arguments
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<OsString>,
}

/// What is looked at instead of a command.
#[derive(Debug, Args)]
pub(crate) struct MachineArgs {
    /// Look at all processes of the machine instead of a command, as root: until Ctrl-C, or for the time that --for says
    #[arg(long, conflicts_with_all = ["program", "trace"])]
    pub(crate) system: bool,

    /// Look at a process that is there and all below it, as root: until it ends
    #[arg(long, value_name = "PID", conflicts_with_all = ["program", "trace", "system"])]
    pub(crate) pid: Option<u32>,

    /// End after so many seconds
    #[arg(long = "for", value_name = "SECONDS", conflicts_with = "program")]
    pub(crate) seconds: Option<u32>,
}

/// What is made of a profile.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// What the sites are ordered by, the largest first
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = SortArg::Count)]
    pub(crate) sort: SortArg,

    /// How many sites the table shows; the files have all of them
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) limit: usize,

    /// Write everything as JSON to FILE; -: standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<PathBuf>,

    /// Write the table as CSV to FILE; -: standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) csv: Option<PathBuf>,

    /// Write a profile for `go tool pprof` and other viewers to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) pprof: Option<PathBuf>,

    /// Write one page of HTML to FILE: the tree of creations as a flame graph, and the table
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
}

/// What sites are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortArg {
    /// The number of processes
    Count,
    /// Their processor time
    Cpu,
    /// Their lives
    Life,
    /// What recycled starts would have saved
    Saved,
}

impl From<SortArg> for Order {
    fn from(sort: SortArg) -> Order {
        match sort {
            SortArg::Count => Order::Count,
            SortArg::Cpu => Order::Cpu,
            SortArg::Life => Order::Life,
            SortArg::Saved => Order::Saved,
        }
    }
}
