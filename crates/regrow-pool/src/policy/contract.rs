//! What a policy is: it sees every event, and acts in turns.

use std::fmt;
use std::time::Duration;

use crate::event::{Event, KeptId};
use crate::inventory::{Illegal, Inventory};

use super::learned::Learned;
use super::turn::Turn;
use super::why::Why;

/// Decides. It sees every event after the inventory, and acts through the [`Turn`].
pub trait Policy: fmt::Debug + Send {
    /// The name by which a user chooses it.
    fn name(&self) -> &'static str;

    /// Something has happened. Before this returns, the policy must decide about a body that a process left
    /// ([`Turn::left`]), and bring what is kept within the budget.
    ///
    /// # Errors
    /// [`Illegal`]: the inventory refused an action, which is a fault of the policy.
    fn turn(&mut self, event: &Event, turn: &mut Turn<'_>) -> Result<(), Illegal>;

    /// When it wants a [`Event::Tick`], at the latest.
    fn next_tick(&self, inventory: &Inventory) -> Option<Duration> {
        let _ = inventory;
        None
    }

    /// Why it keeps something that is kept.
    fn why(&self, inventory: &Inventory, kept: KeptId) -> Why;

    /// What it has learned; `None` for a policy that sets nothing by itself.
    fn learned(&self, inventory: &Inventory) -> Option<Learned> {
        let _ = inventory;
        None
    }
}
