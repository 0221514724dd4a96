//! The inventory: what is kept, what is in use, and whether an action is legal.
//!
//! ```text
//!                    AddBody             Ready             Created
//!                  ┌─────────> Adding ─────────┐        ┌──────────> InUse
//!                  │                           v        │              │ Exited
//!        (nothing) ┤                          Idle ─────┘              v
//!                  │                           ^                     Left
//!                  │              Ready        │        Keep           │
//!                  │  Resetting ───────────────┘ <─────────────────────┤ BreakUp ──> Shell + Regions
//!                  └<──────────────────────────────────────────────────┘ Drop
//! ```
//!
//! Invariants, each checked by [`Inventory::audit`]:
//! - a body in use belongs to exactly one process, which is alive, and no action touches it;
//! - a body that a process left is kept, broken up or dropped in the same turn;
//! - the kept bytes are those of all bodies that nobody uses, of shells and of regions, and of the images of
//!   programs with such a body, each once;
//! - no action raises the kept bytes above the budget.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::event::{Action, Done, Event, Facts, KeptId, RegionPlace, Source};
use crate::ids::{BodyId, Numbering, ProcessId, ProgramId, RegionId, ShellId};

/// What a body is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyStatus {
    /// It is being made.
    Adding,
    /// It is being put back after a run.
    Resetting,
    /// It waits for a process.
    Idle,
    /// A process runs in it.
    InUse(ProcessId),
    /// Its process has ended, and the policy must decide about it.
    Left,
}

/// A body in the inventory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyRecord {
    /// Its program.
    pub program: ProgramId,
    /// What it is doing.
    pub status: BodyStatus,
    /// Bytes beside its regions.
    pub body_bytes: u64,
    /// The regions whose pages are mapped in it.
    pub regions: Vec<u64>,
    /// When it entered this status.
    pub since: Duration,
    /// When a process last started in it or left it; before its first process: when it was made.
    pub used: Duration,
    /// How many processes have started in it since it was made.
    pub runs: u64,
}

impl BodyRecord {
    /// Bytes of the body with its regions.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.body_bytes + self.regions.iter().sum::<u64>()
    }

    /// Whether it is kept: no process is in it, and the policy has decided to keep it.
    #[must_use]
    pub const fn is_kept(&self) -> bool {
        matches!(self.status, BodyStatus::Adding | BodyStatus::Resetting | BodyStatus::Idle)
    }
}

/// A shell in the inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShellRecord {
    /// Whether a process can use it.
    pub ready: bool,
    /// Since when it is kept.
    pub since: Duration,
}

/// A region in the inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionRecord {
    /// Its bytes.
    pub bytes: u64,
    /// Whether a process can use it.
    pub ready: bool,
    /// Since when it is kept.
    pub since: Duration,
}

/// A process that is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessRecord {
    /// What it runs.
    pub program: ProgramId,
    /// The body that it runs in, if it runs in one.
    pub body: Option<BodyId>,
    /// The body that was made for it: kept under this id, if it is kept.
    pub made: Option<BodyId>,
    /// The process that asked for it.
    pub parent: Option<ProcessId>,
}

/// An event or an action that is impossible now. Whoever sent it has a fault; the inventory stays as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    /// The time is before that of the last event.
    #[error("the event is of {at:?}, the last one was of {last:?}")]
    Backwards {
        /// The time of the event.
        at: Duration,
        /// The time of the last one.
        last: Duration,
    },
    /// There is no such resource, or it is gone.
    #[error("there is no {0}")]
    NotThere(KeptId),
    /// A process runs in it.
    #[error("{0} is in use")]
    InUse(KeptId),
    /// It is being made or put back.
    #[error("{0} is not ready")]
    NotReady(KeptId),
    /// The policy has decided about it already.
    #[error("{0} was not left by a process in this turn")]
    NotLeft(KeptId),
    /// It is ready already.
    #[error("{0} was not being waited for")]
    NotAwaited(KeptId),
    /// A body is of another program than the process.
    #[error("{0} is of another program")]
    OtherProgram(KeptId),
    /// Nobody has told what keeping the program takes.
    #[error("{0} is not known")]
    UnknownProgram(ProgramId),
    /// No process of this number is alive.
    #[error("{0} is not alive")]
    UnknownProcess(ProcessId),
    /// A process of this number is alive.
    #[error("{0} is there already")]
    ProcessTwice(ProcessId),
    /// It would exceed the budget.
    #[error("{kept_bytes} bytes would be kept, {budget_bytes} may be")]
    OverBudget {
        /// How many bytes would be kept.
        kept_bytes: u64,
        /// How many may be.
        budget_bytes: u64,
    },
    /// The turn ended without a decision about it.
    #[error("{0} was left by its process, and nothing was decided about it")]
    Undecided(KeptId),
    /// A region outside of bodies, where the caller can have none.
    #[error("regions are kept in bodies only")]
    NoRegions,
    /// A region of no bytes.
    #[error("a region has at least one byte")]
    Empty,
}

