//! One job of a worker: a case, run again and again out of one pool, each time in another world.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command as StdCommand, ExitStatus, Stdio as StdStdio};
use std::time::{Duration, Instant};

use regrow::{Creation, Pool, Reports};

use super::caller::{Caller, CallerWorld};
use super::error::VictimsError;
use super::flavour::Flavour;
use super::manifest::{Case, StdoutRule};
use super::report::Report;
use super::run::{Ran, ended_well, run_once};
use super::world::{Places, World};
use crate::left::Left;

/// A case ends after so many failures.
const MOST_FAILURES: usize = 3;
/// The status of a victim whose kernel feature is not there.
const SKIPPED: i32 = 77;
/// How long a file that a run's daemon writes may take to appear.
const DAEMON_LIMIT: Duration = Duration::from_secs(30);
/// How long what a pool holds may take to go when the pool is emptied.
const END_LIMIT: Duration = Duration::from_secs(30);

/// Runs a case and empties the pool.
///
/// # Errors
/// When the case could not be set up. What is wrong with its runs is in the report.
pub fn run_case(pool: &Pool, flavour: Flavour, case: &Case, runs: usize) -> Result<Report, VictimsError> {
    let started = Instant::now();
    let mut caller = Caller::new()?;
    let scratch =
        tempfile::tempdir().map_err(|source| VictimsError::Caller { step: "making a directory", source })?;
    let at = |source| VictimsError::Io { path: scratch.path().to_owned(), source };
    let places = Places::make(scratch.path(), case).map_err(at)?;
    let mut report = Report::default();
    let plain = plain_status(case, &places).map_err(at)?;
    if plain.code() == Some(SKIPPED) && case.needs.is_some() {
        report.left_out = case.needs.clone();
        return Ok(report);
    }
    let before = Left::now().map_err(at)?;
    let seen_before = pool.reports();
    let mut bench = Bench { pool, flavour, case, caller: &mut caller, places: &places, plain };
    bench.run_all(runs, &mut report)?;
    judge_bodies(&pool.reports(), &seen_before, case, &mut report);
    pool.clear();
    bench.caller.become_like(&CallerWorld::quiet(bench.caller))?;
    if let Some(left) = before.beside(END_LIMIT).map_err(at)? {
        report.failures.push(format!("of the case there are left {left}"));
    }
    rustix::process::chdir("/").map_err(io::Error::from).map_err(at)?;
    report.milliseconds = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(report)
}

impl Places {
    fn make(root: &Path, case: &Case) -> io::Result<Places> {
        let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777));
        open(root)?;
        let root = fs::canonicalize(root)?;
        let mut directories = Vec::new();
        for name in ["a", "another-one", "x"] {
            let path = root.join(name);
            fs::create_dir(&path)?;
            open(&path)?;
            directories.push(path);
        }
        let places = Places { directories, digits: root.join("digits"), stdin: root.join("stdin") };
        fs::write(&places.digits, "0123456789\n")?;
        fs::write(&places.stdin, case.stdin.as_deref().unwrap_or_default())?;
        Ok(places)
    }
}

/// How the case ends under the standard library's exec: whether it has what it needs, and whether it dumps core.
fn plain_status(case: &Case, places: &Places) -> io::Result<ExitStatus> {
    let mut command = StdCommand::new(&case.path);
    command
        .args(&case.args)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("VICTIM_TOKEN", "token-00000000");
    command.envs(case.env.iter().filter_map(|entry| entry.split_once('=')));
    command.current_dir(&places.directories[0]).stdin(fs::File::open(&places.stdin)?);
    command.stdout(StdStdio::null()).stderr(StdStdio::null()).status()
}

impl CallerWorld {
    /// As the worker was at its start.
    fn quiet(caller: &Caller) -> CallerWorld {
        CallerWorld {
            umask: 0o022,
            nofile_soft: caller.nofile_at_start(),
            ignored: Vec::new(),
            blocked: Vec::new(),
            own_group: false,
            nice: caller.nice_at_start,
            one_cpu: false,
        }
    }
}

