//! Shells and the regions that go with them: what helps a process of which nothing else is kept.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::Adaptive;
use super::room::Worth;
use crate::event::{Action, Kept, Place, ProgramId, RegionId, ShellId};
use crate::learn::{Demand, Frame, Gaps};
use crate::policy::{Turn, Why};
use crate::state::{Illegal, State};

/// The last processes of which nothing was kept, whose regions tell which sizes are wanted.
const LAST: usize = 16;

/// The need of shells.
#[derive(Debug, Clone, Default)]
pub(super) struct Shells {
    demand: Demand,
    gaps: Gaps,
    asked: VecDeque<Vec<u64>>,
}

impl Shells {
    /// A process was created of which nothing was kept. The shells that are being made are those that others took.
    pub(super) fn arrive(&mut self, state: &State, seen: u64, program: ProgramId) {
        let being_made = state.shells().filter(|(_, shell)| !shell.ready).count();
        self.demand.arrive((state.at(), seen), being_made, 0, &mut self.gaps);
        let regions = state.facts(program).map(|facts| facts.regions.clone()).unwrap_or_default();
        self.asked.push_back(regions);
        if self.asked.len() > LAST {
            self.asked.pop_front();
        }
    }
}

impl Adaptive {
    /// H1: no more than processes have been alive at a time.
    pub(super) fn wanted_shells(&self, state: &State) -> usize {
        if self.settings.shell_saves.is_zero() || self.is_paused(state.at()) {
            return 0;
        }
        self.shells.demand.wanted(state.at(), &self.shell_frame(state)).min(state.most_shells())
    }

    /// H2: for each size as many as the shells that are wanted will ask for.
    pub(super) fn wanted_regions(&self, state: &State) -> BTreeMap<u64, usize> {
        let mut wanted = BTreeMap::new();
        let shells = self.wanted_shells(state);
        if self.settings.region_saves_ns_per_kib == 0 || shells == 0 || !state.keeps_regions() {
            return wanted;
        }
        for &bytes in self.shells.asked.iter().flatten().filter(|&&bytes| bytes > 0) {
            *wanted.entry(bytes).or_default() += shells;
        }
        wanted.values_mut().for_each(|count| *count = count.div_ceil(self.shells.asked.len()));
        wanted
    }

    /// T1.
    pub(super) fn shell_keep_alive(&self, state: &State) -> Option<Duration> {
        let (_, window) = self.shells.demand.window(0, self.all_window)?;
        Some(self.shell_frame(state).keep_alive(window))
    }

    /// Shells do not rest: it is not known when a process comes of which nothing is kept.
    fn shell_frame(&self, state: &State) -> Frame {
        Frame { rest: Duration::MAX, ..self.frame(state) }
    }

    pub(super) fn next_shell_change(&self, state: &State) -> Option<Duration> {
        let kept = state.shells().len() + state.regions().len() > 0;
        let next = self.shells.demand.next_change(state.at(), &self.shell_frame(state));
        next.filter(|_| kept)
    }

    /// Brings shells and regions to what is wanted.
    pub(super) fn balance_shells(&self, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let wanted = self.wanted_shells(turn.state());
        let spare: Vec<ShellId> = turn.state().shells().map(|(id, _)| id).skip(wanted).collect();
        spare.into_iter().try_for_each(|id| turn.act(Action::Drop(Kept::Shell(id))).map(drop))?;
        self.drop_unwanted_regions(turn)?;
        let bytes = turn.state().shell_bytes();
        let held = turn.state().shells().len();
        for _ in held..wanted {
            if !self.make_room(bytes, self.worth_of_shell(turn.state()), turn)? {
                break;
            }
            turn.act(Action::AddShell)?;
        }
        for (bytes, count) in self.wanted_regions(turn.state()) {
            let held = turn.state().regions().filter(|(_, region)| region.bytes == bytes).count();
            for _ in held..count {
                if !self.make_room(bytes, self.worth_of_region(turn.state(), bytes), turn)? {
                    break;
                }
                turn.act(Action::Prefault { place: Place::Pool, bytes })?;
            }
        }
        Ok(())
    }

    pub(super) fn drop_unwanted_regions(&self, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let mut wanted = self.wanted_regions(turn.state());
        let mut is_wanted = |bytes: u64| match wanted.get_mut(&bytes) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        };
        let regions: Vec<(RegionId, u64)> =
            turn.state().regions().map(|(id, region)| (id, region.bytes)).collect();
        let unwanted = regions.into_iter().filter(|&(_, bytes)| !is_wanted(bytes));
        let unwanted: Vec<RegionId> = unwanted.map(|(id, _)| id).collect();
        unwanted.into_iter().try_for_each(|id| turn.act(Action::Drop(Kept::Region(id))).map(drop))
    }

    pub(super) fn worth_of_shell(&self, state: &State) -> Worth {
        let saves_us = u64::try_from(self.settings.shell_saves.as_micros()).unwrap_or(u64::MAX);
        Worth::new(saves_us, self.shells_per_hour(state), state.shell_bytes())
    }

    pub(super) fn worth_of_region(&self, state: &State, bytes: u64) -> Worth {
        let saves_us = self.settings.region_saves_ns_per_kib * (bytes / 1024) / 1000;
        Worth::new(saves_us, self.shells_per_hour(state), bytes)
    }

    /// How often the last of the shells that are kept is needed.
    fn shells_per_hour(&self, state: &State) -> u64 {
        let place = state.shells().len().saturating_sub(1);
        self.shells.demand.per_hour(place, state.at(), &self.shells.gaps)
    }

    pub(super) fn why_shell(&self, state: &State) -> Why {
        Why::Minimum { least: self.wanted_shells(state) }
    }
}
