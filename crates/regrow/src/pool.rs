//! What is kept between runs, and the settings of it.

use std::fmt;
use std::io;
use std::sync::{Arc, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use regrow_engine::keeping::inspection::Reports;
use regrow_engine::listing::PoolUser;
use regrow_engine::run::creation::{CallerPart, Fallback, Point, PrepareError, Stats};
use regrow_engine::run::exec::spawn_exec;
use regrow_engine::run::request::Request;
use regrow_engine::run::started::Started;
use regrow_engine::settings::{PointChoice, Reuse, Settings};
use regrow_engine::shard::Shard;
use regrow_engine::shared::SharedShard;
use regrow_engine::view::RunTimes;

use once_cell::race::OnceBox;
use regrow_pool::policy::PolicyChoice as Policy;
use regrow_sys::disable::FeatureSet;

use crate::per_process::PerProcess;

/// The images and bodies that runs are made from. A pool is a handle: its clones are the same pool, and it may be
/// used from many threads.
///
/// [`Command::new`](crate::Command::new) uses the pool of the process, [`Pool::global`]. A program that wants other settings makes its
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
    /// See [`PoolBuilder::sessions`].
    sessions: bool,
    /// A forked copy of the process that made the pool has a shard that keeps nothing.
    shard: PerProcess<SharedShard>,
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
        // No lock: a copy of this process that is forked while another thread makes the pool would wait for it for ever.
        static GLOBAL: OnceBox<Pool> = OnceBox::new();
        GLOBAL.get_or_init(|| Box::new(Self::new()))
    }

    /// Makes the image of a request's program.
    pub(crate) fn prepare_request(&self, request: &Request) -> Result<Point, PrepareError> {
        self.shard().prepare(request)
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

    /// Compares every body that no run is in with its image, at once. [`Pool::reports`] has what was seen.
    pub fn spot_check(&self) {
        self.shard().check_bodies();
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
        self.current().set_budget(bytes);
    }

    /// Drops everything that is kept. Runs that go on are not touched. In a forked copy of this process nothing is kept; there it closes
    /// the copy's descriptors of what this process keeps, as every other use of the pool there does, unless another thread was using the
    /// pool when the copy was made.
    pub fn clear(&self) {
        self.shard().clear();
    }

    /// The processes that keep images and bodies at present: children of this process.
    #[must_use]
    pub fn keepers(&self) -> Vec<i32> {
        self.shard().view().keepers()
    }

    /// The processes that hold what is kept and in no use: idle bodies with their images, and shells.
    #[must_use]
    pub fn idle_keepers(&self) -> Vec<i32> {
        self.shard().view().idle_keepers()
    }

    /// Whether a child of this process is one of a pool's: it keeps a body, waits for an order, or runs in a body.
    #[must_use]
    pub fn is_used_by(&self, process: i32) -> bool {
        self.shard().view().is_used_by(process)
    }

    /// Says for whom the pool starts processes, in the list that `regrow status` and `regrow top` show: `number` is one of several such users,
    /// `None` takes it off.
    pub fn set_user(&self, number: u64, user: Option<PoolUser>) {
        self.current().set_user(number, user);
    }

    /// Takes the pool off that list for good: for the end of a process that does not drop its pools. A pool that is dropped is taken off.
    pub fn unlist(&self) {
        self.current().unlist();
    }

    /// Whether every run leads a session of its own.
    pub(crate) fn has_sessions(&self) -> bool {
        self.shared.sessions
    }

    /// When the run that was started last entered its program, left its body, and when the body was ready again, where
    /// the pool was built with [`PoolBuilder::timed`] and the run was recycled. Waits for the body, at most `timeout`.
    /// Zeros where the body has been made anew meanwhile, which happens to those of an image that was used often.
    #[must_use]
    pub fn last_times(&self, timeout: Duration) -> Option<RunTimes> {
        const LOOK: Duration = Duration::from_millis(1);
        let began = Instant::now();
        loop {
            let shard = self.shard();
            if !shard.view().last_body_is_lent() || began.elapsed() >= timeout {
                return shard.view().last_times(timeout.saturating_sub(began.elapsed()));
            }
            drop(shard);
            thread::sleep(LOOK);
        }
    }

    /// Starts a run by exec that recycling has failed to start.
    pub(crate) fn exec(&self, request: &Request) -> io::Result<Started> {
        let started = spawn_exec(request, Fallback::BodyBroken)?;
        self.shard().count(&started.creation);
        Ok(started)
    }

    pub(crate) fn spawn(&self, request: &Request) -> io::Result<Started> {
        if self.is_in_a_copy() {
            if request.is_ahead {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let started = spawn_exec(request, Fallback::CallerChanged { what: CallerPart::Process })?;
            self.shard().count(&started.creation);
            return Ok(started);
        }
        self.current().spawn(request)
    }

    /// Whether this process is a forked copy of the one that made the pool: what is kept is that one's.
    fn is_in_a_copy(&self) -> bool {
        self.shared.shard.is_in_a_copy()
    }

    fn current(&self) -> &SharedShard {
        self.shared.shard.get(|original| {
            original.let_go_in_a_copy();
            SharedShard::new(Settings { recycle: false, ..Settings::default() })
        })
    }

    fn shard(&self) -> MutexGuard<'_, Shard> {
        self.current().lock()
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

    /// Compares one body in so many runs with its image, byte for byte, while no run is in it; 0, the default: none. It is off the way of
    /// runs. [`Pool::reports`] counts the checks; a body that differs is dropped, and the log has an error. A process that runs ahead of its
    /// order (a front end with a gate) is in its body all the time: such a body is not compared.
    #[must_use]
    pub fn spot_checks(mut self, one_in: u32) -> Self {
        self.settings.spot_checks = one_in;
        self
    }

    /// Which runs share a body: all of a program by [`Reuse::Always`], the default. By [`Reuse::Script`] two scripts of one
    /// interpreter share neither image nor body. By [`Reuse::Never`] bodies are forked ahead from the program's image, serve one run and
    /// are dropped: nothing of one run reaches another, whatever it does to its memory. A run costs a body then.
    #[must_use]
    pub fn reuse(mut self, reuse: Reuse) -> Self {
        self.settings.reuse = reuse;
        if reuse == Reuse::Never {
            // A shell is what is left of an earlier run's body.
            self.settings.shells = false;
        }
        self
    }

    /// Whether every run leads a session of its own, as by [`Command::setsid`](crate::Command::setsid). It is made before the run is asked for, and
    /// costs it nothing. A run that is told to have none is started by exec. What puts memory back has a session too, which gives way to all
    /// others where sessions share the processors (`sched_autogroup_enabled`, for tasks in no cpu cgroup).
    #[must_use]
    pub fn sessions(mut self, sessions: bool) -> Self {
        self.settings.sessions = sessions;
        self
    }

    /// Whether runs are code that is trusted as their caller is: it would gain nothing by leaving something behind on purpose, because the caller
    /// runs what it says anyway (a caller that loads pickles, for example). A reset then believes what the kernel has noted of a run's writes, and does not look for what a
    /// program does to memory that is not its own for no purpose but to leave it behind (`PAGEMAP_SCAN`, `mseal`, protection keys, guard pages, memory policy). Of mappings
    /// that cannot be written to it looks at each in one reset of 32, and at their sizes in the others. By default a reset believes nothing that a run can
    /// forge, which takes 30 to 200 ns more for each page of the image.
    #[must_use]
    pub fn trusts_runs(mut self, trusts_runs: bool) -> Self {
        self.settings.trusts_runs = trusts_runs;
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

    /// Whether `regrow status` and `regrow top` of this user show the pool (the default). A pool that keeps something writes what it counts to
    /// a file of some kilobytes in the user's runtime folder, at most once a second, by the thread that carries out its chores.
    #[must_use]
    pub fn listed(mut self, listed: bool) -> Self {
        self.settings.listed = listed;
        self
    }

    /// Kernel features that are not used, in addition to those that `REGROW_DISABLE` names.
    #[must_use]
    pub fn disable(mut self, features: FeatureSet) -> Self {
        features.iter().for_each(|feature| self.settings.disabled.insert(feature));
        self
    }

    /// The fault point that fails each time it is reached: for tests.
    #[must_use]
    pub fn fault(mut self, fault: regrow_engine::fault::FaultPoint) -> Self {
        self.settings.fault = fault;
        self
    }

    /// Makes the pool. It keeps nothing until the first run.
    #[must_use]
    pub fn build(self) -> Pool {
        let sessions = self.settings.sessions;
        Pool {
            shared: Arc::new(Shared { sessions, shard: PerProcess::new(SharedShard::new(self.settings)) }),
        }
    }
}
