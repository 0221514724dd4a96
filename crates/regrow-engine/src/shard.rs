//! A shard: one owner of all tables, used by one thread at a time.
//!
//! ```text
//!  start(request)
//!    recycling on? caller the same? ── no ──> why not
//!    Holdings  drops what changed on disk
//!    Finder    name ──> file ──> key ──> image, or why there is none
//!    Starter   image ──> armed body, or a forked one ──> order ──> Started
//! ```
//!
//! This file is wiring: it says who works with what. Each step stands in a file of its own.

use std::time::Instant;

use regrow_abi::task::Task;
use regrow_sys::caller::{self, RandomWords};

use crate::clock::monotonic_ns;
use crate::ids::{BodyId, ImageId, ProcessId};
use crate::image::forking::BodyForker;
use crate::keeping::holdings::Holdings;
use crate::keeping::inspection::{self, Reports};
use crate::keeping::leases::{Grant, Lease};
use crate::keeping::mounts::OnMount;
use crate::keeping::watch::Watch;
use crate::keeping::work::{Finished, Work};
use crate::run::creation::{CallerPart, Creation, Fallback, Point, PrepareError, Stats};
use crate::run::inherit::Inheritance;
use crate::run::lookup::Lookup;
use crate::run::request::Request;
use crate::run::started::Started;
use crate::settings::Settings;
use crate::spawn::finder::{Finder, Workshop};
use crate::spawn::in_shell;
use crate::spawn::starting::Starter;
use crate::tables::processes::ProcessRow;
use crate::tending;
use crate::view::ShardView;
use regrow_abi::fault;

/// The tables of programs, images, bodies, shells and processes, and what works with them.
#[derive(Debug)]
pub struct Shard {
    settings: Settings,
    caller: Inheritance,
    workshop: Workshop,
    forker: BodyForker,
    holdings: Holdings,
    stats: Stats,
    reports: Reports,
    random: RandomWords,
    last: Option<BodyId>,
}

