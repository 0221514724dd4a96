//! Four zones, a master and programs in virtual time: the service's own decisions, without memory and without threads.
//!
//! ```text
//!   start   the master routes the program: its tables' requests lie in its zone's buffer, so they count as estimated load
//!   table   the zone gives it ── no room ──> the zone tells the master, which routes the program anew, until each zone was asked
//!                                              └─ no zone has room: the request waits until a program ends
//!   end     the tables go home; the program starts again with other sizes, and is routed as a new one
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use regrow_memory::ZoneError;
use regrow_memory::master::{Load, Master, Routing};
use regrow_memory::request::Want;
use regrow_memory::units::{CHUNK_ORDER, Chunk, Page, pages_of};
use regrow_memory::zone::Zone;

use super::super::random::Random;
use super::programs::Run;

/// Zones, and chunks of each: 4 times 1 GiB, as in the paper.
pub(super) const ZONES: usize = 4;
pub(super) const CHUNKS: Chunk = 512;
/// From this load on (`HighMem`) a zone is overloaded: it cannot give a twentieth of its memory.
pub(super) const HIGH: f64 = 0.95;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Setting {
    /// How the master routes.
    pub(super) routing: Routing,
    /// Whether a zone without room gets chunks of another one first.
    pub(super) moves: bool,
    /// The highest order of a block: a larger table is a row of such blocks.
    pub(super) most_order: u8,
    /// Programs at a time. Each starts again when it ends.
    pub(super) programs: u32,
    /// How long it goes on, in virtual milliseconds.
    pub(super) until_ms: u64,
}

/// What came of it. Shares are of the virtual time, in the mean of the zones.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Outcome {
    /// The share of time in which a zone is out of memory: from a request that it refuses until it could answer it.
    pub(super) out: f64,
    /// The share of time in which a zone's load is [`HIGH`] at least.
    pub(super) overloaded: f64,
    /// The share of time in which a program that was sent to a zone waits for memory there.
    pub(super) waiting: f64,
    /// The share of memory that is in use.
    pub(super) used: f64,
    /// Requests for blocks, and those among them that no zone could answer at once.
    pub(super) requests: u32,
    pub(super) unanswered: u32,
}

/// A program.
#[derive(Debug)]
struct Program {
    run: Run,
    zone: usize,
    /// The blocks that it has.
    has: Vec<Page>,
    random: Random,
}

/// See the module.
pub(super) struct World {
    zones: Vec<Zone>,
    /// Of each zone: the smallest order that it has refused, and could not give since.
    lacks: [Option<u8>; ZONES],
    /// The zone of each chunk.
    owners: Vec<usize>,
    master: Master,
    moves: bool,
    most_order: u8,
    programs: Vec<Program>,
    /// Programs that wait for memory, the first one first.
    waiting: VecDeque<usize>,
    /// Ends of runs.
    ends: BinaryHeap<Reverse<(u64, usize)>>,
    now_ms: u64,
    outcome: Outcome,
}

/// Runs a setting from a seed.
///
/// # Errors
/// [`ZoneError`] where a zone does not take what it has given.
pub(super) fn run(setting: &Setting, seed: u64) -> Result<Outcome, ZoneError> {
    let mut world = World::new(setting, seed)?;
    for program in 0..world.programs.len() {
        world.start(program);
    }
    while let Some(Reverse((at_ms, program))) = world.ends.pop() {
        world.pass_to(at_ms.min(setting.until_ms));
        if at_ms >= setting.until_ms {
            break;
        }
        world.end(program)?;
    }
    // Where all programs wait for one another, nothing ends.
    world.pass_to(setting.until_ms);
    let all = as_float(setting.until_ms) * as_float(ZONES as u64);
    let Outcome { out, overloaded, waiting, used, requests, unanswered } = world.outcome;
    let pages = as_float(u64::from(CHUNKS) << CHUNK_ORDER);
    Ok(Outcome {
        out: out / all,
        overloaded: overloaded / all,
        waiting: waiting / all,
        used: used / all / pages,
        requests,
        unanswered,
    })
}

