//! One simulation.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::costs::{Background, Sharing, Sizes, micros};
use super::report::{SimError, SimPoint, SimReport};
use super::setup::{Existing, Setup};
use crate::event::{Action, Done, Event, Facts, KeptId, RegionPlace, Source};
use crate::ids::{BodyId, ProcessId, ProgramId, ResourceId};
use crate::inventory::{BodyStatus, Inventory};
use crate::planner::Planner;
use crate::policy::{PolicyChoice, missing_regions};
use crate::trace::Creation;

/// Ticks come at least so far apart.
const TICK: Duration = Duration::from_micros(1);

#[derive(Debug)]
struct SimProgram {
    name: String,
    sizes: Sizes,
    facts: Facts,
    told: bool,
}

pub(super) struct Simulation<'a, S> {
    setup: &'a Setup<'a>,
    planner: Planner,
    see: S,
    programs: Vec<SimProgram>,
    by_name: BTreeMap<&'a str, ProgramId>,
    now: Duration,
    began: Duration,
    number: usize,
    /// What becomes ready, in the order of time.
    coming: BTreeMap<(Duration, u64), KeptId>,
    next_coming: u64,
    worker_free: Duration,
    /// Images in the making, with the time at which they are ready.
    making: BTreeMap<ProgramId, Duration>,
    /// Processes whose end the policy does not know yet, oldest first, with the time of the end.
    ended: VecDeque<(ProcessId, Duration)>,
    /// When the process ended that the simulation is reporting.
    ended_at: Duration,
    /// Processes that are alive, oldest first, with the time at which they end. Those without a number are not the planner's.
    alive: VecDeque<(Option<ProcessId>, Duration)>,
    point: SimPoint,
    points: Vec<SimPoint>,
    /// Bytes times microseconds.
    kept_integral: f64,
    most_kept_bytes: u64,
    actions: usize,
}

impl<'a, S: FnMut(Duration, &Event, &Planner, &[Done])> Simulation<'a, S> {
    pub(super) fn new(setup: &'a Setup<'a>, policy: PolicyChoice, see: S) -> Self {
        let costs = setup.costs;
        let sizes = costs.sizes(setup.trace);
        let mut programs = Vec::new();
        let mut by_name = BTreeMap::new();
        for creation in setup.trace {
            let name = creation.program.as_str();
            by_name.entry(name).or_insert_with(|| {
                let id = ProgramId::new(programs.len() as u64);
                let sizes = sizes.get(name).copied().unwrap_or_default();
                let facts = costs.facts(name, &sizes);
                programs.push(SimProgram { name: name.to_owned(), sizes, facts, told: false });
                id
            });
        }
        let inventory = Inventory::new(setup.budget_bytes, costs.shell_kib * 1024);
        let inventory = if costs.keeps_regions { inventory } else { inventory.without_regions() };
        Simulation {
            setup,
            planner: Planner::new(inventory, policy.build()),
            see,
            programs,
            by_name,
            now: Duration::ZERO,
            began: Duration::ZERO,
            number: 0,
            coming: BTreeMap::new(),
            next_coming: 0,
            worker_free: Duration::ZERO,
            making: BTreeMap::new(),
            ended: VecDeque::new(),
            ended_at: Duration::MAX,
            alive: VecDeque::new(),
            point: SimPoint::default(),
            points: Vec::new(),
            kept_integral: 0.0,
            most_kept_bytes: 0,
            actions: 0,
        }
    }

    pub(super) fn run(mut self) -> Result<SimReport, SimError> {
        if self.setup.announced {
            self.announce()?;
        }
        for (index, creation) in self.setup.trace.iter().enumerate() {
            self.number = index + 1;
            if self.setup.existing == Existing::Recorded {
                self.end_until(Duration::from_micros(creation.start_us))?;
            }
            let is_full =
                matches!(self.setup.existing, Existing::Exactly(most) if self.alive.len() >= most.max(1));
            if is_full {
                self.end_oldest()?;
            }
            self.create(index)?;
            if self.number.is_multiple_of(self.setup.every.max(1)) {
                self.report();
            }
            if let Some((_, pause)) =
                self.setup.pauses.filter(|(every, _)| self.number.is_multiple_of(*every))
            {
                self.advance(self.now + pause)?;
            }
        }
        if self.points.last().map_or(0, |last| last.creations) != self.number {
            self.report();
        }
        Ok(SimReport {
            policy: self.planner.policy().to_owned(),
            points: self.points,
            most_kept_bytes: self.most_kept_bytes,
            actions: self.actions,
        })
    }