impl Shard {
    /// A shard that keeps nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Shard {
        let workshop = Workshop::new(&settings);
        let watches = settings.recycle && workshop.can_watch() && settings.fault != fault::WATCH_FAILS;
        let on_mount = if settings.local_files_only { OnMount::TakeAsChanged } else { OnMount::LookUp };
        let watch = if watches { Watch::new(on_mount).ok() } else { None };
        Shard {
            caller: Inheritance::new(settings.reread_after),
            forker: workshop.forker(&settings),
            holdings: Holdings::new(&settings, watch),
            workshop,
            settings,
            stats: Stats::default(),
            reports: Reports::default(),
            random: RandomWords::new(),
            last: None,
        }
    }

    /// Starts a run in a kept body. `Err` tells why it must be started by exec; nothing of the program has run then.
    ///
    /// # Errors
    /// [`Fallback`].
    pub fn start(&mut self, request: &Request) -> Result<Started, Fallback> {
        let ordered_ns = monotonic_ns();
        let mut caller = self.check()?;
        caller.set_blocked_signals(caller::signal_mask());
        self.start_as(request, &request.task.inherit(&caller), ordered_ns, true)
    }

    /// As [`Shard::start`], for somebody else who is of this process's domain: the task of the request says all that a run
    /// inherits. What it does not say, and root and working directory, are this process's.
    ///
    /// # Errors
    /// [`Fallback`].
    pub fn start_for(&mut self, request: &Request) -> Result<Started, Fallback> {
        let ordered_ns = monotonic_ns();
        self.check()?;
        // Whoever starts runs for others sleeps if there is but one.
        let sleeps = self.holdings.tables.processes.iter().len() == 0;
        self.start_as(request, &request.task, ordered_ns, sleeps)
    }

    /// Lends a body for runs like a request of somebody else's (see [`Shard::start_for`]).
    ///
    /// # Errors
    /// [`Fallback`].
    pub(crate) fn lend_for(&mut self, request: &Request) -> Result<(Lease, Grant), Fallback> {
        self.check()?;
        let lent = self.starter(0).lend(request)?;
        self.holdings.conclude_leases();
        Ok(lent)
    }

    /// Whether a lease holds.
    pub(crate) fn lease_holds(&self, lease: &Lease) -> bool {
        self.holdings.leases.holds(lease.id)
    }

    /// Looks whether files have changed, and for which leases that matters.
    pub(crate) fn look_after_leases(&mut self) -> Result<(), Fallback> {
        self.check().map(|_| self.holdings.conclude_leases())
    }

    /// Ends all leases.
    pub(crate) fn revoke_leases(&mut self) {
        self.holdings.revoke_leases();
    }

    /// A lease has ended: its body goes.
    pub(crate) fn lease_is_over(&mut self, lease: Lease) {
        self.holdings.lease_is_over(lease.id);
        self.holdings.chores.discard_body(lease.body);
    }

    /// Whether a process is one that the shard keeps: a keeper, one that shares memory with it, or a seed.
    pub(crate) fn is_own(&self, pid: i32) -> bool {
        let images = self.holdings.tables.images.iter_kept();
        self.workshop.keepers().is_of_a_body(pid)
            || images.into_iter().any(|(_, kept)| kept.image.seed().pid() == pid)
    }

    /// What must be looked up before a run of a request can be started; nothing where it is remembered, or no file keeps anybody waiting.
    #[must_use]
    pub fn lookup(&self, request: &Request) -> Option<Lookup> {
        let is_needed = self.settings.local_files_only && !self.holdings.is_resolved(request);
        is_needed.then(|| Lookup::of(request))
    }

    /// Starts a run that is to be this task.
    fn start_as(
        &mut self,
        request: &Request,
        task: &Task,
        ordered_ns: u64,
        caller_sleeps: bool,
    ) -> Result<Started, Fallback> {
        let starter = Starter { caller_sleeps, ..self.starter(ordered_ns) };
        let (body, started) = { starter }.start(request, task)?;
        self.last = Some(body);
        Ok(started)
    }

    fn starter(&mut self, ordered_ns: u64) -> Starter<'_> {
        let Shard { settings, caller, workshop, forker, holdings, reports, random, .. } = self;
        let finder = Finder { settings, workshop, caller, holdings };
        Starter { finder, forker, reports, random, caller_sleeps: false, ordered_ns }
    }

    fn finder(&mut self) -> Finder<'_> {
        self.starter(0).finder
    }

    /// Executes a run that is not recycled in a shell that is ready. Gives the reason back where there is none.
    pub(crate) fn start_in_shell(&mut self, request: &Request, why: Fallback) -> Result<Started, Fallback> {
        // A process of a pool of sessions leads one before it has its order.
        let fits = request.task.session() || !self.settings.sessions;
        // A shell is what is left of an earlier run's body.
        if !fits || request.single_use || !in_shell::may_use(&why) {
            return Err(why);
        }
        let started = in_shell::start(&mut self.holdings, &mut self.caller, request, monotonic_ns(), why)?;
        self.stats.in_shell += 1;
        Ok(started)
    }

    /// Makes the image of a request's program ahead and waits for it.
    ///
    /// # Errors
    /// Why its runs will be started by exec.
    pub fn prepare(&mut self, request: &Request) -> Result<Point, PrepareError> {
        self.caller.refresh();
        let caller = self.check();
        let point = caller.and_then(|caller| self.finder().prepare(request, &request.task.inherit(&caller)));
        point.map_err(|why| PrepareError::NotRecycled { program: request.program_name().to_owned(), why })
    }

    /// Looks at everything that may have changed since the last spawn. Gives what a run inherits from its caller.
    fn check(&mut self) -> Result<Task, Fallback> {
        if !self.settings.recycle || self.settings.max_bodies_per_program == 0 {
            return Err(Fallback::RecyclingOff);
        }
        self.workshop.check()?;
        let task = self.caller.check().map_err(|what| {
            // What was made for another caller is never used for this one. A forked copy of the caller owns nothing.
            if what != CallerPart::Process {
                self.holdings.begin_anew();
            }
            Fallback::CallerChanged { what }
        })?;
        self.holdings.drop_changed();
        self.finder().take_made(false);
        Ok(task)
    }

    /// Takes in the images that were made since the last start, looks at all bodies, and asks the policy where its time has come.
    pub(crate) fn catch_up(&mut self) {
        self.finder().take_made(false);
        self.holdings.tick();
    }

    /// Has the next spawn look at everything that a run inherits from its caller.
    pub fn refresh(&mut self) {
        self.caller.refresh();
    }

    /// Drops everything that is kept.
    pub fn clear(&mut self) {
        self.holdings.begin_anew();
    }

    /// Drops an image with its bodies. False when there is none of this id.
    pub(crate) fn drop_image(&mut self, image: ImageId) -> bool {
        self.holdings.drop_image(image)
    }

    /// Drops the image that was used longest ago, for the sake of its descriptors and memory. False when there is none.
    pub(crate) fn give_back(&mut self) -> bool {
        self.holdings.drop_least_used()
    }

    /// Sets how much memory may be held by what is kept and in no use.
    pub fn set_budget(&mut self, bytes: u64) {
        self.settings.budget_bytes = bytes;
        self.holdings.set_budget(bytes);
    }

    /// The next piece of work, if there is one.
    pub fn take_work(&mut self) -> Option<Work> {
        tending::take_work(&mut self.finder())
    }

    /// Takes in what was done.
    pub fn finish(&mut self, finished: Finished) {
        let max_bodies = self.settings.max_bodies_per_program;
        tending::finish(&mut self.holdings, finished, max_bodies, &mut self.reports);
    }

    /// When there is something to do again, if nothing else happens: at once where there is work.
    #[must_use]
    pub fn next_work(&self) -> Option<Instant> {
        tending::next_work(&self.holdings)
    }

    /// Counts a creation.
    pub fn count(&mut self, creation: &Creation) {
        self.stats.count(creation);
    }

    /// How many processes were created in which way.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats.clone()
    }

    pub(crate) fn stats_so_far(&self) -> &Stats {
        &self.stats
    }

    /// What was seen of bodies. In verify mode every idle body is compared first.
    pub fn reports(&mut self) -> Reports {
        inspection::inspect_all(&mut self.holdings.tables, self.settings.verify, &mut self.reports);
        self.reports.clone()
    }

    /// Compares every body that waits for an order with its image, at once.
    pub fn check_bodies(&mut self) {
        inspection::check_all(&mut self.holdings.tables, &mut self.reports);
    }

    /// The shard, to be looked at.
    #[must_use]
    pub fn view(&self) -> ShardView<'_> {
        ShardView {
            holdings: &self.holdings,
            settings: &self.settings,
            reports: &self.reports,
            domain: self.caller.domain(),
            keepers: self.workshop.keepers(),
            last: self.last,
        }
    }

    pub(crate) fn set_max_bodies_per_program(&mut self, bodies: usize) {
        self.settings.max_bodies_per_program = bodies;
    }

    /// Takes a process out of its table, which has ended.
    pub(crate) fn take_process(&mut self, process: ProcessId) -> Option<ProcessRow> {
        self.holdings.tables.processes.remove(process)
    }
}
