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
    /// Runs out of `pool`. Makes the image of an entry before its first run, so that this run can be recycled too.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{Corpus, PlainExec, Prover, Rounds};

    const MANIFEST: &str = r#"
        [environment]
        PATH = "/usr/bin:/bin"

        [[entry]]
        name = "streams"
        package = "dash"
        argv = ["sh", "-c", "tr a-z A-Z; echo $HOME >&2; pwd >file; exit 3"]
        alt = ["sh", "-c", "cat >copy; kill -9 $$"]
        stdin = "by a pipe"
        status = 3
        alt_signal = 9

        [[entry]]
        name = "files"
        package = "dash"
        argv = ["sh", "-c", "cat; read none || env"]
        alt = ["sh", "-c", "tail -c 4; test -f /dev/stdout"]
        setup = "echo from a file >in"
        stdin_file = "in"
        stdout_file = "out"

        [[entry]]
        name = "nothing"
        package = "dash"
        argv = ["sh", "-c", "read line"]
        alt = ["sh", "-c", "no-such-program"]
        status = 1
        alt_status = 127
    "#;

    fn prove(pool: Pool) -> crate::corpus::Tally {
        let corpus = Corpus::parse(MANIFEST, Path::new("/nowhere")).expect("the manifest is right");
        let root = tempfile::tempdir().expect("a temporary directory");
        let mut trial = PoolSpawner::new(pool);
        let mut prover = Prover { plain: &mut PlainExec, trial: &mut trial, rounds: Rounds::same(4) };
        prover.prove(&corpus, root.path()).expect("sh is installed")
    }

    #[test]
    fn runs_of_a_pool_are_given_what_plain_runs_are_given() {
        let tally = prove(Pool::new());
        assert!(tally.failures.is_empty(), "{tally}");
        assert_eq!(tally.runs, 12);
    }

    #[test]
    fn runs_that_are_not_recycled_are_counted_with_their_reason() {
        let tally = prove(Pool::builder().recycle(false).build());
        assert!(tally.failures.is_empty(), "{tally}");
        assert_eq!((tally.how.get("exec"), tally.recycled_runs()), (Some(&12), 0), "{tally}");
        assert!(tally.fallbacks.keys().all(|(_, reason)| reason.contains("turned off")), "{tally}");
    }
}
