//! A state and a policy together: events in, actions out, all of them checked.

use std::time::Duration;

use crate::event::{BodyId, Done, Event, Kept};
use crate::policy::{Learned, Policy, Turn, Why};
use crate::state::{Illegal, State};

/// What is kept, and who decides about it.
#[derive(Debug)]
pub struct Pool {
    state: State,
    policy: Box<dyn Policy>,
    left: Option<BodyId>,
}

impl Pool {
    /// A pool that keeps nothing yet.
    #[must_use]
    pub fn new(state: State, policy: Box<dyn Policy>) -> Pool {
        Pool { state, policy, left: None }
    }

    /// What is kept and in use.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The name of the policy.
    #[must_use]
    pub fn policy(&self) -> &'static str {
        self.policy.name()
    }

    /// Tells that something has happened, `at` after the log was begun. The caller then does what the actions say, in
    /// their order. What they add, and the bodies that they keep, is reported with [`Event::Ready`] when it can be used.
    ///
    /// # Errors
    /// [`Illegal`]: the event cannot be, or the policy has asked for what cannot be. Actions that were taken in before
    /// an illegal one stay taken in.
    pub fn handle(&mut self, at: Duration, event: &Event) -> Result<Vec<Done>, Illegal> {
        let left = self.state.take_in(at, event)?;
        self.left = left;
        let mut turn = Turn::new(&mut self.state, left);
        if matches!(event, Event::Known { .. }) {
            // What is kept may be more than it was thought to be.
            turn.come_within_budget()?;
        }
        self.policy.turn(event, &mut turn)?;
        let done = turn.finish();
        if let Some(id) = left
            && self.state.body(id).is_some_and(|body| !body.is_kept())
        {
            return Err(Illegal::Undecided(Kept::Body(id)));
        }
        let (kept_bytes, budget_bytes) = (self.state.kept_bytes(), self.state.budget_bytes());
        if kept_bytes > budget_bytes {
            return Err(Illegal::OverBudget { kept_bytes, budget_bytes });
        }
        Ok(done)
    }

    /// The body that the process of the last event left.
    #[must_use]
    pub fn last_left(&self) -> Option<BodyId> {
        self.left
    }

    /// When the policy wants a tick, at the latest.
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        self.policy.next_tick(&self.state)
    }

    /// What the policy has learned, if it learns.
    #[must_use]
    pub fn learned(&self) -> Option<Learned> {
        self.policy.learned(&self.state)
    }

    /// Why something is kept; `None` when it is not.
    #[must_use]
    pub fn why(&self, kept: Kept) -> Option<Why> {
        let there = match kept {
            Kept::Body(id) => self.state.body(id).is_some_and(crate::state::Body::is_kept),
            Kept::Shell(id) => self.state.shells().any(|(shell, _)| shell == id),
            Kept::Region(id) => self.state.regions().any(|(region, _)| region == id),
        };
        there.then(|| self.policy.why(&self.state, kept))
    }
}
