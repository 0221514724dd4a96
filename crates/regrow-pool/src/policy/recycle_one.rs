//! `recycle-one`: one body for each program that runs often; a second one, and those of programs that run seldom, are
//! broken up into what every program can use (Tabata and Taniguchi, figure 6 and 5.3).

use super::frequency::{Counter, Frequency};
use super::{Policy, Turn, Why};
use crate::event::{BodyId, Event, Kept, ProgramId};
use crate::state::{Illegal, State, Status};

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

    /// Counts a creation, and breaks up what is kept of programs that run often no more when that is due.
    pub(super) fn created(&mut self, program: ProgramId, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        if !self.counter.created(program) {
            return Ok(());
        }
        let seldom = |status, program| {
            matches!(status, Status::Idle | Status::Resetting) && !self.counter.is_often(program)
        };
        let bodies: Vec<BodyId> = turn
            .state()
            .bodies()
            .filter(|(_, body)| seldom(body.status, body.program))
            .map(|(id, _)| id)
            .collect();
        bodies.into_iter().try_for_each(|id| turn.break_up_or_drop(id))
    }

    /// Figure 6: keep it as it is if it runs often and none of its program is kept, else break it up.
    pub(super) fn left(&self, id: BodyId, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let Some(program) = turn.state().body(id).map(|body| body.program) else { return Ok(()) };
        if self.counter.is_often(program) && turn.state().kept_of(program) == 0 {
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

    pub(super) fn why_body(&self, state: &State, id: BodyId) -> Why {
        state.body(id).map_or(Why::Part, |body| self.why(body.program))
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

    fn why(&self, state: &State, kept: Kept) -> Why {
        match kept {
            Kept::Body(id) => self.why_body(state, id),
            Kept::Shell(_) | Kept::Region(_) => Why::Part,
        }
    }
}
