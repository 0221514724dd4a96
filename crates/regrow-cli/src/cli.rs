//! The command line: every flag, its help and its default stand here and nowhere else.

mod web;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum, ValueHint};
use regrow::{Point, PointChoice};

pub(crate) use web::WebArgs;

/// What `regrow --help` ends with.
const EXAMPLES: &str = "\
Examples:
  regrow doctor                            what this kernel offers, and what Regrow does without it
  regrow run -- git --version              a run out of the daemon's pool
  regrow run --repeat 3 -- git --version   three runs out of a pool of their own
  regrow link git                          the same as regrow run -- git, whenever git is called
  regrow status                            what the daemon keeps
  regrow bench -- git --version            Regrow beside posix_spawn

Environment:
  REGROW_DISABLE   kernel features to take as missing, with commas between them
  REGROW_LOG       what --log says";

/// What `regrow doctor --help` ends with.
const DOCTOR_EXAMPLES: &str = "\
Exit status: 0 when processes can be recycled here, 1 when they cannot, 2 when that could not be found out.

Examples:
  regrow doctor
  regrow doctor --json | jq '.features[] | select(.state != \"works\")'
  REGROW_DISABLE=pagemap_scan regrow doctor";

/// What `regrow status --help` ends with.
const STATUS_EXAMPLES: &str = "\
Exit status: 0; 2 when there is no daemon.

Examples:
  regrow status
  regrow status --why
  regrow status --json | jq '.pool.creations'";

/// What `regrow ls --help` and `regrow show --help` end with.
const PATH_EXAMPLES: &str = "\
The tables are image, body, shell, process and creation.

Examples:
  regrow ls /
  regrow ls /./body
  regrow show /./body/7
  regrow show --json /. | jq .to_main_us";

/// What `regrow top --help` ends with.
const TOP_EXAMPLES: &str = "\
The keys q, Esc and Ctrl-C end it.

Examples:
  regrow top --interval-ms 250";

/// What `regrow daemon --help` ends with.
const DAEMON_EXAMPLES: &str = "\
The socket is $XDG_RUNTIME_DIR/regrow.sock; without that variable /run/user/UID/regrow.sock, or \
/tmp/regrow-UID/regrow.sock. A socket that a service manager passes (LISTEN_FDS) is taken instead.

Exit status: 0 when it has left, or another daemon is there already; 2 when it cannot serve.

Examples:
  regrow daemon --idle 0 --any-cgroup
  regrow daemon --metrics 127.0.0.1:9417 --log-creations creations.jsonl
  regrow --log debug daemon";

/// What `regrow stop --help` ends with.
const STOP_EXAMPLES: &str = "\
Exit status: 0 when the daemon has left; 2 when there is none.

Examples:
  regrow stop";

/// What `regrow budget --help` ends with.
const BUDGET_EXAMPLES: &str = "\
What is more than that is given back before the command ends; runs that are under way go on.

Exit status: 0; 2 when there is no daemon.

Examples:
  regrow budget 256
  regrow budget 0";

/// What `regrow link --help` ends with.
const LINK_EXAMPLES: &str = "\
A launcher is a symbolic link to regrow, which runs the program of its own name that comes in PATH beside all launchers. \
The folder is to stand at the front of PATH; where it does not, the line to add is told. A file that is there and is no \
launcher is left alone, and then no launcher is made.

Exit status: 0 when all of them are there, else 2.

Examples:
  regrow link git perl
  regrow link --dir ~/bin git";

/// What `regrow unlink --help` ends with.
const UNLINK_EXAMPLES: &str = "\
Nothing but launchers is removed.

Exit status: 0 when they are gone, 2 when one is no launcher or is not there; then none is removed.

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
There is a page for the command and one for each subcommand: regrow.1, regrow-run.1 and so on.

Examples:
  regrow man ~/.local/share/man/man1
  man regrow-run";

/// What `regrow run --help` ends with.
const RUN_EXAMPLES: &str = "\
The daemon starts the program, and is itself started where there is none. The command becomes the program (exec) where \
the daemon cannot start it or is not there yet, and where there is a controlling terminal, unless --no-tty says that the \
program does without: a run of the daemon's has the descriptors of the terminal and gets the signals of its keys, but \
cannot open /dev/tty. With --embedded, --repeat, --verify, --point or --report there is a pool in this process, and no \
daemon.

The report has one JSON line for each run, with the keys
  run        its number, from 1
  how        recycled, forked_body or exec; null when it could not be started
  point      the snapshot point, main or entry; null for exec
  fallback   why it was started by exec; null when it was recycled
  detail     the same in words
  status     its exit status, by the rule above
  signal     the signal that ended it, or null
  error      why it could not be started, or null
  pid        the number of the process, or null
  wall_us    microseconds from the call to its end seen, or null

