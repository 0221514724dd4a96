//! A client of the daemon that stays connected.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::thread;
use std::time::Duration;

use regrow_daemon::caller::spawn_message;
use regrow_daemon::client::Client;
use regrow_daemon::wire::SpawnMessage;

use super::own::OwnDaemon;
use super::spawn::{check, open_null, spawn, spawner};
use crate::error::BenchError;
use crate::samples::now_ns;
use crate::system::native::PosixSpawn;

/// A client that stays connected to the daemon, and starts one program by it or by `posix_spawn`.
pub(super) struct DaemonClient {
    client: Client,
    message: SpawnMessage,
    null: File,
    posix_spawn: PosixSpawn,
    pub(super) runs: u64,
    pub(super) recycled: u64,
    /// How many runs were started in bodies on lease before those that count.
    leased_before: u64,
}

impl DaemonClient {
    /// Connects.
    pub(super) fn new(daemon: &OwnDaemon, program: &Path) -> Result<DaemonClient, BenchError> {
        let null = open_null()?;
        let mut message = spawn_message::<&OsStr>(program.as_os_str(), &[])?;
        message.targets = vec![0, 1, 2];
        let client = Client::connect(&daemon.place)?;
        Ok(DaemonClient {
            client,
            message,
            null,
            posix_spawn: spawner(program)?,
            runs: 0,
            recycled: 0,
            leased_before: 0,
        })
    }

    /// Has every run by the daemon itself.
    pub(super) fn lease_nothing(&mut self) {
        self.client.lease_nothing();
    }

    /// Nanoseconds of one run by the daemon, from the call to its end seen. The client itself starts what the daemon declines.
    pub(super) fn by_daemon(&mut self) -> Result<u64, BenchError> {
        let called_ns = now_ns();
        let null = self.null.as_fd();
        self.runs += 1;
        match self.client.complete(self.message.clone(), &[null, null, null])? {
            Some(status) => check(ExitStatus::from_raw(status))?,
            None => {
                check(spawn(&self.posix_spawn)?)?;
                return Ok(now_ns() - called_ns);
            }
        }
        self.recycled += 1;
        Ok(now_ns() - called_ns)
    }

    /// Nanoseconds of one run by `posix_spawn`.
    pub(super) fn by_posix_spawn(&self) -> Result<u64, BenchError> {
        let called_ns = now_ns();
        check(spawn(&self.posix_spawn)?)?;
        Ok(now_ns() - called_ns)
    }

    /// Makes some runs by the daemon, so that there are an image and bodies, and forgets their counts.
    pub(super) fn warm_up(&mut self, runs: usize, pause: Duration) -> Result<(), BenchError> {
        for _ in 0..runs {
            self.by_daemon()?;
            thread::sleep(pause);
        }
        (self.runs, self.recycled) = (0, 0);
        self.leased_before = self.client.leased_runs();
        Ok(())
    }

    /// How many of the runs were started without the daemon, in a body on lease.
    pub(super) fn leased(&self) -> u64 {
        self.client.leased_runs() - self.leased_before
    }
}
