//! `adaptive`: what saves the most start-up time for the bytes it holds, within a budget. The default.
//!
//! A user sets the budget alone. For each program the policy learns how long it is until the next process, and until
//! there are two, three … at a time ([`crate::learn::Demand`]); and what comes after what ([`crate::learn::Follows`]). From that follows how many
//! bodies of a program are *wanted* at any moment:
//!
//! ```text
//!            ranks of the program whose window is open     ┐ the larger      ┌ fewer: keep what is left, else add
//!  wanted =                                                 ├───────────── ≷ supply
//!            one more than run, while it is expected next   ┘                 └ more: break up or drop
//!
//!  supply = processes that run + bodies that are ready, being put back or being made
//! ```
//!
//! These are the papers' thresholds, learned: a window's end is T2 of its program and rank, the shells' is T1; the shells
//! that are wanted at a time are H1, the regions H2.
//!
//! Where the budget does not reach, the policy keeps what saves the most start-up time for each byte and hour, by how often
//! its rank is needed. Of what must go, the pages go first, then the body.

mod model;
mod room;
pub(super) mod settings;
mod shell_demand;
mod shells;
mod worth;

use std::time::Duration;

use crate::event::{Action, Event, KeptId, Source};
use crate::ids::{BodyId, ProgramId};
use crate::inventory::{BodyStatus, Illegal, Inventory};
use crate::learn::FORGOTTEN_AFTER;

use super::contract::Policy;
use super::learned::Learned;
use super::turn::Turn;
use super::why::Why;
use model::{Expected, body_pages, longest_unused, supply};

pub use model::Adaptive;

impl Adaptive {
    fn created(&mut self, event: &Event, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let Event::Created { program, site, waited, from, .. } = event else { return Ok(()) };
        let (at, program) = (turn.inventory().at(), *program);
        let resetting =
            turn.inventory().bodies_of(program).filter(|(_, body)| body.status == BodyStatus::Resetting);
        // Keepers of more bodies would only wait for each other's processor.
        let in_turn = (resetting.count() + usize::from(!waited.is_zero())).min(self.settings.resets_beside);
        let running = turn.inventory().alive(program).saturating_sub(1);
        self.seen += 1;
        let demand = self.demands.entry(program).or_default();
        let ranks = demand.ranks();
        if let Some(gap) = demand.arrive((at, self.seen), running, in_turn, &mut self.all) {
            self.returns += 1;
            self.longest_return = self.longest_return.max(gap);
        }
        if demand.ranks() > ranks {
            self.first_needs.push_back((self.seen, program));
        }
        if self.returns > 0 && (self.all.count() < 32 || self.all.count().is_multiple_of(8)) {
            self.all_window = self.all.window();
        }
        if matches!(from, Source::Made { image: false, .. }) {
            self.shells.arrive(turn.inventory(), self.seen, program);
        }
        self.expected.remove(&program);
        self.follows.created(at, program, *site);
        let (next, rest) = (self.follows.next(self.settings.follows_percent), self.settings.rest);
        // A program that follows itself comes when the one before has ended, unless it does not wait for that.
        let overlaps = turn.inventory().alive(program) > 1;
        for next in next.into_iter().filter(|next| next.gap < rest && (next.program != program || overlaps)) {
            // Four times the usual time has passed: it does not come.
            let until = at + (next.gap * 4).max(Duration::from_millis(1));
            self.expected.insert(next.program, Expected { until, cue: next.cue, percent: next.percent });
            self.balance(next.program, turn)?;
        }
        while let Some(&(first, program)) = self.first_needs.front()
            && first + FORGOTTEN_AFTER <= self.seen
        {
            self.first_needs.pop_front();
            self.balance(program, turn)?;
        }
        self.balance(program, turn)
    }

    /// Notes when a program is to be looked at again.
    fn plan(&mut self, program: ProgramId, inventory: &Inventory) {
        let at = inventory.at();
        let demand = self.demands.get(&program);
        let change = demand.and_then(|demand| demand.next_change(at, &self.frame(inventory)));
        let expected = self.expected.get(&program).map(|expected| expected.until).filter(|&until| until > at);
        let surplus = longest_unused(inventory, program).map(|(_, body)| body.used + self.settings.least);
        let surplus = surplus.filter(|_| supply(inventory, program) > self.wanted(inventory, program));
        let next = change.into_iter().chain(expected).chain(surplus).filter(|&next| next > at).min();
        if let Some(before) = self.due.remove(&program) {
            self.dues.remove(&(before, program));
        }
        if let Some(next) = next {
            self.due.insert(program, next);
            self.dues.insert((next, program));
        }
    }

    /// A process has left a body: keeps the body if it is wanted, else the parts that are.
    fn left(&mut self, id: BodyId, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let Some(body) = turn.inventory().body(id) else { return Ok(()) };
        let (program, bytes) = (body.program, body.bytes());
        let wanted = self.wanted(turn.inventory(), program);
        if supply(turn.inventory(), program) >= wanted {
            // A present body is better than one that is being made.
            let mut bodies = turn.inventory().bodies_of(program);
            if let Some((id, _)) = bodies.find(|(_, body)| body.status == BodyStatus::Adding) {
                drop(bodies);
                turn.act(Action::Drop(KeptId::Body(id)))?;
            }
        }
        if supply(turn.inventory(), program) < wanted {
            let pages = body_pages(turn.inventory(), id);
            if self.make_room_for(program, bytes, pages, turn)? {
                // What made the room may have held the image.
                return turn.keep_or_drop(id);
            }
            if pages > 0 && self.make_room_for(program, bytes - pages, 0, turn)? {
                turn.act(Action::Trim(id))?;
                return turn.keep_or_drop(id);
            }
        }
        self.give_back(id, turn)
    }

