//! Shells and the regions that go with them: what helps a process when nothing of its program is kept.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::event::{Action, KeptId, RegionPlace};
use crate::ids::{RegionId, ShellId};
use crate::inventory::{Illegal, Inventory};
use crate::learn::Frame;
use crate::policy::turn::Turn;
use crate::policy::why::Why;

use super::model::Adaptive;
use super::worth::Worth;

impl Adaptive {
    /// H1: no more than processes have been alive at a time.
    pub(super) fn wanted_shells(&self, inventory: &Inventory) -> usize {
        if self.settings.shell_saves.is_zero() || self.is_paused(inventory.at()) {
            return 0;
        }
        self.shells.demand.wanted(inventory.at(), &self.shell_frame(inventory)).min(inventory.most_shells())
    }

    /// H2: for each size as many as the shells that are wanted will ask for.
    pub(super) fn wanted_regions(&self, inventory: &Inventory) -> BTreeMap<u64, usize> {
        let mut wanted = BTreeMap::new();
        let shells = self.wanted_shells(inventory);
        if self.settings.region_saves_ns_per_kib == 0 || shells == 0 || !inventory.keeps_regions() {
            return wanted;
        }
        for &bytes in self.shells.asked.iter().flatten().filter(|&&bytes| bytes > 0) {
            *wanted.entry(bytes).or_default() += shells;
        }
        wanted.values_mut().for_each(|count| *count = count.div_ceil(self.shells.asked.len()));
        wanted
    }

    /// T1.
    pub(super) fn shell_keep_alive(&self, inventory: &Inventory) -> Option<Duration> {
        let (_, window) = self.shells.demand.window(0, self.all_window)?;
        Some(self.shell_frame(inventory).keep_alive(window))
    }

    /// Shells do not rest: nobody knows when a process comes that finds nothing of its program.
    fn shell_frame(&self, inventory: &Inventory) -> Frame {
        Frame { rest: Duration::MAX, ..self.frame(inventory) }
    }

    pub(super) fn next_shell_change(&self, inventory: &Inventory) -> Option<Duration> {
        let kept = inventory.shells().len() + inventory.regions().len() > 0;
        let next = self.shells.demand.next_change(inventory.at(), &self.shell_frame(inventory));
        next.filter(|_| kept)
    }

    /// Brings shells and regions to what is wanted.
    pub(super) fn balance_shells(&self, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let wanted = self.wanted_shells(turn.inventory());
        let spare: Vec<ShellId> = turn.inventory().shells().map(|(id, _)| id).skip(wanted).collect();
        spare.into_iter().try_for_each(|id| turn.act(Action::Drop(KeptId::Shell(id))).map(drop))?;
        self.drop_unwanted_regions(turn)?;
        let bytes = turn.inventory().shell_bytes();
        let held = turn.inventory().shells().len();
        for _ in held..wanted {
            if !self.make_room(bytes, self.worth_of_shell(turn.inventory()), turn)? {
                break;
            }
            turn.act(Action::AddShell)?;
        }
        for (bytes, count) in self.wanted_regions(turn.inventory()) {
            let held = turn.inventory().regions().filter(|(_, region)| region.bytes == bytes).count();
            for _ in held..count {
                if !self.make_room(bytes, self.worth_of_region(turn.inventory(), bytes), turn)? {
                    break;
                }
                turn.act(Action::Prefault { place: RegionPlace::Pool, bytes })?;
            }
        }
        Ok(())
    }

    pub(super) fn drop_unwanted_regions(&self, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let mut wanted = self.wanted_regions(turn.inventory());
        let mut is_wanted = |bytes: u64| match wanted.get_mut(&bytes) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        };
        let regions: Vec<(RegionId, u64)> =
            turn.inventory().regions().map(|(id, region)| (id, region.bytes)).collect();
        let unwanted = regions.into_iter().filter(|&(_, bytes)| !is_wanted(bytes));
        let unwanted: Vec<RegionId> = unwanted.map(|(id, _)| id).collect();
        unwanted.into_iter().try_for_each(|id| turn.act(Action::Drop(KeptId::Region(id))).map(drop))
    }

    pub(super) fn worth_of_shell(&self, inventory: &Inventory) -> Worth {
        let saves_us = u64::try_from(self.settings.shell_saves.as_micros()).unwrap_or(u64::MAX);
        Worth::new(saves_us, self.shells_per_hour(inventory), inventory.shell_bytes())
    }

    pub(super) fn worth_of_region(&self, inventory: &Inventory, bytes: u64) -> Worth {
        let saves_us = self.settings.region_saves_ns_per_kib * (bytes / 1024) / 1000;
        Worth::new(saves_us, self.shells_per_hour(inventory), bytes)
    }

    /// How often the last of the shells that are kept is needed.
    fn shells_per_hour(&self, inventory: &Inventory) -> u64 {
        let place = inventory.shells().len().saturating_sub(1);
        self.shells.demand.per_hour(place, inventory.at(), &self.shells.gaps)
    }

    pub(super) fn why_shell(&self, inventory: &Inventory) -> Why {
        Why::Minimum { least: self.wanted_shells(inventory) }
    }
}
