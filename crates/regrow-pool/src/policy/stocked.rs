//! A policy with a stock beside it: unused bodies of programs whose processes use their bodies up (single use).
//!
//! ```text
//!   a process uses its body up ──> as many unused bodies as its program wants are kept or made
//!   it found none ready ──> the program wants one more, up to MOST
//!   no process used one up for FORGET ──> the program wants LEAST again
//! ```
//!
//! What is made so is a body as all others: the policy decides how long it is kept, and the budget how much.

use std::collections::BTreeMap;
use std::time::Duration;

use super::contract::Policy;
use super::learned::Learned;
use super::turn::Turn;
use super::why::Why;
use crate::event::{Event, KeptId, Source};
use crate::ids::{BodyId, ProgramId};
use crate::inventory::{Illegal, Inventory};

/// Unused bodies that a program wants at first: one for the next process, and one that is made meanwhile.
const LEAST: usize = 2;
/// Most that it wants.
const MOST: usize = 8;
/// After so long it wants the least again.
const FORGET: Duration = Duration::from_secs(10);

/// A policy, and the stock.
#[derive(Debug)]
pub(crate) struct Stocked {
    policy: Box<dyn Policy>,
    demands: BTreeMap<ProgramId, Demand>,
}

/// What a program wants.
#[derive(Debug, Clone, Copy)]
struct Demand {
    wanted: usize,
    /// When a process last used a body up.
    used: Duration,
}

impl Stocked {
    pub(crate) fn new(policy: Box<dyn Policy>) -> Stocked {
        Stocked { policy, demands: BTreeMap::new() }
    }

    /// A process has used its body up.
    fn used_up(&mut self, program: ProgramId, from: &Source, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let at = turn.inventory().at();
        let known = self.demands.get(&program).filter(|demand| at.saturating_sub(demand.used) <= FORGET);
        let wanted = match known {
            None => LEAST,
            Some(demand) if matches!(from, Source::Body(_)) => demand.wanted,
            Some(demand) => (demand.wanted + 1).min(MOST),
        };
        self.demands.insert(program, Demand { wanted, used: at });
        let unused = |inventory: &Inventory| {
            inventory.bodies_of(program).filter(|(_, body)| body.is_kept() && body.runs == 0).count()
        };
        while unused(turn.inventory()) < wanted && turn.try_add_body(program)?.is_some() {}
        Ok(())
    }

    /// Whether a body is of the stock.
    fn is_stock(&self, inventory: &Inventory, id: BodyId) -> bool {
        let body = inventory.body(id).filter(|body| body.runs == 0);
        body.is_some_and(|body| self.demands.contains_key(&body.program))
    }
}

impl Policy for Stocked {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn turn(&mut self, event: &Event, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        self.policy.turn(event, turn)?;
        match event {
            Event::UsedUp { program, from } => self.used_up(*program, from, turn),
            _ => Ok(()),
        }
    }

    fn next_tick(&self, inventory: &Inventory) -> Option<Duration> {
        self.policy.next_tick(inventory)
    }

    fn why(&self, inventory: &Inventory, kept: KeptId) -> Why {
        match kept {
            KeptId::Body(id) if self.is_stock(inventory, id) => Why::UsedUp,
            _ => self.policy.why(inventory, kept),
        }
    }

    fn learned(&self, inventory: &Inventory) -> Option<Learned> {
        self.policy.learned(inventory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Facts;
    use crate::inventory::BodyStatus;
    use crate::planner::Planner;
    use crate::policy::PolicyChoice;

    const PROGRAM: ProgramId = ProgramId::new(1);

    fn planner(policy: PolicyChoice, budget_bytes: u64) -> Planner {
        let mut planner = Planner::new(Inventory::new(budget_bytes, 10), policy.build());
        let facts = Facts { image_bytes: 100, body_bytes: 10, ..Facts::default() };
        tell(&mut planner, 0, &Event::Known { program: PROGRAM, facts });
        planner
    }

    fn tell(planner: &mut Planner, at_ms: u64, event: &Event) {
        planner.handle(Duration::from_millis(at_ms), event).expect("it is possible");
    }

    fn made() -> Source {
        Source::Made { image: true, shell: None, regions: Vec::new(), body: None }
    }

    /// A process that uses its body up. It takes one that is ready, where there is one.
    fn use_up(planner: &mut Planner, at_ms: u64, process: u64) {
        let process = crate::ids::ProcessId::new(process);
        let from = planner.inventory().ready_body(PROGRAM).map_or_else(made, Source::Body);
        let (waited, is_known) = (Duration::ZERO, matches!(from, Source::Body(_)));
        let created = Event::Created {
            process,
            program: PROGRAM,
            parent: None,
            site: None,
            waited,
            from: if is_known { from.clone() } else { made() },
        };
        tell(planner, at_ms, &created);
        tell(planner, at_ms, &Event::UsedUp { program: PROGRAM, from });
        tell(planner, at_ms, &Event::Exited { process, offer: None });
    }

    fn with_status(planner: &Planner, status: BodyStatus) -> Vec<BodyId> {
        let found = planner.inventory().bodies_of(PROGRAM).filter(|(_, body)| body.status == status);
        found.map(|(id, _)| id).collect()
    }

    fn all_are_made(planner: &mut Planner, at_ms: u64) {
        for id in with_status(planner, BodyStatus::Adding) {
            tell(planner, at_ms, &Event::Ready(KeptId::Body(id)));
        }
    }

    #[test]
    fn another_body_is_made_for_each_that_is_used_up_and_more_where_none_was_ready() {
        for policy in [PolicyChoice::Recycle(crate::policy::Frequency::ANY), PolicyChoice::Adaptive] {
            let mut planner = planner(policy, 10_000);
            use_up(&mut planner, 1, 1);
            assert_eq!(with_status(&planner, BodyStatus::Adding).len(), 2);
            all_are_made(&mut planner, 2);
            use_up(&mut planner, 3, 2);
            assert_eq!(with_status(&planner, BodyStatus::Adding).len(), 1, "for the one that was taken");
            assert_eq!(with_status(&planner, BodyStatus::Idle).len(), 1);
            for process in 3..20 {
                use_up(&mut planner, 4, process);
            }
            assert_eq!(planner.inventory().kept_of(PROGRAM), MOST, "two were not enough");
            planner.inventory().audit().expect("it adds up");
        }
    }

    #[test]
    fn the_stock_keeps_to_the_budget_and_forgets() {
        let mut small = planner(PolicyChoice::Adaptive, 125);
        use_up(&mut small, 1, 1);
        assert_eq!(small.inventory().kept_of(PROGRAM), 2, "image and two bodies are 120 bytes");
        for process in 2..9 {
            use_up(&mut small, 2, process);
        }
        assert_eq!(small.inventory().kept_of(PROGRAM), 2);
        let mut idle = planner(PolicyChoice::Recycle(crate::policy::Frequency::ANY), 10_000);
        (1..20).for_each(|process| use_up(&mut idle, 1, process));
        tell(&mut idle, 2, &Event::Pressure);
        assert_eq!(idle.inventory().kept_of(PROGRAM), 0);
        use_up(&mut idle, 20_000, 99);
        assert_eq!(idle.inventory().kept_of(PROGRAM), LEAST, "the burst was long ago");
    }
}
