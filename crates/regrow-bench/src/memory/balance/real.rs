//! The same programs with a real service, in virtual time: what it refuses, and what its zones hold.
//!
//! Blocks are delayed and nobody touches them, so that 4 GiB of them take no memory.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use regrow_memory::units::pages_of;
use regrow_memory::{Block, Client, GiveBack, Mode, Service, ServiceError, ServiceOptions, Slaves};

use super::super::random::Random;
use super::programs::Run;
use super::world::{CHUNKS, Outcome, Setting, ZONES, as_float, seed_of};

/// A program.
struct Program {
    run: Run,
    client: Client,
    has: Vec<Block>,
    random: Random,
}

/// The service and its programs.
struct Real {
    service: Service,
    programs: Vec<Program>,
    waiting: VecDeque<usize>,
    ends: BinaryHeap<Reverse<(u64, usize)>>,
    now_ms: u64,
    outcome: Outcome,
}

/// Runs a setting from a seed. Only the use of the memory and what is asked and unanswered come of it: the service's zones grow when they
/// have no room, so their own loads say nothing.
///
/// # Errors
/// [`ServiceError`] for anything but a lack of memory.
pub(super) fn run(setting: &Setting, seed: u64) -> Result<Outcome, ServiceError> {
    let zones = u32::try_from(ZONES).unwrap_or(1);
    let options = ServiceOptions {
        chunks: CHUNKS * zones,
        zones: ZONES,
        routing: setting.routing,
        grow_by: CHUNKS / 8,
        keep_pages: 0,
        slaves: Slaves::Never,
        give_back: GiveBack::NEVER,
        ..ServiceOptions::default()
    };
    let service = Service::new(&options)?;
    let program = |number: u32| {
        let mut random = Random::new(seed_of(seed, number));
        Program {
            run: Run::next(&mut random, setting.most_order),
            client: service.client(),
            has: Vec::new(),
            random,
        }
    };
    let programs = (0..setting.programs).map(program).collect();
    let (waiting, ends) = (VecDeque::new(), BinaryHeap::new());
    let mut real = Real { service, programs, waiting, ends, now_ms: 0, outcome: Outcome::default() };
    for program in 0..real.programs.len() {
        real.start(program)?;
    }
    while let Some(Reverse((at_ms, program))) = real.ends.pop() {
        real.pass_to(at_ms.min(setting.until_ms));
        if at_ms >= setting.until_ms {
            break;
        }
        real.end(program, setting.most_order)?;
    }
    real.pass_to(setting.until_ms);
    let used = real.outcome.used
        / as_float(setting.until_ms)
        / as_float(u64::from(options.chunks) * u64::from(pages_of(9)));
    Ok(Outcome { used, ..real.outcome })
}

impl Real {
    /// A program is a client of its own, which the master routes.
    fn start(&mut self, number: usize) -> Result<(), ServiceError> {
        let client = self.service.client();
        if let Some(program) = self.programs.get_mut(number) {
            program.client = client;
        }
        if !self.ask(number)? {
            self.outcome.unanswered += 1;
            self.waiting.push_back(number);
        }
        Ok(())
    }

    /// Asks for the blocks that a program does not have as yet. False where it has to wait.
    fn ask(&mut self, number: usize) -> Result<bool, ServiceError> {
        let Some(program) = self.programs.get_mut(number) else { return Ok(false) };
        while let Some(&order) = program.run.blocks.get(program.has.len()) {
            match program.client.alloc(u64::from(pages_of(order)), Mode::Delayed) {
                Ok(block) => program.has.push(block),
                Err(ServiceError::NoMemory { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
            self.outcome.requests += 1;
        }
        self.ends.push(Reverse((self.now_ms + program.run.holds_ms, number)));
        Ok(true)
    }

    fn end(&mut self, number: usize, most_order: u8) -> Result<(), ServiceError> {
        let Some(program) = self.programs.get_mut(number) else { return Ok(()) };
        for block in program.has.drain(..) {
            program.client.free(block);
        }
        program.run = Run::next(&mut program.random, most_order);
        for _ in 0..self.waiting.len() {
            let Some(first) = self.waiting.pop_front() else { break };
            if !self.ask(first)? {
                self.waiting.push_back(first);
            }
        }
        self.start(number)
    }

    fn pass_to(&mut self, at_ms: u64) {
        let used: u64 = self.service.zones().iter().map(|zone| zone.own_pages - zone.free_pages).sum();
        self.outcome.used += as_float(at_ms.saturating_sub(self.now_ms)) * as_float(used);
        self.now_ms = self.now_ms.max(at_ms);
    }
}
