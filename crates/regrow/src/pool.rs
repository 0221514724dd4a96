//! What is kept between runs, and the settings of it.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use regrow_engine::creation::{CallerPart, Fallback, Point, PrepareError, Stats};
use regrow_engine::exec::spawn_exec;
use regrow_engine::request::Request;
use regrow_engine::settings::{PointChoice, Settings};
use regrow_engine::shard::{self, Reports, RunTimes, Shard};
use regrow_engine::started::Started;

use regrow_pool::policy::Choice as Policy;
use regrow_sys::disable::FeatureSet;

use crate::command::Command;

/// The images and bodies that runs are made from. A pool is a handle: its clones are the same pool, and it may be
/// used from many threads.
///
/// [`Command::new`] uses the pool of the process, [`Pool::global`]. A program that wants other settings makes its
/// own:
///
/// ```
/// use regrow::Pool;
///
/// # fn main() -> std::io::Result<()> {
/// let pool = Pool::builder().max_bodies_per_program(2).verify(true).build();
/// let output = pool.command("echo").arg("hello").output()?;
/// assert_eq!(output.stdout, b"hello\n");
/// assert_eq!(pool.stats().total(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

/// What all handles of a pool have.
struct Shared {
    /// The process that made it.
    owner: u32,
    /// See [`PoolBuilder::sessions`].
    sessions: bool,
    shard: Arc<Mutex<Shard>>,
    /// What a forked copy of that process has instead. In the copy a thread that is not there may hold the lock.
    of_copy: OnceLock<Arc<Mutex<Shard>>>,
}

impl Pool {
    /// A pool with the default settings.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A pool with settings of one's own.
    #[must_use]
    pub fn builder() -> PoolBuilder {
        PoolBuilder { settings: Settings::default() }
    }

    /// The pool of this process, made with the default settings when it is first asked for.
    #[must_use]
    pub fn global() -> &'static Self {
        static GLOBAL: OnceLock<Pool> = OnceLock::new();
        GLOBAL.get_or_init(Self::new)
    }

    /// A command that runs `program` out of this pool, otherwise as [`Command::new`].
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        Command::in_pool(self.clone(), program.as_ref())
    }

    /// Makes the image of the command's program ahead, so that its first run is recycled as well. Returns when
    /// that is done.
    ///
    /// ```
    /// use regrow::{Command, Pool};
    ///
    /// match Pool::global().prepare(&Command::new("git")) {
    ///     Ok(point) => println!("git will start at {point}"),
    ///     Err(error) => println!("git will start by exec: {error}"),
    /// }
    /// ```
    ///
    /// # Errors
    /// When there is no such program, or when it is one that is not recycled, with the reason. Its runs are
    /// started by exec.
    pub fn prepare(&self, command: &Command) -> Result<Point, PrepareError> {
        let request = command
            .request_without_stdio()
            .map_err(|source| PrepareError::Program { program: command.get_program().to_owned(), source })?;
        self.shard().prepare(&request)
    }

    /// How many processes were created in which way.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shard().stats()
    }

    /// What was seen of bodies: those that were given up, and in verify mode how many were compared after a run and
    /// what differed. In verify mode every idle body is compared first.
    #[must_use]
    pub fn reports(&self) -> Reports {
        self.shard().reports()
    }

    /// Has the next run look at everything that it inherits from this process. Limits, ignored signals, processor
    /// affinity, niceness, control group and namespaces are otherwise looked at when the last look is 10 ms old ([`PoolBuilder::reread_after`]); user
    /// and group ids at every run.
    pub fn refresh(&self) {
        self.shard().refresh();
    }

    /// Sets how much memory may be held by what is kept and in no use. What is more is given back as soon as it is in no
    /// use.
    pub fn set_budget(&self, bytes: u64) {
        shard::set_budget(self.current(), bytes);
    }

    /// Drops everything that is kept. Runs that go on are not touched.
    pub fn clear(&self) {
        self.shard().clear();
    }

    /// The processes that keep images and bodies at present: children of this process.
    #[must_use]
    pub fn keepers(&self) -> Vec<i32> {
        self.shard().keepers()
    }

    /// The processes that hold what is kept and in no use: idle bodies with their images, and shells.
    #[must_use]
    pub fn idle_keepers(&self) -> Vec<i32> {
        self.shard().idle_keepers()
    }

    /// Whether a child of this process is one of a pool's: it keeps a body, waits for an order, or runs in a body.
    #[must_use]
    pub fn is_used_by(&self, process: i32) -> bool {
        self.shard().is_used_by(process)
    }

    /// Whether every run leads a session of its own.
    pub(crate) fn has_sessions(&self) -> bool {
        self.shared.sessions
    }

    /// When the run that was started last entered its program, left its body, and when the body was ready again, where
    /// the pool was built with [`PoolBuilder::timed`] and the run was recycled. Waits for the body, at most `timeout`.
    #[must_use]
    pub fn last_times(&self, timeout: Duration) -> Option<RunTimes> {
        self.shard().last_times(timeout)
    }

    /// Starts a run by exec that recycling has failed to start.
    pub(crate) fn exec(&self, request: &Request) -> io::Result<Started> {
        let started = spawn_exec(request, Fallback::BodyBroken)?;
        self.shard().count(&started.creation);
        Ok(started)
    }

    pub(crate) fn spawn(&self, request: &Request) -> io::Result<Started> {
        if self.is_in_a_copy() {
            let started = spawn_exec(request, Fallback::CallerChanged { what: CallerPart::Process })?;
            self.shard().count(&started.creation);
            return Ok(started);
        }
        shard::spawn(&self.shared.shard, request)
    }

    /// Whether this process is a forked copy of the one that made the pool: what is kept is that one's.
    fn is_in_a_copy(&self) -> bool {
        std::process::id() != self.shared.owner
    }

    fn current(&self) -> &Arc<Mutex<Shard>> {
        let Shared { shard, of_copy, .. } = &*self.shared;
        if !self.is_in_a_copy() {
            return shard;
        }
        let nothing = || Shard::new(Settings { recycle: false, ..Settings::default() });
        of_copy.get_or_init(|| Arc::new(Mutex::new(nothing())))
    }

    fn shard(&self) -> MutexGuard<'_, Shard> {
        self.current().lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

