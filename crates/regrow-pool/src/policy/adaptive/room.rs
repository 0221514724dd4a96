//! Makes room for what is worth more.

use std::cmp::Ordering;

use crate::event::{Action, KeptId};
use crate::ids::{BodyId, ProgramId};
use crate::inventory::{BodyStatus, Illegal, Inventory};
use crate::policy::turn::Turn;

use super::model::{Adaptive, body_pages};
use super::worth::Worth;

impl Adaptive {
    /// How often processes are created in an hour, by the mean gap of all programs.
    fn rate_of_all(&self) -> u64 {
        let gap = self.all.mean().map_or(0, |gap| u64::try_from(gap.as_micros()).unwrap_or(u64::MAX));
        3_600_000_000_u64.checked_div(gap).unwrap_or(0)
    }

    /// What faulting so many bytes in takes.
    fn fault_us(&self, bytes: u64) -> u64 {
        self.settings.fault_ns_per_kib * (bytes / 1024) / 1000
    }

    /// What a body with so many bytes of pages saves: the `only` one of its program against nothing, a further one
    /// against the image.
    fn saves_us(&self, inventory: &Inventory, program: ProgramId, only: bool, pages: u64) -> u64 {
        let Some(facts) = inventory.facts(program) else { return 0 };
        let saves = if only { facts.saves } else { facts.saves_over_image };
        let missing = facts.region_bytes().saturating_sub(pages);
        u64::try_from(saves.as_micros()).unwrap_or(u64::MAX).saturating_sub(self.fault_us(missing))
    }

    /// How often the body at a rank of a program is needed.
    fn per_hour(&self, inventory: &Inventory, program: ProgramId, place: usize) -> u64 {
        let demand = self.demands.get(&program);
        let by_gaps = demand.map_or(0, |demand| demand.per_hour(place, inventory.at(), &self.all));
        // What is expected next is needed as often as anything is.
        match self.expected.get(&program).filter(|expected| inventory.at() < expected.until) {
            Some(expected) => by_gaps.max(self.rate_of_all() / 100 * u64::from(expected.percent)),
            None => by_gaps,
        }
    }

    /// The worth of a kept body, at its rank.
    pub(super) fn worth_of_body(&self, inventory: &Inventory, id: BodyId, place: usize) -> Worth {
        let Some(body) = inventory.body(id) else { return Worth::new(0, 0, 1) };
        let only = inventory.bodies_of(body.program).count() == 1;
        let saves_us = self.saves_us(inventory, body.program, only, body_pages(inventory, id));
        let per_hour = self.per_hour(inventory, body.program, place);
        Worth::new(saves_us, per_hour, inventory.bytes_freed_by(id))
    }

    /// Makes room for a further body of a program: so many bytes, of which so many are pages.
    pub(super) fn make_room_for(
        &self,
        program: ProgramId,
        bytes: u64,
        pages: u64,
        turn: &mut Turn<'_>,
    ) -> Result<bool, Illegal> {
        let inventory = turn.inventory();
        let need = inventory.bytes_of_next(program, bytes);
        let place = inventory.alive(program) + inventory.kept_of(program);
        let only = !inventory.bodies_of(program).any(|(_, body)| body.status != BodyStatus::Left);
        let saves_us = self.saves_us(inventory, program, only, pages);
        let worth = Worth::new(saves_us, self.per_hour(inventory, program, place), need);
        self.make_room(need, worth, turn)
    }

    /// Gives back what is worth less until so many bytes are free. False if that is not enough.
    pub(super) fn make_room(&self, bytes: u64, worth: Worth, turn: &mut Turn<'_>) -> Result<bool, Illegal> {
        if bytes > turn.inventory().budget_bytes() {
            return Ok(false);
        }
        while turn.inventory().room() < bytes {
            let Some((least, action)) = self.least(turn.inventory()) else { return Ok(false) };
            if !least.gives_way_to(worth) {
                return Ok(false);
            }
            turn.act(action)?;
        }
        Ok(true)
    }

    /// Comes within a budget that has become smaller.
    pub(super) fn shrink(&self, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        while turn.inventory().kept_bytes() > turn.inventory().budget_bytes() {
            let Some((_, action)) = self.least(turn.inventory()) else { break };
            turn.act(action)?;
        }
        turn.come_within_budget()
    }

    /// What is worth the least for its bytes, and how to give it back.
    fn least(&self, inventory: &Inventory) -> Option<(Worth, Action)> {
        let shells = inventory.shells().map(|(id, _)| (self.worth_of_shell(inventory), KeptId::Shell(id)));
        let regions = inventory
            .regions()
            .map(|(id, region)| (self.worth_of_region(inventory, region.bytes), KeptId::Region(id)));
        let parts = shells.chain(regions).map(|(worth, kept)| (worth, Action::Drop(kept)));
        let programs = inventory.programs().filter(|&program| inventory.kept_of(program) > 0);
        let bodies = programs.filter_map(|program| {
            let kept = inventory.bodies_of(program).filter(|(_, body)| body.is_kept());
            let (id, body) = kept.min_by_key(|(id, body)| (body.used, *id))?;
            let place = inventory.alive(program) + inventory.kept_of(program) - 1;
            let whole = (self.worth_of_body(inventory, id, place), Action::Drop(KeptId::Body(id)));
            let pages = body_pages(inventory, id);
            if body.status != BodyStatus::Idle || pages == 0 {
                return Some(whole);
            }
            let worth = Worth::new(self.fault_us(pages), self.per_hour(inventory, program, place), pages);
            let trim = (worth, Action::Trim(id));
            Some(if trim.0.order(whole.0) == Ordering::Less { trim } else { whole })
        });
        parts.chain(bodies).min_by(|(left, _), (right, _)| left.order(*right))
    }
}
