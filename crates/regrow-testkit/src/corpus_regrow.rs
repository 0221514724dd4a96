//! The corpus runner's door to a pool: every run is a [`regrow::Command`].

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::ExitStatus;

use regrow::{Child, Command, Pool, Stdio};

use crate::corpus::{Input, Invocation, Output, Pipes, RunResult, Running, Spawner, gather};

/// Runs invocations out of a pool, and says of each how its process was made.
#[derive(Debug)]
pub struct PoolSpawner {
    pool: Pool,
    /// The entries whose images have been made ahead.
    prepared: BTreeSet<String>,
}

impl PoolSpawner {
    /// Runs out of `pool`. Before the first run of an entry its image is made, so that this run can be recycled too.
    pub fn new(pool: Pool) -> Self {
        Self { pool, prepared: BTreeSet::new() }
    }

    fn command(&self, invocation: &Invocation, dir: &Path) -> Command {
        let mut command = self.pool.command(&invocation.program);
        command.args(&invocation.args).env_clear().current_dir(dir);
        command.envs(invocation.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl Spawner for PoolSpawner {
    fn run(&mut self, invocation: &Invocation, dir: &Path) -> io::Result<RunResult> {
        let mut command = self.command(invocation, dir);
        if self.prepared.insert(invocation.entry.clone()) {
            // A program that is not recycled says why in the creation of its runs.
            let _ = self.pool.prepare(&command);
        }
        command.stdin(match &invocation.stdin {
            Input::Null => Stdio::null(),
            Input::Text(_) => Stdio::piped(),
            Input::File(path) => Stdio::from(File::open(path)?),
        });
        command.stdout(match &invocation.stdout {
            Output::Pipe => Stdio::piped(),
            Output::File(path) => Stdio::from(File::create(path)?),
        });
        command.stderr(Stdio::piped());
        let mut child = command.spawn()?;
        drop(command);
        let pipes = Pipes::new(child.stdin.take(), child.stdout.take(), child.stderr.take());
        let gathered = gather(&mut child, pipes, invocation)?;
        let creation = child.creation();
        Ok(RunResult {
            status: gathered.status,
            stdout: gathered.stdout,
            stderr: gathered.stderr,
            how: creation.how().to_owned(),
            point: creation.point().map(|point| point.name().to_owned()),
            fallback: creation.fallback().map(ToString::to_string),
        })
    }
}

impl Running for Child {
    fn poll_status(&mut self) -> io::Result<Option<ExitStatus>> {
        self.try_wait()
    }

    fn kill_and_wait(&mut self) -> io::Result<()> {
        self.kill()?;
        self.wait().map(drop)
    }
}