/// The settings of a pool that is about to be made.
#[derive(Debug, Clone)]
pub struct PoolBuilder {
    settings: Settings,
}

impl PoolBuilder {
    /// How many bodies of one program there may be. A run that would need one more is started by exec.
    #[must_use]
    pub fn max_bodies_per_program(mut self, bodies: usize) -> Self {
        self.settings.max_bodies_per_program = bodies;
        self
    }

    /// Whether runs are recycled (the default) or all started by exec.
    #[must_use]
    pub fn recycle(mut self, recycle: bool) -> Self {
        self.settings.recycle = recycle;
        self
    }

    /// Whether every body is compared with its image, byte for byte, after every run. It is off by default, and
    /// costs time in proportion to the size of the image.
    #[must_use]
    pub fn verify(mut self, verify: bool) -> Self {
        self.settings.verify = verify;
        self
    }

    /// Whether every run leads a session of its own, as by [`Command::setsid`]. It is made before the run is asked for, and
    /// costs it nothing. A run that is told to have none is started by exec. What puts memory back has a session too, which gives way to all
    /// others where sessions share the processors (`sched_autogroup_enabled`, for tasks in no cpu cgroup).
    #[must_use]
    pub fn sessions(mut self, sessions: bool) -> Self {
        self.settings.sessions = sessions;
        self
    }

    /// Which snapshot point images are made at: by default the deepest that is safe.
    #[must_use]
    pub fn point(mut self, point: PointChoice) -> Self {
        self.settings.point = point;
        self
    }

    /// What decides which bodies and shells are kept: by default [`Policy::Adaptive`].
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.settings.policy = policy;
        self
    }

    /// How much memory may be held by what is kept and in no use, in bytes: by default 5 % of the machine's.
    #[must_use]
    pub fn budget_bytes(mut self, bytes: u64) -> Self {
        self.settings.budget_bytes = bytes;
        self
    }

    /// How old what is known of this process may be, of which runs inherit (see [`Pool::refresh`]): by default 10 ms. To look takes
    /// 0.1 ms.
    #[must_use]
    pub fn reread_after(mut self, age: Duration) -> Self {
        self.settings.reread_after = age;
        self
    }

    /// Whether the times of every run are noted, for [`Pool::last_times`].
    #[must_use]
    pub fn timed(mut self, timed: bool) -> Self {
        self.settings.timed = timed;
        self
    }

    /// Kernel features that are not used, in addition to those that `REGROW_DISABLE` names.
    #[must_use]
    pub fn disable(mut self, features: FeatureSet) -> Self {
        features.iter().for_each(|feature| self.settings.disabled.insert(feature));
        self
    }

    /// The fault point that fails each time it is reached (see `regrow_engine::fault`): for tests.
    #[must_use]
    pub fn fault(mut self, fault: u32) -> Self {
        self.settings.fault = fault;
        self
    }

    /// Makes the pool. It keeps nothing until the first run.
    #[must_use]
    pub fn build(self) -> Pool {
        let (owner, sessions) = (std::process::id(), self.settings.sessions);
        let shard = Arc::new(Mutex::new(Shard::new(self.settings)));
        Pool { shared: Arc::new(Shared { owner, sessions, shard, of_copy: OnceLock::new() }) }
    }
}
