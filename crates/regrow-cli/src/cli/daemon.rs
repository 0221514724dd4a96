//! The arguments of `regrow daemon` and of what asks the daemon.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use regrow_pool::policy::PolicyChoice;

/// What `regrow daemon --help` ends with.
const DAEMON_EXAMPLES: &str = "\
The socket is $XDG_RUNTIME_DIR/regrow.sock; without that variable /run/user/UID/regrow.sock, or \
/tmp/regrow-UID/regrow.sock. Where a service manager passes a socket (LISTEN_FDS), the daemon takes that.

Exit status: 0 when the daemon has ended, or another one is there already; 2 when it cannot serve.

Examples:
  regrow daemon --idle 0 --any-cgroup
  regrow daemon --metrics 127.0.0.1:9417 --log-creations creations.jsonl
  regrow --log debug daemon";

/// What `regrow stop --help` ends with.
pub(super) const STOP_EXAMPLES: &str = "\
Exit status: 0 when the daemon has ended; 2 when there is none.

Examples:
  regrow stop";

/// What `regrow budget --help` ends with.
const BUDGET_EXAMPLES: &str = "\
The daemon gives back what is more than that before the command ends. Its runs go on.

Exit status: 0; 2 when there is no daemon.

Examples:
  regrow budget 256
  regrow budget 0";

/// What `regrow status --help` ends with.
const STATUS_EXAMPLES: &str = "\
The last table has the pools of programs: those that a process has for itself, as an executor of Python does. Its counts are at most some \
seconds old.

Exit status: 0; 2 when there is no daemon, and no program that has a pool.

Examples:
  regrow status
  regrow status --why
  regrow status --json | jq '.pool.creations'
  regrow status --json | jq '.pools[] | {pid, users}'";

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
Press q, Esc or Ctrl-C to end it.

Examples:
  regrow top --interval-ms 250";

/// The arguments of `regrow daemon`.
#[derive(Debug, Args)]
#[command(after_help = DAEMON_EXAMPLES)]
pub(crate) struct DaemonArgs {
    /// End after this many seconds without a client; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub(crate) idle: u64,

    /// How many clients there may be at a time
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(crate) max_clients: u16,

    /// How many runs there may be at a time; a command beyond that executes its program itself
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub(crate) max_runs: u16,

    /// How many bodies of one program there may be: so many runs of it at a time are recycled
    #[arg(long, value_name = "N", default_value_t = 48)]
    pub(crate) max_bodies: u16,

    /// The policy that decides which bodies and shells the daemon keeps: none, recycle, recycle-one, pool or adaptive
    #[arg(long, value_name = "NAME", default_value = "adaptive")]
    pub(crate) policy: PolicyChoice,

    /// How much memory the pool may hold while it is in no use, in MiB [default: 5 % of the machine's]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(0..=1 << 30))]
    pub(crate) budget_mib: Option<u64>,

    /// Compare one body in N runs with its image, while no run is in it; 0: none
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) spot_checks: u32,

    /// Append a line of JSON to FILE for each process that the daemon creates
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) log_creations: Option<PathBuf>,

    /// Serve metrics for Prometheus at this address, under /metrics
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics: Option<SocketAddr>,

    /// How many connections to the metrics are open at a time; those beyond wait
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_metrics_connections: u16,

    /// Serve commands of other control groups too; their runs are charged to the daemon's group
    #[arg(long)]
    pub(crate) any_cgroup: bool,
}

/// The arguments of `regrow budget`.
#[derive(Debug, Args)]
#[command(after_help = BUDGET_EXAMPLES)]
pub(crate) struct BudgetArgs {
    /// How much memory the pool may hold while it is in no use, in MiB
    #[arg(value_name = "MIB", value_parser = clap::value_parser!(u64).range(0..=1 << 30))]
    pub(crate) mib: u64,
}

/// The arguments of `regrow status`.
#[derive(Debug, Args)]
#[command(after_help = STATUS_EXAMPLES)]
pub(crate) struct StatusArgs {
    /// Print everything as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Tell why the daemon keeps each body and shell, and what its policy has learned
    #[arg(long, conflicts_with = "json")]
    pub(crate) why: bool,
}

/// The arguments of `regrow ls` and `regrow show`.
#[derive(Debug, Args)]
#[command(after_help = PATH_EXAMPLES)]
pub(crate) struct PathArgs {
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// The path: /HOST/TABLE/NUMBER; a dot stands for this host
    #[arg(value_name = "PATH", default_value = "/")]
    pub(crate) path: String,
}

/// The arguments of `regrow top`.
#[derive(Debug, Args)]
#[command(after_help = TOP_EXAMPLES)]
pub(crate) struct TopArgs {
    /// How often to refresh, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(50..))]
    pub(crate) interval_ms: u32,
}
