//! `pool`: the resource pool of Taniguchi, Yamauchi and Tamura (2020), 3.2.2.
//!
//! | resource | given back | added |
//! |---|---|---|
//! | fits always: shells | never | below H1 |
//! | fits its size: regions | every T1 those over 64 KiB | below H2, up to 64 KiB |
//! | fits its program: bodies | one more than are expected to be needed at once, an unused one every T2 | when its program is expected |
//!
//! The rule for compound resources: when the policy gives a body back, it judges each part by the rule of its own kind. So it
//! breaks the body up: the shell stays, and regions over the bound stay until the next T1.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::contract::Policy;
use super::frequency::Frequency;
use super::recycle_one::RecycleOne;
use super::turn::Turn;
use super::why::Why;
use crate::event::{Action, Event, KeptId, RegionPlace, Source};
use crate::ids::{BodyId, ProgramId};
use crate::inventory::{BodyRecord, BodyStatus, Illegal, Inventory};
use crate::learn::Follows;

/// The thresholds, which the paper sets for each service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSettings {
    /// How often the policy gives back regions over the bound; zero: never. It depends on how often large programs start.
    pub t1: Duration,
    /// How often it gives back bodies that were unused since; zero: never. It depends on how often one program starts.
    pub t2: Duration,
    /// The least number of shells: as many as processes run at a time.
    pub h1: usize,
    /// The least number of regions up to the bound.
    pub h2: usize,
    /// Up to this size a region is likely to be used again.
    pub bound_bytes: u64,
    /// Who runs often enough for a body of its own.
    pub frequency: Frequency,
    /// Programs that are going to start: the policy adds a body of each as soon as it knows the program.
    pub named: Vec<ProgramId>,
    /// A program is expected again when it was so many of the last creations.
    pub again: u32,
    /// A program is expected after another when it came next in at least so many of a hundred cases; over 100: never.
    pub follows_percent: u8,
}

impl Default for PoolSettings {
    /// The paper's bound, a body for every program, as much ready as a few processes at a time need, and intervals for
    /// programs that come every second or so. The paper's own intervals are 2 and 50 ms (4.3, 4.4).
    fn default() -> Self {
        Self {
            t1: Duration::from_secs(1),
            t2: Duration::from_secs(1),
            h1: 4,
            h2: 16,
            bound_bytes: 64 * 1024,
            frequency: Frequency::ANY,
            named: Vec::new(),
            again: 3,
            follows_percent: 50,
        }
    }
}

/// The papers' pool.
#[derive(Debug, Clone)]
pub struct PaperPool {
    settings: PoolSettings,
    recycle_one: RecycleOne,
    follows: Follows,
    named: BTreeSet<ProgramId>,
    expected: BTreeMap<BodyId, Why>,
    /// How many waiting bodies of a program are worth keeping, if more than one, because creations found none ready.
    wanted: BTreeMap<ProgramId, usize>,
    asked: BTreeMap<u64, u64>,
    last_t1: Duration,
    last_t2: Duration,
}

impl PaperPool {
    /// A pool that has seen nothing yet.
    #[must_use]
    pub fn new(settings: PoolSettings) -> PaperPool {
        PaperPool {
            recycle_one: RecycleOne::new(settings.frequency),
            follows: Follows::default(),
            named: settings.named.iter().copied().collect(),
            expected: BTreeMap::new(),
            wanted: BTreeMap::new(),
            asked: BTreeMap::new(),
            last_t1: Duration::ZERO,
            last_t2: Duration::ZERO,
            settings,
        }
    }

