//! `regrow run`, one command after the other, and `env` in its place.

use std::io;
use std::path::Path;
use std::process::Command;

use regrow_testkit::corpus::{Invocation, PlainExec, RunResult, Spawner, run_command};

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
        let gathered = run_command(command, invocation, dir)?;
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
