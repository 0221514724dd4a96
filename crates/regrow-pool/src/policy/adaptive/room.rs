//! What something is worth, and making room for what is worth more.

use std::cmp::Ordering;

use super::{Adaptive, body_pages};
use crate::event::{Action, BodyId, Kept, ProgramId};
use crate::policy::Turn;
use crate::state::{Illegal, State, Status};

/// Start-up time that is expected to be saved in an hour, and the bytes that it takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Worth {
    saves_us_per_hour: u64,
    bytes: u64,
}

/// Something is given back for something else only when that is worth this much more, in percent: what is about the same
/// would be swapped for ever.
const MORE_PERCENT: u128 = 150;

impl Worth {
    pub(super) fn new(saves_us: u64, per_hour: u64, bytes: u64) -> Worth {
        Worth { saves_us_per_hour: saves_us.saturating_mul(per_hour), bytes: bytes.max(1) }
    }

    /// Of a body that is kept, at its place.
    pub(super) fn of_body(policy: &Adaptive, state: &State, id: BodyId, place: usize) -> Worth {
        let Some(body) = state.body(id) else { return Worth::new(0, 0, 1) };
        let only = state.bodies_of(body.program).count() == 1;
        let saves_us = policy.saves_us(state, body.program, only, body_pages(state, id));
        let per_hour = policy.per_hour(state, body.program, place);
        Worth::new(saves_us, per_hour, state.bytes_freed_by(id))
    }

    /// Microseconds for each mebibyte that is held for an hour.
    pub(super) fn per_mib_hour(self) -> u64 {
        let worth = u128::from(self.saves_us_per_hour) * (1 << 20) / u128::from(self.bytes);
        u64::try_from(worth).unwrap_or(u64::MAX)
    }

    /// By what is saved for each byte.
    fn order(self, other: Worth) -> Ordering {
        let left = u128::from(self.saves_us_per_hour) * u128::from(other.bytes);
        left.cmp(&(u128::from(other.saves_us_per_hour) * u128::from(self.bytes)))
    }

    /// Whether it may go for something else.
    fn gives_way_to(self, other: Worth) -> bool {
        let own = u128::from(self.saves_us_per_hour) * u128::from(other.bytes);
        own * MORE_PERCENT / 100 < u128::from(other.saves_us_per_hour) * u128::from(self.bytes)
    }
}

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
    fn saves_us(&self, state: &State, program: ProgramId, only: bool, pages: u64) -> u64 {
        let Some(facts) = state.facts(program) else { return 0 };
        let saves = if only { facts.saves } else { facts.saves_over_image };
        let missing = facts.region_bytes().saturating_sub(pages);
        u64::try_from(saves.as_micros()).unwrap_or(u64::MAX).saturating_sub(self.fault_us(missing))
    }

    /// How often the body at a place of a program is needed.
    fn per_hour(&self, state: &State, program: ProgramId, place: usize) -> u64 {
        let demand = self.demands.get(&program);
        let by_gaps = demand.map_or(0, |demand| demand.per_hour(place, state.at(), &self.all));
        // What is expected next is needed as often as anything is.
        match self.expected.get(&program).filter(|expected| state.at() < expected.until) {
            Some(expected) => by_gaps.max(self.rate_of_all() / 100 * u64::from(expected.percent)),
            None => by_gaps,
        }
    }

    /// Makes room for a further body of a program: so many bytes, of which so many are pages.
    pub(super) fn make_room_for(
        &self,
        program: ProgramId,
        bytes: u64,
        pages: u64,
        turn: &mut Turn<'_>,
    ) -> Result<bool, Illegal> {
        let state = turn.state();
        let need = state.bytes_of_next(program, bytes);
        let place = state.alive(program) + state.kept_of(program);
        let only = !state.bodies_of(program).any(|(_, body)| body.status != Status::Left);
        let saves_us = self.saves_us(state, program, only, pages);
        let worth = Worth::new(saves_us, self.per_hour(state, program, place), need);
        self.make_room(need, worth, turn)
    }

    /// Gives back what is worth less until so many bytes are free. False when there is not enough of that.
    pub(super) fn make_room(&self, bytes: u64, worth: Worth, turn: &mut Turn<'_>) -> Result<bool, Illegal> {
        if bytes > turn.state().budget_bytes() {
            return Ok(false);
        }
        while turn.state().room() < bytes {
            let Some((least, action)) = self.least(turn.state()) else { return Ok(false) };
            if !least.gives_way_to(worth) {
                return Ok(false);
            }
            turn.act(action)?;
        }
        Ok(true)
    }

    /// Comes within a budget that has become smaller.
    pub(super) fn shrink(&self, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        while turn.state().kept_bytes() > turn.state().budget_bytes() {
            let Some((_, action)) = self.least(turn.state()) else { break };
            turn.act(action)?;
        }
        turn.come_within_budget()
    }

    /// What is worth the least for its bytes, and how to give it back.
    fn least(&self, state: &State) -> Option<(Worth, Action)> {
        let shells = state.shells().map(|(id, _)| (self.worth_of_shell(state), Kept::Shell(id)));
        let regions =
            state.regions().map(|(id, region)| (self.worth_of_region(state, region.bytes), Kept::Region(id)));
        let parts = shells.chain(regions).map(|(worth, kept)| (worth, Action::Drop(kept)));
        let programs = state.programs().filter(|&program| state.kept_of(program) > 0);
        let bodies = programs.filter_map(|program| {
            let kept = state.bodies_of(program).filter(|(_, body)| body.is_kept());
            let (id, body) = kept.min_by_key(|(id, body)| (body.used, *id))?;
            let place = state.alive(program) + state.kept_of(program) - 1;
            let whole = (Worth::of_body(self, state, id, place), Action::Drop(Kept::Body(id)));
            let pages = body_pages(state, id);
            if body.status != Status::Idle || pages == 0 {
                return Some(whole);
            }
            let worth = Worth::new(self.fault_us(pages), self.per_hour(state, program, place), pages);
            let trim = (worth, Action::Trim(id));
            Some(if trim.0.order(whole.0) == Ordering::Less { trim } else { whole })
        });
        parts.chain(bodies).min_by(|(left, _), (right, _)| left.order(*right))
    }
}