/// The image of a program, as far as it concerns the inventory.
#[derive(Debug, Clone, Default)]
struct ProgramRecord {
    facts: Facts,
    bodies: BTreeSet<BodyId>,
    /// How many of these are kept, and the image's bytes, which count while that is not zero.
    kept: u32,
    image_bytes: u64,
    alive: u32,
}

/// The inventory.
#[derive(Debug, Clone)]
pub struct Inventory {
    budget_bytes: u64,
    shell_bytes: u64,
    keeps_regions: bool,
    keeps_shells: bool,
    most_alive: usize,
    kept_bytes: u64,
    at: Duration,
    numbering: Numbering,
    programs: BTreeMap<ProgramId, ProgramRecord>,
    processes: BTreeMap<ProcessId, ProcessRecord>,
    bodies: BTreeMap<BodyId, BodyRecord>,
    shells: BTreeMap<ShellId, ShellRecord>,
    regions: BTreeMap<RegionId, RegionRecord>,
}

impl Inventory {
    /// An empty inventory. A shell counts as `shell_bytes`.
    #[must_use]
    pub fn new(budget_bytes: u64, shell_bytes: u64) -> Inventory {
        Inventory {
            budget_bytes,
            shell_bytes,
            keeps_regions: true,
            keeps_shells: true,
            most_alive: 0,
            kept_bytes: 0,
            at: Duration::ZERO,
            numbering: Numbering::default(),
            programs: BTreeMap::new(),
            processes: BTreeMap::new(),
            bodies: BTreeMap::new(),
            shells: BTreeMap::new(),
            regions: BTreeMap::new(),
        }
    }

    /// The same, whose ids are of this generation: ids from an earlier inventory find nothing in it.
    #[must_use]
    pub fn of_generation(self, generation: u32) -> Inventory {
        Inventory { numbering: Numbering::of_generation(generation), ..self }
    }

