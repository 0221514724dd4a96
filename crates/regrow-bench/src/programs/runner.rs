//! Starts one program by each method, with the same descriptors, and checks every run.
//!
//! ```text
//!                 ┌─ posix_spawn + waitpid ─┐
//!   program ──────┤                         ├── /dev/null, two sinks ──▶ expected?
//!                 └─ Command::spawn + wait ─┘
//!                 '─── what is timed ───────'
//! ```
//!
//! The runner makes the first run by `posix_spawn`, and compares every later run with it.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use regrow::{Command, Creation, Pool, Reuse};

use super::list::BenchProgram;
use super::method::{METHODS, SpawnMethod};
use super::mismatch::{Mismatch, MismatchedRun};
use super::output::{OutputSink, ReferenceRun};
use super::prototype::{NotKept, Prototype, PrototypeAgent, PrototypeRun};
use super::timing;
use crate::error::BenchError;
use crate::samples::now_ns;
use crate::system::native::PosixSpawn;

/// One run: when the runner called, and when it saw the end.
#[derive(Debug)]
pub(super) struct TimedRun {
    pub(super) called_ns: u64,
    pub(super) ended_ns: u64,
    status: ExitStatus,
    /// How Regrow created the process; `None` by the others.
    pub(super) creation: Option<Creation>,
    /// When the prototype entered the program; `None` by the others.
    pub(super) main_ns: Option<u64>,
}

/// How Regrow created the processes of runs, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CreationCounts {
    pub(super) runs: u64,
    pub(super) recycled: u64,
    /// How many runs were not recycled for each reason.
    pub(super) fallbacks: BTreeMap<&'static str, u64>,
    /// How many runs were recycled at each snapshot point.
    pub(super) points: BTreeMap<&'static str, u64>,
}

impl CreationCounts {
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

    /// Adds other counts to these.
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

/// The longest that a body is waited for.
const READY_TIMEOUT: Duration = Duration::from_millis(500);

/// A pool, and the program's command in it.
struct Pooled {
    pool: Pool,
    command: Command,
}

/// Starts one program by all methods.
pub(super) struct ProgramRunner {
    name: String,
    posix_spawn: PosixSpawn,
    regrow: Pooled,
    single_use: Option<Pooled>,
    prototype: Option<Prototype>,
    stdout: OutputSink,
    stderr: OutputSink,
    expected: Option<ReferenceRun>,
    /// Runs so far by each method, in the order of [`SpawnMethod::ALL`].
    runs: [u64; METHODS],
}

impl ProgramRunner {
    /// Makes a runner with pools of its own, and prepares the program in them. With `timed`, the pool that uses bodies again notes
    /// times of runs.
    pub(super) fn new(program: &BenchProgram, timed: bool, single_use: bool) -> Result<Self, BenchError> {
        let builder = if timed { timing::timed(Pool::builder()) } else { Pool::builder() };
        let outputs = || -> std::io::Result<_> {
            let null = || File::open("/dev/null");
            let (stdout, stderr) = (OutputSink::new()?, OutputSink::new()?);
            let posix_stdio = [null()?.into(), stdout.writer()?, stderr.writer()?];
            let posix_spawn = PosixSpawn::new(&program.path, &program.argv(), posix_stdio)?;
            let pooled = |pool: Pool| -> std::io::Result<Pooled> {
                let mut command = pool.command(&program.path);
                command.args(&program.args).preload(program.preload.iter().cloned());
                command.stdin(null()?).stdout(stdout.writer()?).stderr(stderr.writer()?);
                Ok(Pooled { pool, command })
            };
            let regrow = pooled(builder.build())?;
            let never = || pooled(Pool::builder().reuse(Reuse::Never).build());
            let single_use = single_use.then(never).transpose()?;
            Ok((stdout, stderr, posix_spawn, regrow, single_use))
        };
        let (stdout, stderr, posix_spawn, regrow, single_use) =
            outputs().map_err(BenchError::system("the descriptors of the runs cannot be made"))?;
        for Pooled { pool, command } in std::iter::once(&regrow).chain(&single_use) {
            if let Err(error) = pool.prepare(command) {
                tracing::info!(error = &error as &dyn std::error::Error, "the program has no image");
            }
        }
        let name = program.name.clone();
        let (prototype, expected, runs) = (None, None, [0; METHODS]);
        let mut runner =
            Self { name, posix_spawn, regrow, single_use, prototype, stdout, stderr, expected, runs };
        runner.learn()?;
        Ok(runner)
    }

    /// Lets the prototype keep the program as well, with the same descriptors.
    pub(super) fn add_prototype(
        &mut self,
        agent: &PrototypeAgent,
        program: &BenchProgram,
    ) -> Result<(), NotKept> {
        let stdio = [File::open("/dev/null")?.into(), self.stdout.writer()?, self.stderr.writer()?];
        let started = Prototype::start(agent, program, stdio);
        // A program that did not stop at main has run, and may have written.
        self.stdout.take()?;
        self.stderr.take()?;
        self.prototype = Some(started?);
        Ok(())
    }

