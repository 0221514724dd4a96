//! `regrow daemon` and `regrow stop`.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use regrow_daemon::client::Client;
use regrow_daemon::place::Place;
use regrow_daemon::server::{Listener, ServeError, Server, ServerOptions};

use regrow_engine::log::CreationLog;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cli::daemon::{BudgetArgs, DaemonArgs};
use crate::error::CliError;

/// How many descriptors the daemon asks for.
const DESCRIPTORS: u64 = 8192;

/// Serves until the daemon is told to end, or nobody has needed it for a while.
pub(crate) fn daemon(args: &DaemonArgs) -> Result<u8, CliError> {
    let mut options = ServerOptions { any_cgroup: args.any_cgroup, ..ServerOptions::default() };
    options.idle = Some(args.idle).filter(|&idle| idle != 0).map(Duration::from_secs);
    options.max_clients = args.max_clients.into();
    options.max_runs = args.max_runs.into();
    options.pool.policy = args.policy.clone();
    if let Some(mib) = args.budget_mib {
        options.pool.budget_bytes = mib << 20;
    }
    options.pool.timed = true;
    options.pool.spot_checks = args.spot_checks;
    options.pool.max_bodies_per_program = args.max_bodies.into();
    // What it makes is its user's alone, whatever the command that has started it was told to make.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let listener = match crate::detach::passed_socket() {
        Some(socket) => Listener::given(socket)?,
        None => {
            let place = Place::of_user()?;
            match Listener::bind(&place) {
                Err(error @ ServeError::AlreadyThere { .. }) => {
                    let pid = pid_of_daemon(&place).map(|pid| format!(", pid {pid}")).unwrap_or_default();
                    crate::message::complain(&format!(
                        "{error}{pid}; options given now are not applied to it"
                    ));
                    return Ok(0);
                }
                listener => listener?,
            }
        }
    };
    raise_descriptors();
    let log = match &args.log_creations {
        Some(path) => CreationLog::with_file(append_to(path)?),
        None => CreationLog::default(),
    };
    let mut server = Server::new(listener, options, log)?;
    if let Some(address) = args.metrics {
        let most = args.max_metrics_connections.into();
        crate::metrics::serve(address, most).map_err(|error| with_address(error, address))?;
    }
    server.serve()?;
    Ok(0)
}

/// The process number of the daemon at a place, if one listens.
fn pid_of_daemon(place: &Place) -> Option<i32> {
    let client = Client::connect(place).ok()?;
    let peer = rustix::net::sockopt::socket_peercred(client.as_fd()).ok()?;
    Some(peer.pid.as_raw_nonzero().get())
}

/// The error of a step of the metrics, with the address that the user gave.
fn with_address(error: CliError, address: SocketAddr) -> CliError {
    match error {
        CliError::System { what, source } => {
            let source = io::Error::new(source.kind(), format!("{address}: {source}"));
            CliError::System { what, source }
        }
        error => error,
    }
}

/// Raises the limit of descriptors, which clients and images hold. Runs still get the limits of their clients.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(DESCRIPTORS, |most| most.min(DESCRIPTORS));
    if limit.current.is_some_and(|current| current < most) {
        // With fewer there are fewer images and clients.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit });
    }
}

fn append_to(path: &Path) -> Result<File, CliError> {
    let file = File::options().append(true).create(true).open(path);
    file.map_err(|source| CliError::Write { path: path.to_owned(), source })
}

/// Sets how much memory the daemon's pool may hold.
pub(crate) fn budget(args: &BudgetArgs) -> Result<u8, CliError> {
    Client::connect(&Place::of_user()?)?.set_budget(args.mib << 20)?;
    Ok(0)
}

/// Stops the daemon, and waits until it has ended.
pub(crate) fn stop() -> Result<u8, CliError> {
    let mut client = Client::connect(&Place::of_user()?)?;
    client.stop()?;
    client.wait_gone();
    Ok(0)
}
