//! Processes that are held just before their end, with their memory.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use regrow::{Child, Command, Pool};
use regrow_sys::ptrace;

use super::error::ReplayError;
use crate::quiet;

/// Arguments with which a program does nothing.
fn arguments(program: &str) -> &'static [&'static str] {
    match Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default() {
        "dash" | "sh" => &["-c", ":"],
        "perl" => &["-e", "1"],
        "lighttpd" => &["-v"],
        _ => &["--version"],
    }
}

/// The command of a held process.
pub(super) fn command(pool: &Pool, program: &str) -> Command {
    let mut command = quiet::command(pool, Path::new(program));
    command.args(arguments(program)).stop_at_exit(true);
    command
}

/// A process that has stopped just before its end.
pub(super) struct HeldProcess {
    pub(super) child: Child,
    program: String,
    pid: i32,
}

impl HeldProcess {
    /// Starts a program, waits until it is about to end, and tells how long that took. On a busy machine a program that exec
    /// started may be over before this process can hold it: such a start does not count.
    pub(super) fn start(pool: &Pool, program: &str) -> Result<(HeldProcess, Duration), ReplayError> {
        let mut command = command(pool, program);
        loop {
            let began = Instant::now();
            let started = command.spawn().and_then(|child| {
                let pid = child.id().cast_signed();
                ptrace::await_exit(pid).map(|()| HeldProcess { child, program: program.to_owned(), pid })
            });
            match started {
                Ok(held) => return Ok((held, began.elapsed())),
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::UnexpectedEof) => {}
                Err(source) => return Err(ReplayError::Start { program: program.to_owned(), source }),
            }
        }
    }

    /// Lets the process end, waits for that, and checks its status.
    pub(super) fn end(self, statuses: &Statuses) -> Result<(), ReplayError> {
        let program = self.program.clone();
        statuses.check(&program, self.status()?)
    }

    /// Lets the process end, and waits for its status.
    fn status(mut self) -> Result<ExitStatus, ReplayError> {
        let cannot = |source| ReplayError::Start { program: self.program.clone(), source };
        ptrace::let_exit(self.pid).map_err(cannot)?;
        self.child.wait().map_err(cannot)
    }
}

/// How each program ends by exec: so must every other process of it.
#[derive(Debug, Default)]
pub(super) struct Statuses(BTreeMap<String, ExitStatus>);

impl Statuses {
    /// Starts a program by exec, in a pool that recycles nothing, and notes how it ends.
    pub(super) fn learn(&mut self, by_exec: &Pool, program: &str) -> Result<(), ReplayError> {
        let (held, _) = HeldProcess::start(by_exec, program)?;
        self.0.insert(program.to_owned(), held.status()?);
        Ok(())
    }

    fn check(&self, program: &str, found: ExitStatus) -> Result<(), ReplayError> {
        match self.0.get(program) {
            Some(&expected) if expected != found => {
                Err(ReplayError::Status { program: program.to_owned(), found, expected })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_process_must_end_as_its_program_does_by_exec() {
        let pool = Pool::builder().recycle(false).build();
        let mut statuses = Statuses::default();
        statuses.learn(&pool, "/bin/cat").unwrap();
        let (held, _) = HeldProcess::start(&pool, "/bin/cat").unwrap();
        held.end(&statuses).unwrap();
        let error = statuses.check("/bin/cat", ExitStatus::from_raw(9)).unwrap_err().to_string();
        assert!(error.starts_with("/bin/cat: a process ended with signal: 9 (SIGKILL)"), "{error}");
    }
}