    /// Breaks a body up if its shell is wanted, else drops it.
    fn give_back(&mut self, id: BodyId, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let adding = turn.inventory().body(id).is_none_or(|body| body.status == BodyStatus::Adding);
        let shells = self.wanted_shells(turn.inventory());
        if adding || turn.inventory().shells().len() >= shells {
            return turn.act(Action::Drop(KeptId::Body(id))).map(drop);
        }
        turn.break_up_or_drop(id)?;
        self.drop_unwanted_regions(turn)
    }

    /// Brings the supply of a program to what is wanted, and notes when that changes.
    fn balance(&mut self, program: ProgramId, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let wanted = self.wanted(turn.inventory(), program);
        let forgotten = self.demands.get(&program).is_some_and(|demand| demand.has_forgotten(self.seen));
        loop {
            let before = supply(turn.inventory(), program);
            if before < wanted {
                // Dropping another body of the same program to make room gains nothing.
                if !self.add(program, turn)? || supply(turn.inventory(), program) <= before {
                    break;
                }
            } else if before > wanted
                && let Some((id, body)) = longest_unused(turn.inventory(), program)
                && (forgotten || body.used + self.settings.least <= turn.inventory().at())
            {
                self.give_back(id, turn)?;
            } else {
                break;
            }
        }
        self.plan(program, turn.inventory());
        Ok(())
    }

    /// Adds a body, if it is worth its bytes.
    fn add(&mut self, program: ProgramId, turn: &mut Turn<'_>) -> Result<bool, Illegal> {
        let Some(facts) = turn.inventory().facts(program) else { return Ok(false) };
        if facts.saves.is_zero() {
            return Ok(false);
        }
        let bytes = facts.body_bytes;
        // While memory is short, nothing present goes for what may be needed.
        if self.frame(turn.inventory()).tight {
            let room = turn.inventory().room() >= turn.inventory().bytes_of_next(program, bytes);
            return Ok(room && turn.try_add_body(program)?.is_some());
        }
        Ok(self.make_room_for(program, bytes, 0, turn)? && turn.try_add_body(program)?.is_some())
    }

    /// Looks at the programs whose time has come.
    fn balance_due(&mut self, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let at = turn.inventory().at();
        while let Some(&(due, program)) = self.dues.first()
            && due <= at
        {
            if self.expected.get(&program).is_some_and(|expected| expected.until <= at) {
                self.expected.remove(&program);
            }
            self.balance(program, turn)?;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        match event {
            Event::Created { .. } => self.created(event, turn),
            Event::Exited { .. } => match turn.left() {
                Some(id) => self.left(id, turn),
                None => Ok(()),
            },
            Event::Ready(KeptId::Body(id)) => turn.prefault_missing(*id),
            Event::Tick | Event::Lost(_) => self.balance_due(turn),
            Event::Pressure => {
                self.paused_until = turn.inventory().at() + self.settings.pause;
                self.expected.clear();
                turn.give_everything_back()
            }
            Event::Budget { .. } => self.shrink(turn),
            Event::Known { .. } | Event::Ready(_) | Event::UsedUp { .. } => Ok(()),
        }
    }
}

impl Policy for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn turn(&mut self, event: &Event, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        self.event(event, turn)?;
        if matches!(event, Event::Created { .. } | Event::Tick) {
            self.balance_shells(turn)?;
        }
        Ok(())
    }

    fn next_tick(&self, inventory: &Inventory) -> Option<Duration> {
        let at = inventory.at();
        if self.is_paused(at) {
            return Some(self.paused_until);
        }
        let bodies = self.dues.first().map(|&(due, _)| due);
        bodies.into_iter().chain(self.next_shell_change(inventory)).min()
    }

    fn why(&self, inventory: &Inventory, kept: KeptId) -> Why {
        let KeptId::Body(id) = kept else { return self.why_shell(inventory) };
        let Some(body) = inventory.body(id) else { return Why::Part };
        let program = body.program;
        // The ranks are filled from the most recently used body on.
        let before = inventory
            .bodies_of(program)
            .filter(|(other, kept)| kept.is_kept() && (kept.used, *other) > (body.used, id));
        let place = inventory.alive(program) + before.count();
        let demand = self.demands.get(&program);
        let frame = self.frame(inventory);
        let window = demand.and_then(|demand| demand.window(place, self.all_window));
        match (window, self.expected.get(&program)) {
            (Some((last, window)), _) if inventory.at().saturating_sub(last) < frame.keep_alive(window) => {
                Why::Gap {
                    unused: inventory.at().saturating_sub(last),
                    keep_alive: frame.keep_alive(window),
                    at_a_time: place + 1,
                    saves_us_per_mib_hour: self.worth_of_body(inventory, id, place).per_mib_hour(),
                    from: window.basis,
                }
            }
            (_, Some(&Expected { cue, percent, .. })) => Why::Follows { cue, percent },
            _ => Why::Lately { at_a_time: place },
        }
    }

    fn learned(&self, inventory: &Inventory) -> Option<Learned> {
        let t2 = self.demands.iter().filter_map(|(&program, demand)| {
            let (_, window) = demand.window(0, self.all_window)?;
            let keep_alive = self.frame(inventory).keep_alive(window);
            Some((program, keep_alive, window.basis, self.wanted(inventory, program)))
        });
        let h1 = self.wanted_shells(inventory);
        let h2 = self.wanted_regions(inventory).values().sum();
        Some(Learned { t1: self.shell_keep_alive(inventory), t2: t2.collect(), h1, h2 })
    }
}