    /// Reports all programs, and lets what the policy adds become ready. No time counts before the first creation.
    fn announce(&mut self) -> Result<(), SimError> {
        for index in 0..self.programs.len() {
            self.tell(index)?;
        }
        while let Some((&(at, _), _)) = self.coming.first_key_value() {
            self.advance(at)?;
        }
        self.began = self.now;
        self.point.time_us = 0.0;
        self.kept_integral = 0.0;
        Ok(())
    }

    fn tell(&mut self, index: usize) -> Result<(), SimError> {
        let known = &mut self.programs[index];
        if std::mem::replace(&mut known.told, true) {
            return Ok(());
        }
        let facts = known.facts.clone();
        let program = ProgramId::new(index as u64);
        self.handle(&Event::Known { program, facts })
    }

    /// Ends the processes whose recorded end has come, and lets the time pass.
    fn end_until(&mut self, until: Duration) -> Result<(), SimError> {
        while let Some((index, &(_, end))) = self.alive.iter().enumerate().min_by_key(|(_, (_, end))| *end)
            && end <= until
        {
            let Some((process, _)) = self.alive.remove(index) else { break };
            self.advance(end)?;
            process.map_or(Ok(()), |process| self.end(process))?;
        }
        self.advance(until)
    }

    fn end_oldest(&mut self) -> Result<(), SimError> {
        match self.alive.pop_front() {
            Some((Some(process), _)) if self.setup.costs.told_late_us > 0.0 => {
                self.ended.push_back((process, self.now));
                Ok(())
            }
            Some((Some(process), _)) => self.end(process),
            _ => Ok(()),
        }
    }

    /// Reports processes that have ended, as the engine does: all of them when the oldest end is a while ago, or those of one
    /// program when the policy knows no ready body of it.
    fn tell_ends(&mut self, of: Option<ProgramId>) -> Result<(), SimError> {
        let wait = micros(self.setup.costs.told_late_us);
        let is_due = self.ended.front().is_some_and(|(_, ended)| *ended + wait <= self.now);
        if of.is_none() && !is_due {
            return Ok(());
        }
        for (process, ended) in std::mem::take(&mut self.ended) {
            let program = self.planner.inventory().process(process).map(|process| process.program);
            let others =
                of.is_some_and(|of| program != Some(of) || self.planner.inventory().ready_body(of).is_some());
            if others {
                self.ended.push_back((process, ended));
                continue;
            }
            self.ended_at = ended;
            self.end(process)?;
            self.advance(self.now)?;
        }
        self.ended_at = Duration::MAX;
        Ok(())
    }

    fn end(&mut self, process: ProcessId) -> Result<(), SimError> {
        let program = self.planner.inventory().process(process).map(|process| process.program);
        let known = program.and_then(|program| self.programs.get(index_of(program)));
        let offer = known.map(|known| known.facts.clone());
        self.handle(&Event::Exited { process, offer })
    }

    fn create(&mut self, index: usize) -> Result<(), SimError> {
        let creation = &self.setup.trace[index];
        let Some(&program) = self.by_name.get(creation.program.as_str()) else { return Ok(()) };
        self.tell(index_of(program))?;
        if self.setup.costs.sharing == Sharing::Fork && !self.is_image_there(program) {
            return self.create_by_exec(program, creation);
        }
        self.tell_ends(None)?;
        if self.planner.inventory().ready_body(program).is_none() {
            self.tell_ends(Some(program))?;
        }
        let waited = self.wait_for_reset(program)?;
        let from = self.source(program);
        let us = self.cost(program, &from);
        match &from {
            Source::Body(_) => self.point.in_body += 1,
            Source::Made { image: true, .. } => self.point.with_image += 1,
            Source::Made { shell: Some(_), .. } => self.point.in_shell += 1,
            Source::Made { .. } => self.point.from_nothing += 1,
        }
        let process = ProcessId::new(index as u64 + 1);
        let parent = (creation.parent > 0).then_some(ProcessId::new(u64::from(creation.parent)));
        let (site, waited_us) = (creation.site, waited);
        let waited = micros(waited);
        self.handle(&Event::Created { process, program, parent, site, waited, from })?;
        self.point.time_us += waited_us;
        self.starts(Some(process), us, creation)
    }

    /// A process is being made, which takes so long.
    fn starts(&mut self, process: Option<ProcessId>, us: f64, creation: &Creation) -> Result<(), SimError> {
        self.point.creations += 1;
        self.point.time_us += us;
        let began = self.now;
        self.advance(began + micros(us + self.setup.costs.own_us(&creation.program)))?;
        let lives = Duration::from_micros(creation.end_us.saturating_sub(creation.start_us));
        self.alive.push_back((process, began + lives));
        Ok(())
    }

    fn is_image_there(&self, program: ProgramId) -> bool {
        let is_made = self.making.get(&program).is_none_or(|&at| at <= self.now);
        is_made && self.planner.inventory().has_image(program)
    }

