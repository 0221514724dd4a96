//! How many shells processes have asked for, and with which regions.

use std::collections::VecDeque;

use crate::ids::ProgramId;
use crate::inventory::Inventory;
use crate::learn::{Demand, Gaps};

/// The last processes that found nothing of their programs, whose regions tell which sizes are wanted.
const LAST: usize = 16;

/// The need of shells.
#[derive(Debug, Clone, Default)]
pub(super) struct ShellDemand {
    pub(super) demand: Demand,
    pub(super) gaps: Gaps,
    pub(super) asked: VecDeque<Vec<u64>>,
}

impl ShellDemand {
    /// A process was created, and nothing of its program was kept. The shells in the making replace those that others took.
    pub(super) fn arrive(&mut self, inventory: &Inventory, seen: u64, program: ProgramId) {
        let being_made = inventory.shells().filter(|(_, shell)| !shell.ready).count();
        self.demand.arrive((inventory.at(), seen), being_made, 0, &mut self.gaps);
        let regions = inventory.facts(program).map(|facts| facts.regions.clone()).unwrap_or_default();
        self.asked.push_back(regions);
        if self.asked.len() > LAST {
            self.asked.pop_front();
        }
    }
}