/// Where the numbers of a program begin.
pub(super) fn seed_of(seed: u64, program: u32) -> u64 {
    seed ^ (u64::from(program) << 32)
}

impl World {
    fn new(setting: &Setting, seed: u64) -> Result<World, ZoneError> {
        let mut zones: Vec<Zone> = (0..ZONES).map(|_| Zone::default()).collect();
        let mut owners = Vec::new();
        for (number, zone) in zones.iter_mut().enumerate() {
            let first = CHUNKS * u32::try_from(number).unwrap_or(0);
            for chunk in first..first + CHUNKS {
                zone.add_chunk(chunk)?;
                owners.push(number);
            }
        }
        let program = |number: u32| {
            // The runs of a program are the same in every setting.
            let mut random = Random::new(seed_of(seed, number));
            Program { run: Run::next(&mut random, setting.most_order), zone: 0, has: Vec::new(), random }
        };
        Ok(World {
            zones,
            lacks: [None; ZONES],
            owners,
            master: Master::new(setting.routing),
            moves: setting.moves,
            most_order: setting.most_order,
            programs: (0..setting.programs).map(program).collect(),
            waiting: VecDeque::new(),
            ends: BinaryHeap::new(),
            now_ms: 0,
            outcome: Outcome::default(),
        })
    }

    /// Routes a program, which then asks for its tables.
    fn start(&mut self, program: usize) {
        let asked = self.programs.get(program).map_or(0, |program| program.run.pages_from(0));
        let loads = self.loads(asked);
        let zone = self.master.route(&loads).unwrap_or(0);
        if let Some(program) = self.programs.get_mut(program) {
            program.zone = zone;
        }
        self.ask(program);
    }

    /// Asks for the blocks that a program does not have as yet. False where it has to wait.
    fn ask(&mut self, number: usize) -> bool {
        while let Some(program) = self.programs.get(number)
            && let Some(&order) = program.run.blocks.get(program.has.len())
        {
            let (page, zone) = self.block(program.zone, order);
            if page.is_none() && !self.waiting.contains(&number) {
                self.outcome.unanswered += 1;
                self.waiting.push_back(number);
            }
            let Some(program) = self.programs.get_mut(number) else { return false };
            program.zone = zone;
            let Some(page) = page else { return false };
            program.has.push(page);
            self.outcome.requests += 1;
        }
        let holds_ms = self.programs.get(number).map_or(0, |program| program.run.holds_ms);
        self.ends.push(Reverse((self.now_ms + holds_ms, number)));
        true
    }

    /// A block: of a program's own zone, or of one that the master names when that one has no room. The zone that was asked last.
    fn block(&mut self, own: usize, order: u8) -> (Option<Page>, usize) {
        let pages = u64::from(pages_of(order));
        let mut zone = own;
        let mut refused = [false; ZONES];
        while let Some(asked) = refused.get_mut(zone).filter(|refused| !**refused) {
            *asked = true;
            if let Some(page) = self.give(zone, order) {
                return (Some(page), zone);
            }
            // Round robin knows no load: it names the next one, also if that one has refused. So each zone has its turn.
            for _ in 0..ZONES {
                let mut loads = self.loads(pages);
                for (load, _) in loads.iter_mut().zip(refused).filter(|(_, refused)| *refused) {
                    load.asked = load.own;
                }
                zone = self.master.route(&loads).unwrap_or(own);
                if refused.get(zone) == Some(&false) {
                    break;
                }
            }
        }
        (None, own)
    }

    fn give(&mut self, zone: usize, order: u8) -> Option<Page> {
        let want = Want { order, owner: 1, mapped: false, zeroed: false };
        let given = self.zones.get_mut(zone)?.alloc(want).ok();
        if given.is_none() && self.moves && self.grow(zone, order) {
            return Some(self.zones.get_mut(zone)?.alloc(want).ok()?.page);
        }
        if given.is_none() {
            let lacks = self.lacks.get_mut(zone)?;
            *lacks = Some(lacks.map_or(order, |lacks| lacks.min(order)));
        }
        Some(given?.page)
    }

