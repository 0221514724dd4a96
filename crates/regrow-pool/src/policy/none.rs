//! `none`: nothing is kept. What the other policies are compared with.

use super::{Policy, Turn, Why};
use crate::event::{Action, Event, Kept};
use crate::state::{Illegal, State};

/// Keeps nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Never;

impl Policy for Never {
    fn name(&self) -> &'static str {
        "none"
    }

    fn turn(&mut self, _: &Event, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        if let Some(id) = turn.left() {
            turn.act(Action::Drop(Kept::Body(id)))?;
        }
        turn.come_within_budget()
    }

    fn why(&self, _: &State, _: Kept) -> Why {
        Why::Part
    }
}
