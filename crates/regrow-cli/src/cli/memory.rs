//! The arguments of `regrow memory`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// What `regrow memory --help` ends with.
const EXAMPLES: &str = "\
Examples:
  regrow memory serve /run/user/1000/frames.sock --mib 4096
  regrow memory status /run/user/1000/frames.sock";

/// What `regrow memory serve --help` ends with.
const SERVE_EXAMPLES: &str = "\
Programs of the same user get blocks by regrow_memory::RemoteClient::connect, and hand them to one another without a copy. What a
program had comes back when it ends. On SIGTERM and SIGINT the service ends; programs keep the blocks that they have.

Exit status: 0 when it has ended; 2 when it cannot serve.

Examples:
  regrow memory serve /run/user/1000/frames.sock
  regrow memory serve --mib 4096 --zones 4 /run/user/1000/frames.sock";

/// What `regrow memory status --help` ends with.
const STATUS_EXAMPLES: &str = "\
Exit status: 0; 2 when nobody serves at the socket.

Examples:
  regrow memory status /run/user/1000/frames.sock
  regrow memory status --json /run/user/1000/frames.sock | jq '.zones[].free_pages'
  regrow memory status --metrics /run/user/1000/frames.sock";

/// The arguments of `regrow memory`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MemoryArgs {
    #[command(subcommand)]
    pub(crate) action: MemoryAction,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum MemoryAction {
    /// Serve blocks of memory to programs of this user, until a signal ends it
    Serve(MemoryServeArgs),
    /// Show what a service holds: its zones, their load, and the range as a picture
    Status(MemoryStatusArgs),
}

/// The arguments of `regrow memory serve`.
#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct MemoryServeArgs {
    /// The socket to listen at
    #[arg(value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    pub(crate) socket: PathBuf,

    /// How much memory it may give out, in MiB; it takes what is used of that
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) mib: u32,

    /// How many zones it has; as many as processors without this flag
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) zones: Option<u32>,
}

/// The arguments of `regrow memory status`.
#[derive(Debug, Args)]
#[command(after_help = STATUS_EXAMPLES)]
pub(crate) struct MemoryStatusArgs {
    /// The socket of the service
    #[arg(value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    pub(crate) socket: PathBuf,

    /// Print it as JSON
    #[arg(long, conflicts_with = "metrics")]
    pub(crate) json: bool,

    /// Print it as metrics for Prometheus
    #[arg(long)]
    pub(crate) metrics: bool,
}
