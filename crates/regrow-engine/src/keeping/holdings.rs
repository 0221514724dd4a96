//! What a shard holds: the tables, the ledger that decides about what stands in them, and what is to be done.
//!
//! ```text
//!   tell(observation) ──> Ledger ──decisions──> tables at once: what is dropped leaves them
//!                                          └──> chores later: fork, break up, map pages, end
//! ```
//!
//! Invariant: no decision of the ledger is left undone when a function of this file returns.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use regrow_abi::State;
use regrow_body::Body;
use regrow_body::lease::LeasePage;
use regrow_image::image::Image;
use regrow_pool::Facts;
use regrow_pool::policy::{AdaptiveSettings, PolicyChoice};

use regrow_sys::strings::Strings;

use crate::ids::{BodyId, ImageId, NameId, ProcessId, ProgramId, ShellId};
use crate::image::facts;
use crate::image::kept::KeptImage;
use crate::keeping::inspection::SpotChecks;
use crate::keeping::leases::Leases;
use crate::keeping::watch::{Watch, Watcher};
use crate::keeping::work::{Chore, Chores, LentBody};
use crate::ledger::{BodyOf, Decision, Eyes, Ledger, RunElsewhere, RunInBody, Seen};
use crate::run::creation::Fallback;
use crate::run::program::{self, Key, Name, Resolved};
use crate::run::request::Request;
use crate::settings::Settings;
use crate::tables::Tables;

/// How often the shard looks whether memory is short, while something is kept.
const LOOK: Duration = Duration::from_millis(500);
/// How often it looks whether a body waits that a spot check is due for.
const CHECK_LOOK: Duration = Duration::from_millis(5);

/// Looks at what stands in the tables for the ledger.
struct Sight<'a>(&'a Tables);

impl Eyes for Sight<'_> {
    fn body(&self, body: BodyId) -> Seen {
        match self.0.bodies.get(body).and_then(Body::state) {
            None | Some(State::Broken) => Seen::Gone,
            Some(State::Taken | State::Running) => Seen::Running,
            Some(State::Armed) => Seen::Armed,
            Some(State::Starting | State::Arming | State::Resetting | State::Clean) => Seen::PuttingBack,
        }
    }

    fn is_over(&self, process: ProcessId) -> bool {
        self.0.processes.is_over(process)
    }

    fn facts(&self, body: BodyId) -> Option<Facts> {
        let kept = self.0.images.kept(self.0.bodies.image_of(body)?)?;
        let found = self.0.bodies.get(body).filter(|found| found.state() != Some(State::Broken))?;
        Some(facts::of_image(kept, Some(found)))
    }
}

/// Tables, ledger and chores of a shard.
#[derive(Debug)]
pub(crate) struct Holdings {
    pub(crate) tables: Tables,
    pub(crate) chores: Chores,
    ledger: Ledger,
    checks: SpotChecks,
    /// Bodies that serve no run after the one that they were given.
    spent: Vec<BodyId>,
    watch: Option<Watch>,
    /// Bodies that clients of a daemon start runs in.
    pub(crate) leases: Leases,
    policy: PolicyChoice,
    budget_bytes: u64,
    shells: bool,
    local_files_only: bool,
    /// When the ledger was begun.
    began: Instant,
    /// When the shard last looked whether memory is short.
    looked: Instant,
}

impl Holdings {
    /// Holds nothing yet. Files are watched where there is a watch.
    pub(crate) fn new(settings: &Settings, watch: Option<Watch>) -> Holdings {
        let policy = policy_here(settings.policy.clone());
        let (budget_bytes, shells) = (settings.budget_bytes, settings.shells);
        let ledger = Ledger::new(policy.clone().build(), budget_bytes, shells, 0);
        let (began, looked) = (Instant::now(), Instant::now());
        let (tables, chores) = (Tables::default(), Chores::default());
        let checks = SpotChecks::new(settings.spot_checks);
        let local_files_only = settings.local_files_only;
        Holdings {
            tables,
            chores,
            ledger,
            checks,
            spent: Vec::new(),
            watch,
            leases: Leases::default(),
            policy,
            budget_bytes,
            shells,
            local_files_only,
            began,
            looked,
        }
    }

