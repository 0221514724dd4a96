//! A shard: one owner of all tables, used by one thread at a time.
//!
//! ```text
//!  start(request)
//!    recycling on? caller the same? ── no ──> why not
//!    drop what changed on disk, take in images that are ready
//!    name ──> file (cached) ──> key ──> entry: none   -> make the image on a thread: FirstRun
//!                                              making -> ImageInProgress
//!                                              refused-> its reason
//!                                              kept   -> an armed body, or a forked one ──> order ──> Started
//! ```
//!
//! Invariants: whatever goes wrong before the program's first instruction ends in `Err(Fallback)`, and the caller execs;
//! a body in doubt is dropped, never used again.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use regrow_body::run::StringBlock;
use regrow_body::{Body, Run, StartError, Times};
use regrow_image::make::{self, AgentCode};
use regrow_image::resolve::FileIdentity;
use regrow_pool::{BodyId, ProgramId, ShellId};
use regrow_sys::caller::{self, Domain, RandomWords, Settable};
use regrow_sys::probe::{Feature, Kernel};

use crate::creation::{Creation, Fallback, Point, PrepareError, Stats};
use crate::fault;
use crate::front_end::{self, FrontEnd};
use crate::inherit::Inheritance;
use crate::keep::Keeping;
use crate::maker::{self, Built, Job};
use crate::program::{self, Key, Name, Resolved};
use crate::request::{Request, Resource, Strings};
use crate::settings::{PointChoice, Settings};
use crate::started::Started;
pub use crate::table::Reports;
use crate::table::{Choice, Entry, Kept, Slot, Tables, max_images, table_key};
use crate::watch::{Owner, Watch};

/// Times of one run and of the reset after it, on the monotonic clock in nanoseconds, and what the reset did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTimes {
    /// When the program was entered, when it had left the body, when the body was armed again.
    pub times: Times,
    /// What the reset did.
    pub work: regrow_body::body::ResetWork,
    /// The keeper of the body.
    pub keeper: i32,
}

/// What a run inherits beside its domain, its descriptors, root, working directory and umask.
#[derive(Clone, Debug)]
pub struct Bequest {
    /// Process group, niceness, limits, ignored signals, affinity.
    pub settable: Settable,
    /// Blocked signals; bit 0 is signal 1.
    pub signal_mask: u64,
}

/// `SIGPIPE` in a set of signals.
pub(crate) const SIGPIPE: u64 = 1 << (libc::SIGPIPE - 1);

/// How often `prepare` begins anew when the program's files change while it is made.
const MAX_ATTEMPTS: usize = 100;
/// The same for a front end. Each time it is begun, and then waited for.
const MAX_WARM_ATTEMPTS: usize = 6;

/// The tables of programs, images and bodies, and all that uses them.
#[derive(Debug)]
pub struct Shard {
    pub(crate) settings: Settings,
    kernel: Kernel,
    inheritance: Inheritance,
    agent: Option<Arc<AgentCode>>,
    watch: Option<Watch>,
    pub(crate) tables: Tables,
    pub(crate) stats: Stats,
    reports: Reports,
    random: RandomWords,
    clock: u64,
    last: Option<(Owner, i32)>,
    pub(crate) keeping: Keeping,
}

