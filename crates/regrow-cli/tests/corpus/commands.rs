//! `regrow run`, one command after the other.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::rc::Rc;

use regrow_testkit::corpus::{Input, Invocation, Output, Pipes, PlainExec, RunResult, Spawner, gather};

use crate::service::{Said, shell_status};

/// What an invocation is known by.
type Key = (String, Vec<OsString>);

/// Plain exec, of which the statuses are remembered.
#[derive(Clone, Default)]
pub(crate) struct Remembering(Rc<RefCell<HashMap<Key, ExitStatus>>>);

fn key(invocation: &Invocation) -> Key {
    (invocation.entry.clone(), invocation.args.clone())
}

impl Spawner for Remembering {
    fn run(&mut self, invocation: &Invocation, dir: &Path) -> io::Result<RunResult> {
        let result = PlainExec.run(invocation, dir)?;
        self.0.borrow_mut().insert(key(invocation), result.status);
        Ok(result)
    }
}

/// Runs each invocation by a command.
pub(crate) struct Commands {
    plain: Remembering,
}

impl Commands {
    /// What a signal has ended is told as a shell tells it: the plain runs say which status stands for a signal.
    pub(crate) fn new(plain: Remembering) -> Commands {
        Commands { plain }
    }

    fn status(&self, invocation: &Invocation, found: ExitStatus) -> ExitStatus {
        let plain = self.plain.0.borrow().get(&key(invocation)).copied();
        plain
            .filter(|plain| plain.signal().is_some() && found.code() == Some(shell_status(*plain)))
            .unwrap_or(found)
    }
}

impl Spawner for Commands {
    fn run(&mut self, invocation: &Invocation, dir: &Path) -> io::Result<RunResult> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_regrow"));
        command.args(["--log", "info", "run", "--no-tty", "--"]).arg(&invocation.program);
        command.args(&invocation.args).env_clear().current_dir(dir);
        command.envs(invocation.env.iter().map(|(name, value)| (name, value)));
        command.stdin(match &invocation.stdin {
            Input::Null => Stdio::null(),
            Input::Text(_) => Stdio::piped(),
            Input::File(path) => Stdio::from(File::open(path)?),
        });
        command.stdout(match &invocation.stdout {
            Output::Pipe => Stdio::piped(),
            Output::File(path) => Stdio::from(File::create(path)?),
        });
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        drop(command);
        let pipes = Pipes::new(child.stdin.take(), child.stdout.take(), child.stderr.take());
        let gathered = gather(&mut child, pipes, invocation)?;
        let said = Said::read(&gathered.stderr);
        let fallback = match (&said.how, said.why) {
            (Some(_), _) => None,
            (None, why) => Some(why.unwrap_or_else(|| "it does not say".to_owned())),
        };
        Ok(RunResult {
            status: self.status(invocation, gathered.status),
            stdout: gathered.stdout,
            stderr: said.rest,
            how: said.how.unwrap_or_else(|| "exec".to_owned()),
            point: None,
            fallback,
        })
    }
}
