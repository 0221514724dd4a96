//! The ledger: observations of bodies and runs in, decisions about them out. It knows ids and times alone: no table, no
//! process, no clock.
//!
//! ```text
//!   a run starts or is exec'd; an image is made; a body appears, is lent, comes back, is gone; time passes
//!        │                                      ┌── Eyes: what a body is doing, what it takes
//!        v                                      v
//!   Ledger: which run is in which body ──events──> Planner (regrow-pool): inventory and policy
//!        │                                                   │ actions
//!        v                                                   │
//!   Vec<Decision> <──────────────────────────────────────────┘        the shard carries them out
//! ```
//!
//! The ledger tells the planner of a run that is exec'd as of one that ends at once: nobody tells the engine of its end. A run
//! in a body has ended when its caller has waited for it, or when the keeper says so; the ledger looks before the next run of
//! the program and at each tick.
//!
//! Invariants: a body that the ledger lists is the table's, until a decision drops it; the planner hears of events in the order
//! of their times; after [`Decision::BeginAnew`] the ledger decides nothing more.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use regrow_pool::inventory::BodyStatus;
use regrow_pool::{Action, Done, Event, Facts, Inventory, KeptId, Planner, Policy, RegionPlace, Source};

use crate::ids::{BodyId, ImageId, ProcessId, ProgramId, ShellId};

/// The ledger tells the planner of so many runs at once, at most, …
const MAX_UNTOLD: usize = 16;
/// … and of a run before the first one that comes after this time.
const UNTOLD_WAIT: Duration = Duration::from_millis(5);
/// What a shell is reckoned at: page tables and the agent's memory, twice.
const SHELL_BYTES: u64 = 160 * 1024;

/// What a body is doing, as an observer sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It is gone, or its keeper has given it up.
    Gone,
    /// A run is in it, or is about to be.
    Running,
    /// Its run has left, and its keeper puts it back.
    PuttingBack,
    /// It waits for a run.
    Armed,
}

/// What looks at bodies and processes for the ledger.
pub(crate) trait Eyes {
    /// What a body is doing.
    fn body(&self, body: BodyId) -> Seen;
    /// Whether somebody has waited for a process.
    fn is_over(&self, process: ProcessId) -> bool;
    /// What a body takes, and what it saves; `None` when it is gone.
    fn facts(&self, body: BodyId) -> Option<Facts>;
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Make a body of a program.
    AddBody { program: ProgramId, body: BodyId },
    /// Make a shell.
    AddShell { shell: ShellId },
    /// Make a shell of a body.
    BreakUp { body: BodyId, shell: ShellId },
    /// Map the pages that runs of the program touch.
    Prefault { body: BodyId },
    /// Give the pages back that the image does not have.
    Trim { body: BodyId },
    /// Destroy a body.
    DropBody { body: BodyId },
    /// Destroy a shell.
    DropShell { shell: ShellId },
    /// Drop everything: the ledger and what it is of do not agree.
    BeginAnew,
}

/// A run that was started in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunInBody {
    pub(crate) process: ProcessId,
    pub(crate) body: BodyId,
    pub(crate) of: BodyOf,
    /// The body was made for this run.
    pub(crate) forked: bool,
    /// How long the run waited for the body to be put back.
    pub(crate) waited: Duration,
    /// The body serves no other run.
    pub(crate) single_use: bool,
    /// Where it was asked for, if that is known.
    pub(crate) site: Option<u64>,
}

/// A run that is in no body: it is started by exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunElsewhere {
    pub(crate) process: ProcessId,
    pub(crate) program: ProgramId,
    /// Where it was asked for, if that is known.
    pub(crate) site: Option<u64>,
}

/// What a body is of. A program has more than one image where runs of it differ in what they read of their environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyOf {
    pub(crate) image: ImageId,
    pub(crate) program: ProgramId,
}

/// A body of the table.
#[derive(Debug, Clone, Copy)]
struct BodyEntry {
    of: BodyOf,
    /// The process that the ledger has told of as running in it.
    process: Option<ProcessId>,
    /// Somebody works on it, and it is not in the table meanwhile.
    is_lent: bool,
}

/// Which run is in which body, and what the planner decides about them.
#[derive(Debug)]
pub(crate) struct Ledger {
    planner: Planner,
    bodies: BTreeMap<BodyId, BodyEntry>,
    /// Runs that were started and that the planner does not know of yet, with their times, in order.
    untold: VecDeque<(Duration, RunInBody)>,
    decisions: Vec<Decision>,
    /// The time of what the planner is told next.
    at: Duration,
    is_void: bool,
}