/// What a case runs with.
struct Bench<'a> {
    pool: &'a Pool,
    flavour: Flavour,
    case: &'a Case,
    caller: &'a mut Caller,
    places: &'a Places,
    plain: ExitStatus,
}

impl Bench<'_> {
    fn run_all(&mut self, runs: usize, report: &mut Report) -> Result<(), VictimsError> {
        let mut printed = BTreeSet::new();
        let mut written = Vec::new();
        for run in 0..runs {
            let world = World::of(self.case, run, self.caller, self.places.directories.len());
            if run == 0 && self.flavour.recycles() {
                self.prepare(&world)?;
            }
            let mut ran = run_once(self.pool, self.case, &world, self.caller, self.places)?;
            report.runs += 1;
            self.judge(&mut ran, &mut printed, report);
            for wrong in &ran.wrong {
                let how = ran
                    .child
                    .as_ref()
                    .map_or_else(|| "not started".to_owned(), |child| child.creation().to_string());
                report.failures.push(format!("run {run} ({how}): {wrong}"));
            }
            if ran.hung || report.failures.len() >= MOST_FAILURES {
                break;
            }
            if let Some(name) = &self.case.writes {
                let directory = &self.places.directories[world.asked.directory.unwrap_or(world.directory)];
                written.push(directory.join(name.replace("%d", &ran.pid.to_string())));
            }
        }
        let deadline = Instant::now() + DAEMON_LIMIT;
        for path in written {
            while !path.exists() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            if !path.exists() {
                report.failures.push(format!("{} did not appear", path.display()));
            }
        }
        Ok(())
    }

    /// Makes the image, so that the first run is recycled like all others.
    fn prepare(&mut self, world: &World) -> Result<(), VictimsError> {
        let mut command = self.pool.command(&self.case.path);
        let prepared = world.command(&mut command, self.case, self.caller, self.places);
        prepared.map_err(|source| VictimsError::Io { path: self.places.digits.clone(), source })?;
        // Why a program is not recycled is in the creation of each run.
        let _ = self.pool.prepare(&command);
        Ok(())
    }

    fn judge(&self, ran: &mut Ran, printed: &mut BTreeSet<Vec<u8>>, report: &mut Report) {
        let Some(child) = &mut ran.child else { return };
        match child.creation() {
            Creation::Exec { why } => {
                *report.exec.entry(why.name().to_owned()).or_default() += 1;
                if self.flavour.recycles() {
                    *report.exec_details.entry(why.to_string()).or_default() += 1;
                }
            }
            kept => *report.kept.entry(kept.to_string()).or_default() += 1,
        }
        if self.case.stdout_rule == StdoutRule::Unique && !printed.insert(ran.stdout.clone()) {
            ran.wrong.push(format!(
                "it printed the same as an earlier run: {:?}",
                String::from_utf8_lossy(&ran.stdout)
            ));
        }
        let dumps = child.try_wait().ok().flatten().is_some_and(|status| status.core_dumped());
        let is_comparable = ended_well(&self.case.status, self.plain);
        if is_comparable && !ran.hung && dumps != self.plain.core_dumped() {
            ran.wrong.push(format!("core dumped: {dumps}, under plain exec: {}", self.plain.core_dumped()));
        }
    }
}

/// Checks what the pool has seen of its bodies since `before`: no difference, and no body given up without need.
fn judge_bodies(after: &Reports, before: &Reports, case: &Case, report: &mut Report) {
    report.compared = after.compared - before.compared;
    for difference in after.differences.iter().skip(before.differences.len()) {
        report.failures.push(format!("a body differs: {difference}"));
    }
    for (&reason, &count) in &after.given_up {
        let count = count - before.given_up.get(reason).copied().unwrap_or(0);
        if count > 0 {
            report.given_up.insert(reason.to_owned(), count);
        }
    }
    if !case.leaves_body && !report.given_up.is_empty() {
        report.failures.push(format!("bodies were given up: {:?}", report.given_up));
    }
}