Exit status: that of the first run that failed, as env(1) gives it, and 0 when none did: the program's own; 128 and the \
number of the signal that ended it, as a shell tells it (the command of a single run ends by that signal itself); 127 \
when there is no such program; 126 when it cannot be executed; 125 when Regrow itself failed, or --verify has found a \
difference.

Examples:
  regrow run -- git --version
  regrow run --no-tty -- make
  regrow run --repeat 100 --verify --report runs.jsonl -- sh -c 'echo hello'";

/// What `regrow record --help` ends with.
const RECORD_EXAMPLES: &str = "\
The command is traced, which makes each of its creations some tens of microseconds slower.
FILE is CSV; the lines above its header say what the columns are.

Exit status: the command's own, as env(1) gives it; 127 when there is no such program;
126 when it cannot be executed; 125 when FILE cannot be written, or Regrow itself failed.

Examples:
  regrow record --output make.csv -- make -j2
  regrow record --output web.csv --limit 1000 -- ./requests.sh";

/// What `regrow replay --help` ends with.
const REPLAY_EXAMPLES: &str = "\
The policies:
  none          keep nothing
  recycle       keep every body
  recycle-one   keep one body of each program that runs often, break up the others
  pool          as recycle-one, with what is unused given back and what is expected added
  adaptive      what saves the most start-up time for its bytes, learned from the sequence

Before a creation that would be one more, the oldest process ends, so that as many as --existing
says stay alive; `recorded` lets each live as long as it did.
Every 100 creations time and memory are noted, for --json and --plot.

Exit status: 0; 2 when it cannot be replayed: the trace or the costs cannot be read, there is no
such policy, or what is asked for cannot be written.

Examples:
  regrow replay traces/web-1000.csv --simulate
  regrow replay traces/make-1000.csv --policy recycle-one,adaptive --existing 20,recorded
  regrow replay traces/git-1000.csv --json git.json --plot plots";

/// What `regrow bench --help` ends with.
const BENCH_EXAMPLES: &str = "\
Every iteration starts the program once by posix_spawn and once by Regrow, each after a pause, and measures the floors of \
the machine. Exit status, output and error of every run are compared with those of a first run by posix_spawn.

Exit status: 0 when all runs were alike, 1 when one differed, 2 when the benchmark could not be carried out.

Examples:
  regrow bench
  regrow bench --runs 500 --json bench.json -- git --version
  regrow bench --parallel 2 -- /bin/true";

/// Starts fresh, isolated processes of unmodified programs by recycling the address spaces of processes that have
/// finished.
#[derive(Debug, Parser)]
#[command(name = "regrow", version, max_term_width = 110, after_help = EXAMPLES)]
#[command(subcommand_required = true, arg_required_else_help = true, infer_subcommands = false)]
pub(crate) struct Cli {
    /// What to log on standard error: off, error, warn, info, debug, trace, or a filter by module
    #[arg(
        long,
        global = true,
        env = "REGROW_LOG",
        hide_env = true,
        value_name = "LEVEL",
        default_value = "warn"
    )]
    pub(crate) log: String,

    #[command(subcommand)]
    pub(crate) action: Action,
}

/// What is to be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Try every kernel feature that Regrow looks for, and say what it does with each or without
    Doctor(DoctorArgs),
    /// Run a program out of the daemon's pool, or out of one of its own
    Run(RunArgs),
    /// Record which processes are created below a command
    Record(RecordArgs),
    /// Run a recorded sequence of creations through policies of keeping, and compare them
    Replay(ReplayArgs),
    /// Start programs by posix_spawn and by Regrow in turn, and compare
    Bench(BenchArgs),
    /// Answer requests of the web, each with a fresh process: CGI, functions, Python applications
    Web(Box<WebArgs>),
    /// Keep one pool for all programs of this user (regrow run starts it by itself)
    Daemon(DaemonArgs),
    /// Have the daemon leave when the runs that are under way have ended
    #[command(after_help = STOP_EXAMPLES)]
    Stop,

    /// Set how much memory the daemon may hold by what it keeps
    Budget(BudgetArgs),
    /// Show what the daemon keeps and how it created processes
    Status(StatusArgs),
    /// List what stands below a path of the resource tree
    Ls(PathArgs),
    /// Show the fields of a resource
    Show(PathArgs),
    /// Show the state of the pool, live
    Top(TopArgs),
    /// Put launchers into a folder, so that programs are recycled by their plain names
    Link(LinkArgs),
    /// Take launchers away
    Unlink(UnlinkArgs),
    /// Print what a shell needs to complete the words of this command
    Completions(CompletionsArgs),
    /// Write the manual pages
    Man(ManArgs),
}

