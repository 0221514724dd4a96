//! The arguments of `regrow schedule`.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

/// What `regrow schedule --help` ends with.
const EXAMPLES: &str = "\
Every process below COMMAND is scheduled by what is predicted about it: from the place at which it was created, the program that it executes, and what
was learned before. One that will use much processor time gets long slices, so that others come before it at once; one that will use little keeps the
kernel's own, or gets what --short-slice-us and --short-nice say. A process that outlives what was predicted is scheduled as a long one.
What a process has chosen for itself stays. What is learned is kept for the next time, in the user's state folder.

Without privilege niceness only goes up. Slices need Linux 6.12. A library in each process tells of its children and schedules them; --outside does
without it, so that static programs are seen too, and children cost less. It needs the rights that `regrow sites --system` needs.

Exit status: the command's own, as env(1) gives it; 127 when there is no such program;
126 when it cannot be executed; 125 when Regrow itself failed.

Examples:
  regrow schedule -- make -j4
  regrow schedule --limit-us 50000 -- ./tests.sh
  sudo regrow schedule --short-nice -5 -- make -j4
  sudo regrow schedule --outside -- make -j4";

/// What a prediction rests on. All but the site are there to be compared with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Basis {
    /// The place of the creation, the program and its arguments
    Site,
    /// The program alone
    Program,
    /// What the parent has used until then; with --outside alone
    Parent,
}

/// The arguments of `regrow schedule`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ScheduleArgs {
    /// What tells short from long: processor time in microseconds
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) limit_us: u64,

    /// The slice of long processes in microseconds, from 100 to 100000; 0: the kernel's own
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) long_slice_us: u64,

    /// The slice of short processes in microseconds, from 100 to 100000; 0: the kernel's own
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) short_slice_us: u64,

    /// How much nicer long processes are than the command
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) long_nice: i8,

    /// How much nicer short processes are than the command; less than 0 needs privilege
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) short_nice: i8,

    /// Give long processes the policy of work that nobody waits for (SCHED_BATCH)
    #[arg(long)]
    pub(crate) batch: bool,

    /// As root: look at what is created by BPF, and schedule it from outside; the programs load no library
    #[arg(long)]
    pub(crate) outside: bool,

    /// What a prediction rests on
    #[arg(long, value_name = "WHAT", default_value = "site")]
    pub(crate) by: Basis,

    /// Begin without what was learned before, and keep nothing
    #[arg(long)]
    pub(crate) fresh: bool,

    /// The command: a path, or a name that stands in PATH
    #[arg(value_name = "COMMAND")]
    pub(crate) program: OsString,

    /// Its arguments
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<OsString>,
}
