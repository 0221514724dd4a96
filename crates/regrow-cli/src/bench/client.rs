//! A client: starts one program by either way, with the same descriptors, and checks every run.
//!
//! ```text
//!                 ┌─ posix_spawn + waitpid ─┐
//!   program ──────┤                         ├── /dev/null, two sinks ──▶ expected?
//!                 └─ Command::spawn + wait ─┘
//!                 '─── what is timed ───────'
//! ```
//!
//! The first run by `posix_spawn` says what is expected of all others.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::process::ExitStatus;

use regrow::{Command, Creation, Pool};

use super::native::PosixSpawn;
use super::output::{Difference, Expected, Sink};
use super::programs::Program;
use super::samples::now_ns;
use super::timing;
use crate::error::CliError;

/// A way to start a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    PosixSpawn,
    Regrow,
}

impl Side {
    /// Both, in the order in which they take turns.
    pub(super) const BOTH: [Self; 2] = [Self::PosixSpawn, Self::Regrow];

    const fn name(self) -> &'static str {
        match self {
            Self::PosixSpawn => "posix_spawn",
            Self::Regrow => "Regrow",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a program could not be measured.
#[derive(Debug, thiserror::Error)]
pub(super) enum MeasureError {
    /// The benchmark itself failed.
    #[error(transparent)]
    Failed(#[from] CliError),
    /// A run was not what it should be.
    #[error(transparent)]
    Differs(Box<Differing>),
}

/// A run that was not what it should be.
#[derive(Debug, thiserror::Error)]
#[error("{program}: run {run} by {side} ({how}) {difference}")]
pub(super) struct Differing {
    /// The program.
    program: String,
    /// The number of the run by this way, from 1.
    run: u64,
    /// The way.
    side: Side,
    /// How it was made.
    how: String,
    /// What differs.
    difference: Difference,
}

/// One run, and when it was called and its end seen.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) called_ns: u64,
    pub(super) ended_ns: u64,
    status: ExitStatus,
    /// How Regrow made it.
    pub(super) creation: Option<Creation>,
}

/// How many runs Regrow made in which way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) runs: u64,
    pub(super) recycled: u64,
    /// The reasons of the others, by name.
    pub(super) fallbacks: BTreeMap<&'static str, u64>,
    /// The recycled ones by snapshot point.
    pub(super) points: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Counts a run.
    pub(super) fn count(&mut self, creation: &Creation) {
        self.runs += 1;
        if let Some(point) = creation.point() {
            self.recycled += 1;
            *self.points.entry(point.name()).or_default() += 1;
        }
        if let Some(why) = creation.fallback() {
            *self.fallbacks.entry(why.name()).or_default() += 1;
        }
    }

    /// Adds the counts of another.
    pub(super) fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.recycled += other.recycled;
        for (mine, theirs) in [(&mut self.fallbacks, &other.fallbacks), (&mut self.points, &other.points)] {
            for (name, count) in theirs {
                *mine.entry(name).or_default() += count;
            }
        }
    }
}

/// Starts one program by both ways.
pub(super) struct Client {
    name: String,
    posix_spawn: PosixSpawn,
    command: Command,
    pool: Pool,
    stdout: Sink,
    stderr: Sink,
    expected: Option<Expected>,
    /// Runs so far by each way, in the order of [`Side::BOTH`].
    runs: [u64; 2],
}

impl Client {
    /// A client with a pool of its own, in which the program is prepared.
    pub(super) fn new(program: &Program, timed: bool) -> Result<Self, MeasureError> {
        let builder = if timed { timing::timed(Pool::builder()) } else { Pool::builder() };
        let pool = builder.build();
        let outputs = || -> std::io::Result<_> {
            let null = || File::open("/dev/null");
            let (stdout, stderr) = (Sink::new()?, Sink::new()?);
            let posix_stdio = [null()?.into(), stdout.writer()?, stderr.writer()?];
            let posix_spawn = PosixSpawn::new(&program.path, &program.argv(), posix_stdio)?;
            let mut command = pool.command(&program.path);
            command.args(&program.args);
            command.stdin(null()?).stdout(stdout.writer()?).stderr(stderr.writer()?);
            Ok((stdout, stderr, posix_spawn, command))
        };
        let (stdout, stderr, posix_spawn, command) =
            outputs().map_err(CliError::system("the descriptors of the runs cannot be made"))?;
        if let Err(error) = pool.prepare(&command) {
            tracing::info!("{}", crate::error::chain(&error));
        }
        let name = program.name.clone();
        let mut client =
            Self { name, posix_spawn, command, pool, stdout, stderr, expected: None, runs: [0; 2] };
        client.learn()?;
        Ok(client)
    }

    /// Runs the program once by `posix_spawn`, for the others to be compared with.
    fn learn(&mut self) -> Result<(), MeasureError> {
        let ran = self.run(Side::PosixSpawn)?;
        let (stdout, stderr) = self.take_output()?;
        self.expected = Some(Expected { status: ran.status, stdout, stderr });
        Ok(())
    }

