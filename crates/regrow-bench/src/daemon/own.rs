//! A daemon in a folder of its own, which ends with the benchmark.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use regrow_daemon::client::Client;
use regrow_daemon::place::Place;
use regrow_daemon::wire::Question;
use serde_json::Value;

use super::spawn::open_null;
use crate::error::BenchError;
use crate::system::native::PosixSpawn;

/// How long the daemon may take until it serves.
const PATIENCE: Duration = Duration::from_secs(10);

/// A daemon that serves this benchmark alone.
pub(super) struct OwnDaemon {
    folder: tempfile::TempDir,
    process: Child,
    pub(super) place: Place,
}

impl OwnDaemon {
    /// Starts the daemon, and waits until it serves.
    pub(super) fn start() -> Result<OwnDaemon, BenchError> {
        let cannot = |what: &'static str| BenchError::system(what);
        let folder = tempfile::tempdir().map_err(cannot("there is no folder for a daemon"))?;
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700))
            .map_err(cannot("there is no folder for a daemon"))?;
        let user = rustix::process::geteuid().as_raw();
        let place = Place::at(folder.path().to_owned(), user)?;
        let process = Command::new(own_path()?)
            .args(["daemon", "--idle", "0"])
            .env("XDG_RUNTIME_DIR", folder.path())
            .stdin(Stdio::null())
            .spawn()
            .map_err(cannot("a daemon cannot be started"))?;
        let daemon = OwnDaemon { folder, process, place };
        let begun = Instant::now();
        while let Err(error) = Client::connect(&daemon.place) {
            if begun.elapsed() > PATIENCE {
                return Err(error.into());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(daemon)
    }

    /// A program that finds this daemon, to be started by `posix_spawn`.
    pub(super) fn command(&self, program: &Path, args: &[&str]) -> Result<PosixSpawn, BenchError> {
        let mut argv = vec![program.as_os_str().to_owned()];
        argv.extend(args.iter().map(OsString::from));
        let stdio = [open_null()?.into(), open_null()?.into(), open_null()?.into()];
        let variable = (OsStr::new("XDG_RUNTIME_DIR"), self.folder.path().as_os_str());
        PosixSpawn::with_variable(program, &argv, stdio, Some(variable))
            .map_err(BenchError::system("a program cannot be prepared for posix_spawn"))
    }

    /// How many runs the daemon has recycled so far.
    pub(super) fn recycled(&self) -> Result<u64, BenchError> {
        let status = Client::connect(&self.place)?.ask(Question::Status)?;
        let status: Value = serde_json::from_str(&status)
            .map_err(std::io::Error::other)
            .map_err(BenchError::system("the daemon's status cannot be read"))?;
        let creations = &status["pool"]["creations"];
        let by_point = ["recycled", "forked_body"].map(|how| creations[how].as_object());
        let counts = by_point.into_iter().flatten().flat_map(|points| points.values());
        Ok(counts.filter_map(Value::as_u64).sum())
    }
}

impl Drop for OwnDaemon {
    fn drop(&mut self) {
        // It leaves by itself when its last run has ended.
        let told = Client::connect(&self.place).and_then(|mut client| client.stop());
        if told.is_err() {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

/// The file of this command.
pub(super) fn own_path() -> Result<PathBuf, BenchError> {
    std::env::current_exe().map_err(BenchError::system("the path of this program cannot be told"))
}
