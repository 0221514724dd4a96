//! `recycle-one`: keeps one body of each program that runs often. It breaks up a second one, and bodies of programs that run
//! seldom, into what every program can use (Tabata and Taniguchi, figure 6 and 5.3).

use super::contract::Policy;
use super::frequency::{Counter, Frequency};
use super::turn::Turn;
use super::why::Why;
use crate::event::{Event, KeptId};
use crate::ids::{BodyId, ProgramId};
use crate::inventory::{BodyStatus, Illegal, Inventory};

/// Keeps one body of each program that runs often.
#[derive(Debug, Clone)]
pub struct RecycleOne {
    counter: Counter,
}

impl RecycleOne {
    /// A policy that has seen nothing yet.
    #[must_use]
    pub fn new(frequency: Frequency) -> RecycleOne {
        RecycleOne { counter: Counter::new(frequency) }
    }

    /// Counts a creation. When a review is due, breaks up the bodies of programs that have become seldom.
    pub(super) fn created(&mut self, program: ProgramId, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        if !self.counter.created(program) {
            return Ok(());
        }
        let seldom = |status, program| {
            matches!(status, BodyStatus::Idle | BodyStatus::Resetting) && !self.counter.is_often(program)
        };
        let bodies: Vec<BodyId> = turn
            .inventory()
            .bodies()
            .filter(|(_, body)| seldom(body.status, body.program))
            .map(|(id, _)| id)
            .collect();
        bodies.into_iter().try_for_each(|id| turn.break_up_or_drop(id))
    }

    /// Figure 6: keep it as it is if it runs often and none of its program is kept, else break it up.
    pub(super) fn left(&self, id: BodyId, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let Some(program) = turn.inventory().body(id).map(|body| body.program) else { return Ok(()) };
        if self.counter.is_often(program) && turn.inventory().kept_of(program) == 0 {
            turn.keep_or_drop(id)
        } else {
            turn.break_up_or_drop(id)
        }
    }

    /// How many of the last creations were of a program.
    pub(super) fn runs(&self, program: ProgramId) -> u32 {
        self.counter.runs(program)
    }

    pub(super) fn why(&self, program: ProgramId) -> Why {
        Why::RunsOften { runs: self.counter.runs(program), of: self.counter.of() }
    }

    pub(super) fn why_body(&self, inventory: &Inventory, id: BodyId) -> Why {
        inventory.body(id).map_or(Why::Part, |body| self.why(body.program))
    }
}

impl Policy for RecycleOne {
    fn name(&self) -> &'static str {
        "recycle-one"
    }

    fn turn(&mut self, event: &Event, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        match event {
            Event::Created { program, .. } => self.created(*program, turn)?,
            Event::Pressure => turn.give_everything_back()?,
            _ => {}
        }
        if let Some(id) = turn.left() {
            self.left(id, turn)?;
        }
        turn.come_within_budget()
    }

    fn why(&self, inventory: &Inventory, kept: KeptId) -> Why {
        match kept {
            KeptId::Body(id) => self.why_body(inventory, id),
            KeptId::Shell(_) | KeptId::Region(_) => Why::Part,
        }
    }
}