    /// The process in which the prototype keeps the program.
    pub(super) fn prototype_keeper(&self) -> Option<i32> {
        self.prototype.as_ref().map(Prototype::keeper)
    }

    /// Makes the first run, which all others are compared with.
    fn learn(&mut self) -> Result<(), BenchError> {
        let ran = self.run(SpawnMethod::PosixSpawn)?;
        let (stdout, stderr) = self.take_output()?;
        self.expected = Some(ReferenceRun { status: ran.status, stdout, stderr });
        Ok(())
    }

    /// Starts the program, waits for its end and compares its status. [`Self::check_output`] compares what it wrote.
    pub(super) fn run(&mut self, method: SpawnMethod) -> Result<TimedRun, BenchError> {
        let ran = match method {
            SpawnMethod::PosixSpawn => self.run_by_posix_spawn(),
            SpawnMethod::Regrow => self.regrow.run(),
            SpawnMethod::SingleUse => self.single_use.as_mut().unwrap_or(&mut self.regrow).run(),
            SpawnMethod::Prototype => match &mut self.prototype {
                Some(prototype) => prototype.run().map(TimedRun::from),
                None => Err(std::io::ErrorKind::NotFound.into()),
            },
        };
        let ran = ran.map_err(|source| BenchError::Start {
            program: self.name.clone(),
            by: method.name(),
            source,
        })?;
        let index = method as usize;
        if let Some(runs) = self.runs.get_mut(index) {
            *runs += 1;
        }
        let compared = self.expected.as_ref().map_or(Ok(()), |expected| expected.check_status(ran.status));
        compared.map_err(|mismatch| self.differs(method, ran.creation.as_ref(), mismatch))?;
        Ok(ran)
    }

    fn run_by_posix_spawn(&self) -> std::io::Result<TimedRun> {
        let called_ns = now_ns();
        let status = self.posix_spawn.spawn()?.wait()?;
        let ended_ns = now_ns();
        Ok(TimedRun { called_ns, ended_ns, status, creation: None, main_ns: None })
    }

    /// Compares what the last `runs` runs wrote, all by one method.
    pub(super) fn check_output(
        &self,
        method: SpawnMethod,
        runs: usize,
        last: Option<&Creation>,
    ) -> Result<(), BenchError> {
        let (stdout, stderr) = self.take_output()?;
        let Some(expected) = &self.expected else { return Ok(()) };
        expected.check_output(runs, &stdout, &stderr).map_err(|mismatch| self.differs(method, last, mismatch))
    }

    /// Makes `runs` runs back to back, and compares their output at the end.
    pub(super) fn run_block(
        &mut self,
        method: SpawnMethod,
        runs: usize,
    ) -> Result<CreationCounts, BenchError> {
        let mut tally = CreationCounts::default();
        for _ in 0..runs {
            if let Some(creation) = self.run(method)?.creation {
                tally.count(&creation);
            }
        }
        self.check_output(method, runs, None)?;
        Ok(tally)
    }

    /// The pool that uses bodies again.
    pub(super) fn pool(&self) -> &Pool {
        &self.regrow.pool
    }