    /// A process of a program without an image runs by exec, as in the engine. If nobody is making the image, this
    /// process stands for the body that comes with the image, and leaves it at once if the policy keeps it.
    fn create_by_exec(&mut self, program: ProgramId, creation: &Creation) -> Result<(), SimError> {
        let (inventory, costs) = (self.planner.inventory(), self.setup.costs);
        let Some(known) = self.programs.get(index_of(program)) else { return Ok(()) };
        let mut us = costs.whole_us(&known.name, &known.sizes);
        let make_us = costs.make_image_us(&known.name);
        let offer = Some(known.facts.clone());
        let begins = !inventory.has_image(program);
        match inventory.ready_shell() {
            Some(shell) => {
                us -= costs.shell_saves_us;
                self.point.in_shell += 1;
                self.handle(&Event::Lost(KeptId::Shell(shell)))?;
            }
            None => self.point.from_nothing += 1,
        }
        if begins {
            self.making.insert(program, self.now + micros(make_us));
            let process = ProcessId::new(self.number as u64);
            let (parent, site, waited, from) = (None, None, Duration::ZERO, Source::nothing());
            self.handle(&Event::Created { process, program, parent, site, waited, from })?;
            self.handle(&Event::Exited { process, offer })?;
        }
        self.starts(None, us, creation)
    }

    /// Waits for a body that is being put back, when none is ready and the engine would wait. Returns the time.
    fn wait_for_reset(&mut self, program: ProgramId) -> Result<f64, SimError> {
        let inventory = self.planner.inventory();
        if inventory.ready_body(program).is_some() {
            return Ok(0.0);
        }
        let resets = |kept: &KeptId| match kept {
            KeptId::Body(id) => inventory
                .body(*id)
                .is_some_and(|body| body.program == program && body.status == BodyStatus::Resetting),
            _ => false,
        };
        let first = self.coming.iter().find(|(_, kept)| resets(kept)).map(|(&(at, _), _)| at);
        match first {
            Some(at) if at <= self.now + micros(self.setup.costs.patience_us) => {
                let waited = at.saturating_sub(self.now).as_secs_f64() * 1e6;
                self.advance(at)?;
                Ok(waited)
            }
            _ => Ok(0.0),
        }
    }

    /// What a process of a program is made from.
    fn source(&self, program: ProgramId) -> Source {
        let (inventory, costs) = (self.planner.inventory(), self.setup.costs);
        if let Some(body) = inventory.ready_body(program) {
            return Source::Body(body);
        }
        let image = match costs.sharing {
            Sharing::Fork => inventory.has_image(program),
            Sharing::Text => inventory.alive(program) > 0 || inventory.has_image(program),
        };
        if image && costs.sharing == Sharing::Fork {
            return Source::Made { image, shell: None, regions: Vec::new(), body: None };
        }
        let sizes = inventory.facts(program).map(|facts| facts.regions.clone()).unwrap_or_default();
        Source::Made {
            image,
            shell: inventory.ready_shell(),
            regions: inventory.ready_regions(&sizes),
            body: None,
        }
    }

    /// The time of a creation, in microseconds.
    fn cost(&self, program: ProgramId, from: &Source) -> f64 {
        let Some(known) = self.programs.get(index_of(program)) else { return 0.0 };
        let (costs, inventory) = (self.setup.costs, self.planner.inventory());
        let ready = costs.ready_us(&known.name, &known.sizes);
        match from {
            Source::Body(id) => {
                let missing: u64 = missing_regions(inventory, *id).iter().sum();
                ready + costs.fault_us_per_kib * in_kib(missing)
            }
            Source::Made { image, shell, regions, .. } => {
                let whole = costs.whole_us(&known.name, &known.sizes);
                let made = if *image { costs.image_us(&known.name, &known.sizes) } else { whole };
                let shell = if shell.is_some() { costs.shell_saves_us } else { 0.0 };
                let sizes = inventory.regions().filter(|(id, _)| regions.contains(id));
                let regions = sizes.map(|(_, region)| {
                    costs.region_saves_us + costs.region_saves_us_per_kib * in_kib(region.bytes)
                });
                (made - shell - regions.sum::<f64>()).max(ready)
            }
        }
    }

    /// Lets the time pass: resources become ready, and the policy gets its ticks.
    fn advance(&mut self, until: Duration) -> Result<(), SimError> {
        loop {
            let coming = self.coming.first_key_value().map(|(&(at, _), _)| at);
            let tick = self.planner.next_tick().map(|tick| tick.max(self.now + TICK));
            let Some(next) = coming.into_iter().chain(tick).min().filter(|&next| next <= until) else {
                break;
            };
            self.pass(next);
            if coming == Some(next) {
                let Some((_, kept)) = self.coming.pop_first() else { break };
                if self.is_awaited(kept) {
                    self.handle(&Event::Ready(kept))?;
                }
            } else {
                self.handle(&Event::Tick)?;
            }
        }
        self.pass(until);
        Ok(())
    }