impl Shard {
    /// A shard that keeps nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Shard {
        let kernel = Kernel::probe(&settings.disabled);
        let agent = match settings.fault {
            fault::AGENT_MEMFD_FAILS => None,
            _ => AgentCode::new().ok().map(Arc::new),
        };
        let watches = kernel.works(Feature::Inotify) && settings.fault != fault::WATCH_FAILS;
        Shard {
            inheritance: Inheritance::new(settings.reread_after),
            keeping: Keeping::new(&settings),
            watch: if watches { Watch::new().ok() } else { None },
            settings,
            kernel,
            agent,
            tables: Tables::default(),
            stats: Stats::default(),
            reports: Reports::default(),
            random: RandomWords::new(),
            clock: 0,
            last: None,
        }
    }

    /// Starts a run in a kept body. `Err` tells why it must be started by exec; nothing of the program has run then.
    ///
    /// # Errors
    /// [`Fallback`].
    pub fn start(&mut self, request: &Request) -> Result<Started, Fallback> {
        let settable = self.own_settable()?;
        self.start_as(request, &Bequest { settable, signal_mask: caller::signal_mask() })
    }

    /// As [`Shard::start`], for somebody else who is of this process's domain: the run has what `bequest` says of what a
    /// child inherits. Root, working directory and umask are this process's unless the request says otherwise.
    ///
    /// # Errors
    /// [`Fallback`].
    pub fn start_for(&mut self, request: &Request, bequest: &Bequest) -> Result<Started, Fallback> {
        self.check()?;
        self.start_as(request, bequest)
    }

    fn start_as(&mut self, request: &Request, bequest: &Bequest) -> Result<Started, Fallback> {
        let resolved = self.resolve(request)?;
        match self.start_warm(&resolved, request, bequest) {
            Some(Err(why)) if self.settings.point == PointChoice::Auto => {
                tracing::debug!(%why, "not started in the image of a front end");
            }
            Some(other) => return other,
            None => {}
        }
        let owner = self.entry(&resolved, request, &bequest.settable, None)?;
        let started = self.start_in(owner, &resolved, request, bequest);
        if let Err(Fallback::AllBusy) = &started {
            self.crowded_out(owner);
        }
        started
    }

    /// Starts a run in the image of a front end; `None` when there is no front end for it.
    fn start_warm(
        &mut self,
        resolved: &Resolved,
        request: &Request,
        bequest: &Bequest,
    ) -> Option<Result<Started, Fallback>> {
        let warm = self.front_end(resolved, request)?;
        let mut owner = self.entry(resolved, request, &bequest.settable, Some(warm.clone()));
        if let Err(why) = &owner
            && let Some(plainer) = warm.plainer()
            && (why.is_of_image() || self.has_image(resolved, request, &bequest.settable, &plainer))
        {
            tracing::debug!(%why, "started in the image of a plainer front end");
            owner = self.entry(resolved, request, &bequest.settable, Some(plainer));
        }
        Some(owner.and_then(|owner| self.start_in(owner, resolved, request, bequest)))
    }

    /// Whether there is an image of a front end.
    fn has_image(
        &self,
        resolved: &Resolved,
        request: &Request,
        settable: &Settable,
        warm: &FrontEnd,
    ) -> bool {
        let owner = self.tables.find(&key_of(resolved, request, settable, Some(warm.clone())), &request.env);
        owner
            .and_then(|owner| self.tables.entries.get(&owner))
            .is_some_and(|entry| matches!(entry.slot, Slot::Kept(_)))
    }

    /// The front end of a request: its own, or one that Regrow has for the program.
    fn front_end(&self, resolved: &Resolved, request: &Request) -> Option<FrontEnd> {
        if !matches!(self.settings.point, PointChoice::Auto | PointChoice::Only(Point::Warm)) {
            return None;
        }
        let own = request.warm.clone().map(FrontEnd::Own);
        own.or_else(|| front_end::of_program(resolved, request))
    }

    /// Takes in the images that were made since the last start.
    pub(crate) fn take_in_ready(&mut self) {
        self.take_ready(false);
    }

    /// The domain of everything that is kept.
    #[must_use]
    pub fn domain(&self) -> &Domain {
        self.inheritance.domain()
    }

    /// What is kept, in the eyes of the policy.
    #[must_use]
    pub fn pool(&self) -> &regrow_pool::Pool {
        self.keeping.pool()
    }

    pub(crate) fn pool_body(&self, image: Owner, id: u64) -> Option<BodyId> {
        self.keeping.body_of(image, id)
    }

    pub(crate) fn shell_ids(&self) -> Vec<u64> {
        self.keeping.pool().state().shells().map(|(id, _)| id.0).collect()
    }

    pub(crate) fn shell_keeper(&self, shell: ShellId) -> Option<i32> {
        self.keeping.shells.get(&shell).map(|slot| slot.shell.keeper())
    }

    pub(crate) fn image_of(&self, program: ProgramId) -> Option<Owner> {
        self.keeping.image_of(program)
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    pub(crate) fn given_up(&self) -> &std::collections::BTreeMap<&'static str, u64> {
        &self.reports.given_up
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// Drops an image with its bodies. False when there is none of this number.
    pub(crate) fn drop_image(&mut self, image: Owner) -> bool {
        let there = self.tables.entries.contains_key(&image);
        self.forget(&HashSet::from([image]));
        there
    }

    /// Counts a creation.
    pub fn count(&mut self, creation: &Creation) {
        self.stats.count(creation);
    }

    /// Makes the image of a request's program ahead and waits for it.
    ///
    /// # Errors
    /// Why its runs will be started by exec.
    pub fn prepare(&mut self, request: &Request) -> Result<Point, PrepareError> {
        let program = || request.program_name().to_owned();
        self.try_prepare(request).map_err(|why| PrepareError::NotRecycled { program: program(), why })
    }

    fn try_prepare(&mut self, request: &Request) -> Result<Point, Fallback> {
        self.inheritance.refresh();
        let settable = self.own_settable()?;
        let resolved = self.resolve(request)?;
        let mut front_end = self.front_end(&resolved, request);
        while let Some(warm) = front_end {
            match self.await_image(&resolved, request, &settable, Some(&warm)) {
                Err(why) if self.settings.point == PointChoice::Auto || warm.plainer().is_some() => {
                    tracing::debug!(%why, "no image of a front end");
                }
                other => return other,
            }
            front_end = warm.plainer();
        }
        self.await_image(&resolved, request, &settable, None)
    }

    /// Has an image be made, and waits for it.
    fn await_image(
        &mut self,
        resolved: &Resolved,
        request: &Request,
        settable: &Settable,
        warm: Option<&FrontEnd>,
    ) -> Result<Point, Fallback> {
        // A front end takes long, and may change what it reads itself: it is not prepared for ever.
        let most = if warm.is_some() { MAX_WARM_ATTEMPTS } else { MAX_ATTEMPTS };
        for _ in 0..most {
            match self.entry(resolved, request, settable, warm.cloned()) {
                Ok(owner) => {
                    let entry = self.tables.entries.get(&owner);
                    return match entry.map(|entry| &entry.slot) {
                        Some(Slot::Kept(kept)) => Ok(kept.point()),
                        _ => Err(Fallback::ImageInProgress),
                    };
                }
                Err(Fallback::FirstRun | Fallback::ImageInProgress) => self.take_ready(true),
                Err(why) => return Err(why),
            }
        }
        Err(Fallback::ProgramChanged)
    }

    /// How many processes were created in which way.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats.clone()
    }

    /// What was seen of bodies. In verify mode every idle body is compared first.
    pub fn reports(&mut self) -> Reports {
        for entry in self.tables.entries.values_mut() {
            if let Slot::Kept(kept) = &mut entry.slot {
                if self.settings.verify {
                    kept.await_resets();
                }
                kept.settle(&mut self.reports);
            }
        }
        self.reports.clone()
    }

    /// Drops the image that was used longest ago, for the sake of its descriptors and memory. False when there is none.
    pub(crate) fn give_back(&mut self) -> bool {
        self.tables.least_used().is_some_and(|owner| self.drop_image(owner))
    }

    /// Has the next spawn look at everything that a run inherits from its caller.
    pub fn refresh(&mut self) {
        self.inheritance.refresh();
    }

    /// Drops everything that is kept.
    pub fn clear(&mut self) {
        self.begin_anew();
    }

    /// What is kept, in the tables.
    fn kept(&self) -> impl Iterator<Item = &Kept> {
        self.tables.entries.values().filter_map(|entry| match &entry.slot {
            Slot::Kept(kept) => Some(&**kept),
            _ => None,
        })
    }

    /// The processes that keep bodies and images at present.
    #[must_use]
    pub fn keepers(&self) -> Vec<i32> {
        let bodies = self
            .kept()
            .flat_map(|kept| kept.bodies.iter().map(Body::keeper).chain([kept.image.seed().pid()]));
        let shells = self.keeping.shells.values().chain(&self.keeping.spare).map(|slot| slot.shell.keeper());
        shells.chain(bodies).collect()
    }

    /// Whether this process keeps a body, waits for an order, or runs in a body, of whichever shard.
    #[must_use]
    pub fn is_used_by(&self, pid: i32) -> bool {
        let mut shells = self.keeping.shells.values().chain(&self.keeping.spare);
        let mut bodies = self.kept().flat_map(|kept| kept.bodies.iter());
        regrow_body::is_of_a_body(pid)
            || bodies.any(|body| body.is_used_by(pid))
            || shells.any(|slot| slot.shell.is_used_by(pid))
    }

    /// The processes that hold what is kept and in no use: idle bodies with their images, and shells.
    #[must_use]
    pub fn idle_keepers(&self) -> Vec<i32> {
        let mut pids: Vec<i32> = self.keeping.shells.values().map(|slot| slot.shell.keeper()).collect();
        for kept in self.kept() {
            let before = pids.len();
            pids.extend(kept.idle().map(Body::keeper));
            if pids.len() > before {
                pids.push(kept.image.seed().pid());
            }
        }
        pids
    }

    /// Times of the run that was started last, when it was recycled and `timed` is set: waits until its body is armed
    /// again.
    #[must_use]
    pub fn last_times(&self, timeout: Duration) -> Option<RunTimes> {
        let (owner, keeper) = self.last?;
        let Slot::Kept(kept) = &self.tables.entries.get(&owner)?.slot else { return None };
        let body = kept.bodies.iter().find(|body| body.keeper() == keeper)?;
        body.wait_ready(timeout);
        Some(RunTimes { times: body.times(), work: body.reset_work(), keeper })
    }

    /// Drops what belongs to these owners, and tells the pool of it.
    pub(crate) fn forget(&mut self, owners: &HashSet<Owner>) {
        if owners.is_empty() {
            return;
        }
        let awaited: Vec<_> =
            owners.iter().filter_map(|owner| self.tables.entries.get(owner)?.awaited).collect();
        self.remove(owners);
        self.lost(owners);
        awaited.into_iter().for_each(|body| self.image_failed(Some(body)));
    }

    /// Drops an image that the pool wants no more.
    pub(crate) fn discard(&mut self, owner: Owner) {
        self.remove(&HashSet::from([owner]));
    }

    pub(crate) fn remove(&mut self, owners: &HashSet<Owner>) {
        if let Some(watch) = &mut self.watch {
            watch.remove_all(owners);
        }
        self.tables.drop_owners(owners);
    }

    /// What a child of this process is given: as the standard library does it, with `SIGPIPE` at its default.
    fn own_settable(&mut self) -> Result<Settable, Fallback> {
        let settable = self.check()?;
        Ok(Settable { ignored: settable.ignored & !SIGPIPE, ..settable })
    }

    /// Everything that may have changed since the last spawn. Returns what the run is to be given of its caller.
    fn check(&mut self) -> Result<Settable, Fallback> {
        if !self.settings.recycle || self.settings.max_bodies_per_program == 0 {
            return Err(Fallback::RecyclingOff);
        }
        if !self.kernel.can_recycle() {
            return Err(Fallback::UnsupportedKernel);
        }
        if self.agent.is_none() {
            return Err(Fallback::NoMemory);
        }
        let checked = self.inheritance.check().cloned();
        if let Err(what) = checked {
            // What was made for another caller is never used for this one. A forked copy of the caller owns nothing.
            if what != crate::creation::CallerPart::Process {
                self.clear();
            }
            return Err(Fallback::CallerChanged { what });
        }
        if let Some(watch) = &mut self.watch {
            let changed = watch.changed();
            self.forget(&changed);
        }
        self.take_ready(false);
        checked.map_err(|what| Fallback::CallerChanged { what })
    }

    pub(crate) fn caller(&mut self) -> Result<Settable, Fallback> {
        self.inheritance.check().cloned().map_err(|what| Fallback::CallerChanged { what })
    }

    /// What a request runs. Remembered as long as every file that decides it is watched.
    pub(crate) fn resolve(&mut self, request: &Request) -> Result<Arc<Resolved>, Fallback> {
        let name = Name::of(request)?;
        if let Some(resolved) = self.tables.resolved(&name) {
            return Ok(resolved);
        }
        let resolved = Arc::new(program::resolve(request, &name)?);
        let Some(room) = self.tables.room_for(&resolved) else { return Ok(resolved) };
        self.forget(&room);
        let owner = self.tables.new_owner();
        let Some(watch) = &mut self.watch else { return Ok(resolved) };
        let files = resolved.files.iter().try_for_each(|file| watch.add_file(owner, file));
        let absent =
            files.and_then(|()| resolved.absent.iter().try_for_each(|file| watch.add_absent(owner, file)));
        if absent.is_err() || program::resolve(request, &name)?.file != resolved.file {
            watch.remove(owner);
            return Ok(resolved);
        }
        self.tables.names.insert(name.into_owned(), (owner, Arc::clone(&resolved)));
        Ok(resolved)
    }

    /// The entry for a run; `Err` when it is not one that is kept.
    fn entry(
        &mut self,
        resolved: &Resolved,
        request: &Request,
        settable: &Settable,
        warm: Option<FrontEnd>,
    ) -> Result<Owner, Fallback> {
        let key = key_of(resolved, request, settable, warm);
        let Some(owner) = self.tables.find(&key, &request.env) else {
            return Err(self.first(key.into_owned(), request, 0));
        };
        self.clock += 1;
        let clock = self.clock;
        let entry = self.tables.entries.get_mut(&owner).ok_or(Fallback::BodyBroken)?;
        entry.used = clock;
        match &entry.slot {
            Slot::Making { .. } => Err(Fallback::ImageInProgress),
            Slot::Refused(_) if entry.is_to_be_tried_again() => {
                let failures = entry.failures;
                let key = key.into_owned();
                self.forget(&HashSet::from([owner]));
                Err(self.first(key, request, failures))
            }
            Slot::Refused(why) => Err(why.clone()),
            Slot::Kept(kept) if self.watch.is_none() && !is_unchanged(kept) => {
                self.forget(&HashSet::from([owner]));
                Err(Fallback::ProgramChanged)
            }
            Slot::Kept(_) => Ok(owner),
        }
    }

    /// A run of a program that has no image: the policy says whether one is made. It could not be made so often in a row
    /// before. Returns the reason for this run's exec.
    fn first(&mut self, key: Key<'static>, request: &Request, failures: u32) -> Fallback {
        match self.first_run(&key, &request.env) {
            (program, Some(body)) => self.begin(key, &request.env, failures, program, body),
            (_, None) => Fallback::NotKept,
        }
    }

    /// Begins to make an image, for this body of the pool. Returns the reason for this run's exec.
    pub(crate) fn begin(
        &mut self,
        key: Key<'static>,
        env: &Strings,
        failures: u32,
        program: ProgramId,
        body: BodyId,
    ) -> Fallback {
        let owner = self.tables.new_owner();
        let why = self.try_begin(owner, key, env, failures);
        if let (Fallback::FirstRun, Some(entry)) = (&why, self.tables.entries.get_mut(&owner)) {
            (entry.program, entry.awaited) = (Some(program), Some(body));
        }
        self.making(program, owner, body, why == Fallback::FirstRun);
        why
    }

    fn try_begin(&mut self, owner: Owner, key: Key<'static>, env: &Strings, failures: u32) -> Fallback {
        let Some(agent) = self.agent.clone() else { return Fallback::NoMemory };
        if !self.tables.may_make() {
            return Fallback::ImageInProgress;
        }
        // The image's process starts with what the caller has at this moment.
        self.inheritance.refresh();
        let then = match self.caller() {
            Ok(then) => then,
            Err(why) => return why,
        };
        if key.stack_limit != caller_stack_limit(&then) {
            return Fallback::UnsupportedRequest;
        }
        let descriptors = then.limits.get(Resource::Nofile.number() as usize).map_or(0, |pair| pair[0]);
        self.forget(&self.tables.surplus(max_images(descriptors)).into_iter().collect());
        let kernel = &self.kernel;
        let works = |name: &str| Feature::from_name(name).is_some_and(|feature| kernel.works(feature));
        let job = Job {
            key: key.clone(),
            env: program::env_strings(env).into_iter().map(ToOwned::to_owned).collect(),
            settings: self.settings.clone(),
            agent,
            then,
            features: make::agent_features(&works),
            can_main: kernel.works(Feature::HwBreakpoints) && kernel.works(Feature::PtraceRseq),
        };
        if let Some(watch) = &mut self.watch {
            use std::os::unix::ffi::OsStrExt;
            let path = std::path::Path::new(std::ffi::OsStr::from_bytes(key.file.to_bytes()));
            if watch.add_file(owner, path).is_err() {
                watch.remove(owner);
            }
        }
        self.clock += 1;
        let slot = Slot::Making { receiver: maker::start(job) };
        let (key_env, used) = (table_key(env), self.clock);
        let entry = Entry { key, key_env, slot, used, failures, again: None, program: None, awaited: None };
        self.tables.entries.insert(owner, entry);
        Fallback::FirstRun
    }

    /// Takes in the images that have been made; `wait` waits for one that is being made.
    fn take_ready(&mut self, wait: bool) {
        use std::sync::mpsc::TryRecvError;
        let mut ready = Vec::new();
        for (&owner, entry) in &self.tables.entries {
            let Slot::Making { receiver } = &entry.slot else { continue };
            let lost = || Err(Fallback::ImageFailed { detail: "its thread ended".to_owned() });
            let result = if wait {
                receiver.recv().unwrap_or_else(|_| lost())
            } else {
                match receiver.try_recv() {
                    Ok(result) => result,
                    Err(TryRecvError::Empty) => continue,
                    Err(TryRecvError::Disconnected) => lost(),
                }
            };
            ready.push((owner, result));
        }
        for (owner, result) in ready {
            self.take_in(owner, result);
        }
    }

    fn take_in(&mut self, owner: Owner, result: Result<Built, Fallback>) {
        let result = result.and_then(|built| self.watch_files(owner, &built).map(|()| built));
        let Tables { entries, ids, .. } = &mut self.tables;
        let Some(entry) = entries.get_mut(&owner) else { return };
        match result {
            Ok(built) => {
                let kept = Kept::new(built, ids);
                let body = kept.bodies.first().map_or(0, Body::id);
                entry.slot = Slot::Kept(Box::new(kept));
                let awaited = entry.awaited.take();
                if !self.image_is_ready(owner, awaited, body) {
                    self.forget(&HashSet::from([owner]));
                }
            }
            // It was written while it was read: the next run tries again.
            Err(Fallback::ProgramChanged) => self.forget(&HashSet::from([owner])),
            Err(why) => {
                let awaited = entry.awaited.take();
                entry.refuse(why);
                self.image_failed(awaited);
            }
        }
    }

    /// Watches what an image was made of. A file that changed since the making began is not what is in the image.
    fn watch_files(&mut self, owner: Owner, built: &Built) -> Result<(), Fallback> {
        let files = &built.image.dependencies.files;
        if let Some(watch) = &mut self.watch {
            let watched = files.iter().try_for_each(|file| watch.add_file(owner, file));
            let absent = &built.image.dependencies.absent;
            let watched =
                watched.and_then(|()| absent.iter().try_for_each(|file| watch.add_absent(owner, file)));
            watched
                .map_err(|error| Fallback::ImageFailed { detail: format!("watching its files: {error}") })?;
        }
        if files.iter().all(|file| changed_before(file, built.started)) {
            Ok(())
        } else {
            Err(Fallback::ProgramChanged)
        }
    }

    /// A body for a run. Where none is ready at once, the pool is told first of what has happened.
    fn choose(&mut self, owner: Owner) -> Result<Choice, Fallback> {
        let ready = match self.tables.entries.get(&owner).map(|entry| &entry.slot) {
            Some(Slot::Kept(kept)) => kept.is_ready(),
            _ => false,
        };
        if !ready {
            self.flush();
            self.settle(owner);
        }
        let Some(Entry { slot: Slot::Kept(kept), .. }) = self.tables.entries.get_mut(&owner) else {
            return Err(Fallback::NotKept);
        };
        let choice = kept.choose(&self.settings, &mut self.reports, &mut self.tables.ids);
        if let Err(why) = &choice {
            if !kept.image.seed().lives() {
                // No body can be made any more: the next run has the image made anew.
                self.forget(&HashSet::from([owner]));
            } else if *why == Fallback::NoDescriptors {
                self.give_back();
            }
        }
        choice
    }

    fn start_in(
        &mut self,
        owner: Owner,
        resolved: &Resolved,
        request: &Request,
        bequest: &Bequest,
    ) -> Result<Started, Fallback> {
        let settable = &bequest.settable;
        if self.settings.sessions && !request.setsid {
            // The process that would be it leads a session already.
            return Err(Fallback::UnsupportedRequest);
        }
        let choice = self.choose(owner)?;
        let Some(Entry { slot: Slot::Kept(kept), .. }) = self.tables.entries.get_mut(&owner) else {
            return Err(Fallback::BodyBroken);
        };
        let arguments = resolved.arguments(request);
        let given = request.descriptors().map_err(|_| Fallback::UnsupportedRequest)?;
        let mut fds: Vec<_> = given.iter().map(|fd| (fd.source, fd.target)).collect();
        let is_warm = kept.point() == Point::Warm;
        let order = if is_warm { front_end::order(&fds, &arguments, &request.env)? } else { None };
        fds.extend(order.as_ref().map(|order| (order.as_fd(), regrow_abi::WARM_FD)));
        let limits = limits(request, settable, kept.then());
        let run = Run {
            signal_mask: bequest.signal_mask,
            exec_path: resolved.own_exec_path(),
            timed: self.settings.timed,
            await_start: !request.waits_for_end && !request.traced,
            busy_poll: request.busy_poll,
            random: self.random.take().map_err(|_| Fallback::UnsupportedKernel)?,
            ..run_of(request, settable, kept.then(), &arguments, (&fds, &limits))
        };
        let started = launch(kept, choice, &run, &self.settings)?;
        kept.remember(&request.env);
        let body = kept.bodies.get(choice.body).map(|body| (body.keeper(), body.id()));
        self.last = body.map(|(keeper, _)| (owner, keeper));
        if let Some((_, id)) = body {
            self.entered(owner, id, choice, started.over());
        }
        Ok(started)
    }
}