/// The arguments of `regrow status`.
#[derive(Debug, Args)]
#[command(after_help = STATUS_EXAMPLES)]
pub(crate) struct StatusArgs {
    /// Print all that is known as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Say for each body and shell why it is kept, and what the policy has learned
    #[arg(long, conflicts_with = "json")]
    pub(crate) why: bool,
}

/// The arguments of `regrow budget`.
#[derive(Debug, Args)]
#[command(after_help = BUDGET_EXAMPLES)]
pub(crate) struct BudgetArgs {
    /// How much memory may be held by what is kept and in no use, in MiB
    #[arg(value_name = "MIB", value_parser = clap::value_parser!(u64).range(0..=1 << 30))]
    pub(crate) mib: u64,
}

/// The arguments of `regrow ls` and `regrow show`.
#[derive(Debug, Args)]
#[command(after_help = PATH_EXAMPLES)]
pub(crate) struct PathArgs {
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// The path: /HOST/TABLE/NUMBER, where HOST may be a dot
    #[arg(value_name = "PATH", default_value = "/")]
    pub(crate) path: String,
}

/// The arguments of `regrow top`.
#[derive(Debug, Args)]
#[command(after_help = TOP_EXAMPLES)]
pub(crate) struct TopArgs {
    /// How often to look, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(50..))]
    pub(crate) interval_ms: u32,
}

/// The arguments of `regrow link`.
#[derive(Debug, Args)]
#[command(after_help = LINK_EXAMPLES)]
pub(crate) struct LinkArgs {
    /// The folder [default: $XDG_DATA_HOME/regrow/bin, or ~/.local/share/regrow/bin]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,

    /// The programs, as they are typed
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

    /// The programs, as they are typed
    #[arg(value_name = "NAME")]
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

/// The arguments of `regrow man`.
#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct ManArgs {
    /// The folder that they are written to, which is made if it is missing
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
}

/// The arguments of `regrow daemon`.
#[derive(Debug, Args)]
#[command(after_help = DAEMON_EXAMPLES)]
pub(crate) struct DaemonArgs {
    /// Leave after this many seconds without a client; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub(crate) idle: u64,

    /// Most clients at a time
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(crate) max_clients: u16,

    /// Most runs at a time; a command that would be one more executes its program itself
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub(crate) max_runs: u16,

    /// Most bodies of one program, and so most runs of it at a time that are recycled
    #[arg(long, value_name = "N", default_value_t = 48)]
    pub(crate) max_bodies: u16,

    /// What decides which bodies and shells are kept: none, recycle, recycle-one, pool or adaptive
    #[arg(long, value_name = "NAME", default_value = "adaptive")]
    pub(crate) policy: regrow_pool::policy::Choice,

    /// How much memory may be held by what is kept and in no use, in MiB; else 5 % of the machine's
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(0..=1 << 30))]
    pub(crate) budget_mib: Option<u64>,

    /// Append a line of JSON to FILE for each process that is created
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) log_creations: Option<PathBuf>,

    /// Serve metrics for Prometheus at this address, under /metrics
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics: Option<SocketAddr>,

    /// Serve commands of other control groups too: their runs are accounted to the daemon's
    #[arg(long)]
    pub(crate) any_cgroup: bool,
}

/// The arguments of `regrow doctor`.
#[derive(Debug, Args)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Print all that is known as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments of `regrow run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// Keep the pool in this process, and use no daemon
    #[arg(long, visible_alias = "no-daemon")]
    pub(crate) embedded: bool,

    /// The program needs no terminal: have the daemon start it although there is one
    #[arg(long, conflicts_with = "embedded")]
    pub(crate) no_tty: bool,

    /// Modules that a Python program finds imported: they are imported once, for all runs
    #[arg(long, value_name = "MODULES", value_delimiter = ',')]
    pub(crate) preload: Vec<String>,

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

    /// The program: a path, or a name that is looked for in PATH
    #[arg(value_name = "PROG", value_hint = ValueHint::CommandName)]
    pub(crate) program: OsString,

    /// Its arguments
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<OsString>,
}

impl RunArgs {
    /// Whether something is asked for that only a pool in this process can give.
    pub(crate) fn wants_own_pool(&self) -> bool {
        let many = self.repeat > 1 || self.verify || self.report.is_some();
        self.embedded || many || self.point != PointArg::Auto
    }
}

/// The arguments of `regrow record`.
#[derive(Debug, Args)]
#[command(after_help = RECORD_EXAMPLES)]
pub(crate) struct RecordArgs {
    /// The file that is written
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// Most creations that are recorded; the command runs on
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,

    /// The command: a path, or a name that is looked for in PATH
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
    /// The trace: what regrow record has written
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

