//! What the adaptive policy has seen, and how many bodies of a program it wants by that.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::ids::{BodyId, ProgramId};
use crate::inventory::{BodyRecord, Inventory};
use crate::learn::{Cue, Demand, Follows, Frame, Gaps, Window};

use super::settings::AdaptiveSettings;
use super::shell_demand::ShellDemand;

/// After so many processes that were not the first of their program, the policy knows after how long programs come back.
const RETURNS: u64 = 64;

/// A program that is expected next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    pub(super) until: Duration,
    pub(super) cue: Cue,
    pub(super) percent: u8,
}

/// The policy.
#[derive(Debug, Clone)]
pub struct Adaptive {
    pub(super) settings: AdaptiveSettings,
    pub(super) demands: BTreeMap<ProgramId, Demand>,
    pub(super) all: Gaps,
    pub(super) all_window: Option<Window>,
    /// How many processes were not the first of their program, and the longest time since the one before.
    pub(super) returns: u64,
    pub(super) longest_return: Duration,
    pub(super) follows: Follows,
    pub(super) expected: BTreeMap<ProgramId, Expected>,
    pub(super) shells: ShellDemand,
    /// When the wanted bodies of a program next change without an arrival.
    pub(super) due: BTreeMap<ProgramId, Duration>,
    pub(super) dues: BTreeSet<(Duration, ProgramId)>,
    pub(super) paused_until: Duration,
    /// How many processes were created.
    pub(super) seen: u64,
    /// When a program needed a body more than ever, by that number.
    pub(super) first_needs: VecDeque<(u64, ProgramId)>,
}

impl Adaptive {
    /// A policy that has seen nothing yet.
    #[must_use]
    pub fn new(settings: AdaptiveSettings) -> Adaptive {
        Adaptive {
            settings,
            demands: BTreeMap::new(),
            all: Gaps::default(),
            all_window: None,
            returns: 0,
            longest_return: Duration::ZERO,
            follows: Follows::default(),
            expected: BTreeMap::new(),
            shells: ShellDemand::default(),
            due: BTreeMap::new(),
            dues: BTreeSet::new(),
            paused_until: Duration::ZERO,
            seen: 0,
            first_needs: VecDeque::new(),
        }
    }

    pub(super) fn is_paused(&self, at: Duration) -> bool {
        at < self.paused_until
    }

    pub(super) fn frame(&self, inventory: &Inventory) -> Frame {
        let tight = inventory.budget_bytes() / 100 * u64::from(self.settings.tight_percent);
        Frame {
            all: self.all_window,
            rest: self.settings.rest,
            least: self.settings.least,
            ample_least: self.ample_least(inventory.at()),
            tight: inventory.kept_bytes() >= tight,
            seen: self.seen,
        }
    }

    /// How long the policy keeps an unused body at least while memory is not short: no program has come back after longer,
    /// and the policy has seen nothing about times longer than its own.
    pub(super) fn ample_least(&self, at: Duration) -> Duration {
        let known = self.returns >= RETURNS;
        let longer = (self.longest_return + self.longest_return / 4).max(self.settings.least).max(at);
        if known { longer.min(self.settings.ample_least) } else { self.settings.ample_least }
    }

    /// How many bodies of a program are worth having, bodies in use included.
    pub(super) fn wanted(&self, inventory: &Inventory, program: ProgramId) -> usize {
        let at = inventory.at();
        if self.is_paused(at) {
            return 0;
        }
        let demand = self.demands.get(&program);
        let open = demand.map_or(0, |demand| demand.wanted(at, &self.frame(inventory)));
        let expected = self.expected.get(&program).is_some_and(|expected| at < expected.until);
        if expected { open.max(inventory.alive(program) + 1) } else { open }
    }
}

/// How many processes of a program run or can, counting the bodies that are not ready yet.
pub(super) fn supply(inventory: &Inventory, program: ProgramId) -> usize {
    inventory.alive(program) + inventory.kept_of(program)
}

/// Bytes of the pages in a body.
pub(super) fn body_pages(inventory: &Inventory, id: BodyId) -> u64 {
    inventory.body(id).map_or(0, |body| body.regions.iter().sum())
}

/// The body of a program that has been unused for longest.
pub(super) fn longest_unused(inventory: &Inventory, program: ProgramId) -> Option<(BodyId, &BodyRecord)> {
    let kept = inventory.bodies_of(program).filter(|(_, body)| body.is_kept());
    kept.min_by_key(|(id, body)| (body.used, *id))
}