/// The key of the image for a run.
fn key_of<'a>(
    resolved: &'a Resolved,
    request: &Request,
    settable: &Settable,
    warm: Option<FrontEnd>,
) -> Key<'a> {
    Key {
        file: Cow::Borrowed(&resolved.file),
        argv0: Cow::Borrowed(&resolved.argv0),
        stack_limit: stack_limit(request, settable),
        ignored: if warm.is_some() { settable.ignored & !caller::OF_C_LIBRARY } else { 0 },
        warm,
    }
}

/// Sends the order. A body that does not answer is dropped.
fn launch(kept: &mut Kept, choice: Choice, run: &Run<'_>, settings: &Settings) -> Result<Started, Fallback> {
    let point = kept.point();
    let body = kept.bodies.get_mut(choice.body).ok_or(Fallback::BodyBroken)?;
    inject_before(body, settings)?;
    match body.start(&kept.image, run) {
        Ok(pid) => {
            if settings.fault == fault::KEEPER_KILLED_AFTER_ORDER {
                body.kill_keeper();
            }
            let bell = body.bell();
            let creation =
                if choice.forked { Creation::ForkedBody { point } } else { Creation::Recycled { point } };
            Ok(Started::in_body(pid, bell, creation))
        }
        Err(StartError::TooLarge) => Err(Fallback::ArgumentsTooLarge),
        Err(StartError::TooManyDescriptors(_)) => Err(Fallback::UnsupportedRequest),
        Err(StartError::NotArmed) => Err(Fallback::AllBusy),
        // Exec finds the same error, or none.
        Err(error @ StartError::Refused { .. }) => {
            tracing::debug!(%error, "an order was refused");
            Err(Fallback::UnsupportedRequest)
        }
        Err(error @ StartError::Broken(_)) => {
            tracing::debug!(%error, "a body is broken");
            drop(kept.bodies.remove(choice.body));
            Err(Fallback::BodyBroken)
        }
    }
}