impl Ledger {
    /// A ledger of nothing, which keeps to `budget_bytes`. Its ids are of this generation.
    pub(crate) fn new(policy: Box<dyn Policy>, budget_bytes: u64, shells: bool, generation: u32) -> Ledger {
        let inventory = Inventory::new(budget_bytes, SHELL_BYTES).of_generation(generation).without_regions();
        let inventory = if shells { inventory } else { inventory.without_shells() };
        Ledger {
            planner: Planner::new(inventory, policy),
            bodies: BTreeMap::new(),
            untold: VecDeque::new(),
            decisions: Vec::new(),
            at: Duration::ZERO,
            is_void: false,
        }
    }

    /// What follows happens at this time, counted from when the ledger was begun.
    pub(crate) fn set_time(&mut self, at: Duration) {
        self.at = at;
    }

    /// The planner, to be looked at.
    pub(crate) fn planner(&self) -> &Planner {
        &self.planner
    }

    /// What is to be done, in its order. Asked for after every observation.
    pub(crate) fn take_decisions(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.decisions)
    }

    /// An id for a body that is made for a run.
    pub(crate) fn reserve_body(&mut self) -> BodyId {
        self.planner.reserve_body()
    }

    /// Whether the planner wants to keep a body.
    pub(crate) fn is_wanted(&self, body: BodyId) -> bool {
        self.planner.inventory().body(body).is_some_and(regrow_pool::inventory::BodyRecord::is_kept)
    }

    /// Whether the planner waits for a body to be made.
    pub(crate) fn is_awaited(&self, body: BodyId) -> bool {
        self.status(body) == Some(BodyStatus::Adding)
    }

    /// Whether no body of a program is kept, made or in use.
    pub(crate) fn is_unused(&self, program: ProgramId) -> bool {
        let inventory = self.planner.inventory();
        inventory.bodies_of(program).next().is_none() && inventory.alive(program) == 0
    }

    /// A program is another than before, or is known at all.
    pub(crate) fn program_known(&mut self, program: ProgramId, facts: Facts) {
        self.tell(&Event::Known { program, facts });
    }

    /// A run without an image is about to be started by exec. Gives the body that is to be made of its program, if one is.
    pub(crate) fn run_without_image(&mut self, run: RunElsewhere) -> Option<BodyId> {
        let RunElsewhere { process, program, site } = run;
        self.tell_created(process, program, site, Duration::ZERO, Source::nothing());
        let offer = self.planner.inventory().facts(program).cloned();
        self.tell(&Event::Exited { process, offer });
        self.planner.last_left().filter(|&body| self.is_wanted(body))
    }

    /// A run that could have been in a body, had one been free, is started by exec.
    pub(crate) fn run_crowded_out(&mut self, run: RunElsewhere) {
        let RunElsewhere { process, program, site } = run;
        let from = Source::Made { image: true, shell: None, regions: Vec::new(), body: None };
        self.tell_created(process, program, site, Duration::ZERO, from);
        self.tell(&Event::Exited { process, offer: None });
    }

    /// A run was started in a body. True when it is time to look at all bodies: the ledger tells the planner of several runs at
    /// once, so that only one run in many waits for that. A body that is used up is told of at once: another one is to be made.
    pub(crate) fn run_started(&mut self, run: RunInBody) -> bool {
        self.untold.push_back((self.at, run));
        let is_due = self.untold_due().is_some_and(|due| due <= self.at);
        run.single_use || self.untold.len() >= MAX_UNTOLD || is_due
    }

    /// When the planner is to be told of runs that it does not know of yet, if there are any. Not at once: whoever waits for the next run
    /// would wait for that too.
    pub(crate) fn untold_due(&self) -> Option<Duration> {
        self.untold.front().map(|&(at, _)| at + UNTOLD_WAIT)
    }

    /// Tells the planner of the runs that were started.
    pub(crate) fn tell_runs(&mut self, eyes: &dyn Eyes) {
        let at = self.at;
        while let Some((started, run)) = self.untold.pop_front() {
            self.at = started;
            self.tell_run(run, eyes);
        }
        self.at = at;
    }

    fn tell_run(&mut self, run: RunInBody, eyes: &dyn Eyes) {
        let RunInBody { process, body, of, forked, waited, single_use, site } = run;
        if self.bodies.get(&body).is_some_and(|entry| entry.process.is_some()) {
            // A body has one run at a time: the earlier one has ended.
            self.tell_end(body, eyes.facts(body));
        }
        let is_known = !forked && self.bodies.contains_key(&body);
        let from = if is_known {
            self.body_is_armed(body);
            Source::Body(body)
        } else {
            Source::Made { image: true, shell: None, regions: Vec::new(), body: Some(body) }
        };
        let entry = self.bodies.entry(body).or_insert(BodyEntry { of, process: None, is_lent: false });
        entry.process = Some(process);
        self.tell_created(process, of.program, site, waited, from.clone());
        if single_use {
            self.tell(&Event::UsedUp { program: of.program, from });
        }
    }

    /// Looks which runs of an image have ended, which bodies wait again, and which are gone.
    pub(crate) fn look_at(&mut self, image: ImageId, eyes: &dyn Eyes) {
        self.bodies_of(image).into_iter().for_each(|body| self.look(body, eyes));
    }

    fn bodies_of(&self, image: ImageId) -> Vec<BodyId> {
        let of_image = |(&body, entry): (&BodyId, &BodyEntry)| (entry.of.image == image).then_some(body);
        self.bodies.iter().filter_map(of_image).collect()
    }

    /// Tells the planner of all runs that were started, and of all that have ended.
    pub(crate) fn look_at_all(&mut self, eyes: &dyn Eyes) {
        self.tell_runs(eyes);
        let bodies: Vec<BodyId> = self.bodies.keys().copied().collect();
        bodies.into_iter().for_each(|body| self.look(body, eyes));
    }

    /// Looks at one body. Most times there is nothing to tell.
    fn look(&mut self, body: BodyId, eyes: &dyn Eyes) {
        let Some(entry) = self.bodies.get(&body).copied().filter(|entry| !entry.is_lent) else { return };
        let seen = eyes.body(body);
        match (entry.process, seen) {
            (Some(process), Seen::Running) if !eyes.is_over(process) => return,
            (Some(_), Seen::Gone) => {
                self.bodies.remove(&body);
                self.tell_end_of(entry, None);
            }
            (Some(_), _) => self.tell_end(body, eyes.facts(body)),
            (None, Seen::Gone) => self.body_is_gone(body),
            (None, _) => {}
        }
        if seen == Seen::Armed && self.bodies.contains_key(&body) {
            self.body_is_armed(body);
        }
    }

    /// The run in a body has ended; the planner is offered the body where there are facts about it.
    fn tell_end(&mut self, body: BodyId, offer: Option<Facts>) {
        let Some(entry) = self.bodies.get_mut(&body) else { return };
        let before = *entry;
        entry.process = None;
        if offer.is_none() {
            self.bodies.remove(&body);
        }
        self.tell_end_of(before, offer);
    }

    fn tell_end_of(&mut self, entry: BodyEntry, offer: Option<Facts>) {
        if let Some(process) = entry.process {
            self.tell(&Event::Exited { process, offer });
        }
    }

    /// A body waits: tells so, where the planner waits for that.
    fn body_is_armed(&mut self, body: BodyId) {
        if matches!(self.status(body), Some(BodyStatus::Adding | BodyStatus::Resetting)) {
            self.tell(&Event::Ready(KeptId::Body(body)));
        }
    }

    /// A body that the planner wanted was made. False when the planner does not want it any more: it is to be dropped.
    pub(crate) fn body_made(&mut self, body: BodyId, of: BodyOf) -> bool {
        if !self.is_wanted(body) {
            return false;
        }
        self.bodies.insert(body, BodyEntry { of, process: None, is_lent: false });
        self.body_is_armed(body);
        true
    }

    /// A body is gone, or could not be made: tells so, where the planner has it. The policy may have dropped it meanwhile.
    pub(crate) fn body_is_gone(&mut self, body: BodyId) {
        self.bodies.remove(&body);
        if self.planner.inventory().body(body).is_some() {
            self.tell(&Event::Lost(KeptId::Body(body)));
        }
    }

    /// An image is gone with its bodies, and no decision did it.
    pub(crate) fn image_is_gone(&mut self, image: ImageId) {
        self.untold.retain(|(_, run)| run.of.image != image);
        for body in self.bodies_of(image) {
            let entry = self.bodies.remove(&body);
            self.body_is_gone(body);
            if let Some(entry) = entry {
                self.tell_end_of(entry, None);
            }
        }
    }

    /// Somebody takes a body out of the table for a piece of work.
    pub(crate) fn body_is_lent(&mut self, body: BodyId) {
        if let Some(entry) = self.bodies.get_mut(&body) {
            entry.is_lent = true;
        }
    }

    /// A lent body stands in the table again, or did not outlive the work on it.
    pub(crate) fn body_came_back(&mut self, body: BodyId, eyes: &dyn Eyes) {
        if let Some(entry) = self.bodies.get_mut(&body) {
            entry.is_lent = false;
        }
        self.look(body, eyes);
    }

    /// A shell was made, or is put back after a run. False when the planner does not want it any more.
    pub(crate) fn shell_made(&mut self, shell: ShellId) -> bool {
        let Some(ready) = self.shell_ready(shell) else { return false };
        if !ready {
            self.tell(&Event::Ready(KeptId::Shell(shell)));
        }
        true
    }

    /// A shell is used, is gone, or could not be made: tells so, where the planner has it.
    pub(crate) fn shell_is_gone(&mut self, shell: ShellId) {
        if self.shell_ready(shell).is_some() {
            self.tell(&Event::Lost(KeptId::Shell(shell)));
        }
    }

    /// Whether a shell can be used; `None` when the planner has none of this id.
    pub(crate) fn shell_ready(&self, shell: ShellId) -> Option<bool> {
        let mut shells = self.planner.inventory().shells();
        shells.find(|(id, _)| *id == shell).map(|(_, shell)| shell.ready)
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self) {
        self.tell(&Event::Tick);
    }

    /// Memory is short.
    pub(crate) fn memory_is_short(&mut self) {
        self.tell(&Event::Pressure);
    }

    /// The budget is another.
    pub(crate) fn set_budget(&mut self, bytes: u64) {
        self.tell(&Event::Budget { bytes });
    }

    fn status(&self, body: BodyId) -> Option<BodyStatus> {
        self.planner.inventory().body(body).map(|body| body.status)
    }

    fn tell_created(
        &mut self,
        process: ProcessId,
        program: ProgramId,
        site: Option<u64>,
        waited: Duration,
        from: Source,
    ) {
        self.tell(&Event::Created { process, program, parent: None, site, waited, from });
    }

    /// Tells the planner what has happened, and notes what it wants done.
    fn tell(&mut self, event: &Event) {
        if self.is_void {
            return;
        }
        let at = self.at.max(self.planner.inventory().at());
        match self.planner.handle(at, event) {
            Ok(done) => {
                tracing::trace!(?event, ?done, "the planner");
                done.iter().for_each(|done| self.decide(done));
            }
            Err(illegal) => {
                // A fault of this module or of a policy. What is kept is in doubt, and goes.
                tracing::error!(%illegal, ?event, "the ledger of what is kept is not right: it is begun anew");
                self.is_void = true;
                self.decisions = vec![Decision::BeginAnew];
            }
        }
    }

    fn decide(&mut self, done: &Done) {
        let shell = done.made.iter().find_map(|made| match made {
            KeptId::Shell(id) => Some(*id),
            _ => None,
        });
        let body = done.made.iter().find_map(|made| match made {
            KeptId::Body(id) => Some(*id),
            _ => None,
        });
        let decision = match done.action {
            Action::Drop(KeptId::Body(body)) => Some(Decision::DropBody { body }),
            Action::Drop(KeptId::Shell(shell)) => Some(Decision::DropShell { shell }),
            Action::BreakUp(body) => shell.map(|shell| Decision::BreakUp { body, shell }),
            Action::AddShell => shell.map(|shell| Decision::AddShell { shell }),
            Action::AddBody(program) => body.map(|body| Decision::AddBody { program, body }),
            Action::Prefault { place: RegionPlace::Body(body), .. } => Some(Decision::Prefault { body }),
            Action::Trim(body) => Some(Decision::Trim { body }),
            // The inventory keeps regions in bodies only.
            Action::Keep(_)
            | Action::Drop(KeptId::Region(_))
            | Action::Prefault { place: RegionPlace::Pool, .. } => None,
        };
        if let Some(Decision::DropBody { body } | Decision::BreakUp { body, .. }) = decision {
            self.bodies.remove(&body);
        }
        self.decisions.extend(decision);
    }
}

#[cfg(test)]
mod tests;