    /// How many processes stay alive, or recorded
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,5,10,20")]
    pub(crate) existing: Vec<ExistingArg>,

    /// Simulate it, with a table of costs (without --real: that alone)
    #[arg(long)]
    pub(crate) simulate: bool,

    /// Run it with real processes, each held alive before its end, and real memory
    #[arg(long)]
    pub(crate) real: bool,

    /// The table of costs, as JSON; without one, what can be is measured on this machine
    #[arg(long, value_name = "FILE")]
    pub(crate) costs: Option<PathBuf>,

    /// How much memory may be kept, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(0..=1 << 30))]
    pub(crate) budget_mib: u64,

    /// Write all that was noted to FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Draw plots into DIR, each as SVG and PNG
    #[arg(long, value_name = "DIR")]
    pub(crate) plot: Option<PathBuf>,
}

/// Which processes are alive in a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExistingArg {
    /// As it was recorded.
    Recorded,
    /// This many, at least one.
    Exactly(usize),
}

impl std::str::FromStr for ExistingArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text, text.parse()) {
            ("recorded", _) => Ok(Self::Recorded),
            (_, Ok(existing)) if existing > 0 => Ok(Self::Exactly(existing)),
            _ => Err("a number of processes from 1, or `recorded`, is wanted".to_owned()),
        }
    }
}

impl std::fmt::Display for ExistingArg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Recorded => f.write_str("recorded"),
            Self::Exactly(existing) => write!(f, "{existing}"),
        }
    }
}

impl serde::Serialize for ExistingArg {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Recorded => serializer.serialize_str("recorded"),
            Self::Exactly(existing) => serializer.collect_str(existing),
        }
    }
}

/// The arguments of `regrow bench`.
#[derive(Debug, Args)]
#[command(after_help = BENCH_EXAMPLES)]
pub(crate) struct BenchArgs {
    /// How many timed runs of each program by each of the two ways
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,

    /// How many runs by each way come before them, checked but not timed
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) warmup: u32,

    /// How long to pause before each timed run, after the body is put back, in microseconds
    #[arg(long, value_name = "US", default_value_t = 100)]
    pub(crate) pause_us: u32,

    /// Measure the throughput of P clients at a time as well as that of one
    #[arg(long, value_name = "P", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) parallel: u16,

    /// Measure the daemon instead: a connected client, 32 of them, and commands by regrow run
    #[arg(long, conflicts_with_all = ["parallel", "program", "static_program"])]
    pub(crate) daemon: bool,

    /// Measure the pool's policies instead, on the traces in FOLDER and with real processes
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["daemon", "resources", "parallel", "program", "static_program"])]
    pub(crate) pool: Option<PathBuf>,

    /// Measure instead what getting each resource costs, made anew and from the pool
    #[arg(long, conflicts_with_all = ["daemon", "parallel", "program", "static_program"])]
    pub(crate) resources: bool,

    /// Write the results to FILE as a JSON array with an object for each program
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<PathBuf>,

    /// A statically linked program for the built-in list, instead of one compiled with cc
    #[arg(long = "static", value_name = "FILE")]
    pub(crate) static_program: Option<PathBuf>,

    /// The program; without one, a list of common programs
    #[arg(value_name = "PROG")]
    pub(crate) program: Option<OsString>,

    /// Its arguments
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<OsString>,
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
    /// Where an interpreter that has a front end has stopped itself, having prepared itself
    Warm,
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_help_ends_with_examples() {
        let mut command = Cli::command();
        command.build();
        let all = command.get_subcommands().filter(|each| each.get_name() != "help").chain([&command]);
        for each in all {
            let text = each.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(text.contains("Examples:\n  "), "{}: {text}", each.get_name());
        }
    }

    #[test]
    fn what_follows_the_program_is_the_programs_own() {
        let cli =
            Cli::try_parse_from(["regrow", "run", "--repeat", "2", "git", "--version", "--repeat"]).unwrap();
        let Action::Run(run) = cli.action else { panic!("{cli:?}") };
        assert_eq!(run.repeat, 2);
        assert_eq!(run.program, "git");
        assert_eq!(run.args, ["--version", "--repeat"]);
    }

    #[test]
    fn a_flag_that_does_not_exist_is_no_program() {
        assert!(Cli::try_parse_from(["regrow", "run", "--bogus", "true"]).is_err());
        assert!(Cli::try_parse_from(["regrow", "bench", "--bogus"]).is_err());
        let cli = Cli::try_parse_from(["regrow", "run", "--", "--bogus"]).unwrap();
        let Action::Run(run) = cli.action else { panic!("{cli:?}") };
        assert_eq!(run.program, "--bogus");
    }
}