    /// Moves free chunks into a zone, as the master plans it. Whether any came.
    fn grow(&mut self, zone: usize, order: u8) -> bool {
        let needed = u64::from(pages_of(order.saturating_sub(CHUNK_ORDER)));
        let Some(plan) = self.master.balance(&self.loads(0), zone, needed) else { return false };
        let mut moved = false;
        for _ in 0..plan.chunks {
            let taken = self.zones.get_mut(plan.from).and_then(Zone::take_chunk);
            let Some((chunk, _)) = taken else { break };
            let added = self.zones.get_mut(zone).is_some_and(|zone| zone.add_chunk(chunk).is_ok());
            if let Some(owner) = self.owners.get_mut(chunk as usize).filter(|_| added) {
                *owner = zone;
                moved = true;
            }
        }
        moved
    }

    /// Takes the blocks of a program back, starts it again, and asks for those who wait.
    fn end(&mut self, number: usize) -> Result<(), ZoneError> {
        let Some(program) = self.programs.get_mut(number) else { return Ok(()) };
        for page in std::mem::take(&mut program.has) {
            let owner = self.owners.get((page >> CHUNK_ORDER) as usize).copied().unwrap_or(0);
            if let Some(zone) = self.zones.get_mut(owner) {
                zone.free(page)?;
            }
        }
        program.run = Run::next(&mut program.random, self.most_order);
        self.recover();
        for _ in 0..self.waiting.len() {
            let Some(&first) = self.waiting.front() else { break };
            if self.ask(first) {
                self.waiting.pop_front();
            } else {
                self.waiting.rotate_left(1);
            }
        }
        self.start(number);
        Ok(())
    }

    /// Zones that could answer what they have refused are no longer out of memory.
    fn recover(&mut self) {
        let loads = self.loads(0);
        for (number, (zone, lacks)) in self.zones.iter_mut().zip(&mut self.lacks).enumerate() {
            zone.cool_down();
            let needed = |order: u8| u64::from(pages_of(order.saturating_sub(CHUNK_ORDER)));
            let could_grow =
                |order| self.moves && self.master.balance(&loads, number, needed(order)).is_some();
            *lacks = lacks.filter(|&order| zone.highest_free() < Some(order) && !could_grow(order));
        }
    }

    /// The loads of the zones, if each had to answer so many pages more than what waits there.
    fn loads(&self, more: u64) -> Vec<Load> {
        let mut loads: Vec<Load> = self.zones.iter().map(|zone| load(zone, more)).collect();
        for program in self.waiting.iter().filter_map(|&number| self.programs.get(number)) {
            let pages = program.run.pages_from(program.has.len());
            if let Some(load) = loads.get_mut(program.zone) {
                load.asked += pages;
            }
        }
        loads
    }

    /// Lets time pass in which nothing changes.
    fn pass_to(&mut self, at_ms: u64) {
        let passed = as_float(at_ms.saturating_sub(self.now_ms));
        self.now_ms = self.now_ms.max(at_ms);
        for (number, zone) in self.zones.iter().enumerate() {
            let load = load(zone, 0);
            self.outcome.used += passed * as_float(load.used);
            if self.lacks.get(number).is_some_and(Option::is_some) {
                self.outcome.out += passed;
            }
            if load.estimated() >= HIGH {
                self.outcome.overloaded += passed;
            }
            let waits =
                |&program: &usize| self.programs.get(program).is_some_and(|program| program.zone == number);
            if self.waiting.iter().any(waits) {
                self.outcome.waiting += passed;
            }
        }
    }
}

fn load(zone: &Zone, asked: u64) -> Load {
    Load { own: zone.own_pages(), used: zone.own_pages() - zone.free_pages(), asked }
}

#[expect(clippy::cast_precision_loss, reason = "times and pages are far below 2^52")]
pub(super) fn as_float(number: u64) -> f64 {
    number as f64
}
