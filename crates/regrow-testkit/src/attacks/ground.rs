//! Where an attack and its probes run: a pool of this process, or whoever else starts processes in bodies.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use regrow::{Creation, Pool, Reports, Stdio};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::left;

/// How long a run may take before it is killed.
const RUN_LIMIT: Duration = Duration::from_secs(20);
/// How long it is waited for a body that can be compared.
const CHECK_LIMIT: Duration = Duration::from_secs(2);

/// How a process was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    /// In a body that another run had used, or that waited for its first.
    Recycled,
    /// In a body that was made for it.
    Forked,
    /// By exec, for this reason.
    Exec(String),
}

/// A run that is to be started.
#[derive(Debug)]
pub struct Start<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its arguments.
    pub args: &'a [&'a str],
    /// Its environment.
    pub env: &'a [(&'static str, OsString)],
    /// Descriptors, by their numbers.
    pub descriptors: Vec<(i32, OwnedFd)>,
    /// Where its standard output and its standard error go.
    pub output: [File; 2],
}

/// A run that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedRun {
    /// How it was made.
    pub made: Made,
    /// How it ended.
    pub status: ExitStatus,
    /// It did not end by itself: what the kernel told of it before it was killed.
    pub hung: Option<String>,
}

/// Starts processes, and says what has become of the bodies.
pub trait Ground {
    /// Makes the image of a program for runs with this environment, if it can be kept.
    fn prepare(&mut self, program: &Path, env: &[(&'static str, OsString)]);

    /// Runs a program to its end.
    ///
    /// # Errors
    /// When it cannot be started or waited for.
    fn run(&mut self, start: Start<'_>) -> io::Result<EndedRun>;

    /// How many bodies were given up so far, by reason.
    fn given_up(&mut self) -> BTreeMap<String, u64>;

    /// The processes that keep bodies and images at present.
    fn keepers(&mut self) -> Vec<i32>;

    /// With which words the lines of a probe begin that are not as under exec, and need not be.
    fn known_differences(&self) -> &'static [&'static str] {
        &[]
    }

    /// What the observer from outside finds in the bodies that no run is in.
    fn differences(&mut self) -> Vec<String>;
}

impl Ground for Pool {
    fn prepare(&mut self, program: &Path, env: &[(&'static str, OsString)]) {
        let mut command = self.command(program);
        command.arg("probe").env_clear().envs(env.iter().map(|(name, value)| (name, value)));
        // Why a program is not recycled is in the creation of its runs.
        let _ = Pool::prepare(self, &command);
    }

    fn run(&mut self, start: Start<'_>) -> io::Result<EndedRun> {
        let mut command = self.command(start.program);
        command.args(start.args).env_clear().stdin(Stdio::null());
        command.envs(start.env.iter().map(|(name, value)| (name, value)));
        for (number, descriptor) in start.descriptors {
            command.fd(descriptor, number);
        }
        let [stdout, stderr] = start.output;
        let mut child = command.stdout(stdout).stderr(stderr).spawn()?;
        drop(command);
        let deadline = Instant::now() + RUN_LIMIT;
        let limit = Timespec::try_from(RUN_LIMIT).map_err(io::Error::other)?;
        let mut fds = [PollFd::from_borrowed_fd(child.pidfd()?, PollFlags::IN)];
        let is_late = poll(&mut fds, Some(&limit))? == 0 && Instant::now() >= deadline;
        let hung = is_late.then(|| left::described(&child.id().to_string()));
        if is_late {
            child.kill()?;
        }
        let status = child.wait()?;
        let made = match child.creation() {
            Creation::Recycled { .. } => Made::Recycled,
            Creation::ForkedBody { .. } => Made::Forked,
            Creation::Exec { why } => Made::Exec(why.name().to_owned()),
        };
        Ok(EndedRun { made, status, hung })
    }

    fn given_up(&mut self) -> BTreeMap<String, u64> {
        let reports = self.reports();
        reports.given_up.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect()
    }

    fn keepers(&mut self) -> Vec<i32> {
        Pool::keepers(self)
    }

    fn differences(&mut self) -> Vec<String> {
        let before = self.reports();
        let deadline = Instant::now() + CHECK_LIMIT;
        let mut after = before.clone();
        // The body of the last run may not be put back yet.
        while after.spot_checked == before.spot_checked && Instant::now() < deadline {
            self.spot_check();
            after = self.reports();
            std::thread::sleep(Duration::from_millis(1));
        }
        let advised = |reports: &Reports| reports.given_up.get("huge_page_advice").copied().unwrap_or(0);
        let advice = (advised(&after) > advised(&before)).then(|| "advice for huge pages".to_owned());
        after.differences.split_off(before.differences.len()).into_iter().chain(advice).collect()
    }
}