    /// Starts the program, waits for its end and compares how it ended. What it wrote is compared by
    /// [`Self::check_output`].
    pub(super) fn run(&mut self, side: Side) -> Result<Ran, MeasureError> {
        let ran = match side {
            Side::PosixSpawn => self.run_by_posix_spawn(),
            Side::Regrow => self.run_by_regrow(),
        };
        let ran =
            ran.map_err(|source| CliError::Start { program: self.name.clone(), by: side.name(), source })?;
        let index = side as usize;
        if let Some(runs) = self.runs.get_mut(index) {
            *runs += 1;
        }
        let compared = self.expected.as_ref().map_or(Ok(()), |expected| expected.check_status(ran.status));
        compared.map_err(|difference| self.differs(side, ran.creation.as_ref(), difference))?;
        Ok(ran)
    }

    fn run_by_posix_spawn(&self) -> std::io::Result<Ran> {
        let called_ns = now_ns();
        let status = self.posix_spawn.spawn()?.wait()?;
        let ended_ns = now_ns();
        Ok(Ran { called_ns, ended_ns, status, creation: None })
    }

    fn run_by_regrow(&mut self) -> std::io::Result<Ran> {
        let called_ns = now_ns();
        let completed = self.command.complete()?;
        let ended_ns = now_ns();
        Ok(Ran { called_ns, ended_ns, status: completed.status, creation: Some(completed.creation) })
    }

    /// Compares what the last runs, all by one way, have written.
    pub(super) fn check_output(
        &self,
        side: Side,
        runs: usize,
        last: Option<&Creation>,
    ) -> Result<(), MeasureError> {
        let (stdout, stderr) = self.take_output()?;
        let Some(expected) = &self.expected else { return Ok(()) };
        expected
            .check_output(runs, &stdout, &stderr)
            .map_err(|difference| self.differs(side, last, difference))
    }

    /// Runs so many times back to back. Output is compared at the end.
    pub(super) fn run_block(&mut self, side: Side, runs: usize) -> Result<Tally, MeasureError> {
        let mut tally = Tally::default();
        for _ in 0..runs {
            if let Some(creation) = self.run(side)?.creation {
                tally.count(&creation);
            }
        }
        self.check_output(side, runs, None)?;
        Ok(tally)
    }

    /// The pool of the client.
    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// How much each run writes.
    pub(super) fn output_bytes(&self) -> usize {
        self.expected.as_ref().map_or(0, |expected| expected.stdout.len() + expected.stderr.len())
    }

    fn take_output(&self) -> Result<(Vec<u8>, Vec<u8>), CliError> {
        let take = || Ok((self.stdout.take()?, self.stderr.take()?));
        take().map_err(CliError::system("the output of the runs cannot be read"))
    }

    fn differs(&self, side: Side, creation: Option<&Creation>, difference: Difference) -> MeasureError {
        let how = match (side, creation) {
            (Side::PosixSpawn, _) => "exec".to_owned(),
            (Side::Regrow, Some(creation)) => creation.to_string(),
            (Side::Regrow, None) => "one of several".to_owned(),
        };
        let run = self.runs.get(side as usize).copied().unwrap_or(0);
        let program = self.name.clone();
        MeasureError::Differs(Box::new(Differing { program, run, side, how, difference }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regrow::{Fallback, Point};

    fn client(script: &str) -> Client {
        let args = vec!["-c".into(), script.into()];
        let program = Program { name: "sh".to_owned(), path: "/bin/sh".into(), args };
        Client::new(&program, false).unwrap()
    }

    #[test]
    fn runs_that_are_alike_pass_by_both_ways() {
        let mut client = client("echo out; echo err >&2; exit 3");
        for side in Side::BOTH {
            let ran = client.run(side).unwrap();
            assert!(ran.ended_ns >= ran.called_ns);
            assert_eq!(ran.creation.is_some(), side == Side::Regrow);
            client.check_output(side, 1, None).unwrap();
            client.run_block(side, 3).unwrap();
        }
        assert_eq!(client.output_bytes(), 8);
    }

    #[test]
    fn a_run_that_writes_something_else_is_told() {
        let mut client = client("echo $$");
        for side in Side::BOTH {
            client.run(side).unwrap();
            let error = client.check_output(side, 1, None).unwrap_err();
            let text = error.to_string();
            assert!(
                text.starts_with(&format!("sh: run {} by {side}", if side == Side::Regrow { 1 } else { 2 }))
            );
            assert!(text.contains("standard output differs at byte "), "{text}");
        }
    }

    #[test]
    fn a_run_that_ends_otherwise_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let mut client = client(&format!("test -e {0} && exit 4; : > {0}", mark.display()));
        let error = client.run(Side::Regrow).unwrap_err().to_string();
        assert!(error.ends_with("ended with exit status: 4, not with exit status: 0"), "{error}");
    }

    #[test]
    fn a_tally_counts_ways_points_and_reasons() {
        let mut tally = Tally::default();
        tally.count(&Creation::Recycled { point: Point::Main });
        tally.count(&Creation::ForkedBody { point: Point::Main });
        tally.count(&Creation::Exec { why: Fallback::AllBusy });
        let mut sum = tally.clone();
        sum.add(&tally);
        assert_eq!((sum.runs, sum.recycled), (6, 4));
        assert_eq!(sum.fallbacks, BTreeMap::from([("all_busy", 2)]));
        assert_eq!(sum.points, BTreeMap::from([("main", 4)]));
    }
}