    fn created(&mut self, event: &Event, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let Event::Created { program, site, from, .. } = event else { return Ok(()) };
        // As long as a creation finds a ready body, there are enough: one in use is ready again for the next.
        let missed = !matches!(from, Source::Body(_));
        let regions = turn.inventory().facts(*program).map(|facts| facts.regions.clone()).unwrap_or_default();
        for bytes in regions.into_iter().filter(|&bytes| bytes <= self.settings.bound_bytes) {
            *self.asked.entry(bytes).or_default() += 1;
        }
        self.recycle_one.created(*program, turn)?;
        let at = turn.inventory().at();
        self.follows.created(at, *program, *site);
        if missed && self.recycle_one.runs(*program) >= self.settings.again.max(1) {
            if matches!(from, Source::Made { image: true, .. }) {
                let at_once = turn.inventory().alive(*program).max(1);
                let wanted = self.wanted.entry(*program).or_insert(1);
                *wanted = (*wanted + 1).min(at_once);
            }
            self.expect(*program, self.recycle_one.why(*program), turn)?;
        }
        let expected = self.follows.next(self.settings.follows_percent);
        for next in expected.into_iter().filter(|next| missed || next.program != *program) {
            self.expect(next.program, Why::Follows { cue: next.cue, percent: next.percent }, turn)?;
        }
        Ok(())
    }

    /// Adds a body of a program that is expected, if none is kept.
    fn expect(&mut self, program: ProgramId, why: Why, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        if turn.inventory().kept_of(program) == 0
            && let Some(id) = turn.try_add_body(program)?
        {
            self.expected.insert(id, why);
        }
        Ok(())
    }

    /// T1: regions over the bound.
    fn reduce_regions(&self, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let large = turn.inventory().regions().filter(|(_, region)| region.bytes > self.settings.bound_bytes);
        let large: Vec<KeptId> = large.map(|(id, _)| KeptId::Region(id)).collect();
        large.into_iter().try_for_each(|kept| turn.act(Action::Drop(kept)).map(drop))
    }

    /// T2: bodies that were unused since the last time. A body of a named program waits for its first process.
    fn reduce_bodies(&mut self, since: Duration, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let waits = |id: &BodyId, body: &BodyRecord| {
            body.runs == 0 && matches!(self.expected.get(id), Some(Why::Named))
        };
        let unused = turn
            .inventory()
            .bodies()
            .filter(|(id, body)| body.status == BodyStatus::Idle && body.used <= since && !waits(id, body));
        let unused: Vec<(BodyId, ProgramId)> = unused.map(|(id, body)| (id, body.program)).collect();
        for (id, program) in unused {
            if let Some(wanted) = self.wanted.get_mut(&program) {
                *wanted = (*wanted).saturating_sub(1);
            }
            turn.break_up_or_drop(id)?;
        }
        Ok(())
    }

    /// Keeps as many bodies of a program as it needed at once beyond those in use, and breaks the others up.
    fn left(&self, id: BodyId, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let program = turn.inventory().body(id).map(|body| body.program);
        let wanted = program.and_then(|program| self.wanted.get(&program)).copied().unwrap_or(1);
        if program.is_some_and(|program| (1..wanted).contains(&turn.inventory().kept_of(program))) {
            turn.keep_or_drop(id)
        } else {
            self.recycle_one.left(id, turn)
        }
    }

    fn reduce(&mut self, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let at = turn.inventory().at();
        if is_due(self.settings.t2, self.last_t2, at) {
            self.reduce_bodies(self.last_t2, turn)?;
            self.last_t2 = at;
        }
        if is_due(self.settings.t1, self.last_t1, at) {
            self.reduce_regions(turn)?;
            self.last_t1 = at;
        }
        Ok(())
    }