    /// The generation of its ids.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.numbering.generation()
    }

    /// An id for a body that the caller makes for a process: see [`Source::Made`].
    pub fn reserve_body(&mut self) -> BodyId {
        self.numbering.next_id()
    }

    /// The same for a caller that can keep regions in bodies only: the pages of a shell do not outlive its exec.
    #[must_use]
    pub fn without_regions(self) -> Inventory {
        Inventory { keeps_regions: false, ..self }
    }

    /// Whether the caller can keep regions outside of bodies.
    #[must_use]
    pub fn keeps_regions(&self) -> bool {
        self.keeps_regions
    }

    /// The same where nobody takes shells.
    #[must_use]
    pub fn without_shells(self) -> Inventory {
        Inventory { keeps_shells: false, ..self }
    }

    /// Whether somebody takes shells.
    #[must_use]
    pub fn keeps_shells(&self) -> bool {
        self.keeps_shells
    }

    /// The most shells that are of use: as many as processes were alive at a time.
    #[must_use]
    pub fn most_shells(&self) -> usize {
        if self.keeps_shells { self.most_alive } else { 0 }
    }

    /// The time of the last event.
    #[must_use]
    pub fn at(&self) -> Duration {
        self.at
    }

    /// Most bytes that may be kept.
    #[must_use]
    pub fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    /// The kept bytes.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// Bytes that the budget leaves.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.budget_bytes.saturating_sub(self.kept_bytes)
    }

    /// The bytes that a shell counts as.
    #[must_use]
    pub fn shell_bytes(&self) -> u64 {
        self.shell_bytes
    }

    /// The known programs.
    pub fn programs(&self) -> impl Iterator<Item = ProgramId> {
        self.programs.keys().copied()
    }

    /// What keeping a program takes.
    #[must_use]
    pub fn facts(&self, program: ProgramId) -> Option<&Facts> {
        self.programs.get(&program).map(|known| &known.facts)
    }

    /// How many processes run a program, in bodies or not.
    #[must_use]
    pub fn alive(&self, program: ProgramId) -> usize {
        self.programs.get(&program).map_or(0, |known| known.alive as usize)
    }

    /// The processes that are alive.
    pub fn processes(&self) -> impl ExactSizeIterator<Item = (ProcessId, &ProcessRecord)> {
        self.processes.iter().map(|(&id, process)| (id, process))
    }

    /// A process that is alive.
    #[must_use]
    pub fn process(&self, process: ProcessId) -> Option<&ProcessRecord> {
        self.processes.get(&process)
    }

    /// All bodies.
    pub fn bodies(&self) -> impl ExactSizeIterator<Item = (BodyId, &BodyRecord)> {
        self.bodies.iter().map(|(&id, body)| (id, body))
    }

    /// A body.
    #[must_use]
    pub fn body(&self, body: BodyId) -> Option<&BodyRecord> {
        self.bodies.get(&body)
    }

    /// The bodies of a program, oldest first.
    pub fn bodies_of(&self, program: ProgramId) -> impl Iterator<Item = (BodyId, &BodyRecord)> {
        let ids = self.programs.get(&program).into_iter().flat_map(|known| known.bodies.iter().copied());
        ids.filter_map(|id| Some((id, self.bodies.get(&id)?)))
    }

    /// How many bodies of a program are kept: ready, being made or being put back.
    #[must_use]
    pub fn kept_of(&self, program: ProgramId) -> usize {
        self.programs.get(&program).map_or(0, |known| known.kept as usize)
    }

    /// Whether a program has a body, in use or not: then it has its image, too.
    #[must_use]
    pub fn has_image(&self, program: ProgramId) -> bool {
        self.programs.get(&program).is_some_and(|known| !known.bodies.is_empty())
    }

    /// All shells.
    pub fn shells(&self) -> impl ExactSizeIterator<Item = (ShellId, &ShellRecord)> {
        self.shells.iter().map(|(&id, shell)| (id, shell))
    }

    /// All regions that are in no body.
    pub fn regions(&self) -> impl ExactSizeIterator<Item = (RegionId, &RegionRecord)> {
        self.regions.iter().map(|(&id, region)| (id, region))
    }

    /// The best body for a process of a program: the ready one that was used last, whose pages are the warmest. So the
    /// others stay unused, and the policy sees that they are too many.
    #[must_use]
    pub fn ready_body(&self, program: ProgramId) -> Option<BodyId> {
        let idle = self.bodies_of(program).filter(|(_, body)| body.status == BodyStatus::Idle);
        idle.max_by_key(|(id, body)| (body.used, *id)).map(|(id, _)| id)
    }

    /// A shell that is ready.
    #[must_use]
    pub fn ready_shell(&self) -> Option<ShellId> {
        self.shells.iter().find(|(_, shell)| shell.ready).map(|(&id, _)| id)
    }

    /// For each of these sizes a ready region of just that size, where there is one.
    #[must_use]
    pub fn ready_regions(&self, sizes: &[u64]) -> Vec<RegionId> {
        let mut taken: Vec<RegionId> = Vec::new();
        for &bytes in sizes {
            let fits = |(id, region): &(&RegionId, &RegionRecord)| {
                region.ready && region.bytes == bytes && !taken.contains(id)
            };
            if let Some((&id, _)) = self.regions.iter().find(fits) {
                taken.push(id);
            }
        }
        taken
    }

    /// What a further body of a program adds to the kept bytes: its own, and the image's if that is not kept yet.
    #[must_use]
    pub fn bytes_of_next(&self, program: ProgramId, body_bytes: u64) -> u64 {
        let image = self.programs.get(&program).filter(|known| known.kept == 0);
        body_bytes + image.map_or(0, |known| known.facts.image_bytes)
    }

    /// Takes an event in. Returns the body that a process left; the turn must decide about it.
    ///
    /// # Errors
    /// [`Illegal`].
    pub fn take_in(&mut self, at: Duration, event: &Event) -> Result<Option<BodyId>, Illegal> {
        if at < self.at {
            return Err(Illegal::Backwards { at, last: self.at });
        }
        let left = match event {
            Event::Known { program, facts } => self.know(*program, facts),
            Event::Created { process, program, parent, from, .. } => {
                self.create(at, *process, *program, *parent, from)?;
                None
            }
            Event::Exited { process, offer } => self.exit(at, *process, offer.as_ref())?,
            Event::Ready(kept) => self.ready(at, *kept)?,
            Event::Lost(kept) => self.lose(*kept)?,
            Event::Budget { bytes } => {
                self.budget_bytes = *bytes;
                None
            }
            Event::UsedUp { .. } | Event::Tick | Event::Pressure => None,
        };
        self.at = at;
        Ok(left)
    }

    /// Kept resources of the program that are not ready yet count by these facts from here on.
    fn know(&mut self, program: ProgramId, facts: &Facts) -> Option<BodyId> {
        let known = self.programs.entry(program).or_default();
        known.facts = facts.clone();
        if known.kept > 0 {
            self.kept_bytes = self.kept_bytes - known.image_bytes + facts.image_bytes;
            known.image_bytes = facts.image_bytes;
        }
        for id in &known.bodies {
            let waits =
                |body: &&mut BodyRecord| matches!(body.status, BodyStatus::Adding | BodyStatus::Resetting);
            if let Some(body) = self.bodies.get_mut(id).filter(waits) {
                self.kept_bytes = self.kept_bytes - body.body_bytes + facts.body_bytes;
                body.body_bytes = facts.body_bytes;
            }
        }
        None
    }

    fn create(
        &mut self,
        at: Duration,
        process: ProcessId,
        program: ProgramId,
        parent: Option<ProcessId>,
        from: &Source,
    ) -> Result<(), Illegal> {
        if self.processes.contains_key(&process) {
            return Err(Illegal::ProcessTwice(process));
        }
        if !self.programs.contains_key(&program) {
            return Err(Illegal::UnknownProgram(program));
        }
        let (body, made) = match from {
            Source::Body(id) => {
                self.enter(at, process, program, *id)?;
                (Some(*id), None)
            }
            Source::Made { body: Some(id), .. } if self.bodies.contains_key(id) => {
                return Err(Illegal::InUse(KeptId::Body(*id)));
            }
            Source::Made { shell, regions, body: made, .. } => {
                self.consume(*shell, regions)?;
                (None, *made)
            }
        };
        self.processes.insert(process, ProcessRecord { program, body, made, parent });
        if let Some(known) = self.programs.get_mut(&program) {
            known.alive += 1;
        }
        self.most_alive = self.most_alive.max(self.processes.len());
        Ok(())
    }

    fn enter(
        &mut self,
        at: Duration,
        process: ProcessId,
        program: ProgramId,
        id: BodyId,
    ) -> Result<(), Illegal> {
        let body = self.bodies.get(&id).ok_or(Illegal::NotThere(KeptId::Body(id)))?;
        match body.status {
            BodyStatus::Idle if body.program == program => {}
            BodyStatus::Idle => return Err(Illegal::OtherProgram(KeptId::Body(id))),
            BodyStatus::InUse(_) => return Err(Illegal::InUse(KeptId::Body(id))),
            _ => return Err(Illegal::NotReady(KeptId::Body(id))),
        }
        self.set_status(id, BodyStatus::InUse(process), at);
        if let Some(body) = self.bodies.get_mut(&id) {
            (body.used, body.runs) = (at, body.runs + 1);
        }
        Ok(())
    }

    /// A shell and regions become part of a new process. Checks all of them before it takes one.
    fn consume(&mut self, shell: Option<ShellId>, regions: &[RegionId]) -> Result<(), Illegal> {
        if let Some(id) = shell {
            let kept = KeptId::Shell(id);
            let shell = self.shells.get(&id).ok_or(Illegal::NotThere(kept))?;
            shell.ready.then_some(()).ok_or(Illegal::NotReady(kept))?;
        }
        let mut once = BTreeSet::new();
        for &id in regions {
            let kept = KeptId::Region(id);
            let region = self.regions.get(&id).ok_or(Illegal::NotThere(kept))?;
            region.ready.then_some(()).ok_or(Illegal::NotReady(kept))?;
            once.insert(id).then_some(()).ok_or(Illegal::InUse(kept))?;
        }
        if let Some(id) = shell {
            self.remove_shell(id);
        }
        regions.iter().for_each(|&id| self.remove_region(id));
        Ok(())
    }

    fn exit(
        &mut self,
        at: Duration,
        process: ProcessId,
        offer: Option<&Facts>,
    ) -> Result<Option<BodyId>, Illegal> {
        let ProcessRecord { program, body, made, .. } =
            self.processes.remove(&process).ok_or(Illegal::UnknownProcess(process))?;
        if let Some(known) = self.programs.get_mut(&program) {
            known.alive = known.alive.saturating_sub(1);
        }
        let Some(facts) = offer else {
            if let Some(id) = body {
                self.remove_body(id);
            }
            return Ok(None);
        };
        self.know(program, facts);
        let id = match body {
            Some(id) => {
                self.set_status(id, BodyStatus::Left, at);
                id
            }
            None => {
                let id = made.unwrap_or_else(|| self.reserve_body());
                self.new_body(id, program, BodyStatus::Left, at);
                id
            }
        };
        if let Some(body) = self.bodies.get_mut(&id) {
            body.body_bytes = facts.body_bytes;
            body.regions.clone_from(&facts.regions);
            body.used = at;
        }
        Ok(Some(id))
    }

    fn ready(&mut self, at: Duration, kept: KeptId) -> Result<Option<BodyId>, Illegal> {
        let not_there = || Illegal::NotThere(kept);
        let awaited = match kept {
            KeptId::Body(id) => {
                let status = self.bodies.get(&id).ok_or_else(not_there)?.status;
                let awaited = matches!(status, BodyStatus::Adding | BodyStatus::Resetting);
                if awaited {
                    self.set_status(id, BodyStatus::Idle, at);
                }
                awaited
            }
            KeptId::Shell(id) => {
                let shell = self.shells.get_mut(&id).ok_or_else(not_there)?;
                !std::mem::replace(&mut shell.ready, true)
            }
            KeptId::Region(id) => {
                let region = self.regions.get_mut(&id).ok_or_else(not_there)?;
                !std::mem::replace(&mut region.ready, true)
            }
        };
        awaited.then_some(None).ok_or(Illegal::NotAwaited(kept))
    }

    fn lose(&mut self, kept: KeptId) -> Result<Option<BodyId>, Illegal> {
        if let Some(BodyStatus::InUse(process)) = self.status(kept)? {
            // The process goes on without a body to come back to.
            if let Some(process) = self.processes.get_mut(&process) {
                process.body = None;
            }
        }
        self.remove(kept);
        Ok(None)
    }

    /// The status of a body; `None` for a present shell or region.
    fn status(&self, kept: KeptId) -> Result<Option<BodyStatus>, Illegal> {
        let found = match kept {
            KeptId::Body(id) => self.bodies.get(&id).map(|body| Some(body.status)),
            KeptId::Shell(id) => self.shells.contains_key(&id).then_some(None),
            KeptId::Region(id) => self.regions.contains_key(&id).then_some(None),
        };
        found.ok_or(Illegal::NotThere(kept))
    }

    /// Takes an action in.
    ///
    /// # Errors
    /// [`Illegal`]: the caller must not do it.
    pub fn apply(&mut self, action: Action) -> Result<Done, Illegal> {
        let made = match action {
            Action::Keep(id) => self.keep(id)?,
            Action::BreakUp(id) => self.break_up(id)?,
            Action::Drop(kept) => {
                if let Some(BodyStatus::InUse(_)) = self.status(kept)? {
                    return Err(Illegal::InUse(kept));
                }
                self.remove(kept);
                Vec::new()
            }
            Action::AddShell => {
                self.check_room(self.shell_bytes)?;
                vec![KeptId::Shell(self.new_shell(false))]
            }
            Action::AddBody(program) => self.add_body(program)?,
            Action::Prefault { place, bytes } => self.prefault(place, bytes)?,
            Action::Trim(id) => self.trim(id)?,
        };
        Ok(Done { action, made })
    }

    fn keep(&mut self, id: BodyId) -> Result<Vec<KeptId>, Illegal> {
        let kept = KeptId::Body(id);
        let body = self.bodies.get(&id).ok_or(Illegal::NotThere(kept))?;
        match body.status {
            BodyStatus::Left => {}
            BodyStatus::InUse(_) => return Err(Illegal::InUse(kept)),
            _ => return Err(Illegal::NotLeft(kept)),
        }
        self.check_room(self.bytes_of_next(body.program, body.bytes()))?;
        self.set_status(id, BodyStatus::Resetting, self.at);
        Ok(Vec::new())
    }

    fn break_up(&mut self, id: BodyId) -> Result<Vec<KeptId>, Illegal> {
        let kept = KeptId::Body(id);
        let body = self.bodies.get(&id).ok_or(Illegal::NotThere(kept))?;
        if let BodyStatus::InUse(_) = body.status {
            return Err(Illegal::InUse(kept));
        }
        if body.status == BodyStatus::Adding {
            return Err(Illegal::NotReady(kept));
        }
        let regions = if self.keeps_regions { body.regions.clone() } else { Vec::new() };
        let parts = self.shell_bytes + regions.iter().sum::<u64>();
        let freed = if body.is_kept() { body.bytes() + self.image_bytes_freed_by(id) } else { 0 };
        self.check_room(parts.saturating_sub(freed))?;
        self.remove_body(id);
        let mut made = vec![KeptId::Shell(self.new_shell(true))];
        made.extend(regions.into_iter().map(|bytes| KeptId::Region(self.new_region(bytes, true))));
        Ok(made)
    }

    /// Bytes of the image that go with this body, because no other keeps the image.
    fn image_bytes_freed_by(&self, id: BodyId) -> u64 {
        let body = self.bodies.get(&id).filter(|body| body.is_kept());
        let known = body.and_then(|body| self.programs.get(&body.program)).filter(|known| known.kept == 1);
        known.map_or(0, |known| known.image_bytes)
    }

    /// Bytes that become free when this body is dropped.
    #[must_use]
    pub fn bytes_freed_by(&self, id: BodyId) -> u64 {
        let kept = self.bodies.get(&id).filter(|body| body.is_kept());
        kept.map_or(0, BodyRecord::bytes) + self.image_bytes_freed_by(id)
    }

    fn add_body(&mut self, program: ProgramId) -> Result<Vec<KeptId>, Illegal> {
        let facts = self.facts(program).ok_or(Illegal::UnknownProgram(program))?;
        let body_bytes = facts.body_bytes;
        self.check_room(self.bytes_of_next(program, body_bytes))?;
        let id = self.reserve_body();
        self.new_body(id, program, BodyStatus::Left, self.at);
        if let Some(body) = self.bodies.get_mut(&id) {
            body.body_bytes = body_bytes;
        }
        self.set_status(id, BodyStatus::Adding, self.at);
        Ok(vec![KeptId::Body(id)])
    }

    /// Gives back the pages of a body that waits, or that a process left and the policy keeps without pages.
    fn trim(&mut self, id: BodyId) -> Result<Vec<KeptId>, Illegal> {
        match self.bodies.get_mut(&id).filter(|body| body.status == BodyStatus::Left) {
            Some(left) => left.regions.clear(),
            None => {
                let bytes = self.waiting(id)?.regions.drain(..).sum::<u64>();
                self.kept_bytes -= bytes;
            }
        }
        Ok(Vec::new())
    }

    fn prefault(&mut self, place: RegionPlace, bytes: u64) -> Result<Vec<KeptId>, Illegal> {
        if bytes == 0 {
            return Err(Illegal::Empty);
        }
        match place {
            RegionPlace::Pool if !self.keeps_regions => Err(Illegal::NoRegions),
            RegionPlace::Pool => {
                self.check_room(bytes)?;
                Ok(vec![KeptId::Region(self.new_region(bytes, false))])
            }
            RegionPlace::Body(id) => {
                self.waiting(id)?;
                self.check_room(bytes)?;
                self.waiting(id)?.regions.push(bytes);
                self.kept_bytes += bytes;
                Ok(Vec::new())
            }
        }
    }

    /// A body that waits, for a change of its pages.
    fn waiting(&mut self, id: BodyId) -> Result<&mut BodyRecord, Illegal> {
        let kept = KeptId::Body(id);
        let body = self.bodies.get_mut(&id).ok_or(Illegal::NotThere(kept))?;
        match body.status {
            BodyStatus::Idle => Ok(body),
            BodyStatus::InUse(_) => Err(Illegal::InUse(kept)),
            _ => Err(Illegal::NotReady(kept)),
        }
    }

    fn check_room(&self, bytes: u64) -> Result<(), Illegal> {
        let kept_bytes = self.kept_bytes.saturating_add(bytes);
        if bytes > 0 && kept_bytes > self.budget_bytes {
            return Err(Illegal::OverBudget { kept_bytes, budget_bytes: self.budget_bytes });
        }
        Ok(())
    }

    fn new_body(&mut self, id: BodyId, program: ProgramId, status: BodyStatus, at: Duration) {
        let body =
            BodyRecord { program, status, body_bytes: 0, regions: Vec::new(), since: at, used: at, runs: 0 };
        self.bodies.insert(id, body);
        self.programs.entry(program).or_default().bodies.insert(id);
    }

    fn new_shell(&mut self, ready: bool) -> ShellId {
        let id: ShellId = self.numbering.next_id();
        self.shells.insert(id, ShellRecord { ready, since: self.at });
        self.kept_bytes += self.shell_bytes;
        id
    }

    fn new_region(&mut self, bytes: u64, ready: bool) -> RegionId {
        let id: RegionId = self.numbering.next_id();
        self.regions.insert(id, RegionRecord { bytes, ready, since: self.at });
        self.kept_bytes += bytes;
        id
    }

    fn remove(&mut self, kept: KeptId) {
        match kept {
            KeptId::Body(id) => self.remove_body(id),
            KeptId::Shell(id) => self.remove_shell(id),
            KeptId::Region(id) => self.remove_region(id),
        }
    }

    fn remove_body(&mut self, id: BodyId) {
        self.set_status(id, BodyStatus::Left, self.at);
        if let Some(body) = self.bodies.remove(&id)
            && let Some(known) = self.programs.get_mut(&body.program)
        {
            known.bodies.remove(&id);
        }
    }

    fn remove_shell(&mut self, id: ShellId) {
        if self.shells.remove(&id).is_some() {
            self.kept_bytes -= self.shell_bytes;
        }
    }

    fn remove_region(&mut self, id: RegionId) {
        if let Some(region) = self.regions.remove(&id) {
            self.kept_bytes -= region.bytes;
        }
    }

    /// The one place where a body's status changes, and with it the kept bytes.
    fn set_status(&mut self, id: BodyId, status: BodyStatus, at: Duration) {
        let Some(body) = self.bodies.get_mut(&id) else { return };
        let Some(known) = self.programs.get_mut(&body.program) else { return };
        let before = body.is_kept();
        (body.status, body.since) = (status, at);
        match (before, body.is_kept()) {
            (false, true) => {
                if known.kept == 0 {
                    known.image_bytes = known.facts.image_bytes;
                    self.kept_bytes += known.image_bytes;
                }
                known.kept += 1;
                self.kept_bytes += body.bytes();
            }
            (true, false) => {
                known.kept -= 1;
                self.kept_bytes -= body.bytes();
                if known.kept == 0 {
                    self.kept_bytes -= known.image_bytes;
                }
            }
            _ => {}
        }
    }

    /// Counts everything anew and compares. For tests, and for a caller in doubt.
    ///
    /// # Errors
    /// What differs, in words.
    pub fn audit(&self) -> Result<(), String> {
        let mut bytes = self.shells.len() as u64 * self.shell_bytes;
        bytes += self.regions.values().map(|region| region.bytes).sum::<u64>();
        bytes += self.bodies.values().filter(|body| body.is_kept()).map(BodyRecord::bytes).sum::<u64>();
        for (program, known) in &self.programs {
            let kept = self.bodies_of(*program).filter(|(_, body)| body.is_kept()).count();
            if kept != known.kept as usize {
                return Err(format!("{program:?}: {kept} bodies are kept, {} are counted", known.kept));
            }
            bytes += if kept > 0 { known.image_bytes } else { 0 };
            let alive = self.processes.values().filter(|process| process.program == *program).count();
            if alive != known.alive as usize {
                return Err(format!("{program:?}: {alive} processes are alive, {} are counted", known.alive));
            }
        }
        if bytes != self.kept_bytes {
            return Err(format!("{bytes} bytes are kept, {} are counted", self.kept_bytes));
        }
        for (id, body) in &self.bodies {
            if let BodyStatus::InUse(process) = body.status
                && self.processes.get(&process).and_then(|process| process.body) != Some(*id)
            {
                return Err(format!("{id:?} is in use by {process:?}, which does not know"));
            }
        }
        let body_of =
            |process: &ProcessRecord| process.body.map(|id| self.bodies.get(&id).map(|body| body.status));
        let lost = self.processes.iter().find(|(id, process)| {
            body_of(process).is_some_and(|status| status != Some(BodyStatus::InUse(**id)))
        });
        lost.map_or(Ok(()), |(id, _)| Err(format!("{id:?} is in a body that does not know")))
    }
}
