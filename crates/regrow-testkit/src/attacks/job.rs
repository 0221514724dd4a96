//! One attack in one way: probes before it, the attack, probes after it, and what has come of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use regrow_abi::Control;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use serde::{Deserialize, Serialize};

use super::ground::{EndedRun, Ground, Made, Start};
use super::manifest::{Attack, Way};
use super::probes::Printed;
use crate::victims::signal_number;

/// How many probes follow an attack while what it left lives, and how many follow when that is gone.
const PROBES: [usize; 2] = [4, 3];
/// How long after one another they come, so that what an attack left has the time to write.
const BETWEEN: Duration = Duration::from_millis(5);
/// How long it is tried to have a probe made in a body.
const PATIENCE: Duration = Duration::from_secs(15);
/// Reasons for exec that pass by themselves.
const PASSING: [&str; 4] = ["all_busy", "image_in_progress", "first_run", "body_broken"];
/// How long what outlives an attack may take to end.
const END_LIMIT: Duration = Duration::from_secs(20);
/// The status of an attack that the machine lacks something for.
const LACKING: i32 = 77;
/// The numbers of descriptors that an attack is given (`hostile.h`).
const KEPT: i32 = 7;
const ALIVE: i32 = 8;
const UNTIL: i32 = 9;

/// What has come of an attack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aftermath {
    /// `fresh`, `given_up:REASON`, `exec:REASON`, or `busy`; empty when the machine lacks something.
    pub came: String,
    /// Probes that were made in the body of the attack, or in another one that a run had used.
    pub recycled: usize,
    /// Probes in a body that was made for them.
    pub forked: usize,
    /// Probes by exec, which were made again, by reason.
    pub exec: BTreeMap<String, usize>,
    /// Bodies that were given up.
    pub given_up: BTreeMap<String, u64>,
    /// What is wrong.
    pub failures: Vec<String>,
    /// What the machine lacks.
    pub lacking: Option<String>,
}

/// A child of the caller that has nothing to do with any body.
struct Bystander(Child);

impl Bystander {
    fn start() -> io::Result<Bystander> {
        // It ends when its input does.
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().map(Bystander)
    }

