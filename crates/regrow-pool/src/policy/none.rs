//! `none`: keeps nothing. The other policies are compared with it.

use super::contract::Policy;
use super::turn::Turn;
use super::why::Why;
use crate::event::{Action, Event, KeptId};
use crate::inventory::{Illegal, Inventory};

/// Keeps nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Never;

impl Policy for Never {
    fn name(&self) -> &'static str {
        "none"
    }

    fn turn(&mut self, _: &Event, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        if let Some(id) = turn.left() {
            turn.act(Action::Drop(KeptId::Body(id)))?;
        }
        turn.come_within_budget()
    }

    fn why(&self, _: &Inventory, _: KeptId) -> Why {
        Why::Part
    }
}
