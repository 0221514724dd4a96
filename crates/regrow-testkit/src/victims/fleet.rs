//! The worker processes: two at a time, each with a job of its own.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use regrow::Pool;

use super::case::run_case;
use super::error::VictimsError;
use super::flavour::Flavour;
use super::manifest::Manifest;
use super::report::{Job, Report};
use super::tally::VictimTally;

/// The variable that makes a process a worker.
const WORKER: &str = "REGROW_VICTIMS_WORKER";
/// How long a job may take before its worker is killed.
const JOB_LIMIT: Duration = Duration::from_secs(600);

/// Workers that share jobs.
#[derive(Debug, Clone, Copy)]
pub struct Fleet {
    /// How many work at a time.
    pub workers: usize,
}

impl Fleet {
    /// Does all jobs, in their order as far as several workers keep one.
    ///
    /// # Errors
    /// When workers cannot be started. A worker that dies or hangs is a failure of its job.
    pub fn run(self, jobs: Vec<Job>) -> Result<VictimTally, VictimsError> {
        let jobs = Mutex::new(VecDeque::from(jobs));
        let tally = Mutex::new(VictimTally::default());
        let results: Vec<Result<(), VictimsError>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..self.workers).map(|_| scope.spawn(|| work_off(&jobs, &tally))).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        results.into_iter().collect::<Result<(), _>>()?;
        Ok(tally.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

fn work_off(jobs: &Mutex<VecDeque<Job>>, tally: &Mutex<VictimTally>) -> Result<(), VictimsError> {
    let mut worker = Worker::start()?;
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(job) = job else { return Ok(()) };
        let done = worker.ask(&job);
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        match done {
            Ok(report) => tally.add(&job, &report),
            Err(error) => {
                tally.fail(&job, &format!("{error}; {}", worker.end()));
                worker = Worker::start()?;
            }
        }
    }
}

/// A worker process, seen from the test.
struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Worker {
    fn start() -> Result<Worker, VictimsError> {
        let failed = |source| VictimsError::Worker { step: "starting", source };
        let own = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(own);
        command.env(WORKER, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut read = BufReader::new(output).lines();
            while let Some(Ok(line)) = read.next() {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Worker { child, input, lines })
    }

    fn ask(&mut self, job: &Job) -> Result<Report, VictimsError> {
        let failed = |step| move |source| VictimsError::Worker { step, source };
        let line = serde_json::to_string(job).map_err(io::Error::other).map_err(failed("telling"))?;
        let input = self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe.into()).map_err(failed("telling"))?;
        writeln!(input, "{line}").map_err(failed("telling"))?;
        let line =
            self.lines.recv_timeout(JOB_LIMIT).map_err(io::Error::other).map_err(failed("hearing from"))?;
        serde_json::from_str(&line).map_err(|source| VictimsError::Line { line, source })
    }

    /// Ends the process and says how it ended.
    fn end(&mut self) -> String {
        self.input = None;
        match self.child.try_wait() {
            Ok(Some(status)) => format!("it ended with {status}"),
            _ => {
                let _ = self.child.kill();
                "it was killed".to_owned()
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}

/// Does the jobs of the standard input, if this process was started as a worker; else returns `None` at once.
///
/// # Errors
/// When test and worker do not understand each other. What is wrong with a case is in its report.
pub fn run_worker(manifest: &Manifest) -> Result<Option<usize>, VictimsError> {
    if std::env::var_os(WORKER).is_none() {
        return Ok(None);
    }
    let failed = |step| move |source| VictimsError::Worker { step, source };
    let mut done = 0;
    let mut current: Option<(Flavour, Pool)> = None;
    for line in io::stdin().lines() {
        let line = line.map_err(failed("reading as"))?;
        let job: Job = serde_json::from_str(&line).map_err(|source| VictimsError::Line { line, source })?;
        let flavour = Flavour::parse(&job.flavour)?;
        let case = manifest.find(&job.case).ok_or_else(|| VictimsError::UnknownCase(job.case.clone()))?;
        if current.as_ref().is_none_or(|(of, _)| *of != flavour) {
            current = Some((flavour, flavour.pool()));
        }
        let Some((_, pool)) = &current else { continue };
        let report = run_case(pool, flavour, case, job.runs)
            .unwrap_or_else(|error| Report { failures: vec![error.to_string()], ..Report::default() });
        let line = serde_json::to_string(&report).map_err(io::Error::other).map_err(failed("writing as"))?;
        writeln!(io::stdout(), "{line}").map_err(failed("writing as"))?;
        done += 1;
    }
    Ok(Some(done))
}
