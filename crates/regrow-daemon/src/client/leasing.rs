//! Runs that a client starts by itself, in a body that the daemon has lent to it.
//!
//! ```text
//!   the same request twice ──lease──> granted: a run of it needs the daemon no more
//!   before a run   renewed in time?  holds?  a process armed?  nothing to be read of the daemon's watch, no mount changed?  holds still?
//!                  ── no ──> the daemon is asked for the run, as ever
//!   after it       its status by the kernel's word; a record on the lease's page
//! ```
//!
//! A request is the same when everything is, byte for byte, but for the arguments after `argv[0]`, which no image depends on that is lent.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use regrow_abi::MAX_FDS;
use regrow_body::lease::LeaseRecord;
use regrow_body::{Leased, LeasedBody, Lent, Run, StartError};
use regrow_sys::caller::RandomWords;
use regrow_sys::ended;
use regrow_sys::strings::Strings;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use crate::wire::{GRANT_FDS, GrantMessage, SpawnMessage};

/// Most requests that are remembered, each of which may have a lease.
const REQUESTS: usize = 4;
/// How often a request is made before a lease is asked for.
const ASK_AFTER: u32 = 2;
/// A lease is renewed when it is so old, which is half of its term.
const RENEW_AFTER: Duration = Duration::from_secs(1);
/// With so many records that the daemon has not taken, it is asked to.
const TOLD_AFTER: u64 = 64;
/// How long a run waits for the body to be put back.
const PATIENCE: Duration = Duration::from_millis(10);
/// A body is given back that so many runs in a row have waited for in vain.
const MOST_MISSED: u32 = 5;
/// How long no lease is asked for after a refusal, or after one that was of little use.
const PAUSE: Duration = Duration::from_secs(1);
/// A lease of fewer runs was of little use.
const FEW: u64 = 16;

/// A body on lease.
#[derive(Debug)]
struct Held {
    number: u32,
    body: LeasedBody,
    /// Readable when a watched file has changed.
    watch: OwnedFd,
    grant: GrantMessage,
    renewed: Instant,
    runs: u64,
    /// How many runs in a row have found the body not put back.
    missed: u32,
}

/// A request that was made.
#[derive(Debug)]
struct Known {
    /// Without the arguments.
    request: SpawnMessage,
    times: u32,
    lease: Option<Held>,
    asks_after: Option<Instant>,
}

/// What a client knows of its requests.
#[derive(Debug)]
pub(super) struct Leasing {
    /// Those made last stand last.
    known: Vec<Known>,
    /// The mounts of this process. A change is told once.
    mounts: Option<File>,
    is_off: bool,
    /// The process that has the leases: a forked copy of it must not use them.
    process: u32,
    random: RandomWords,
    runs: u64,
}

/// What is to be done first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// Nothing.
    Start,
    /// To renew the lease of this number.
    Renew(u32),
    /// There is no lease for it.
    Ask,
}

/// What became of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It has ended with this wait status.
    Ended(i32),
    /// It has ended, and nobody can tell how.
    Unknown,
    /// Nothing of the program has run: the daemon is to be asked.
    NotRun,
    /// The same, and this lease is to be returned.
    GiveBack(u32),
}

impl Leasing {
    pub(super) fn new() -> Leasing {
        let random = RandomWords::new();
        let process = std::process::id();
        Leasing { known: Vec::new(), mounts: None, is_off: false, process, random, runs: 0 }
    }

    /// How many runs were started in bodies on lease.
    pub(super) fn runs(&self) -> u64 {
        self.runs
    }

    /// Asks for no lease any more. Gives those that there are.
    pub(super) fn turn_off(&mut self) -> Vec<u32> {
        self.is_off = true;
        self.give_all_back()
    }

    fn give_all_back(&mut self) -> Vec<u32> {
        self.known.iter_mut().filter_map(|known| known.lease.take()).map(|held| held.number).collect()
    }

    /// What is to be done before a run is started here.
    pub(super) fn first(&mut self, run: &SpawnMessage) -> First {
        if self.process != std::process::id() {
            *self = Leasing { is_off: true, ..Leasing::new() };
        }
        let Some(at) = self.known.iter().position(|known| known.is_like(run)) else { return First::Ask };
        // The one that is used stands last.
        if at + 1 != self.known.len() {
            let known = self.known.remove(at);
            self.known.push(known);
        }
        let Some(held) = self.known.last().and_then(|known| known.lease.as_ref()) else { return First::Ask };
        let is_due = held.renewed.elapsed() >= RENEW_AFTER || held.body.page().untaken() >= TOLD_AFTER;
        if is_due { First::Renew(held.number) } else { First::Start }
    }

