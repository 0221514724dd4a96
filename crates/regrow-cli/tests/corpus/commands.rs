//! `regrow run`, one command after the other, and `env` in its place.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use regrow_testkit::corpus::{Input, Invocation, Output, Pipes, PlainExec, RunResult, Spawner, gather};

use crate::service::Said;

/// Plain exec by `env`: a prefix that does nothing.
pub(crate) struct ByEnv;

impl Spawner for ByEnv {
    fn run(&mut self, invocation: &Invocation, dir: &Path) -> io::Result<RunResult> {
        let mut invocation = invocation.clone();
        invocation.args.splice(0..0, ["--".into(), invocation.program]);
        invocation.program = "/usr/bin/env".into();
        PlainExec.run(&invocation, dir)
    }
}

/// Runs each invocation by a command.
pub(crate) struct Commands;

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
            status: gathered.status,
            stdout: gathered.stdout,
            stderr: said.rest,
            how: said.how.unwrap_or_else(|| "exec".to_owned()),
            point: None,
            fallback,
        })
    }
}
