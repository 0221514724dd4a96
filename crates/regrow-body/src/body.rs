//! One body: a keeper, the process that it has armed, and the engine's ends of their control area and socket.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use regrow_abi::fault::FaultPoint;
use regrow_abi::{Broken, CONTROL_BYTES, EXCHANGE_OFFSET, State};
use regrow_image::image::Image;
use regrow_sys::child;
use regrow_sys::raw::{self, SharedMapping};
use rustix::fs::{SealFlags, fcntl_add_seals};

use crate::ahead;
use crate::control::{Addressee, ControlArea, RunOf};
pub use crate::control::{Bell, Purpose, ResetWork, Times};
use crate::desk::Desk;
use crate::exchange::RunExchange;
use crate::keepers::Keepers;
use crate::lent::Lending;
use crate::line::{Line, Waits};
use crate::place::Place;
use crate::reaping::{self, END_TIMEOUT};
use crate::run::Run;
pub use crate::start_error::StartError;

/// How long a new body may take to arm its first process.
const FIRST_ARM_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a new body's keeper is looked after.
const LOOK_AFTER: Duration = Duration::from_millis(20);
/// How long an order may take to be carried out or refused.
const ORDER_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a body could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// A memfd, a socket or a mapping could not be made.
    #[error("{step}: {source}")]
    Setup {
        /// Which.
        step: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The seed could not fork.
    #[error("the seed {pid} could not fork: {source}")]
    Fork {
        /// The seed.
        pid: i32,
        /// Why.
        source: io::Error,
    },
    /// The keeper gave up before it had armed a process.
    #[error("the keeper {keeper} gave up: {why:?} ({source})")]
    GaveUp {
        /// The keeper.
        keeper: i32,
        /// Why.
        why: Broken,
        /// The error that goes with it.
        source: io::Error,
    },
    /// The keeper did not arm a process in time.
    #[error("the keeper {keeper} did not arm a process")]
    Silent {
        /// The keeper.
        keeper: i32,
    },
}

/// A kept address space with its keeper. Dropping it ends the keeper, and the armed process if there is one; a process
/// that runs in it goes on.
///
/// ```text
///  told Armed ──order sent──> running ──the kernel says that the run has ended, or left the memory──> put back ──told Armed──> …
/// ```
///
/// Whether a run is in it, the engine knows by what it has done and what the kernel says. The words of the control area, which a run can
/// write, only say when it is worth asking.
#[derive(Debug)]
pub struct Body {
    pub(crate) keeper: i32,
    pub(crate) keeper_pidfd: OwnedFd,
    /// The process that it was made by.
    pub(crate) parent: u32,
    pub(crate) control: ControlArea,
    /// Where it lies in the body.
    pub(crate) control_address: u64,
    pub(crate) line: Arc<Line>,
    /// The last run's process, or zero.
    pub(crate) last_run: i32,
    /// It can only execute programs.
    pub(crate) is_shell: bool,
    /// Its processes run code of the program before they have an order.
    is_woken_ahead: bool,
    /// The process group that the last run leads, or zero.
    group: i32,
    /// What it is made for.
    purpose: Purpose,
    /// It has had the one run that it serves.
    is_spent: bool,
    /// In verify mode: it was compared since its last run.
    compared: AtomicBool,
    /// Where its tasks wake.
    place: Place,
    /// Somebody has waited in vain for it to be put back.
    is_late: bool,
    desk: Desk,
    /// As it was made: a run can write to the control area.
    trusts_runs: bool,
    /// What its last run was told, and has said, where that went through the exchange.
    exchange: Option<Arc<RunExchange>>,
    /// Its image had all saved pages in the store right before it was made, and it may be renewed.
    has_all_pages: bool,
    /// How many orders it has had.
    pub(crate) runs: u64,
    pub(crate) keepers: Keepers,
    /// What it can be lent by, where it was made to be.
    pub(crate) lending: Lending,
}

