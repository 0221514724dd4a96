//! What something is worth, and making room for what is worth more.

use std::cmp::Ordering;

use super::Adaptive;
use crate::event::{Action, BodyId, Kept, ProgramId};
use crate::policy::Turn;
use crate::state::{Illegal, State, Status};

/// Start-up time that is expected to be saved in an hour, and the bytes that it takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Worth {
    saves_us_per_hour: u64,
    bytes: u64,
}

impl Worth {
    pub(super) fn new(saves_us: u64, per_hour: u64, bytes: u64) -> Worth {
        Worth { saves_us_per_hour: saves_us.saturating_mul(per_hour), bytes: bytes.max(1) }
    }

    /// Of a further body of a program.
    pub(super) fn of_next(policy: &Adaptive, state: &State, program: ProgramId) -> Worth {
        let place = state.alive(program) + state.kept_of(program);
        let bytes = state.facts(program).map_or(0, |facts| facts.body_bytes + facts.region_bytes());
        let only = !state.bodies_of(program).any(|(_, body)| body.status != Status::Left);
        Worth::of_place(policy, state, program, place, only, state.bytes_of_next(program, bytes))
    }

    /// Of a body that is kept, at its place.
    pub(super) fn of_body(
        policy: &Adaptive,
        state: &State,
        program: ProgramId,
        id: BodyId,
        place: usize,
    ) -> Worth {
        let only = state.bodies_of(program).count() == 1;
        Worth::of_place(policy, state, program, place, only, state.bytes_freed_by(id))
    }

    fn of_place(
        policy: &Adaptive,
        state: &State,
        program: ProgramId,
        place: usize,
        only: bool,
        bytes: u64,
    ) -> Worth {
        let saves =
            state.facts(program).map(|facts| if only { facts.saves } else { facts.saves_over_image });
        let saves_us = saves.map_or(0, |saves| u64::try_from(saves.as_micros()).unwrap_or(u64::MAX));
        let expected = policy.expected.get(&program).filter(|expected| state.at() < expected.until);
        let by_gaps =
            policy.demands.get(&program).map_or(0, |demand| demand.per_hour(place, state.at(), &policy.all));
        // What is expected next is needed as often as anything is.
        let per_hour = match expected {
            Some(expected) => by_gaps.max(policy.rate_of_all() / 100 * u64::from(expected.percent)),
            None => by_gaps,
        };
        Worth::new(saves_us, per_hour, bytes)
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
}

impl Adaptive {
    /// How often processes are created in an hour, by the mean gap of all programs.
    fn rate_of_all(&self) -> u64 {
        let gap = self.all.mean().map_or(0, |gap| u64::try_from(gap.as_micros()).unwrap_or(u64::MAX));
        if gap == 0 { 0 } else { 3_600_000_000 / gap }
    }

    /// Gives back what is worth less until so many bytes are free. False when there is not enough of that.
    pub(super) fn make_room(&self, bytes: u64, worth: Worth, turn: &mut Turn<'_>) -> Result<bool, Illegal> {
        if bytes > turn.state().budget_bytes() {
            return Ok(false);
        }
        while turn.state().room() < bytes {
            let Some((least, action)) = self.least(turn.state()) else { return Ok(false) };
            if least.order(worth) != Ordering::Less {
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
        let regions = state
            .regions()
            .map(|(id, region)| (self.worth_of_region(state, region.bytes), Kept::Region(id)));
        let parts = shells.chain(regions).map(|(worth, kept)| (worth, Action::Drop(kept)));
        let programs = state.programs().filter(|&program| state.kept_of(program) > 0);
        let bodies = programs.filter_map(|program| {
            let kept = state.bodies_of(program).filter(|(_, body)| body.is_kept());
            let (id, body) = kept.min_by_key(|(id, body)| (body.used, *id))?;
            let place = state.alive(program) + state.kept_of(program) - 1;
            let worth = Worth::of_body(self, state, program, id, place);
            let pages = body.status == Status::Idle && !body.regions.is_empty();
            Some((worth, if pages { Action::Trim(id) } else { Action::Drop(Kept::Body(id)) }))
        });
        parts.chain(bodies).min_by(|(left, _), (right, _)| left.order(*right))
    }
}