    /// H1 and H2.
    fn fill_up(&mut self, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let shell_bytes = turn.inventory().shell_bytes();
        let h1 = if turn.inventory().keeps_shells() { self.settings.h1 } else { 0 };
        while turn.inventory().shells().len() < h1 && turn.inventory().room() >= shell_bytes {
            turn.act(Action::AddShell)?;
        }
        if !turn.inventory().keeps_regions() {
            return Ok(());
        }
        let bound = self.settings.bound_bytes;
        let mut held: BTreeMap<u64, u64> = BTreeMap::new();
        for (_, region) in turn.inventory().regions().filter(|(_, region)| region.bytes <= bound) {
            *held.entry(region.bytes).or_default() += 1;
        }
        let count = usize::try_from(held.values().sum::<u64>()).unwrap_or(usize::MAX);
        for _ in count..self.settings.h2 {
            // The size with the most requests for each held region.
            let held_of = |bytes: &u64| held.get(bytes).copied().unwrap_or(0) + 1;
            let room = turn.inventory().room();
            let sizes = self.asked.iter().filter(|(bytes, _)| **bytes <= room);
            let most = sizes.max_by_key(|(bytes, asked)| (*asked * 1024 / held_of(bytes), **bytes));
            let Some((&bytes, _)) = most else { break };
            turn.act(Action::Prefault { place: RegionPlace::Pool, bytes })?;
            *held.entry(bytes).or_default() += 1;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        match event {
            Event::Created { .. } => self.created(event, turn)?,
            Event::Known { program, .. } if self.named.remove(program) => {
                self.expect(*program, Why::Named, turn)?;
            }
            Event::Ready(KeptId::Body(id)) if self.expected.contains_key(id) => turn.prefault_missing(*id)?,
            _ => {}
        }
        let Some(id) = turn.left() else { return Ok(()) };
        // A present body is better than one that is being made.
        let program = turn.inventory().body(id).map(|body| body.program);
        let adding = program.and_then(|program| {
            let mut bodies = turn.inventory().bodies_of(program);
            bodies.find(|(_, body)| body.status == BodyStatus::Adding).map(|(id, _)| id)
        });
        if let Some(adding) = adding {
            turn.act(Action::Drop(KeptId::Body(adding)))?;
        }
        self.left(id, turn)
    }
}

/// Whether an interval has passed; zero is no interval.
fn is_due(interval: Duration, last: Duration, at: Duration) -> bool {
    !interval.is_zero() && at >= last + interval
}

impl Policy for PaperPool {
    fn name(&self) -> &'static str {
        "pool"
    }

    fn turn(&mut self, event: &Event, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        if *event == Event::Pressure {
            return turn.give_everything_back();
        }
        self.event(event, turn)?;
        self.reduce(turn)?;
        turn.come_within_budget()?;
        // The policy must not add again at once what it gave back for a smaller budget.
        if !matches!(event, Event::Budget { .. }) {
            self.fill_up(turn)?;
        }
        self.expected.retain(|id, _| turn.inventory().body(*id).is_some_and(|body| body.runs == 0));
        Ok(())
    }

    fn next_tick(&self, inventory: &Inventory) -> Option<Duration> {
        let due = |interval: Duration, last: Duration| (!interval.is_zero()).then_some(last + interval);
        let bodies = inventory.bodies().any(|(_, body)| body.is_kept());
        let regions = inventory.regions().any(|(_, region)| region.bytes > self.settings.bound_bytes);
        let t2 = due(self.settings.t2, self.last_t2).filter(|_| bodies);
        let t1 = due(self.settings.t1, self.last_t1).filter(|_| regions);
        t1.into_iter().chain(t2).min()
    }

    fn why(&self, inventory: &Inventory, kept: KeptId) -> Why {
        match kept {
            KeptId::Body(id) => {
                self.expected.get(&id).copied().unwrap_or_else(|| self.recycle_one.why_body(inventory, id))
            }
            KeptId::Shell(_) if inventory.shells().len() <= self.settings.h1 => {
                Why::Minimum { least: self.settings.h1 }
            }
            KeptId::Region(id) => {
                let is_small = |bytes| bytes <= self.settings.bound_bytes;
                let small = inventory.regions().filter(|(_, region)| is_small(region.bytes)).count();
                let this = inventory.regions().find(|(region, _)| *region == id);
                match this {
                    Some((_, region)) if is_small(region.bytes) && small <= self.settings.h2 => {
                        Why::Minimum { least: self.settings.h2 }
                    }
                    _ => Why::Part,
                }
            }
            KeptId::Shell(_) => Why::Part,
        }
    }
}