    /// A lease was renewed, or is over.
    pub(super) fn renewed(&mut self, holds: bool) {
        let Some(known) = self.known.last_mut() else { return };
        match &mut known.lease {
            Some(held) if holds => held.renewed = Instant::now(),
            _ => known.end(),
        }
    }

    /// Starts a run in the body of its lease, and waits for its end. [`Leasing::first`] was asked before.
    pub(super) fn run(&mut self, run: &SpawnMessage, descriptors: &[BorrowedFd<'_>]) -> Outcome {
        let ordered_ns = now_ns();
        let fds = targets(run, descriptors);
        let Some(known) = self.known.last_mut() else { return Outcome::NotRun };
        let (Some(held), Some(fds)) = (&mut known.lease, fds) else { return Outcome::NotRun };
        if held.body.page().is_revoked() {
            known.end();
            return Outcome::NotRun;
        }
        if !held.body.page().holds() {
            return Outcome::NotRun;
        }
        if !held.body.wait_armed(PATIENCE) {
            held.missed += 1;
            if held.missed < MOST_MISSED && !held.body.is_broken() {
                return Outcome::NotRun;
            }
            let number = held.number;
            known.end();
            return Outcome::GiveBack(number);
        }
        held.missed = 0;
        let Ok(pid) = held.body.begin() else { return Outcome::NotRun };
        match held.is_unchanged(self.mounts.as_ref()) {
            Some(true) => {}
            Some(false) => {
                held.body.call_off();
                return Outcome::NotRun;
            }
            None => {
                let number = held.number;
                known.end();
                return Outcome::GiveBack(number);
            }
        }
        let random = self.random.take();
        let started = random.map_err(StartError::Broken).and_then(|random| held.start(run, &fds, random));
        match started {
            Ok(started) => {
                self.runs += 1;
                held.await_end(&started, ordered_ns)
            }
            Err(StartError::Broken(_)) => {
                held.record(&LeaseRecord { pid, refused: true, ..LeaseRecord::default() });
                let number = held.number;
                known.end();
                Outcome::GiveBack(number)
            }
            Err(_) => {
                held.body.call_off();
                Outcome::NotRun
            }
        }
    }

    /// Notes a request that the daemon has carried out. True when a lease is to be asked for. `returned` are leases that are to be returned.
    pub(super) fn note(&mut self, run: &SpawnMessage, returned: &mut Vec<u32>) -> bool {
        if self.is_off || run.single_use || !run.preload.is_empty() {
            return false;
        }
        match self.known.iter_mut().position(|known| known.is_like(run)) {
            Some(at) => {
                let known = self.known.remove(at);
                self.known.push(known);
            }
            None => {
                if self.known.len() == REQUESTS {
                    returned.extend(self.known.remove(0).lease.map(|held| held.number));
                }
                let request = SpawnMessage { args: Strings::new(), ..run.clone() };
                self.known.push(Known { request, times: 0, lease: None, asks_after: None });
            }
        }
        let Some(known) = self.known.last_mut() else { return false };
        known.times += 1;
        let may_ask = known.asks_after.is_none_or(|after| after <= Instant::now());
        if known.lease.is_some() || known.times < ASK_AFTER || !may_ask {
            return false;
        }
        self.can_hold(returned)
    }

    /// Whether the kernel has what a lease takes. What the mounts are when a lease is asked for is where they are seen to change from.
    fn can_hold(&mut self, returned: &mut Vec<u32>) -> bool {
        if self.mounts.is_none() {
            self.mounts = if ended::is_told() { File::open("/proc/self/mountinfo").ok() } else { None };
            self.is_off = self.mounts.is_none();
        }
        if self.mounts.as_ref().is_some_and(|table| is_ready(&[(table.as_fd(), PollFlags::PRI)])) {
            returned.extend(self.give_all_back());
        }
        !self.is_off
    }

    /// Takes what the daemon has granted for the request that was noted last; `None` when it has refused.
    pub(super) fn granted(&mut self, granted: Option<(GrantMessage, Vec<OwnedFd>)>) {
        let Some(known) = self.known.last_mut() else { return };
        known.lease = granted.and_then(|(grant, fds)| Held::new(grant, fds));
        if known.lease.is_none() {
            known.asks_after = Some(Instant::now() + PAUSE);
        }
    }
}

impl Known {
    /// Whether a request is the same, but for its arguments.
    fn is_like(&self, run: &SpawnMessage) -> bool {
        let own = &self.request;
        own.program == run.program
            && own.targets == run.targets
            && own.arg0 == run.arg0
            && own.directory == run.directory
            && own.task == run.task
            && own.env == run.env
            && own.domain == run.domain
            && own.cgroup == run.cgroup
            && own.single_use == run.single_use
            && own.preload == run.preload
    }

