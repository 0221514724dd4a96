//! Starts programs by `posix_spawn` beside the daemon, and checks that they succeed.

use std::fs::File;
use std::path::Path;
use std::process::ExitStatus;

use crate::error::BenchError;
use crate::samples::{Percentiles, Samples};
use crate::system::native::{PosixSpawn, Spawned};

/// A program without arguments, its standard descriptors on `/dev/null`.
pub(super) fn spawner(program: &Path) -> Result<PosixSpawn, BenchError> {
    let null = || open_null().map(Into::into);
    PosixSpawn::new(program, &[program.as_os_str().to_owned()], [null()?, null()?, null()?])
        .map_err(BenchError::system("a program cannot be prepared for posix_spawn"))
}

/// `/dev/null`, to read and to write.
pub(super) fn open_null() -> Result<File, BenchError> {
    let null = File::options().read(true).write(true).open("/dev/null");
    null.map_err(BenchError::system("/dev/null cannot be opened"))
}

/// Starts the program and waits for its end.
pub(super) fn spawn(spawner: &PosixSpawn) -> Result<ExitStatus, BenchError> {
    spawner
        .spawn()
        .and_then(Spawned::wait)
        .map_err(BenchError::system("a program cannot be started by posix_spawn"))
}

/// Whether a run succeeded.
pub(super) fn check(status: ExitStatus) -> Result<(), BenchError> {
    if status.success() {
        return Ok(());
    }
    Err(BenchError::WrongRun {
        program: "a program of the benchmark".to_owned(),
        what: format!("ended with {status}"),
    })
}

/// The percentiles of times; not numbers where there are none.
pub(super) fn percentiles(samples: &Samples) -> Percentiles {
    samples.percentiles().unwrap_or(Percentiles { p50: f64::NAN, p99: f64::NAN })
}
