//! `recycle`: keeps every body, for the next process of its program. It has no bound but the budget.
//!
//! The papers' form of it looks at how often a program runs (Tabata and Taniguchi, 4.2), and breaks up bodies of programs
//! that run seldom. With the default every program runs often.

use super::contract::Policy;
use super::frequency::{Counter, Frequency};
use super::turn::Turn;
use super::why::Why;
use crate::event::{Event, KeptId};
use crate::inventory::{Illegal, Inventory};

/// Keeps every body of the programs that run often.
#[derive(Debug, Clone)]
pub struct Recycle {
    counter: Counter,
}

impl Recycle {
    /// A policy that has seen nothing yet.
    #[must_use]
    pub fn new(frequency: Frequency) -> Recycle {
        Recycle { counter: Counter::new(frequency) }
    }
}

impl Policy for Recycle {
    fn name(&self) -> &'static str {
        "recycle"
    }

    fn turn(&mut self, event: &Event, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        match event {
            Event::Created { program, .. } => drop(self.counter.created(*program)),
            Event::Pressure => turn.give_everything_back()?,
            _ => {}
        }
        if let Some(id) = turn.left() {
            let program = turn.inventory().body(id).map(|body| body.program);
            if program.is_some_and(|program| self.counter.is_often(program)) {
                turn.keep_or_drop(id)?;
            } else {
                turn.break_up_or_drop(id)?;
            }
        }
        turn.come_within_budget()
    }

    fn why(&self, _: &Inventory, kept: KeptId) -> Why {
        match kept {
            KeptId::Body(_) => Why::EveryBody,
            KeptId::Shell(_) | KeptId::Region(_) => Why::Part,
        }
    }
}