    /// The ledger, to be looked at.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Tells the ledger what was seen, and carries its decisions out.
    fn tell<R>(&mut self, observation: impl FnOnce(&mut Ledger, &Sight<'_>) -> R) -> R {
        self.ledger.set_time(self.began.elapsed());
        let answer = observation(&mut self.ledger, &Sight(&self.tables));
        self.carry_out();
        answer
    }

    fn carry_out(&mut self) {
        loop {
            let decisions = self.ledger.take_decisions();
            if decisions.is_empty() {
                return;
            }
            decisions.into_iter().for_each(|decision| self.carry_out_one(decision));
        }
    }

    fn carry_out_one(&mut self, decision: Decision) {
        match decision {
            Decision::AddBody { program, body } => self.chores.push(Chore::AddBody { program, body }),
            Decision::AddShell { shell } => self.chores.push(Chore::AddShell { shell }),
            Decision::Prefault { body } => self.chores.push_prefault(body),
            Decision::Trim { body } => self.chores.push(Chore::Trim { body }),
            Decision::DropBody { body } => {
                self.chores.forget_body(body);
                if let Some(body) = self.take_body(body) {
                    self.chores.discard_body(body);
                }
            }
            Decision::DropShell { shell } => {
                self.chores.forget_shell(shell);
                if let Some(slot) = self.tables.shells.remove(shell) {
                    self.chores.discard_shell(slot.shell);
                }
            }
            Decision::BreakUp { body, shell } => self.break_up(body, shell),
            Decision::BeginAnew => self.begin_anew(),
        }
    }

    /// Has a body broken up into a shell. Where there is no body, because its program was started by exec, the shell is made
    /// from another one.
    fn break_up(&mut self, body: BodyId, shell: ShellId) {
        let image = self.tables.bodies.image_of(body);
        let kept = image.and_then(|image| self.tables.images.kept(image));
        let of = kept.map(|kept| (Arc::clone(&kept.image), Box::new(*kept.then())));
        self.chores.forget_body(body);
        let chore = match (self.take_body(body), of) {
            (Some(body), Some((image, then))) => Chore::BreakUp { body, image, then, shell },
            _ => Chore::AddShell { shell },
        };
        self.chores.push(chore);
    }

    /// Takes a body out of its table. Its image goes with the last one.
    fn take_body(&mut self, body: BodyId) -> Option<Box<Body>> {
        let image = self.tables.bodies.image_of(body)?;
        let taken = self.tables.bodies.remove(body);
        if self.tables.images.get(image).is_some_and(|row| self.ledger.is_unused(row.program)) {
            self.remove_image(image);
        }
        taken
    }

    /// Drops everything that is kept, and forgets what the policy has learned.
    pub(crate) fn begin_anew(&mut self) {
        let generation = self.ledger.planner().inventory().generation().wrapping_add(1);
        self.ledger = Ledger::new(self.policy.clone().build(), self.budget_bytes, self.shells, generation);
        (self.began, self.looked) = (Instant::now(), Instant::now());
        self.chores.keep_discards();
        self.checks.forget();
        if let Some(watch) = &mut self.watch {
            watch.clear();
        }
        self.tables.begin_anew(generation);
        self.conclude_leases();
    }

    // Programs.

    /// What a request runs. The table remembers it as long as every file that decides it is watched.
    pub(crate) fn resolve(&mut self, request: &Request) -> Result<Arc<Resolved>, Fallback> {
        let name = Name::of(request)?;
        if let Some(resolved) = self.tables.programs.resolved(&name) {
            return Ok(resolved);
        }
        if self.local_files_only && !request.looked_up {
            // It was remembered a moment ago.
            return Err(Fallback::ProgramChanged);
        }
        let resolved = Arc::new(program::resolve(request, &name)?);
        let Some(room) = self.tables.programs.room_for(&resolved) else { return Ok(resolved) };
        self.forget_names(&room);
        let id = self.tables.programs.next_name();
        let Some(watch) = &mut self.watch else { return Ok(resolved) };
        let watched = watch.add_all(Watcher::Name(id), &resolved.files, &resolved.absent);
        if watched.is_err() || program::resolve(request, &name)?.file != resolved.file {
            watch.remove(Watcher::Name(id));
            return Ok(resolved);
        }
        self.tables.programs.remember(name.into_owned(), id, Arc::clone(&resolved));
        Ok(resolved)
    }

    /// Whether what a request runs is remembered, as far as is known without a look at any file.
    pub(crate) fn is_resolved(&self, request: &Request) -> bool {
        Name::of(request).is_ok_and(|name| self.tables.programs.resolved(&name).is_some())
    }

    fn forget_names(&mut self, names: &HashSet<NameId>) {
        if names.is_empty() {
            return;
        }
        if let Some(watch) = &mut self.watch {
            watch.remove_all(&names.iter().map(|&name| Watcher::Name(name)).collect());
        }
        self.tables.programs.forget_names(names);
    }

    /// The program of a key and an environment; the planner knows it from then on.
    pub(crate) fn program(&mut self, key: &Key<'static>, env: &Strings) -> ProgramId {
        let program_key = (key.clone(), self.tables.images.key_env(key, env));
        if let Some(program) = self.tables.programs.find(&program_key) {
            if let Some(row) = self.tables.programs.get_mut(program) {
                row.env = env.clone();
            }
            return program;
        }
        let program = match self.tables.programs.add(program_key.clone(), env.clone()) {
            Some(program) => program,
            None => {
                self.begin_anew();
                let added = self.tables.programs.add(program_key, env.clone());
                added.unwrap_or_else(|| ProgramId::new(0))
            }
        };
        self.tell(|ledger, _| ledger.program_known(program, facts::guessed()));
        program
    }

    // Images.

    /// Whether files are watched.
    pub(crate) fn watches(&self) -> bool {
        self.watch.is_some()
    }

    /// Watches files for an image, and names at which a file could appear.
    ///
    /// # Errors
    /// As [`Watch::add_all`].
    pub(crate) fn watch_for(
        &mut self,
        image: ImageId,
        files: &[std::path::PathBuf],
        absent: &[std::path::PathBuf],
    ) -> std::io::Result<()> {
        match &mut self.watch {
            Some(watch) => watch.add_all(Watcher::Image(image), files, absent),
            None => Ok(()),
        }
    }

    /// The mounts when files were last looked at, where they are watched.
    pub(crate) fn mounts_seen(&mut self) -> Option<Arc<str>> {
        self.watch.as_mut().map(|watch| watch.mounts().seen())
    }

    /// Whether no mount has changed above these files since the mounts were seen so.
    pub(crate) fn is_mounted_as(&mut self, then: Option<&str>, files: &[std::path::PathBuf]) -> bool {
        let Some(watch) = &mut self.watch else { return true };
        then.is_some_and(|then| watch.mounts().is_same_since(then, files))
    }

    /// Watches no file for an image.
    pub(crate) fn unwatch(&mut self, image: ImageId) {
        if let Some(watch) = &mut self.watch {
            watch.remove(Watcher::Image(image));
        }
    }

    /// Drops the names and images whose files have changed on disk.
    pub(crate) fn drop_changed(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        let mut is_read = false;
        let leases = &self.leases;
        let changed = watch.changed_after(|| {
            leases.set_busy();
            is_read = true;
        });
        self.drop_all_changed(changed);
        if is_read {
            self.conclude_leases();
        }
    }

    fn drop_all_changed(&mut self, changed: HashSet<Watcher>) {
        if changed.is_empty() {
            return;
        }
        let name = |watcher: &Watcher| match watcher {
            Watcher::Name(name) => Some(*name),
            Watcher::Image(_) => None,
        };
        self.forget_names(&changed.iter().filter_map(name).collect());
        for watcher in changed {
            if let Watcher::Image(image) = watcher {
                self.drop_image(image);
            }
        }
    }

    /// Drops an image with its bodies, or the making of one. False when there is none of this id.
    pub(crate) fn drop_image(&mut self, image: ImageId) -> bool {
        let there = self.tables.images.get(image).is_some();
        let awaited = self.remove_image(image);
        self.tables.programs.forget_image(image);
        self.tell(|ledger, _| {
            ledger.image_is_gone(image);
            if let Some(body) = awaited {
                ledger.body_is_gone(body);
            }
        });
        there
    }

    /// Drops the kept image that was used longest ago, for the sake of its descriptors and memory. False when there is none.
    pub(crate) fn drop_least_used(&mut self) -> bool {
        self.tables.images.least_used().is_some_and(|image| self.drop_image(image))
    }

    /// Takes an image out of the tables. Gives the body that the policy waited for.
    fn remove_image(&mut self, image: ImageId) -> Option<BodyId> {
        self.unwatch(image);
        drop(self.tables.bodies.remove_all_of(image));
        self.tables.images.remove(image)?.awaited
    }

    /// An image is kept, with its first body: drops both when the policy does not want them any more.
    pub(crate) fn image_made(&mut self, id: ImageId, kept: KeptImage, body: Body) {
        let Some(row) = self.tables.images.get_mut(id) else { return };
        let of = BodyOf { image: id, program: row.program };
        let awaited = row.awaited.take();
        let facts = facts::of_image(&kept, None);
        row.stage = crate::tables::images::Stage::Kept(Box::new(kept));
        if let Some(awaited) = awaited {
            self.tables.bodies.insert(awaited, id, Box::new(body));
        }
        let wanted = self.tell(|ledger, _| {
            ledger.program_known(of.program, facts);
            awaited.is_some_and(|body| ledger.body_made(body, of))
        });
        if !wanted {
            self.drop_image(id);
        }
    }

    /// An image has given pages back: the policy is told what it holds from then on, and bodies that wait are renewed.
    pub(crate) fn image_gave_back(&mut self, id: ImageId) {
        let Some(row) = self.tables.images.get(id) else { return };
        let (program, Some(facts)) = (row.program, row.kept().map(|kept| facts::of_image(kept, None))) else {
            return;
        };
        self.tell(|ledger, _| ledger.program_known(program, facts));
        self.have_renewed();
    }

    /// Has the bodies renewed that wait, and that have a store with all pages of an image that has given some back.
    fn have_renewed(&mut self) {
        let Tables { images, bodies, .. } = &self.tables;
        for (id, kept) in images.iter_kept().filter(|(_, kept)| kept.image.has_given_back()) {
            for (body, _) in bodies.of(id).filter(|(_, body)| is_renewed(body, &kept.image)) {
                self.chores.push_renewal(body);
            }
        }
    }

    /// Takes a waiting body out to be renewed.
    pub(crate) fn lend_to_renew(&mut self, id: BodyId) -> Option<LentBody> {
        let kept = self.tables.images.kept(self.tables.bodies.image_of(id)?)?;
        self.tables.bodies.get(id).filter(|body| is_renewed(body, &kept.image))?;
        self.lend_idle(id)
    }

    /// An image could not be made.
    pub(crate) fn image_refused(&mut self, id: ImageId, why: Fallback) {
        let Some(row) = self.tables.images.get_mut(id) else { return };
        row.refuse(why, Instant::now());
        if let Some(body) = row.awaited.take() {
            self.body_is_gone(body);
        }
    }

    // Bodies.

    /// A body is gone, or could not be made.
    pub(crate) fn body_is_gone(&mut self, body: BodyId) {
        self.tell(|ledger, _| ledger.body_is_gone(body));
    }

    /// An id for a body that is forked for a run.
    pub(crate) fn reserve_body(&mut self) -> BodyId {
        self.ledger.reserve_body()
    }

    /// A body was added ahead, or could not be. One that is not wanted any more is dropped.
    pub(crate) fn body_added(
        &mut self,
        id: BodyId,
        image: ImageId,
        made: Option<Box<Body>>,
        max_bodies: usize,
    ) {
        let kept = self.tables.images.get(image).filter(|row| row.kept().is_some()).map(|row| row.program);
        let has_room = self.tables.reusable_bodies(image) < max_bodies;
        match (made, kept) {
            (Some(made), Some(program)) if has_room && self.ledger.is_wanted(id) => {
                self.tables.bodies.insert(id, image, made);
                self.tell(|ledger, _| ledger.body_made(id, BodyOf { image, program }));
            }
            (made, _) => {
                made.into_iter().for_each(|made| self.chores.discard_body(made));
                if self.ledger.is_wanted(id) {
                    self.body_is_gone(id);
                }
            }
        }
    }

    /// Takes a waiting body out for work on it.
    pub(crate) fn lend(&mut self, id: BodyId) -> Option<LentBody> {
        self.tables.bodies.get(id).filter(|body| body.state() == Some(State::Armed))?;
        self.lend_idle(id)
    }

    fn lend_idle(&mut self, id: BodyId) -> Option<LentBody> {
        let tables = &mut self.tables;
        let image = tables.bodies.image_of(id)?;
        let kept: Arc<Image> = Arc::clone(&tables.images.kept(image)?.image);
        let body = tables.bodies.lend(id)?;
        // A body that has had a run has touched its pages itself.
        let siblings = (body.runs() == 0).then(|| tables.bodies.of(image));
        let sibling = siblings.and_then(|all| all.max_by_key(|(_, body)| body.runs()));
        let sibling = sibling.map(|(_, body)| body.keeper());
        self.ledger.body_is_lent(id);
        Some(LentBody { id, body, image: kept, sibling })
    }

    /// Takes a waiting body out to be checked. Where it does not wait any more, another one is checked later.
    pub(crate) fn lend_for_check(&mut self, id: BodyId) -> Option<LentBody> {
        let lent = self.lend(id);
        if lent.is_none() {
            self.checks.owe();
        }
        lent
    }

    /// Takes a body back that was checked, or has it ended.
    pub(crate) fn checked(&mut self, id: BodyId, body: Box<Body>, goes_on: bool) {
        if goes_on {
            self.take_back(id, Some(body));
        } else {
            self.take_back(id, None);
            self.chores.discard_body(body);
        }
    }

    /// Has bodies checked, as many as are due and wait.
    fn have_checked(&mut self) {
        let bodies = &self.tables.bodies;
        let waiting = || {
            let armed = bodies.iter().filter(|(_, _, body)| body.state() == Some(State::Armed));
            armed.map(|(id, _, body)| (id, body.runs()))
        };
        while let Some(body) = self.checks.choose(waiting()) {
            self.chores.push(Chore::Check { body });
        }
    }

    /// Whether a spot check is due of a body, which may still be in use.
    pub(crate) fn awaits_check(&self) -> bool {
        self.checks.are_awaited(self.tables.bodies.iter().map(|(id, _, body)| (id, body.runs())))
    }

    /// Takes a lent body back, or notes that it broke.
    pub(crate) fn take_back(&mut self, id: BodyId, body: Option<Box<Body>>) {
        match body {
            Some(body) => {
                if body.runs() == 0 {
                    self.checks.forget_body(id);
                }
                if let Some(nobodys) = self.tables.bodies.give_back(id, body) {
                    self.chores.discard_body(nobodys);
                }
            }
            None => drop(self.tables.bodies.remove(id)),
        }
        self.tell(|ledger, sight| ledger.body_came_back(id, sight));
    }

    // Leases.

    /// What is readable when a watched file has changed.
    pub(crate) fn watch_descriptor(&self) -> Option<OwnedFd> {
        self.watch.as_ref()?.descriptor().try_clone_to_owned().ok()
    }

    /// A body that stands in no table is lent: a long run is in it.
    pub(crate) fn lend_out(&mut self, run: RunInBody, page: Arc<LeasePage>, bytes: u64) {
        self.leases.add(run.body, page, bytes);
        self.tables.bodies.insert_lent(run.body, run.of.image);
        self.tell(|ledger, sight| {
            ledger.run_started(run);
            ledger.tell_runs(sight);
            ledger.body_is_lent(run.body);
        });
    }

    /// Ends the leases whose images are gone, and lets the others go on.
    pub(crate) fn conclude_leases(&mut self) {
        let bodies = &self.tables.bodies;
        self.leases.conclude(|id| bodies.image_of(id).is_some());
    }

    /// Ends all leases.
    pub(crate) fn revoke_leases(&mut self) {
        self.leases.conclude(|_| false);
    }

    /// A lease is over, and its body gone.
    pub(crate) fn lease_is_over(&mut self, id: BodyId) {
        self.leases.conclude(|other| other != id);
        self.take_back(id, None);
    }

    // Shells.

    /// A shell was made, or could not be. One that is not wanted any more is dropped.
    pub(crate) fn shell_made(&mut self, id: ShellId, made: Option<crate::tables::shells::ShellSlot>) {
        match made {
            Some(slot) if self.ledger.shell_ready(id).is_some() => {
                self.tables.shells.insert(id, slot);
                self.tell(|ledger, _| ledger.shell_made(id));
            }
            Some(slot) => self.chores.discard_shell(slot.shell),
            None => self.tell(|ledger, _| ledger.shell_is_gone(id)),
        }
    }

    /// Takes a shell that is ready for a run.
    pub(crate) fn take_ready_shell(&mut self) -> Option<crate::tables::shells::ShellSlot> {
        let is_ready = |&id: &ShellId| self.ledger.shell_ready(id) == Some(true);
        let id = self.tables.shells.ids().find(is_ready)?;
        let slot = self.tables.shells.remove(id)?;
        self.tell(|ledger, _| ledger.shell_is_gone(id));
        Some(slot)
    }

    // Runs.

    /// A run without an image is about to be started by exec. Gives the body that is to be made of its program, if one is.
    pub(crate) fn run_without_image(&mut self, program: ProgramId, site: Option<u64>) -> Option<BodyId> {
        let process = self.tables.processes.next_id();
        self.tell(|ledger, _| ledger.run_without_image(RunElsewhere { process, program, site }))
    }

    /// A run that could have been in a body of an image, had one been free, is started by exec.
    pub(crate) fn run_crowded_out(&mut self, image: ImageId, site: Option<u64>) {
        let Some(program) = self.tables.images.get(image).map(|row| row.program) else { return };
        let process = self.tables.processes.next_id();
        self.tell(|ledger, _| ledger.run_crowded_out(RunElsewhere { process, program, site }));
    }

    /// A run was started in a body.
    pub(crate) fn run_started(&mut self, run: RunInBody) {
        self.ledger.set_time(self.began.elapsed());
        if run.single_use {
            self.spent.push(run.body);
        }
        if self.ledger.run_started(run) {
            self.look_at_all();
        }
        if self.checks.count_run() {
            self.have_checked();
        }
        let image = run.of.image;
        let kept = self.tables.images.kept_mut(image).filter(|_| !run.single_use);
        if kept.is_some_and(KeptImage::count_run) {
            self.chores.push(Chore::GiveBack { image });
        }
    }

    /// Looks which runs of an image have ended, and tells the planner of all that were started.
    pub(crate) fn look_at(&mut self, image: ImageId) {
        self.tell(|ledger, sight| {
            ledger.tell_runs(sight);
            ledger.look_at(image, sight);
        });
    }

    fn look_at_all(&mut self) {
        self.tell(|ledger, sight| ledger.look_at_all(sight));
        self.tables.processes.sweep();
    }

    // Time.

    /// Has the bodies ended that have served their one run.
    pub(crate) fn retire_spent(&mut self) {
        if self.spent.is_empty() {
            return;
        }
        let bodies = &mut self.tables.bodies;
        let goes_on = |id: &BodyId| bodies.get(*id).is_some_and(|body| body.state() != Some(State::Broken));
        let (going, over): (Vec<_>, Vec<_>) = std::mem::take(&mut self.spent).into_iter().partition(goes_on);
        self.spent = going;
        over.into_iter().filter_map(|id| bodies.remove(id)).for_each(|body| self.chores.discard_body(body));
    }

    /// Looks at all bodies, and asks the policy where its time has come.
    pub(crate) fn tick(&mut self) {
        self.retire_spent();
        self.look_at_all();
        self.have_checked();
        self.have_renewed();
        let now = Instant::now();
        if self.next_tick().is_none_or(|tick| tick > now) {
            return;
        }
        if self.looked + LOOK <= now {
            self.looked = now;
            if regrow_sys::pressure::is_memory_short() {
                tracing::info!("memory is short: what is kept is given back");
                self.revoke_leases();
                return self.tell(|ledger, _| ledger.memory_is_short());
            }
        }
        self.tell(|ledger, _| ledger.tick());
    }

    /// When the policy is to be told of runs that it does not know of.
    pub(crate) fn untold_due(&self) -> Option<Instant> {
        self.ledger.untold_due().map(|due| self.began + due)
    }

    /// When the policy wants to be asked again, or memory is to be looked at.
    pub(crate) fn next_tick(&self) -> Option<Instant> {
        let planner = self.ledger.planner();
        let look = (planner.inventory().kept_bytes() > 0).then(|| self.looked + LOOK);
        let tick = planner.next_tick().map(|tick| self.began + tick);
        let check = self.awaits_check().then(|| Instant::now() + CHECK_LOOK);
        tick.into_iter().chain(look).chain(check).min()
    }

    /// Sets what may be kept. What is too much is given back at once, or as soon as it is in no use.
    pub(crate) fn set_budget(&mut self, bytes: u64) {
        self.budget_bytes = bytes;
        self.tick();
        self.tell(|ledger, _| ledger.set_budget(bytes));
    }
}

/// Whether a body is to be made anew at once: it waits (in verify mode to be compared), and has a store with pages that its image has given
/// back.
fn is_renewed(body: &Body, image: &Image) -> bool {
    body.is_outdated(image) && matches!(body.state(), Some(State::Armed | State::Clean))
}

/// The default policy knows how many processors there are to put bodies back beside their callers.
fn policy_here(chosen: PolicyChoice) -> PolicyChoice {
    if chosen != PolicyChoice::Adaptive {
        return chosen;
    }
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let resets_beside = (processors - 1).max(1);
    PolicyChoice::AdaptiveWith(AdaptiveSettings { resets_beside, ..AdaptiveSettings::default() })
}
