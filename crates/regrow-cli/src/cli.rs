//! The command line: every flag, its help and its default stand here and nowhere else.

pub(crate) mod daemon;
pub(crate) mod env;
pub(crate) mod measure;
pub(crate) mod memory;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod setup;
pub(crate) mod sites;
pub(crate) mod web;

use clap::{Parser, Subcommand};

use self::daemon::{BudgetArgs, DaemonArgs, PathArgs, STOP_EXAMPLES, StatusArgs, TopArgs};
use self::env::EnvArgs;
use self::measure::{BenchArgs, RecordArgs, ReplayArgs};
use self::memory::MemoryArgs;
use self::run::RunArgs;
use self::schedule::ScheduleArgs;
use self::setup::{BuiltinsArgs, CompletionsArgs, DoctorArgs, LinkArgs, ManArgs, UnlinkArgs};
use self::sites::SitesArgs;
use self::web::WebArgs;

/// What `regrow --help` ends with.
const EXAMPLES: &str = "\
Examples:
  regrow doctor                            what this kernel offers, and what Regrow does with it
  regrow run -- git --version              a run out of the daemon's pool
  regrow run --repeat 3 -- git --version   three runs out of a pool of their own
  regrow env -- ./configure                what the command starts goes through the daemon
  regrow link git                          the same as regrow run -- git, whenever git is called
  regrow sites -- make -j2                 which line creates the most processes, and what they cost
  regrow status                            what the daemon keeps
  regrow bench -- git --version            Regrow beside posix_spawn

Environment:
  REGROW_DISABLE   kernel features that Regrow takes as missing, separated by commas
  REGROW_LOG       the same as --log";

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

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Try the kernel features that Regrow uses, and tell what it does with each and without it
    Doctor(DoctorArgs),
    /// Run a program in a recycled process
    Run(RunArgs),
    /// Show where a command creates processes, and what they cost
    Sites(Box<SitesArgs>),
    /// Run a command below which processes are scheduled by what is predicted about them
    Schedule(ScheduleArgs),
    /// Record which processes a command creates
    Record(RecordArgs),
    /// Compare policies of keeping on a recorded sequence of creations
    Replay(ReplayArgs),
    /// Compare Regrow with posix_spawn: start programs by both in turn
    Bench(BenchArgs),
    /// Answer each web request with a fresh process: CGI scripts, functions, Python applications
    Web(Box<WebArgs>),
    /// Serve all programs of this user from one pool (regrow run starts the daemon by itself)
    Daemon(DaemonArgs),
    /// Stop the daemon as soon as its runs have ended
    #[command(after_help = STOP_EXAMPLES)]
    Stop,

    /// Set how much memory the daemon's pool may hold
    Budget(BudgetArgs),
    /// Show what the daemon keeps and how it created processes
    Status(StatusArgs),
    /// List the resources below a path
    Ls(PathArgs),
    /// Show the fields of a resource
    Show(PathArgs),
    /// Show the state of the pool, live
    Top(TopArgs),
    /// Run a command below which small programs are recycled
    Env(EnvArgs),
    /// Serve blocks of memory to programs, and show what such a service holds
    Memory(MemoryArgs),
    /// Make launchers, so that a program is recycled when you type its plain name
    Link(LinkArgs),
    /// Remove launchers
    Unlink(UnlinkArgs),
    /// Print the line by which bash has small programs recycled without a process of its own
    Builtins(BuiltinsArgs),
    /// Print completions for a shell
    Completions(CompletionsArgs),
    /// Write the manual pages
    Man(ManArgs),
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