/// How a body is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Making {
    /// It is compared with its image before each process is armed.
    pub verify: bool,
    /// Its processes have sessions of their own before they have an order; an order for a task without one is refused.
    pub sessions: bool,
    /// A reset believes what the kernel has noted of writes, which a run could have forged.
    pub trusts_runs: bool,
    /// What it is made for.
    pub purpose: Purpose,
    /// Nobody waits for it: what its first run is going to touch is mapped.
    pub ahead: bool,
    /// It can be lent to another process.
    pub lendable: bool,
}

/// The control area of a body that is made so, as its keeper finds it.
fn told(shared: SharedMapping, image: &Image, how: Making) -> ControlArea {
    let control = ControlArea::new(shared);
    control.set_verify(how.verify);
    control.set_sessions(how.sessions);
    control.set_trusts_runs(how.trusts_runs);
    control.set_purpose(how.purpose);
    if how.ahead {
        ahead::order(&control, image);
    }
    control
}

impl Body {
    /// Makes a body of an image and waits until it is armed (in verify mode: until it can be compared). The keeper stands in the
    /// registry as long as there is the body.
    ///
    /// # Errors
    /// [`BodyError`]; nothing is left behind.
    pub fn fork(image: &Image, how: Making, keepers: &Keepers) -> Result<Body, BodyError> {
        let setup = |step| move |source| BodyError::Setup { step, source };
        let memfd =
            raw::memfd("regrow-control", CONTROL_BYTES as u64).map_err(setup("making a control memfd"))?;
        // A run that cut it short would have the engine end by SIGBUS.
        let lengths = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&memfd, lengths).map_err(|error| setup("sealing a control memfd")(error.into()))?;
        let shared =
            SharedMapping::new(memfd.as_fd(), CONTROL_BYTES).map_err(setup("mapping a control memfd"))?;
        let (ours, theirs) = raw::agent_socket().map_err(setup("making a socket"))?;
        let mut ours = Some(ours);
        let control = told(shared, image, how);
        let (seed, has_all_pages) = (image.seed(), !image.has_given_back());
        let keeper = seed.fork(memfd.as_fd(), theirs.as_fd());
        drop(theirs);
        let keeper = keeper.map_err(|source| {
            if let Some(ours) = ours.take() {
                reaping::reap_unannounced(&control, ours.as_fd());
            }
            BodyError::Fork { pid: seed.pid(), source }
        })?;
        let keeper_pidfd = raw::pidfd_open(keeper).map_err(|source| {
            drop(ours.take());
            reaping::reap_unseen(&control, keeper);
            BodyError::Setup { step: "opening a keeper's pidfd", source }
        })?;
        let lending = if how.lendable { Lending::Possible(memfd) } else { Lending::No };
        let line = ours
            .map(Line::new)
            .ok_or_else(|| setup("making a socket")(io::ErrorKind::NotConnected.into()))?;
        keepers.insert(keeper);
        let body = Body {
            keeper,
            keeper_pidfd,
            parent: std::process::id(),
            control,
            control_address: image.header.control_address,
            line: Arc::new(line),
            last_run: 0,
            is_shell: false,
            is_woken_ahead: image.header.gate_address != 0,
            group: 0,
            purpose: how.purpose,
            is_spent: false,
            compared: AtomicBool::new(false),
            place: Place::default(),
            is_late: false,
            desk: Desk::default(),
            trusts_runs: how.trusts_runs,
            exchange: None,
            lending,
            has_all_pages,
            runs: 0,
            keepers: keepers.clone(),
        };
        match body.await_first_arming() {
            Some(State::Armed | State::Clean) if body.line.waits().is_some() => Ok(body),
            _ => Err(match body.control.broken() {
                Some((why, errno)) => {
                    BodyError::GaveUp { keeper, why, source: io::Error::from_raw_os_error(errno) }
                }
                None => BodyError::Silent { keeper },
            }),
        }
    }

    /// A keeper that is killed leaves its word as it was.
    fn await_first_arming(&self) -> Option<State> {
        let is_ready = |state| matches!(state, Some(State::Armed | State::Clean | State::Broken));
        let started = Instant::now();
        loop {
            let state = self.control.wait_until(LOOK_AFTER, is_ready);
            if is_ready(state) || started.elapsed() >= FIRST_ARM_TIMEOUT || !self.keeper_lives() {
                return state;
            }
        }
    }

    /// The keeper.
    #[must_use]
    pub fn keeper(&self) -> i32 {
        self.keeper
    }

    /// Whether this process uses its memory: the keeper, the one that waits for an order, or the run. Where the kernel does not tell, it is
    /// one of those that are known.
    #[must_use]
    pub fn is_used_by(&self, pid: i32) -> bool {
        let is_known = || pid == self.keeper || pid == self.last_run || self.armed() == Some(pid);
        raw::share_memory(pid, self.keeper).unwrap_or_else(is_known)
    }

    /// The process that waits for an order, if one does.
    pub(crate) fn armed(&self) -> Option<i32> {
        match self.line.waits() {
            Some(Waits::Armed { pid, is_shell }) if is_shell == self.is_shell => Some(pid),
            _ => None,
        }
    }

    /// What is to be rung when the run has been waited for: the body is put back then. A run that nobody rings for is
    /// noticed within a second.
    #[must_use]
    pub fn bell(&self) -> Bell {
        let (exchange, group) = (self.exchange.clone(), self.group);
        let run = RunOf { serial: self.runs, is_woken_ahead: self.is_woken_ahead, group, exchange };
        self.control.bell(&self.line, run)
    }

    /// How many runs it has had.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Whether its image has given pages back since it was made: it keeps the store with all of them, as long as it is there.
    #[must_use]
    pub fn is_outdated(&self, image: &Image) -> bool {
        self.has_all_pages && image.has_given_back()
    }

    /// It is never outdated from here on.
    pub fn keep_all_pages(&mut self) {
        self.has_all_pages = false;
    }

    /// Whether it has had the one run that it serves.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.is_spent
    }

    /// What it is doing. A body that has served its one run is broken.
    #[must_use]
    pub fn state(&self) -> Option<State> {
        if self.lending.is_lent() {
            return Some(State::Running);
        }
        if self.is_spent {
            let is_over = self.line.is_over(self.runs) || self.has_run_left();
            return Some(if is_over { State::Broken } else { State::Running });
        }
        if self.has_run_in_it() {
            return Some(State::Running);
        }
        if self.line.has_left() {
            return Some(State::Broken);
        }
        match self.control.state() {
            Some(State::Armed | State::Clean) => Some(match self.line.waits() {
                // The word is left over from the run.
                None => State::Resetting,
                Some(Waits::Clean) => State::Clean,
                Some(Waits::Gone { .. }) => State::Broken,
                Some(Waits::Armed { is_shell, .. }) if is_shell != self.is_shell => State::Broken,
                Some(Waits::Armed { .. }) if self.control.is_verified() && !self.compared.load(SeqCst) => {
                    State::Broken
                }
                Some(Waits::Armed { .. }) => State::Armed,
            }),
            // The keeper has not looked at what the run has left yet.
            Some(State::Taken | State::Running) if self.runs > 0 && self.line.waits().is_none() => {
                Some(State::Resetting)
            }
            other => other,
        }
    }

    /// Whether the run of the last order is in it. A run that nobody has waited for is asked after as soon as the body says that it has
    /// gone; one that has executed another program has left the memory.
    pub(crate) fn has_run_in_it(&self) -> bool {
        if self.line.is_over(self.runs) {
            return false;
        }
        if matches!(self.control.state(), Some(State::Taken | State::Running)) || !self.has_run_left() {
            return true;
        }
        self.line.set_over(self.runs);
        false
    }

    /// Whether the kernel says that the last run uses the memory no more.
    fn has_run_left(&self) -> bool {
        // A keeper without memory is dying, and found to be.
        !child::is_living_child(self.last_run)
            || raw::memory_is_alike(self.last_run, self.keeper) == Some(false)
    }

    /// Whether its last run has ended, and its keeper has not been told.
    #[must_use]
    pub fn has_unawaited_end(&self) -> bool {
        self.state() == Some(State::Running) && !child::is_living_child(self.last_run)
    }

    /// Whether no run is in it, and none is about to be.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        !matches!(self.state(), Some(State::Taken | State::Running))
    }

    /// Whether it is put back, or will be as soon as its keeper has a processor: its run is over.
    #[must_use]
    pub fn is_being_put_back(&self) -> bool {
        match self.state() {
            Some(State::Resetting | State::Arming | State::Clean) => true,
            Some(State::Running) => self.has_run_left(),
            _ => false,
        }
    }

    /// Whether it is being put back on the processor of the calling thread, as far as is known in time: a run can stop its keeper, and is to
    /// cost the next ones one wait.
    #[must_use]
    pub fn is_put_back_here(&self) -> bool {
        !self.is_late && self.place.is_here() && self.line.is_over(self.runs) && self.line.waits().is_none()
    }

    /// Waits until the body has told that it is armed: whoever tells is about to sleep.
    #[must_use]
    pub fn await_armed(&mut self, timeout: Duration) -> bool {
        let is_armed = |state| state == Some(State::Armed);
        let in_time = self.line.waits().is_some()
            || self.line.await_report(timeout)
                && self.control.wait_until(timeout, is_armed) == Some(State::Armed);
        self.is_late = !in_time;
        in_time
    }

    /// Whether its keeper is gone or has given it up.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        matches!(self.state(), None | Some(State::Broken)) || !self.keeper_lives()
    }

    fn keeper_lives(&self) -> bool {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(waitid(WaitId::PidFd(self.keeper_pidfd.as_fd()), options), Ok(None))
    }

    /// Why it is given up, if it is.
    #[must_use]
    pub fn broken(&self) -> Option<(Broken, i32)> {
        let left = self.line.has_left().then_some((Broken::LeftProcesses, 0));
        left.or_else(|| self.control.broken())
    }

    /// Times of the last run that asked for them.
    #[must_use]
    pub fn times(&self) -> Times {
        self.control.times()
    }

    /// What the last reset did.
    #[must_use]
    pub fn reset_work(&self) -> ResetWork {
        self.control.reset_work()
    }

    /// Makes the agent fail at a fault point (tests).
    pub fn set_fault(&self, fault: FaultPoint) {
        self.control.set_fault(fault);
    }

    /// Waits until the body is armed, can be compared, or is broken.
    pub fn wait_ready(&self, timeout: Duration) -> Option<State> {
        let is_ready = |state| matches!(state, None | Some(State::Armed | State::Clean | State::Broken));
        let started = Instant::now();
        let word = self.control.wait_until(timeout, is_ready);
        let is_told = || self.line.waits().is_some() || self.has_run_in_it();
        if is_ready(word) && !matches!(word, None | Some(State::Broken)) && !is_told() {
            self.line.await_report(timeout.saturating_sub(started.elapsed()));
        }
        self.state()
    }

    /// Lets a body that was compared arm its next process, and waits for it.
    pub fn arm_after_verify(&self) -> bool {
        self.line.forget();
        self.compared.store(true, SeqCst);
        self.control.swap(State::Clean, State::Arming)
            && self.control.wait_until(ORDER_TIMEOUT, |state| state != Some(State::Arming))
                == Some(State::Armed)
            && self.armed().is_some()
    }

    /// Starts a run in the armed process. Returns its pid: a child of the calling process, not yet waited for.
    ///
    /// # Errors
    /// [`StartError`]: nothing of the program has run. After [`StartError::Broken`] the body must be dropped.
    pub fn start(&mut self, image: &Image, run: &Run<'_>) -> Result<i32, StartError> {
        self.desk.lay_out(&image.stack, run)?;
        let pid = self.take_armed()?;
        if run.traced {
            regrow_sys::ptrace::seize_to_exit(pid).map_err(StartError::Broken)?;
        }
        if let Some(all) = run.processors {
            // A reset that changes mappings takes longer than to wake another processor, which puts the body back beside the caller then.
            let is_short = self.control.reset_work().mappings == 0;
            self.place.prepare([self.keeper, pid], all, run.caller_sleeps && is_short);
        }
        let to = Addressee { pid, serial: self.runs + 1 };
        let exchange = self.change_exchange(run);
        self.desk.write(&self.control, to, run, &image.patches, exchange);
        self.line.send_order(to.serial, run.fds).map_err(StartError::Broken)?;
        self.is_given(pid);
        self.is_spent = run.single_use || self.purpose == Purpose::OneRun;
        self.group = if run.task.session() || run.task.process_group() == Some(0) { pid } else { 0 };
        self.desk.is_sent();
        if run.await_start {
            self.await_start(pid, run.busy_poll)?;
        }
        Ok(pid)
    }

    /// Ends what the last run had of the exchange, and gives it to the next one with what that is told. Gives where the next one finds
    /// that; zero where it is told nothing. The state must be `Taken`: no run is in the body.
    fn change_exchange(&mut self, run: &Run<'_>) -> u64 {
        self.close_exchange();
        self.exchange = run
            .order
            .and_then(|order| self.control.open_exchange(order, run.is_ahead, self.trusts_runs))
            .map(Arc::new);
        self.exchange.as_ref().map_or(0, |_| self.control_address + EXCHANGE_OFFSET as u64)
    }

    /// No run is in it: keeps what its last run has said for whoever waits for that, and clears the exchange.
    pub(crate) fn close_exchange(&self) {
        if let Some(last) = &self.exchange {
            last.close();
        }
    }

    /// Takes the armed process for an order, if it lives.
    ///
    /// # Errors
    /// [`StartError::NotArmed`]; [`StartError::Broken`] when it was killed.
    pub(crate) fn take_armed(&self) -> Result<i32, StartError> {
        let pid = self.armed().ok_or(StartError::NotArmed)?;
        if !self.control.take() {
            return Err(StartError::NotArmed);
        }
        if child::is_living_child(pid) {
            return Ok(pid);
        }
        // Somebody killed it. Nobody else waits for it.
        let _ = raw::wait_pid(pid, true);
        Err(StartError::Broken(io::ErrorKind::BrokenPipe.into()))
    }

    /// Notes that the armed process has its order: from here on it is the run, unless it refuses.
    pub(crate) fn is_given(&mut self, pid: i32) {
        self.line.forget();
        self.compared.store(false, SeqCst);
        self.last_run = pid;
        self.is_late = false;
        self.runs += 1;
    }

    /// Waits until the order is carried out or refused. An order that was not refused has been carried out, or is about to be: its
    /// program is never started a second time.
    fn await_start(&self, pid: i32, busy_poll: bool) -> Result<(), StartError> {
        let has_begun = |state| state != Some(State::Taken);
        if busy_poll {
            self.control.busy_poll(has_begun);
        }
        if self.control.wait_until(ORDER_TIMEOUT, has_begun) == Some(State::Running) {
            return Ok(());
        }
        let Some((step, errno)) = self.line.take_refusal(self.runs) else { return Ok(()) };
        let _ = raw::wait_pid(pid, false);
        self.line.set_over(self.runs);
        Err(StartError::Refused { step, source: io::Error::from_raw_os_error(errno) })
    }
}

impl Body {
    /// Kills the keeper (tests of faults).
    pub fn kill_keeper(&self) {
        let _ = raw::pidfd_kill(self.keeper_pidfd.as_fd(), libc::SIGKILL);
        let _ = raw::ends_within(self.keeper_pidfd.as_fd(), END_TIMEOUT);
    }

    /// Kills the armed process (tests of faults).
    pub fn kill_armed(&self) {
        let Some(pid) = self.armed() else { return };
        if let Ok(pidfd) = raw::pidfd_open(pid) {
            child::kill(pid);
            let _ = raw::ends_within(pidfd.as_fd(), END_TIMEOUT);
        }
    }
}