fn inject_before(body: &Body, settings: &Settings) -> Result<(), Fallback> {
    match settings.fault {
        fault::SEND_FAILS => Err(Fallback::FaultInjected),
        fault::KEEPER_KILLED_BEFORE_ORDER => {
            body.kill_keeper();
            Ok(())
        }
        fault::ARMED_KILLED_BEFORE_ORDER => {
            body.kill_armed();
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Descriptors and the numbers that they get.
type GivenFds<'a> = &'a [(BorrowedFd<'a>, i32)];

/// What a run is given that its request says, and what it inherits.
pub(crate) fn run_of<'a>(
    request: &'a Request,
    settable: &Settable,
    then: &Settable,
    args: &'a Strings,
    (fds, limits): (GivenFds<'a>, &'a [(u32, u64, u64)]),
) -> Run<'a> {
    let mut run = Run {
        args: StringBlock { bytes: args.as_bytes(), count: args.len() },
        env: StringBlock { bytes: request.env.as_bytes(), count: request.env.len() },
        fds,
        setsid: request.setsid,
        // The leader of a new session leads a group already.
        process_group: request.process_group.filter(|&group| !(request.setsid && group == 0)),
        umask: request.umask,
        nice: request.nice,
        limits,
        directory: request.current_dir.as_deref().map(std::ffi::CStr::to_bytes),
        traced: request.traced,
        ..Run::default()
    };
    inherit(&mut run, settable, then);
    run
}

/// Gives a run what its caller has and its keeper has not.
fn inherit(run: &mut Run<'_>, now: &Settable, then: &Settable) {
    if run.process_group.is_none() && !run.setsid && now.process_group != then.process_group {
        run.process_group = Some(now.process_group);
    }
    if run.nice.is_none() && now.nice != then.nice {
        run.nice = Some(now.nice);
    }
    // A keeper is started with SIGPIPE at its default.
    if now.ignored != then.ignored & !SIGPIPE {
        run.ignored_signals = Some(now.ignored);
    }
    run.affinity = now.affinity;
    run.affinity_differs = now.affinity != then.affinity;
}

/// The limits that a run must be given: those of the request, and those in which the caller differs from its keeper.
pub(crate) fn limits(request: &Request, now: &Settable, then: &Settable) -> Vec<(u32, u64, u64)> {
    let mut limits = Vec::new();
    for (number, (now, then)) in (0..).zip(now.limits.iter().zip(&then.limits)) {
        if now != then {
            limits.push((number, now[0], now[1]));
        }
    }
    for limit in &request.limits {
        limits.retain(|known| known.0 != limit.resource.number());
        limits.push((limit.resource.number(), limit.soft, limit.hard));
    }
    limits
}

fn stack_limit(request: &Request, settable: &Settable) -> u64 {
    let asked = request.limits.iter().rev().find(|limit| limit.resource == Resource::Stack);
    asked.map_or_else(|| caller_stack_limit(settable), |limit| limit.soft)
}

fn caller_stack_limit(settable: &Settable) -> u64 {
    settable.limits.get(Resource::Stack.number() as usize).map_or(0, |pair| pair[0])
}

/// Without a watch: whether every file of an image is as it was. Costs a look at each file for every run.
fn is_unchanged(kept: &Kept) -> bool {
    let same = |file: &std::path::PathBuf, then: &FileIdentity| {
        FileIdentity::of_path(file).is_ok_and(|now| now == *then)
    };
    let mut files = kept.identities().iter();
    files.all(|(file, then)| same(file, then))
        && kept.image.dependencies.absent.iter().all(|file| file.symlink_metadata().is_err())
}

/// How far the clock that stamps files may be behind.
const CLOCK_LAG: Duration = Duration::from_millis(10);

/// Whether a file was last changed before a time.
fn changed_before(file: &std::path::Path, time: std::time::SystemTime) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(metadata) = std::fs::metadata(file) else { return false };
    let since_epoch = time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let changed = (metadata.ctime(), metadata.ctime_nsec());
    // The kernel stamps files with a clock that ticks every few milliseconds, behind this one.
    let limit = since_epoch.saturating_sub(CLOCK_LAG);
    changed <= (i64::try_from(limit.as_secs()).unwrap_or(0), i64::from(limit.subsec_nanos()))
}

/// Spawns a request: in a body if it can be, else by exec.
///
/// # Errors
/// What exec of the request would say.
pub fn spawn(shard: &Arc<std::sync::Mutex<Shard>>, request: &Request) -> io::Result<Started> {
    let lock = || shard.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let attempt = lock().start(request);
    let attempt = attempt.or_else(|why| lock().start_in_shell(request, why));
    // Exec takes long: others may use the shard meanwhile.
    let started = match attempt {
        Ok(started) => started,
        Err(why) => crate::exec::spawn_exec(request, why)?,
    };
    let mut locked = lock();
    locked.count(&started.creation);
    crate::work::tend(shard, &mut locked);
    Ok(started)
}

/// Sets how much memory may be held by what is in no use, and has what is more given back.
pub fn set_budget(shard: &Arc<std::sync::Mutex<Shard>>, bytes: u64) {
    let mut locked = shard.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    locked.set_budget(bytes);
    crate::work::tend(shard, &mut locked);
}