    /// Waits until a body for a single use is there. Without one the next run is none in a body that was ready.
    pub(super) fn await_unused(&self) {
        let Some(Pooled { pool, .. }) = &self.single_use else { return };
        let until = Instant::now() + READY_TIMEOUT;
        while pool.idle_keepers().is_empty() && Instant::now() < until {
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Waits until the prototype has put its memory back.
    pub(super) fn await_prototype(&mut self) -> Result<(), BenchError> {
        let Some(prototype) = &mut self.prototype else { return Ok(()) };
        prototype.await_armed().map_err(|error| BenchError::Start {
            program: self.name.clone(),
            by: SpawnMethod::Prototype.name(),
            source: std::io::Error::other(error),
        })
    }

    /// How many bytes each run writes.
    pub(super) fn output_bytes(&self) -> usize {
        self.expected.as_ref().map_or(0, |expected| expected.stdout.len() + expected.stderr.len())
    }

    fn take_output(&self) -> Result<(Vec<u8>, Vec<u8>), BenchError> {
        let take = || Ok((self.stdout.take()?, self.stderr.take()?));
        take().map_err(BenchError::system("the output of the runs cannot be read"))
    }

    fn differs(&self, method: SpawnMethod, creation: Option<&Creation>, mismatch: Mismatch) -> BenchError {
        let how = match (method, creation) {
            (SpawnMethod::PosixSpawn, _) => "exec".to_owned(),
            (SpawnMethod::Prototype, _) => "kept at main".to_owned(),
            (_, Some(creation)) => creation.to_string(),
            (_, None) => "one of several".to_owned(),
        };
        let run = self.runs.get(method as usize).copied().unwrap_or(0);
        let program = self.name.clone();
        BenchError::Differs(Box::new(MismatchedRun { program, run, method, how, mismatch }))
    }
}

impl From<PrototypeRun> for TimedRun {
    fn from(run: PrototypeRun) -> Self {
        let PrototypeRun { called_ns, main_ns, ended_ns, status } = run;
        Self { called_ns, ended_ns, status, creation: None, main_ns: Some(main_ns) }
    }
}

impl Pooled {
    fn run(&mut self) -> std::io::Result<TimedRun> {
        let called_ns = now_ns();
        let completed = self.command.complete()?;
        let ended_ns = now_ns();
        let creation = Some(completed.creation);
        Ok(TimedRun { called_ns, ended_ns, status: completed.status, creation, main_ns: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regrow::{Fallback, Point};
    use rustix::process::Pid;

    fn runner(script: &str) -> ProgramRunner {
        let args = vec!["-c".into(), script.into()];
        let program =
            BenchProgram { name: "sh".to_owned(), path: "/bin/sh".into(), args, preload: Vec::new() };
        let mut runner = ProgramRunner::new(&program, false, true).unwrap();
        runner.add_prototype(&PrototypeAgent::compile().unwrap(), &program).unwrap();
        runner
    }

    #[test]
    fn runs_that_are_alike_pass_by_all_methods() {
        let mut runner = runner("echo out; echo err >&2; exit 3");
        for method in SpawnMethod::ALL {
            runner.await_unused();
            let ran = runner.run(method).unwrap();
            assert!(ran.ended_ns >= ran.called_ns);
            let is_by_regrow = matches!(method, SpawnMethod::Regrow | SpawnMethod::SingleUse);
            assert_eq!(ran.creation.is_some(), is_by_regrow);
            assert_eq!(ran.main_ns.is_some(), method == SpawnMethod::Prototype);
            runner.check_output(method, 1, None).unwrap();
            runner.run_block(method, 3).unwrap();
        }
        assert_eq!(runner.output_bytes(), 8);
    }

    #[test]
    fn a_run_that_writes_something_else_is_told() {
        let mut runner = runner("echo $$");
        for method in SpawnMethod::ALL {
            runner.run(method).unwrap();
            let error = runner.check_output(method, 1, None).unwrap_err();
            let text = error.to_string();
            assert!(text.starts_with(&format!(
                "sh: run {} by {method}",
                if method == SpawnMethod::PosixSpawn { 2 } else { 1 }
            )));
            assert!(text.contains("standard output differs at byte "), "{text}");
        }
    }

    #[test]
    fn a_run_that_ends_otherwise_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let mut runner = runner(&format!("test -e {0} && exit 4; : > {0}", mark.display()));
        let error = runner.run(SpawnMethod::Regrow).unwrap_err().to_string();
        assert!(error.ends_with("ended with exit status: 4, not with exit status: 0"), "{error}");
    }

    #[test]
    fn each_run_by_the_prototype_is_a_process_of_its_own_with_memory_as_at_main() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let script = format!("x=$((x+1)); echo $x $$ $PPID >> {}", log.display());
        let mut runner = runner(&script);
        for _ in 0..5 {
            runner.run(SpawnMethod::Prototype).unwrap();
        }
        let text = std::fs::read_to_string(&log).unwrap();
        // The first run of all is by `posix_spawn`.
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
        assert_eq!(lines.len(), 6, "{text}");
        let own = std::process::id().to_string();
        assert!(lines.iter().all(|line| line[0] == "1" && line[2] == own), "{text}");
        let pids: std::collections::BTreeSet<&str> = lines.iter().map(|line| line[1]).collect();
        assert_eq!(pids.len(), 6, "{text}");
    }

    #[test]
    fn the_prototype_leaves_no_process_and_says_what_it_cannot_keep() {
        let mut runner = runner("exit 0");
        let keeper = Pid::from_raw(runner.prototype_keeper().unwrap()).unwrap();
        assert!(rustix::process::test_kill_process(keeper).is_ok());
        runner.prototype = None;
        assert!(rustix::process::test_kill_process(keeper).is_err());
        // A program that ends before the agent finds its main.
        let (name, path) = ("agent".to_owned(), "/bin/false".into());
        let program = BenchProgram { name, path, args: Vec::new(), preload: Vec::new() };
        let agent = PrototypeAgent::without_code();
        let error = runner.add_prototype(&agent, &program).unwrap_err();
        assert_eq!(error.to_string(), "its process ended with exit status: 1 before it stopped at main");
    }

    #[test]
    fn a_tally_counts_ways_points_and_reasons() {
        let mut tally = CreationCounts::default();
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
