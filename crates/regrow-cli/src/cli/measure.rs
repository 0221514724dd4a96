//! The arguments of `regrow record`, `regrow replay` and `regrow bench`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use regrow_bench::replay::live::LiveProcesses;

/// What `regrow record --help` ends with.
const RECORD_EXAMPLES: &str = "\
Regrow traces the command, which makes each creation some tens of microseconds slower.
FILE is CSV; the lines above its header say what the columns are.

Exit status: the command's own, as env(1) gives it; 127 when there is no such program;
126 when it cannot be executed; 125 when FILE cannot be written, or Regrow itself failed.

Examples:
  regrow record --output make.csv -- make -j2
  regrow record --output web.csv --limit 1000 -- ./requests.sh";

/// What `regrow replay --help` ends with.
const REPLAY_EXAMPLES: &str = "\
The policies:
  none          keeps nothing
  recycle       keeps every body
  recycle-one   keeps one body of each program that runs often, and breaks up the others
  pool          as recycle-one; gives back what is unused, and adds what it expects
  adaptive      keeps what saves the most start-up time for its bytes, learned from the sequence

As many processes as --existing says stay alive: before each further creation the oldest one ends.
With `recorded` each process lives as long as it did. --json and --plot have the time and the
memory after every 100 creations.

Exit status: 0; 2 when the trace or the costs cannot be read, there is no such policy, a program
cannot be started, or a file cannot be written.

Examples:
  regrow replay traces/web-1000.csv --simulate
  regrow replay traces/make-1000.csv --policy recycle-one,adaptive --existing 20,recorded
  regrow replay traces/git-1000.csv --json git.json --plot plots";

/// What `regrow bench --help` ends with.
const BENCH_EXAMPLES: &str = "\
Every iteration starts the program once by posix_spawn and once by Regrow, each after a pause, and measures the floors of \
the machine. The benchmark compares the exit status, the output and the error of every run with those of a first run by \
posix_spawn. Of the built-in programs, Regrow must recycle 95 of 100 runs.

Exit status: 0 when every run was what it should be, 1 when one was not, 2 when the benchmark could not be carried out.

Examples:
  regrow bench
  regrow bench --runs 500 --json bench.json -- git --version
  regrow bench --parallel 2 -- /bin/true
  regrow bench --prototype -- /bin/true";

/// The arguments of `regrow record`.
#[derive(Debug, Args)]
#[command(after_help = RECORD_EXAMPLES)]
pub(crate) struct RecordArgs {
    /// The file to write
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// Record so many creations at most; the command runs on
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,

    /// Record where each was created as well: by a preloaded library in place of ptrace, which sees no static program
    #[arg(long)]
    pub(crate) sites: bool,

    /// The command: a path, or a name that stands in PATH
    #[arg(value_name = "COMMAND")]
    pub(crate) program: OsString,

    /// Its arguments
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<OsString>,
}

/// The arguments of `regrow replay`.
#[derive(Debug, Args)]
#[command(after_help = REPLAY_EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// The trace: a file that regrow record wrote
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,

    /// The policies
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "none,recycle,recycle-one,pool,adaptive"
    )]
    pub(crate) policy: Vec<String>,

    /// How many processes stay alive: numbers, or recorded
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,5,10,20")]
    pub(crate) existing: Vec<LiveProcesses>,

    /// Simulate the creations, with a table of costs; without --real this is the default
    #[arg(long)]
    pub(crate) simulate: bool,

    /// Create real processes, and hold each before its end
    #[arg(long)]
    pub(crate) real: bool,

    /// The table of costs, as JSON [default: measured on this machine]
    #[arg(long, value_name = "FILE")]
    pub(crate) costs: Option<PathBuf>,

    /// How much memory a policy may keep, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(0..=1 << 30))]
    pub(crate) budget_mib: u64,

    /// Write everything as JSON to FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Draw plots into DIR, each as SVG and as PNG
    #[arg(long, value_name = "DIR")]
    pub(crate) plot: Option<PathBuf>,
}

/// The arguments of `regrow bench`.
#[derive(Debug, Args)]
#[command(after_help = BENCH_EXAMPLES)]
pub(crate) struct BenchArgs {
    /// How many timed runs each program makes by each of the two
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,

    /// How many runs by each come before them, checked and not timed
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) warmup: u32,

    /// How long to pause before each timed run, after the reset, in microseconds
    #[arg(long, value_name = "US", default_value_t = 100)]
    pub(crate) pause_us: u32,

    /// Measure the throughput of P clients at a time as well as that of one
    #[arg(long, value_name = "P", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) parallel: u16,

    /// Measure runs whose body serves no other as well: with a body ready, and back to back
    #[arg(long, conflicts_with_all = ["daemon", "pool", "resources"])]
    pub(crate) single_use: bool,

    /// Measure the prototype of recycling as well, which cc compiles: the least that recycles a process
    #[arg(long, conflicts_with_all = ["daemon", "pool", "resources"])]
    pub(crate) prototype: bool,

    /// Measure the daemon instead: a connected client, 32 of them, and commands that call regrow run
    #[arg(long, conflicts_with_all = ["parallel", "program", "static_program"])]
    pub(crate) daemon: bool,

    /// Measure the pool's policies instead, on the traces in FOLDER and with real processes
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["daemon", "resources", "parallel", "program", "static_program"])]
    pub(crate) pool: Option<PathBuf>,

    /// Measure instead what each resource costs, made from nothing and taken from the pool
    #[arg(long, conflicts_with_all = ["daemon", "parallel", "program", "static_program"])]
    pub(crate) resources: bool,

    /// Measure the memory service instead: blocks of pages beside memory that the kernel maps
    #[arg(long, conflicts_with_all = ["daemon", "pool", "resources", "parallel", "program", "static_program", "single_use", "prototype"])]
    pub(crate) memory: bool,

    /// Measure instead what it costs to see where processes are created, as root
    #[arg(long, conflicts_with_all = ["daemon", "pool", "resources", "memory", "parallel", "program", "static_program", "single_use", "prototype"])]
    pub(crate) sites: bool,

    /// Measure instead how light a process can get: fibers, tasks and state machines beside what people use for them
    #[arg(long, conflicts_with_all = ["daemon", "pool", "resources", "memory", "sites", "parallel", "program", "static_program", "single_use", "prototype"])]
    pub(crate) ladder: bool,

    /// Be the other process of `--memory`, which starts it so
    #[arg(long, hide = true, value_name = "SOCKET")]
    pub(crate) memory_receiver: Option<PathBuf>,

    /// Write the results to FILE as a JSON array with an object for each program or figure
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<PathBuf>,

    /// A statically linked program for the built-in list [default: cc compiles one]
    #[arg(long = "static", value_name = "FILE")]
    pub(crate) static_program: Option<PathBuf>,

    /// The program [default: a list of common programs]
    #[arg(value_name = "PROG")]
    pub(crate) program: Option<OsString>,

    /// Its arguments
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<OsString>,
}
