//! What the tests of the command share: starting it, and reading what it prints.

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Output, Stdio};

/// The command under test, with no setting from the environment of the tests, no place for a daemon, and nothing to read.
pub(crate) fn regrow() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_regrow"));
    command.env_remove("REGROW_DISABLE").env_remove("REGROW_LOG").stdin(Stdio::null());
    command.env("XDG_RUNTIME_DIR", "/nonexistent");
    command
}

/// Runs it with these arguments.
pub(crate) fn output<I, S>(args: I) -> Output
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    regrow().args(args).output().unwrap()
}

/// The status as a shell tells it.
pub(crate) fn shell_status(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
