//! An inventory and a policy together: events in, actions out, all of them checked.

use std::time::Duration;

use crate::event::{Done, Event, KeptId};
use crate::ids::BodyId;
use crate::inventory::{Illegal, Inventory};
use crate::policy::{Learned, Policy, Turn, Why};

/// What is kept, and the policy that decides about it.
#[derive(Debug)]
pub struct Planner {
    inventory: Inventory,
    policy: Box<dyn Policy>,
    left: Option<BodyId>,
}

impl Planner {
    /// A planner whose inventory is this one.
    #[must_use]
    pub fn new(inventory: Inventory, policy: Box<dyn Policy>) -> Planner {
        Planner { inventory, policy, left: None }
    }

    /// What is kept and in use.
    #[must_use]
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The name of the policy.
    #[must_use]
    pub fn policy(&self) -> &'static str {
        self.policy.name()
    }

    /// Takes in an event, `at` after the start of the log. The caller then carries out the actions in their order. It reports
    /// with [`Event::Ready`] when a process can use what they add, and the bodies that they keep.
    ///
    /// # Errors
    /// [`Illegal`]: the event is impossible, or the policy has asked for an impossible action. The inventory has accepted
    /// the actions before that one.
    pub fn handle(&mut self, at: Duration, event: &Event) -> Result<Vec<Done>, Illegal> {
        let left = self.inventory.take_in(at, event)?;
        self.left = left;
        let mut turn = Turn::new(&mut self.inventory, left);
        if matches!(event, Event::Known { .. }) {
            // The facts may say that more is kept than was known.
            turn.come_within_budget()?;
        }
        self.policy.turn(event, &mut turn)?;
        let done = turn.finish();
        if let Some(id) = left
            && self.inventory.body(id).is_some_and(|body| !body.is_kept())
        {
            return Err(Illegal::Undecided(KeptId::Body(id)));
        }
        let (kept_bytes, budget_bytes) = (self.inventory.kept_bytes(), self.inventory.budget_bytes());
        if kept_bytes > budget_bytes {
            return Err(Illegal::OverBudget { kept_bytes, budget_bytes });
        }
        Ok(done)
    }

    /// An id for a body that the caller makes for a process: see [`crate::Source::Made`].
    pub fn reserve_body(&mut self) -> BodyId {
        self.inventory.reserve_body()
    }

    /// The body that the process of the last event left.
    #[must_use]
    pub fn last_left(&self) -> Option<BodyId> {
        self.left
    }

    /// When the policy wants a tick, at the latest.
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        self.policy.next_tick(&self.inventory)
    }

    /// What the policy has learned, if it learns.
    #[must_use]
    pub fn learned(&self) -> Option<Learned> {
        self.policy.learned(&self.inventory)
    }

    /// Why something is kept; `None` when it is not.
    #[must_use]
    pub fn why(&self, kept: KeptId) -> Option<Why> {
        let there = match kept {
            KeptId::Body(id) => self.inventory.body(id).is_some_and(crate::inventory::BodyRecord::is_kept),
            KeptId::Shell(id) => self.inventory.shells().any(|(shell, _)| shell == id),
            KeptId::Region(id) => self.inventory.regions().any(|(region, _)| region == id),
        };
        there.then(|| self.policy.why(&self.inventory, kept))
    }
}