    fn lives(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Aftermath {
    /// Whether the image was made anew meanwhile, so that its probes cannot be compared. It happens on a machine that is too busy to make
    /// bodies in time.
    #[must_use]
    pub fn has_another_image(&self) -> bool {
        self.exec.keys().any(|why| ["first_run", "image_in_progress"].contains(&why.as_str()))
    }
}

/// Plays an attack in one way.
///
/// # Errors
/// When the test itself cannot go on. What is wrong with the runs is in the outcome.
pub fn play(ground: &mut dyn Ground, attack: &Attack, way: Way) -> io::Result<Aftermath> {
    let mut play =
        Play { ground, attack, outcome: Aftermath::default(), first: None, env: probe_env(attack) };
    let exec = play.plain_probe()?;
    let env = play.env.clone();
    play.ground.prepare(&attack.path, &env);
    play.probe_before(&exec)?;
    let given_up = play.ground.given_up();
    let keepers = play.ground.keepers();
    let bystander = Bystander::start()?;
    play.strike(way, bystander, &given_up, &keepers)?;
    Ok(play.outcome)
}

fn probe_env(attack: &Attack) -> Vec<(&'static str, OsString)> {
    let mut env = vec![("PATH", OsString::from("/usr/bin:/bin"))];
    if attack.press {
        env.push(("HOSTILE_PRESS", "1".into()));
    }
    if attack.loose {
        env.push(("HOSTILE_LOOSE", "1".into()));
    }
    env
}

/// Where the words of a control area are, as attacks are told.
fn offsets() -> String {
    let table = [
        ("state", offset_of!(Control, state)),
        ("pid", offset_of!(Control, pid)),
        ("keeper", offset_of!(Control, keeper)),
        ("broken", offset_of!(Control, broken)),
        ("errno", offset_of!(Control, errno)),
        ("verify", offset_of!(Control, verify)),
        ("fault", offset_of!(Control, fault)),
        ("command", offset_of!(Control, command)),
        ("bell", offset_of!(Control, bell)),
        ("order", offset_of!(Control, order)),
    ];
    table.iter().map(|(name, offset)| format!(",{name}={offset}")).collect()
}

fn memory(name: &str) -> io::Result<File> {
    Ok(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC).map(File::from)?)
}

fn content(mut file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// An attack under way.
struct Play<'a> {
    ground: &'a mut dyn Ground,
    attack: &'a Attack,
    outcome: Aftermath,
    first: Option<Printed>,
    env: Vec<(&'static str, OsString)>,
}

/// The pipes of an attack, seen from the test.
struct Pipes {
    /// Readable when nobody lives that outlived the run.
    alive: OwnedFd,
    /// What outlives the run ends when this is closed.
    until: OwnedFd,
    /// What an attack has given away.
    kept: OwnedFd,
}

impl Play<'_> {
    fn fail(&mut self, what: impl Into<String>) {
        self.outcome.failures.push(what.into());
    }

    /// A probe by the standard library.
    fn plain_probe(&mut self) -> io::Result<Printed> {
        let mut command = Command::new(&self.attack.path);
        command.arg("probe").env_clear().envs(self.env.iter().map(|(name, value)| (name, value)));
        let output = command.stdin(Stdio::null()).output()?;
        Printed::new(&output.stdout).ok_or_else(|| {
            io::Error::other(format!("a probe by exec: {:?} {}", output.status, text(&output.stderr)))
        })
    }

    /// A probe; `None` when it was made by exec.
    fn probe(&mut self) -> io::Result<Option<Printed>> {
        let (stdout, stderr) = (memory("stdout")?, memory("stderr")?);
        let start = Start {
            program: &self.attack.path,
            args: &["probe"],
            env: &self.env,
            descriptors: Vec::new(),
            output: [stdout.try_clone()?, stderr.try_clone()?],
        };
        let ran = self.ground.run(start)?;
        match &ran.made {
            Made::Recycled => self.outcome.recycled += 1,
            Made::Forked => self.outcome.forked += 1,
            Made::Exec(why) => {
                *self.outcome.exec.entry(why.clone()).or_default() += 1;
                return Ok(None);
            }
        }
        let printed = Printed::new(&content(stdout)?);
        if printed.is_none() || !ran.status.success() || ran.hung.is_some() {
            let errors = text(&content(stderr)?);
            self.fail(format!("a probe ended with {}{} {errors}", ran.status, hung(&ran)));
        }
        Ok(printed)
    }

    /// Two probes in a body, of which the first is as under exec.
    fn probe_before(&mut self, exec: &Printed) -> io::Result<()> {
        let (Some(first), Some(second)) = (self.probe_in_body()?, self.probe_in_body()?) else {
            return Ok(());
        };
        if let Some(differs) = first.differs_from_exec(exec, self.ground.known_differences()) {
            self.fail(format!("a probe before the attack is not as under exec: {differs}"));
        }
        if let Some(differs) = second.differs_from(&first) {
            self.fail(format!("two probes before the attack differ: {differs}"));
        }
        self.first = Some(second);
        Ok(())
    }

    /// A probe that is made in a body; `None` when none could be within some time, or it did not come to its end.
    fn probe_in_body(&mut self) -> io::Result<Option<Printed>> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let failed = self.outcome.failures.len();
            let printed = self.probe()?;
            if printed.is_some() || self.outcome.failures.len() > failed {
                return Ok(printed);
            }
            std::thread::sleep(BETWEEN);
        }
        Ok(None)
    }

    fn strike(
        &mut self,
        way: Way,
        mut bystander: Bystander,
        given_up: &BTreeMap<String, u64>,
        keepers: &[i32],
    ) -> io::Result<()> {
        let (ran, pipes, begun) = self.attack_in_body(way, &bystander)?;
        if ran.status.code() == Some(LACKING) {
            self.outcome.lacking = Some(self.attack.needs.clone().unwrap_or_default());
            if self.attack.needs.is_none() {
                self.fail("the machine lacks what it needs, and it names nothing that it needs");
            }
            return Ok(());
        }
        self.outcome.recycled = 0;
        self.outcome.exec.clear();
        let mut busy = self.probes_after(PROBES[0])?;
        drop(pipes.until);
        if !ends(&pipes.alive)? {
            self.fail("what outlived it did not end");
        }
        busy |= self.probes_after(PROBES[1])?;
        self.judge(&ran, begun);
        if !bystander.lives() {
            self.fail("another child of the caller was killed or waited for");
        }
        self.look_at_kept(pipes.kept)?;
        self.note_bodies(given_up);
        let kept = self.ground.keepers();
        let differences = self.ground.differences();
        self.outcome
            .failures
            .extend(differences.into_iter().map(|what| format!("seen from outside: {what}")));
        let has_all = keepers.iter().all(|keeper| kept.contains(keeper));
        self.outcome.came = match &ran.made {
            Made::Exec(why) => format!("exec:{why}"),
            _ if busy => "busy".to_owned(),
            _ if !self.outcome.given_up.is_empty() => {
                let reasons = self.outcome.given_up.keys().map(|reason| format!("given_up:{reason}"));
                reasons.collect::<Vec<_>>().join("+")
            }
            _ if !has_all => "gone without a reason".to_owned(),
            _ => "fresh".to_owned(),
        };
        let must = self.attack.must(way);
        if !must.iter().any(|must| is_as(&self.outcome.came, must)) {
            self.fail(format!("it came out as {}, and must as {}", self.outcome.came, must.join(" or ")));
        }
        Ok(())
    }

    /// The attack, in a body if that is not refused for a reason that stays. One that was made by exec has attacked nobody.
    fn attack_in_body(&mut self, way: Way, bystander: &Bystander) -> io::Result<(EndedRun, Pipes, usize)> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let failed = self.outcome.failures.len();
            let (ran, pipes, begun) = self.attack(way, bystander)?;
            let passes = matches!(&ran.made, Made::Exec(why) if PASSING.contains(&why.as_str()));
            if !passes || Instant::now() > deadline || begun != 1 {
                return Ok((ran, pipes, begun));
            }
            // Under exec it may end otherwise: some of what it does to itself is fatal there.
            self.outcome.failures.truncate(failed);
            drop(pipes);
            std::thread::sleep(BETWEEN);
        }
    }

    /// The attack itself. Gives what it has given away, and how often it began.
    fn attack(&mut self, way: Way, bystander: &Bystander) -> io::Result<(EndedRun, Pipes, usize)> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC);
        let ((alive, theirs_alive), (theirs_until, until), (kept, theirs_kept)) = (pipe()?, pipe()?, pipe()?);
        rustix::fs::fcntl_setfl(&kept, OFlags::NONBLOCK)?;
        let (stdout, stderr) = (memory("stdout")?, memory("stderr")?);
        let mut env = probe_env(self.attack);
        env.push(("HOSTILE_OFFSETS", offsets().into()));
        env.push(("HOSTILE_SIBLING", bystander.0.id().to_string().into()));
        let start = Start {
            program: &self.attack.path,
            args: &["attack", way.name()],
            env: &env,
            descriptors: vec![(KEPT, theirs_kept), (ALIVE, theirs_alive), (UNTIL, theirs_until)],
            output: [stdout.try_clone()?, stderr.try_clone()?],
        };
        let ran = self.ground.run(start)?;
        let begun = String::from_utf8_lossy(&content(stdout)?).matches("begun\n").count();
        if ran.status.code() != Some(LACKING) && !self.ended_well(way, ran.status) {
            let errors = text(&content(stderr)?);
            self.fail(format!("the attack ended with {}{} {errors}", ran.status, hung(&ran)));
        }
        Ok((ran, Pipes { alive, until, kept }, begun))
    }

    fn ended_well(&self, way: Way, status: ExitStatus) -> bool {
        match &self.attack.ends {
            Some(signal) => status.signal() == signal_number(signal),
            // The child that shares the memory kills the run.
            None if way == Way::Vfork => status.signal() == signal_number("SIGKILL"),
            None => status.code() == Some(0),
        }
    }

    /// Probes, each compared with the first one. True when none could be made in a body.
    fn probes_after(&mut self, count: usize) -> io::Result<bool> {
        for _ in 0..count {
            let failed = self.outcome.failures.len();
            let printed = self.probe_in_body()?;
            let Some(printed) = printed else { return Ok(self.outcome.failures.len() == failed) };
            match self.first.as_ref().map(|first| printed.differs_from(first)) {
                Some(Some(differs)) => {
                    self.fail(format!("a probe after the attack differs: {differs}"));
                    return Ok(false);
                }
                Some(None) => {}
                None => self.first = Some(printed),
            }
            std::thread::sleep(BETWEEN);
        }
        Ok(false)
    }

    fn judge(&mut self, ran: &EndedRun, begun: usize) {
        if begun != 1 {
            self.fail(format!("it began {begun} times"));
        }
        if ran.hung.is_some() {
            self.fail("it did not end");
        }
        if self.first.is_none() && !self.attack.must.starts_with("exec:") {
            self.fail("no probe was made in a body");
        }
    }

    /// What an attack has given away is as it was when it gave it away.
    fn look_at_kept(&mut self, kept: OwnedFd) -> io::Result<()> {
        let mut bytes = Vec::new();
        match File::from(kept).read_to_end(&mut bytes) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        if bytes.iter().any(|&byte| byte != b'k') {
            self.fail("what it gave away was changed after its end");
        }
        Ok(())
    }

    fn note_bodies(&mut self, before: &BTreeMap<String, u64>) {
        for (reason, count) in self.ground.given_up() {
            let more = count - before.get(&reason).copied().unwrap_or(0);
            if more > 0 {
                self.outcome.given_up.insert(reason, more);
            }
        }
    }
}

/// Whether an outcome is the one that a row has: each part of it where several bodies were given up.
fn is_as(came: &str, must: &str) -> bool {
    match must.strip_suffix('*') {
        Some(start) => came.split('+').all(|part| part.starts_with(start)),
        None => came == must,
    }
}

/// Whether the other ends of a pipe are closed, after some time at most.
fn ends(pipe: &OwnedFd) -> io::Result<bool> {
    let limit = Timespec::try_from(END_LIMIT).map_err(io::Error::other)?;
    let mut fds = [PollFd::new(pipe, PollFlags::IN)];
    Ok(poll(&mut fds, Some(&limit))? > 0)
}

fn hung(ran: &EndedRun) -> String {
    let told = ran.hung.iter().map(|told| format!(", killed because it did not end: {told};"));
    told.collect()
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.len().min(300);
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}
