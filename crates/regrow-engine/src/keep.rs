//! What is kept between runs. The shard tells the pool's policy what has happened, and carries out what it says.
//!
//! ```text
//!   a run starts, has ended; an image is ready, its file has changed; time passes; memory is short
//!        │ events
//!        v
//!   Pool (regrow-pool): ledger and policy
//!        │ actions
//!        v
//!   at once: a body leaves the tables      later, without the shard's lock: Work (fork, break up, prefault, drop)
//! ```
//!
//! The pool numbers programs, bodies and shells by itself; [`Keeping`] knows which of the engine's they are. A run that is
//! started by exec is told as one that ends at once: the engine is not told of its end. A run in a body has ended when its
//! keeper says so, which is looked at before the next run of its program and at each tick.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use regrow_abi::State;
use regrow_pool::policy::{self, AdaptiveSettings};
use regrow_pool::state::Status;
use regrow_pool::{
    Action, BodyId, Done, Event, Facts, Kept as KeptId, Place, Pool, ProcessId, ProgramId, ShellId, Source,
};
use regrow_sys::caller::Settable;

use crate::creation::{Fallback, Point};
use crate::program::Key;
use crate::request::Strings;
use crate::settings::Settings;
use crate::shard::Shard;
use crate::table::{Choice, Slot};
use crate::watch::Owner;
use crate::work::{ShellSlot, Todo};

/// What a program is thought to take before it is known: most do.
const GUESSED_IMAGE_BYTES: u64 = 1 << 20;
const GUESSED_BODY_BYTES: u64 = 256 * 1024;
/// Start-up time that a body saves: what exec takes that links nothing, and what each file of the program adds.
const EXEC_TIME: Duration = Duration::from_micros(400);
const FILE_TIME: Duration = Duration::from_micros(100);
/// What a fork of a body takes that is made for a run.
const FORK_TIME: Duration = Duration::from_micros(150);
/// What a shell is reckoned at: page tables and the agent's memory, twice.
const SHELL_BYTES: u64 = 160 * 1024;
/// How often it is looked whether memory is short, while something is kept.
const LOOK: Duration = Duration::from_millis(500);
/// Most programs that are told apart. One more, and everything is begun anew.
const MAX_PROGRAMS: usize = 1024;

/// The pool is told of so many runs at once, at most, …
const MAX_NOTES: usize = 16;
/// … and of a run before the first one that comes after this time.
const NOTES_WAIT: Duration = Duration::from_millis(5);