    fn pass(&mut self, until: Duration) {
        let until = until.max(self.now);
        let passed_us = (until - self.now).as_secs_f64() * 1e6;
        self.kept_integral += passed_us * in_kib(self.planner.inventory().kept_bytes());
        self.now = until;
    }

    fn is_awaited(&self, kept: KeptId) -> bool {
        let inventory = self.planner.inventory();
        match kept {
            KeptId::Body(id) => inventory
                .body(id)
                .is_some_and(|body| matches!(body.status, BodyStatus::Adding | BodyStatus::Resetting)),
            KeptId::Shell(id) => inventory.shells().any(|(shell, found)| shell == id && !found.ready),
            KeptId::Region(id) => inventory.regions().any(|(region, found)| region == id && !found.ready),
        }
    }

    fn handle(&mut self, event: &Event) -> Result<(), SimError> {
        let fault = |illegal| SimError { number: self.number, at: self.now, illegal };
        let done = self.planner.handle(self.now, event).map_err(fault)?;
        (self.see)(self.now, event, &self.planner, &done);
        self.most_kept_bytes = self.most_kept_bytes.max(self.planner.inventory().kept_bytes());
        self.actions += done.len();
        done.iter().for_each(|done| self.work(done));
        Ok(())
    }

    /// The background work of an action.
    fn work(&mut self, done: &Done) {
        let costs = self.setup.costs;
        let us = match done.action {
            Action::Keep(id) => return self.reset(id),
            Action::BreakUp(_) => costs.break_up_us,
            Action::Drop(_) | Action::Trim(_) => costs.drop_us,
            Action::AddShell => costs.add_shell_us,
            Action::AddBody(program) => {
                let others = self.planner.inventory().bodies_of(program).count() > 1;
                let name = self.programs.get(index_of(program)).map_or("", |known| known.name.as_str());
                costs.add_body_us + if others { 0.0 } else { costs.make_image_us(name) }
            }
            Action::Prefault { place: RegionPlace::Pool | RegionPlace::Body(_), bytes } => {
                costs.fault_us_per_kib * in_kib(bytes)
            }
        };
        let at = self.spend(us);
        if matches!(done.action, Action::AddShell | Action::AddBody(_) | Action::Prefault { .. }) {
            done.made.iter().for_each(|&kept| self.comes(at, kept));
        }
    }

    /// A body is put back by its own keeper, beside other work.
    fn reset(&mut self, id: BodyId) {
        let program = self.planner.inventory().body(id).map(|body| body.program);
        if let Some(&made) =
            program.and_then(|program| self.making.get(&program)).filter(|&&at| at > self.now)
        {
            return self.comes(made, KeptId::Body(id));
        }
        let sizes =
            self.planner.inventory().body(id).and_then(|body| self.programs.get(index_of(body.program)));
        let us = sizes.map_or(0.0, |known| self.setup.costs.reset.of(&known.sizes));
        let at = match self.setup.costs.background {
            // It began when the process ended, not when the policy learned of the end.
            Background::Beside => self.now.max(self.now.min(self.ended_at) + micros(us)),
            Background::Shared => self.spend(us),
        };
        self.comes(at, KeptId::Body(id));
    }

    /// When work ends that begins at this moment.
    fn spend(&mut self, us: f64) -> Duration {
        if self.setup.costs.background == Background::Shared {
            self.point.time_us += us;
            self.now += micros(us);
            return self.now;
        }
        self.worker_free = self.worker_free.max(self.now) + micros(us);
        self.worker_free
    }

    fn comes(&mut self, at: Duration, kept: KeptId) {
        self.next_coming += 1;
        self.coming.insert((at, self.next_coming), kept);
    }

    fn report(&mut self) {
        let us = (self.now - self.began).as_secs_f64() * 1e6;
        let mean_kib = if us > 0.0 { self.kept_integral / us } else { 0.0 };
        self.point.kept_bytes = self.planner.inventory().kept_bytes();
        self.point.mean_kept_bytes = whole(mean_kib * 1024.0);
        self.points.push(self.point);
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
fn in_kib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of sizes")]
fn whole(value: f64) -> u64 {
    value as u64
}

/// The place of a program in the simulation's list.
fn index_of(program: ProgramId) -> usize {
    usize::try_from(program.number()).unwrap_or(usize::MAX)
}