    /// The lease is over.
    fn end(&mut self) {
        let runs = self.lease.take().map_or(0, |held| held.runs);
        self.times = 0;
        self.asks_after = (runs < FEW).then(|| Instant::now() + PAUSE);
    }
}

impl Held {
    fn new(grant: GrantMessage, fds: Vec<OwnedFd>) -> Option<Held> {
        let [socket, control, page, watch] = <[OwnedFd; GRANT_FDS]>::try_from(fds).ok()?;
        let lent = Lent { socket, control, armed: grant.armed, keeper: grant.keeper };
        let body = LeasedBody::new(lent, &page, grant.layout.clone()).ok()?;
        Some(Held { number: grant.lease, body, watch, grant, renewed: Instant::now(), runs: 0, missed: 0 })
    }

    /// Whether no file has changed that the body depends on, as far as the daemon has looked; it is to be asked else. `None` when the mounts
    /// have.
    ///
    /// The kernel queues an event within the call that makes the change. The daemon says that it is busy before it reads one. So no change
    /// is missed that was finished before this is called.
    fn is_unchanged(&self, mounts: Option<&File>) -> Option<bool> {
        let mounts = mounts?.as_fd();
        let is_ready = is_ready(&[(self.watch.as_fd(), PollFlags::IN), (mounts, PollFlags::PRI)]);
        if !is_ready {
            return Some(self.body.page().holds());
        }
        // Which of them it was: the first is still ready.
        if self::is_ready(&[(self.watch.as_fd(), PollFlags::IN)]) { Some(false) } else { None }
    }

    fn start(
        &mut self,
        run: &SpawnMessage,
        fds: &[(BorrowedFd<'_>, i32)],
        random: [u64; 3],
    ) -> Result<regrow_body::LeaseRun, StartError> {
        let mut args = self.grant.first_args.clone();
        args.append(&run.args);
        self.body.start(&Run {
            args: &args,
            env: &run.env,
            fds,
            order: None,
            is_ahead: false,
            task: &self.grant.task,
            processors: self.grant.task.affinity(),
            caller_sleeps: true,
            directory: Some(&run.directory),
            exec_path: self.grant.exec_path.as_deref(),
            random,
            await_start: false,
            busy_poll: false,
            traced: false,
            single_use: false,
            timed: self.grant.timed,
        })
    }

    fn await_end(&mut self, run: &regrow_body::LeaseRun, ordered_ns: u64) -> Outcome {
        self.runs += 1;
        let ended = self.body.finish(run);
        let entered_ns = if self.grant.timed { self.body.entered_ns() } else { 0 };
        let refused = ended == Leased::Refused;
        self.record(&LeaseRecord { pid: run.pid(), refused, ordered_ns, entered_ns, ended_ns: now_ns() });
        match ended {
            Leased::Ended(status) => Outcome::Ended(status),
            Leased::Refused => Outcome::NotRun,
            Leased::Unknown => run.status_soon().map_or(Outcome::Unknown, Outcome::Ended),
        }
    }

    /// Writes a record. The process is the daemon's to wait for from here on.
    fn record(&self, record: &LeaseRecord) {
        self.body.page().write(record);
        self.body.page().set_current(0);
    }
}

/// The descriptors with the numbers that they get, each number once; `None` where the daemon is to say what is wrong.
fn targets<'a>(run: &SpawnMessage, descriptors: &[BorrowedFd<'a>]) -> Option<Vec<(BorrowedFd<'a>, i32)>> {
    if descriptors.len() != run.targets.len() || descriptors.len() > MAX_FDS {
        return None;
    }
    let mut fds: Vec<_> = descriptors.iter().copied().zip(run.targets.iter().copied()).collect();
    fds.sort_by_key(|&(_, target)| target);
    let is_plain =
        fds.first().is_none_or(|first| first.1 >= 0) && fds.is_sorted_by(|one, next| one.1 < next.1);
    is_plain.then_some(fds)
}

/// Whether one of these is ready at this moment, or nobody can tell.
fn is_ready(fds: &[(BorrowedFd<'_>, PollFlags)]) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut ready: Vec<_> = fds.iter().map(|&(fd, events)| PollFd::from_borrowed_fd(fd, events)).collect();
    rustix::io::retry_on_intr(|| poll(&mut ready, Some(&at_once))) != Ok(0)
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec)
}