/// A program's key and the part of the environment that belongs to it.
type ProgramKey = (Key<'static>, Vec<std::ffi::CString>);

/// A program that the pool knows.
#[derive(Debug)]
struct Known {
    key: Key<'static>,
    /// The environment of its last run that had no image: what an image is made with.
    env: Strings,
    owner: Option<Owner>,
}

/// A body of the engine in the pool's eyes.
#[derive(Debug, Clone)]
struct Tracked {
    /// Its number in the engine.
    id: u64,
    /// Its number in the pool; none while its first run is under way that it was forked for.
    body: Option<BodyId>,
    /// The process that runs in it, and whether it has been waited for.
    process: Option<(ProcessId, Arc<AtomicBool>)>,
    /// Somebody works on it: it is not in the table of images meanwhile.
    away: bool,
}

/// A run that was started in a body.
#[derive(Debug)]
struct Note {
    at: Duration,
    owner: Owner,
    id: u64,
    forked: bool,
    waited: Duration,
    over: Arc<AtomicBool>,
}

/// The pool, and which of its things are which of the engine's.
#[derive(Debug)]
pub(crate) struct Keeping {
    pool: Pool,
    began: Instant,
    programs: HashMap<ProgramKey, ProgramId>,
    known: Vec<Known>,
    tracked: BTreeMap<Owner, Vec<Tracked>>,
    pub(crate) shells: BTreeMap<ShellId, ShellSlot>,
    /// Shells that have been used, and could be again.
    pub(crate) spare: Vec<ShellSlot>,
    pub(crate) todo: VecDeque<Todo>,
    next_process: u64,
    /// Runs that were started and that the pool does not know of yet, in their order.
    notes: VecDeque<Note>,
    /// When that happened which it is being told of.
    telling_of: Option<Duration>,
    /// When it was last looked whether memory is short.
    looked: Instant,
    /// Raised when everything is dropped: what was begun before is not taken in any more.
    pub(crate) epoch: u64,
    /// Whether there is a thread that carries out what there is to do, and how it is woken.
    pub(crate) has_tender: bool,
    pub(crate) tender: Option<Thread>,
}

impl Keeping {
    pub(crate) fn new(settings: &Settings) -> Keeping {
        Keeping {
            pool: new_pool(settings),
            began: Instant::now(),
            programs: HashMap::new(),
            known: Vec::new(),
            tracked: BTreeMap::new(),
            shells: BTreeMap::new(),
            spare: Vec::new(),
            todo: VecDeque::new(),
            next_process: 0,
            notes: VecDeque::new(),
            telling_of: None,
            looked: Instant::now(),
            epoch: 0,
            has_tender: false,
            tender: None,
        }
    }

    /// The pool, to be looked at.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The pool's number of a body of the engine.
    pub(crate) fn body_of(&self, owner: Owner, id: u64) -> Option<BodyId> {
        self.tracked.get(&owner)?.iter().find(|tracked| tracked.id == id)?.body
    }

    /// When the policy wants to be asked again, or memory is to be looked at.
    pub(crate) fn next_tick(&self) -> Option<Instant> {
        let look = (self.pool.state().kept_bytes() > 0).then(|| self.looked + LOOK);
        let tick = self.pool.next_tick().map(|tick| self.began + tick);
        tick.into_iter().chain(look).min()
    }

    /// The image of a program.
    pub(crate) fn image_of(&self, program: ProgramId) -> Option<Owner> {
        self.known.get(program.0 as usize)?.owner
    }

    fn tracked_mut(&mut self, owner: Owner, id: u64) -> Option<&mut Tracked> {
        self.tracked.get_mut(&owner)?.iter_mut().find(|tracked| tracked.id == id)
    }

    fn owner_of(&self, body: BodyId) -> Option<(Owner, u64)> {
        let mut all = self.tracked.iter().flat_map(|(&owner, list)| list.iter().map(move |one| (owner, one)));
        all.find(|(_, tracked)| tracked.body == Some(body)).map(|(owner, tracked)| (owner, tracked.id))
    }

    /// The time of what the pool is told next.
    fn now(&self) -> Duration {
        self.telling_of.unwrap_or_else(|| self.began.elapsed()).max(self.pool.state().at())
    }

    /// Whether it has something to be told.
    pub(crate) fn has_notes(&self) -> bool {
        !self.notes.is_empty()
    }

    fn next_process(&mut self) -> ProcessId {
        self.next_process += 1;
        ProcessId(self.next_process)
    }

    fn is_kept(&self, body: BodyId) -> bool {
        self.pool.state().body(body).is_some_and(regrow_pool::state::Body::is_kept)
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        if let Some(tender) = &self.tender {
            tender.unpark();
        }
    }
}

fn new_pool(settings: &Settings) -> Pool {
    let state = regrow_pool::State::new(settings.budget_bytes, SHELL_BYTES).without_regions();
    let state = if settings.shells { state } else { state.without_shells() };
    Pool::new(state, policy_here(settings.policy.clone()).build())
}

/// The default policy knows how many processors there are to put bodies back beside their callers.
fn policy_here(chosen: policy::Choice) -> policy::Choice {
    if chosen != policy::Choice::Adaptive {
        return chosen;
    }
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let resets_beside = (processors - 1).max(1);
    policy::Choice::AdaptiveWith(AdaptiveSettings { resets_beside, ..AdaptiveSettings::default() })
}

fn guess() -> Facts {
    Facts {
        image_bytes: GUESSED_IMAGE_BYTES,
        body_bytes: GUESSED_BODY_BYTES,
        regions: Vec::new(),
        saves: EXEC_TIME + FILE_TIME * 2,
        saves_over_image: FORK_TIME,
    }
}

impl Shard {
    /// Tells the pool what has happened, and takes in what it wants done.
    pub(crate) fn tell(&mut self, event: &Event) {
        let done = self.handle(event);
        done.iter().for_each(|done| self.take_action(done));
    }

    /// Tells the pool what has happened. Gives what it wants done.
    fn handle(&mut self, event: &Event) -> Vec<Done> {
        let at = self.keeping.now();
        match self.keeping.pool.handle(at, event) {
            Ok(done) => {
                tracing::trace!(?event, ?done, "the pool");
                done
            }
            Err(illegal) => {
                // A fault of this module or of a policy. What is kept is in doubt, and goes.
                tracing::error!(%illegal, ?event, "the ledger of what is kept is not right: it is begun anew");
                self.begin_anew();
                Vec::new()
            }
        }
    }

    fn tell_created(&mut self, process: ProcessId, program: ProgramId, waited: Duration, from: Source) {
        self.tell(&Event::Created { process, program, parent: None, site: None, waited, from });
    }

    /// Tells that a body is gone, if the ledger has it: the policy may have dropped it in the same turn.
    fn tell_lost(&mut self, body: BodyId) {
        if self.keeping.pool.state().body(body).is_some() {
            self.tell(&Event::Lost(KeptId::Body(body)));
        }
    }

    /// Drops everything that is kept, and forgets what the policy has learned.
    pub(crate) fn begin_anew(&mut self) {
        let mut old = std::mem::replace(&mut self.keeping, Keeping::new(&self.settings));
        self.keeping.tender = old.tender.take();
        self.keeping.has_tender = old.has_tender;
        self.keeping.epoch = old.epoch + 1;
        let drops = std::mem::take(&mut old.todo).into_iter().filter(|todo| matches!(todo, Todo::Discard(_)));
        self.keeping.todo = drops.collect();
        let names = self.tables.names.values().map(|(owner, _)| owner);
        let owners: HashSet<Owner> = self.tables.entries.keys().chain(names).copied().collect();
        self.remove(&owners);
    }

    /// The pool's number of a program.
    fn program(&mut self, key: &Key<'static>, env: &Strings) -> ProgramId {
        let program_key = (key.clone(), self.tables.key_env(key, env));
        if let Some(&program) = self.keeping.programs.get(&program_key) {
            if let Some(known) = self.keeping.known.get_mut(program.0 as usize) {
                known.env = env.clone();
            }
            return program;
        }
        if self.keeping.known.len() >= MAX_PROGRAMS {
            self.begin_anew();
        }
        let program = ProgramId(u32::try_from(self.keeping.known.len()).unwrap_or(u32::MAX));
        self.keeping.known.push(Known { key: key.clone(), env: env.clone(), owner: None });
        self.keeping.programs.insert(program_key, program);
        self.tell(&Event::Known { program, facts: guess() });
        program
    }

    /// A run for which there is no image is about to be started by exec. Gives the program, and the body that is to be
    /// made of it, if one is.
    pub(crate) fn first_run(&mut self, key: &Key<'static>, env: &Strings) -> (ProgramId, Option<BodyId>) {
        let program = self.program(key, env);
        let from = Source::nothing();
        let process = self.keeping.next_process();
        self.tell_created(process, program, Duration::ZERO, from);
        let facts = self.keeping.pool.state().facts(program).cloned();
        self.tell(&Event::Exited { process, offer: facts.or_else(|| Some(guess())) });
        let left = self.keeping.pool.last_left().filter(|&body| self.keeping.is_kept(body));
        (program, left)
    }

    /// The making of a program's image has begun, or it has not.
    pub(crate) fn making(&mut self, program: ProgramId, owner: Owner, body: BodyId, begun: bool) {
        if !begun {
            return self.tell_lost(body);
        }
        if let Some(known) = self.keeping.known.get_mut(program.0 as usize) {
            known.owner = Some(owner);
        }
    }

    /// A run that could have been in a body, had there been one, is started by exec.
    pub(crate) fn crowded_out(&mut self, owner: Owner) {
        let Some(program) = self.tables.entries.get(&owner).and_then(|entry| entry.program) else { return };
        let process = self.keeping.next_process();
        let from = Source::Made { image: true, shell: None, regions: Vec::new() };
        self.tell_created(process, program, Duration::ZERO, from);
        self.tell(&Event::Exited { process, offer: None });
    }

    /// A run was started in a body. The pool is told a little later, of several at once, and of the runs that have ended
    /// meanwhile: only one run in many waits for that.
    pub(crate) fn entered(&mut self, owner: Owner, id: u64, choice: Choice, over: Arc<AtomicBool>) {
        let at = self.keeping.began.elapsed();
        let Choice { forked, waited, .. } = choice;
        self.keeping.notes.push_back(Note { at, owner, id, forked, waited, over });
        let due = |note: &Note| note.at + NOTES_WAIT <= at;
        if self.keeping.notes.len() >= MAX_NOTES || self.keeping.notes.front().is_some_and(due) {
            self.settle_all();
        }
    }

    /// Tells the pool of the runs that were started.
    pub(crate) fn flush(&mut self) {
        while let Some(note) = self.keeping.notes.pop_front() {
            self.keeping.telling_of = Some(note.at);
            self.tell_entered(note);
        }
        self.keeping.telling_of = None;
    }

    fn tell_entered(&mut self, note: Note) {
        let Note { owner, id, forked, waited, over, .. } = note;
        let Some(program) = self.tables.entries.get(&owner).and_then(|entry| entry.program) else { return };
        let before = self.keeping.tracked_mut(owner, id).cloned();
        if let Some(before) = before.filter(|before| before.process.is_some()) {
            // There is another run in the body: that one has ended.
            self.settle_one(owner, &before);
        }
        let body = self.keeping.body_of(owner, id).filter(|_| !forked);
        if let Some(body) = body {
            self.is_ready(body);
        }
        let process = self.keeping.next_process();
        let from = match body {
            Some(body) => Source::Body(body),
            None => Source::Made { image: true, shell: None, regions: Vec::new() },
        };
        let list = self.keeping.tracked.entry(owner).or_default();
        match list.iter_mut().find(|tracked| tracked.id == id) {
            Some(tracked) => tracked.process = Some((process, over)),
            None => list.push(Tracked { id, body: None, process: Some((process, over)), away: false }),
        }
        self.tell_created(process, program, waited, from);
    }

    /// A body is armed: tells so, where the ledger waits for that.
    fn is_ready(&mut self, body: BodyId) {
        let status = self.keeping.pool.state().body(body).map(|body| body.status);
        if matches!(status, Some(Status::Adding | Status::Resetting)) {
            self.tell(&Event::Ready(KeptId::Body(body)));
        }
    }

    /// Looks which runs of a program have ended, which bodies are ready again, and which are gone.
    pub(crate) fn settle(&mut self, owner: Owner) {
        let Some(list) = self.keeping.tracked.get(&owner) else { return };
        let news = |tracked: &&Tracked| !tracked.away && self.news_of(owner, tracked);
        let changed: Vec<Tracked> = list.iter().filter(news).cloned().collect();
        for tracked in changed {
            self.settle_one(owner, &tracked);
        }
    }

    /// Whether there is something to tell of a body. Most times there is not.
    fn news_of(&self, owner: Owner, tracked: &Tracked) -> bool {
        let Some(state) = self.state_of(owner, tracked.id) else { return true };
        match state {
            State::Taken | State::Running => {
                tracked.process.as_ref().is_some_and(|(_, over)| over.load(Ordering::Acquire))
            }
            State::Armed => {
                let idle = |body| {
                    self.keeping.pool.state().body(body).is_some_and(|body| body.status == Status::Idle)
                };
                tracked.process.is_some() || !tracked.body.is_some_and(idle)
            }
            _ => tracked.process.is_some(),
        }
    }

    /// What a body is doing; `None` when it is gone or broken.
    fn state_of(&self, owner: Owner, id: u64) -> Option<State> {
        let Slot::Kept(kept) = &self.tables.entries.get(&owner)?.slot else { return None };
        let body = kept.bodies.iter().find(|body| body.id() == id)?;
        body.state().filter(|&state| state != State::Broken)
    }

    fn settle_one(&mut self, owner: Owner, tracked: &Tracked) {
        let state = self.state_of(owner, tracked.id);
        if let Some((process, _)) = &tracked.process {
            let (process, offer) = (*process, state.and_then(|_| self.facts(owner, Some(tracked.id))));
            let gone = offer.is_none();
            if let Some(tracked) = self.keeping.tracked_mut(owner, tracked.id) {
                tracked.process = None;
            }
            if gone {
                self.untrack(owner, tracked.id);
            }
            self.exited(owner, tracked.id, process, offer);
        } else if state.is_none() {
            self.untrack(owner, tracked.id);
            if let Some(body) = tracked.body {
                self.tell_lost(body);
            }
        }
        if self.state_of(owner, tracked.id) == Some(State::Armed)
            && let Some(body) = self.keeping.body_of(owner, tracked.id)
        {
            self.is_ready(body);
        }
    }

    /// Tells of an end, and learns the number of the body: it is new when this was the first run of a fork.
    fn exited(&mut self, owner: Owner, id: u64, process: ProcessId, offer: Option<Facts>) {
        let done = self.handle(&Event::Exited { process, offer });
        let left = self.keeping.pool.last_left();
        if let Some(tracked) = self.keeping.tracked_mut(owner, id) {
            tracked.body = left;
        }
        done.iter().for_each(|done| self.take_action(done));
    }

    fn untrack(&mut self, owner: Owner, id: u64) {
        if let Some(list) = self.keeping.tracked.get_mut(&owner) {
            list.retain(|tracked| tracked.id != id);
        }
    }

    /// What a body of a program takes and saves.
    fn facts(&self, owner: Owner, id: Option<u64>) -> Option<Facts> {
        let Slot::Kept(kept) = &self.tables.entries.get(&owner)?.slot else { return None };
        let hot = id
            .and_then(|id| kept.bodies.iter().find(|body| body.id() == id))
            .map(regrow_body::Body::reset_work);
        // One region of about this size: runs differ by a page or two, which is no reason to add or give back any.
        let hot_bytes =
            hot.map_or(0, |work| u64::from(work.zeroed.next_power_of_two()) * regrow_abi::PAGE_BYTES);
        // What a front end reads it makes something of, which takes longer than to map it.
        let most_files = if kept.point() == Point::Warm { u32::MAX } else { 64 };
        let files = u32::try_from(kept.image.dependencies.files.len()).unwrap_or(u32::MAX).min(most_files);
        Some(Facts {
            image_bytes: kept.image_bytes(),
            body_bytes: kept.body_bytes(),
            regions: if hot_bytes > 0 { vec![hot_bytes] } else { Vec::new() },
            saves: EXEC_TIME + FILE_TIME * files,
            saves_over_image: FORK_TIME,
        })
    }

    /// An image is ready, with its first body: false when the policy does not want it any more.
    pub(crate) fn image_is_ready(&mut self, owner: Owner, awaited: Option<BodyId>, id: u64) -> bool {
        let Some(program) = self.tables.entries.get(&owner).and_then(|entry| entry.program) else {
            return false;
        };
        let Some(facts) = self.facts(owner, None) else { return false };
        self.tell(&Event::Known { program, facts });
        let Some(body) = awaited.filter(|&body| self.keeping.is_kept(body)) else { return false };
        let tracked = Tracked { id, body: Some(body), process: None, away: false };
        self.keeping.tracked.entry(owner).or_default().push(tracked);
        self.is_ready(body);
        self.tables.entries.contains_key(&owner)
    }

    /// An image could not be made.
    pub(crate) fn image_failed(&mut self, awaited: Option<BodyId>) {
        awaited.into_iter().for_each(|body| self.tell_lost(body));
    }

    /// What these owners had is gone, and no action did it.
    pub(crate) fn lost(&mut self, owners: &HashSet<Owner>) {
        self.keeping.notes.retain(|note| !owners.contains(&note.owner));
        for owner in owners {
            let list = self.keeping.tracked.remove(owner).unwrap_or_default();
            self.keeping.known.iter_mut().filter(|known| known.owner == Some(*owner)).for_each(|known| {
                known.owner = None;
            });
            for tracked in list {
                if let Some(body) = tracked.body {
                    self.tell_lost(body);
                }
                if let Some((process, _)) = tracked.process {
                    self.tell(&Event::Exited { process, offer: None });
                }
            }
        }
    }

    /// Takes in an action: what is dropped leaves the tables now, all else is to be done later.
    fn take_action(&mut self, done: &Done) {
        let shell = done.made.iter().find_map(|made| match made {
            KeptId::Shell(id) => Some(*id),
            _ => None,
        });
        match done.action {
            Action::Keep(_) => {}
            Action::Drop(KeptId::Body(body)) => self.drop_body(body),
            Action::Drop(KeptId::Shell(shell)) => self.drop_shell(shell),
            Action::BreakUp(body) => self.break_up(body, shell),
            Action::AddShell => self.keeping.todo.extend(shell.map(|shell| Todo::AddShell { shell })),
            Action::AddBody(program) => {
                let body = done.made.iter().find_map(|made| match made {
                    KeptId::Body(id) => Some(*id),
                    _ => None,
                });
                self.keeping.todo.extend(body.map(|body| Todo::AddBody { program, body }));
            }
            Action::Prefault { place: Place::Body(body), .. } => {
                let asked = |todo: &Todo| matches!(todo, Todo::Prefault { body: other } if *other == body);
                if !self.keeping.todo.iter().any(asked) {
                    self.keeping.todo.push_back(Todo::Prefault { body });
                }
            }
            Action::Trim(body) => self.keeping.todo.push_back(Todo::Trim { body }),
            // Regions are in bodies only: `State::without_regions`.
            Action::Drop(KeptId::Region(_)) | Action::Prefault { place: Place::Pool, .. } => {}
        }
    }

    /// Takes a body out of the tables. Its image goes with the last one.
    fn take_body(&mut self, body: BodyId) -> Option<regrow_body::Body> {
        let (owner, id) = self.keeping.owner_of(body)?;
        self.untrack(owner, id);
        let Slot::Kept(kept) = &mut self.tables.entries.get_mut(&owner)?.slot else { return None };
        // One that is lent is dropped when it comes back.
        let index = kept.bodies.iter().position(|body| body.id() == id);
        let taken = index.map(|index| kept.bodies.swap_remove(index));
        self.drop_unused(owner);
        taken
    }

    /// Drops an image that no body is kept of, none is being made of, and none is in use of.
    fn drop_unused(&mut self, owner: Owner) {
        let Some(program) = self.tables.entries.get(&owner).and_then(|entry| entry.program) else { return };
        if self.keeping.pool.state().bodies_of(program).next().is_none()
            && self.keeping.pool.state().alive(program) == 0
        {
            self.discard(owner);
        }
    }

    fn drop_body(&mut self, body: BodyId) {
        self.keeping.todo.retain(|todo| !todo.is_of(body));
        if let Some(body) = self.take_body(body) {
            self.keeping.todo.push_back(Todo::Discard(crate::work::Discarded::Body(Box::new(body))));
        }
    }

    fn drop_shell(&mut self, shell: ShellId) {
        self.keeping.todo.retain(|todo| !matches!(todo, Todo::AddShell { shell: other } if *other == shell));
        if let Some(slot) = self.keeping.shells.remove(&shell) {
            self.keeping.todo.push_back(Todo::Discard(crate::work::Discarded::Shell(Box::new(slot.shell))));
        }
    }

    /// One that no body stands behind (its program was started by exec) gives a shell that is made anew.
    fn break_up(&mut self, body: BodyId, shell: Option<ShellId>) {
        let Some(shell) = shell else { return };
        let then = self.keeping.owner_of(body).and_then(|(owner, _)| self.then(owner));
        self.keeping.todo.retain(|todo| !todo.is_of(body));
        match (self.take_body(body), then) {
            (Some(body), Some(then)) => {
                self.keeping.todo.push_back(Todo::BreakUp {
                    body: Box::new(body),
                    then: Box::new(then),
                    shell,
                });
            }
            _ => self.keeping.todo.push_back(Todo::AddShell { shell }),
        }
    }

    /// What the keepers of an image have from the caller.
    fn then(&self, owner: Owner) -> Option<Settable> {
        match &self.tables.entries.get(&owner)?.slot {
            Slot::Kept(kept) => Some(kept.then().clone()),
            _ => None,
        }
    }

    /// The image that a body is to be added to; begins to make it where there is none.
    pub(crate) fn image_for(
        &mut self,
        program: ProgramId,
        body: BodyId,
    ) -> Option<(Owner, Arc<regrow_image::image::Image>)> {
        let known = self.keeping.known.get(program.0 as usize)?;
        if let Some(owner) = known.owner
            && let Some(entry) = self.tables.entries.get(&owner)
        {
            return match &entry.slot {
                Slot::Kept(kept) if kept.bodies.len() < self.settings.max_bodies_per_program => {
                    Some((owner, Arc::clone(&kept.image)))
                }
                Slot::Kept(_) => {
                    self.tell_lost(body);
                    None
                }
                _ => None,
            };
        }
        let (key, env) = (known.key.clone(), known.env.clone());
        if let Fallback::FirstRun = self.begin(key, &env, 0, program, body) {
            return None;
        }
        self.tell_lost(body);
        None
    }

    /// A body was added.
    pub(crate) fn added(&mut self, owner: Owner, body: BodyId, made: Option<regrow_body::Body>) {
        let entry = self.tables.entries.get_mut(&owner);
        let slot = entry.map(|entry| &mut entry.slot);
        match (made, slot) {
            (Some(mut made), Some(Slot::Kept(kept)))
                if self.keeping.is_kept(body) && kept.bodies.len() < self.settings.max_bodies_per_program =>
            {
                let id = self.tables.ids.next();
                made.set_id(id);
                kept.bodies.push(made);
                let tracked = Tracked { id, body: Some(body), process: None, away: false };
                self.keeping.tracked.entry(owner).or_default().push(tracked);
                self.is_ready(body);
            }
            _ if self.keeping.is_kept(body) => self.tell_lost(body),
            _ => {}
        }
    }

    /// Takes a waiting body out for work on it, with its image and the keeper of a sibling.
    pub(crate) fn lend(&mut self, body: BodyId) -> Option<crate::work::Lent> {
        let (owner, id) = self.keeping.owner_of(body)?;
        let Slot::Kept(kept) = &mut self.tables.entries.get_mut(&owner)?.slot else { return None };
        let index =
            kept.bodies.iter().position(|body| body.id() == id && body.state() == Some(State::Armed))?;
        let lent = kept.bodies.swap_remove(index);
        let sibling = kept.bodies.iter().max_by_key(|body| body.runs()).map(regrow_body::Body::keeper);
        let image = Arc::clone(&kept.image);
        self.keeping.tracked_mut(owner, id)?.away = true;
        Some(crate::work::Lent { owner, id, body: Box::new(lent), image, sibling })
    }

    /// Takes back a body that was lent.
    pub(crate) fn give_back_lent(&mut self, owner: Owner, id: u64, body: Option<Box<regrow_body::Body>>) {
        let Some(tracked) = self.keeping.tracked_mut(owner, id) else { return };
        tracked.away = false;
        if let (Some(body), Some(Slot::Kept(kept))) =
            (body, self.tables.entries.get_mut(&owner).map(|entry| &mut entry.slot))
        {
            kept.bodies.push(*body);
        }
        self.settle(owner);
    }

    /// Tells the pool of all runs that were started, and of those that have ended.
    fn settle_all(&mut self) {
        self.flush();
        let owners: Vec<Owner> = self.keeping.tracked.keys().copied().collect();
        owners.into_iter().for_each(|owner| self.settle(owner));
    }

    /// Looks at all bodies, and asks the policy where its time has come.
    pub(crate) fn tick(&mut self) {
        self.settle_all();
        let now = Instant::now();
        if self.keeping.next_tick().is_none_or(|tick| tick > now) {
            return;
        }
        if self.keeping.looked + LOOK <= now {
            self.keeping.looked = now;
            if regrow_sys::pressure::is_memory_short() {
                tracing::info!("memory is short: what is kept is given back");
                return self.tell(&Event::Pressure);
            }
        }
        self.tell(&Event::Tick);
    }

    /// Sets what may be kept. What is too much is given back at once, or as soon as it is in no use.
    pub fn set_budget(&mut self, bytes: u64) {
        self.settings.budget_bytes = bytes;
        self.tick();
        self.tell(&Event::Budget { bytes });
    }
}
