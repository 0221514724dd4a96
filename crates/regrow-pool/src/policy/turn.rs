//! One turn of a policy: it reads the inventory and acts on it, and the inventory checks each action.

use crate::event::{Action, Done, Facts, KeptId, RegionPlace};
use crate::ids::{BodyId, ProgramId};
use crate::inventory::{BodyStatus, Illegal, Inventory};

/// One decision: reads the inventory, and acts on it. The inventory checks each action at once.
#[derive(Debug)]
pub struct Turn<'a> {
    inventory: &'a mut Inventory,
    left: Option<BodyId>,
    done: Vec<Done>,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(inventory: &'a mut Inventory, left: Option<BodyId>) -> Turn<'a> {
        Turn { inventory, left, done: Vec::new() }
    }

    pub(crate) fn finish(self) -> Vec<Done> {
        self.done
    }

    /// The inventory as it is after the actions so far.
    #[must_use]
    pub fn inventory(&self) -> &Inventory {
        self.inventory
    }

    /// The body that the process of this event left.
    #[must_use]
    pub fn left(&self) -> Option<BodyId> {
        self.left
    }

    /// Does something.
    ///
    /// # Errors
    /// [`Illegal`].
    pub fn act(&mut self, action: Action) -> Result<Vec<KeptId>, Illegal> {
        let done = self.inventory.apply(action)?;
        let made = done.made.clone();
        self.done.push(done);
        Ok(made)
    }

    /// Keeps a body that a process left, or drops it if it exceeds the budget.
    ///
    /// # Errors
    /// [`Illegal`].
    pub fn keep_or_drop(&mut self, id: BodyId) -> Result<(), Illegal> {
        match self.act(Action::Keep(id)) {
            Err(Illegal::OverBudget { .. }) => self.act(Action::Drop(KeptId::Body(id))).map(drop),
            other => other.map(drop),
        }
    }

    /// Breaks a body up. Drops it if its parts exceed the budget, or if there are as many shells as processes were ever alive
    /// at a time: nobody could use more.
    ///
    /// # Errors
    /// [`Illegal`].
    pub fn break_up_or_drop(&mut self, id: BodyId) -> Result<(), Illegal> {
        if self.inventory.shells().len() >= self.inventory.most_shells() {
            return self.act(Action::Drop(KeptId::Body(id))).map(drop);
        }
        match self.act(Action::BreakUp(id)) {
            Err(Illegal::OverBudget { .. } | Illegal::NotReady(_)) => {
                self.act(Action::Drop(KeptId::Body(id))).map(drop)
            }
            other => other.map(drop),
        }
    }

    /// Adds a body of a known program, within the budget. Returns it.
    ///
    /// # Errors
    /// [`Illegal`].
    pub fn try_add_body(&mut self, program: ProgramId) -> Result<Option<BodyId>, Illegal> {
        match self.act(Action::AddBody(program)) {
            Err(Illegal::OverBudget { .. } | Illegal::UnknownProgram(_)) => Ok(None),
            Ok(made) => Ok(made.iter().find_map(|kept| match kept {
                KeptId::Body(id) => Some(*id),
                _ => None,
            })),
            Err(other) => Err(other),
        }
    }

    /// Maps the missing pages that a run of a ready body will touch, as far as the budget goes.
    ///
    /// # Errors
    /// [`Illegal`].
    pub fn prefault_missing(&mut self, id: BodyId) -> Result<(), Illegal> {
        for bytes in missing_regions(self.inventory, id) {
            if bytes <= self.inventory.room() {
                self.act(Action::Prefault { place: RegionPlace::Body(id), bytes })?;
            }
        }
        Ok(())
    }

    /// Drops everything that nobody uses.
    ///
    /// # Errors
    /// [`Illegal`].
    pub fn give_everything_back(&mut self) -> Result<(), Illegal> {
        let bodies =
            self.inventory.bodies().filter(|(_, body)| body.is_kept()).map(|(id, _)| KeptId::Body(id));
        let shells = self.inventory.shells().map(|(id, _)| KeptId::Shell(id));
        let regions = self.inventory.regions().map(|(id, _)| KeptId::Region(id));
        let all: Vec<KeptId> = bodies.chain(shells).chain(regions).collect();
        all.into_iter().try_for_each(|kept| self.act(Action::Drop(kept)).map(drop))
    }

    /// Drops until the rest is within the budget: regions, largest first; then shells; then bodies, the longest unused first.
    ///
    /// # Errors
    /// [`Illegal`].
    pub fn come_within_budget(&mut self) -> Result<(), Illegal> {
        if self.inventory.kept_bytes() <= self.inventory.budget_bytes() {
            return Ok(());
        }
        let mut regions: Vec<_> =
            self.inventory.regions().map(|(id, region)| (region.bytes, KeptId::Region(id))).collect();
        regions.sort_unstable_by_key(|&(bytes, kept)| (std::cmp::Reverse(bytes), kept));
        let shells = self.inventory.shells().map(|(id, _)| KeptId::Shell(id));
        let kept = self.inventory.bodies().filter(|(_, body)| body.is_kept());
        let mut bodies: Vec<_> = kept.map(|(id, body)| (body.used, KeptId::Body(id))).collect();
        bodies.sort_unstable();
        let order: Vec<KeptId> = regions
            .into_iter()
            .map(|pair| pair.1)
            .chain(shells)
            .chain(bodies.into_iter().map(|pair| pair.1))
            .collect();
        for kept in order {
            if self.inventory.kept_bytes() <= self.inventory.budget_bytes() {
                break;
            }
            self.act(Action::Drop(kept))?;
        }
        Ok(())
    }
}

/// The regions that a run of a program dirties and that a ready body of it does not have, by their sizes.
pub(crate) fn missing_regions(inventory: &Inventory, id: BodyId) -> Vec<u64> {
    let Some(body) = inventory.body(id).filter(|body| body.status == BodyStatus::Idle) else {
        return Vec::new();
    };
    let wanted = inventory.facts(body.program).map_or(&[][..], |facts: &Facts| &facts.regions);
    let mut has = body.regions.clone();
    let mut missing = Vec::new();
    for &bytes in wanted {
        match has.iter().position(|&there| there == bytes) {
            Some(found) => drop(has.swap_remove(found)),
            None => missing.push(bytes),
        }
    }
    missing
}
