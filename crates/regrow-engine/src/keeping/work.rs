//! What is done for the pool between runs: bodies are forked, broken up, trimmed, given pages, checked, renewed, dropped; shells are made;
//! images give pages back.
//!
//! ```text
//!   Decision ──> Chore, in a queue ──taken, with what it needs──> Work ──carried out without the lock──> Finished ──> tables
//! ```
//!
//! Whoever has a loop of its own (the daemon) carries work out when it is idle; for the others [`crate::shared`] has a thread.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use regrow_abi::task::Task;
use regrow_body::{Body, Shell};
use regrow_image::image::Image;

use crate::ids::{BodyId, ImageId, ProgramId, ShellId};
use crate::image::forking::BodyForker;
use crate::keeping::giving;
use crate::keeping::inspection::{self, Observed};
use crate::tables::shells::ShellSlot;

/// How long a shell that was used may take to be one again.
const REARM_TIME: Duration = Duration::from_millis(100);

/// Something that is to be ended.
#[derive(Debug)]
pub(crate) enum Discarded {
    Body(Box<Body>),
    Shell(Box<Shell>),
}

impl Discarded {
    fn end(self) {
        match self {
            Discarded::Body(body) => drop(body),
            Discarded::Shell(shell) => drop(shell),
        }
    }
}

/// Something that is to be done when there is time.
#[derive(Debug)]
pub(crate) enum Chore {
    AddBody { program: ProgramId, body: BodyId },
    AddShell { shell: ShellId },
    BreakUp { body: Box<Body>, image: Arc<Image>, then: Box<Task>, shell: ShellId },
    Prefault { body: BodyId },
    Trim { body: BodyId },
    Check { body: BodyId },
    GiveBack { image: ImageId },
    Renew { body: BodyId },
    Discard(Discarded),
}

impl Chore {
    /// Whether it is about a body that is in the tables, or will be.
    fn is_of_body(&self, wanted: BodyId) -> bool {
        match self {
            Chore::AddBody { body, .. }
            | Chore::Prefault { body }
            | Chore::Trim { body }
            | Chore::Check { body }
            | Chore::Renew { body } => *body == wanted,
            Chore::AddShell { .. } | Chore::BreakUp { .. } | Chore::GiveBack { .. } | Chore::Discard(_) => {
                false
            }
        }
    }

    /// Whether it may have to wait for an image.
    fn may_wait(&self) -> bool {
        matches!(self, Chore::AddBody { .. } | Chore::AddShell { .. })
    }
}

/// What there is to do, in its order.
#[derive(Debug, Default)]
pub(crate) struct Chores(VecDeque<Chore>);

impl Chores {
    /// Adds a chore at the end.
    pub(crate) fn push(&mut self, chore: Chore) {
        self.0.push_back(chore);
    }

    /// Has pages mapped in a body, where that is not to be done already.
    pub(crate) fn push_prefault(&mut self, body: BodyId) {
        let is_there = |chore: &Chore| matches!(chore, Chore::Prefault { body: other } if *other == body);
        if !self.0.iter().any(is_there) {
            self.push(Chore::Prefault { body });
        }
    }

    /// Has a body renewed, where that is not to be done already.
    pub(crate) fn push_renewal(&mut self, body: BodyId) {
        if !self.0.iter().any(|chore| matches!(chore, Chore::Renew { body: other } if *other == body)) {
            self.push(Chore::Renew { body });
        }
    }

    /// Has a body ended.
    pub(crate) fn discard_body(&mut self, body: Box<Body>) {
        self.push(Chore::Discard(Discarded::Body(body)));
    }

    /// Has a shell ended.
    pub(crate) fn discard_shell(&mut self, shell: Shell) {
        self.push(Chore::Discard(Discarded::Shell(Box::new(shell))));
    }

    /// Takes the next chore.
    pub(crate) fn pop(&mut self) -> Option<Chore> {
        self.0.pop_front()
    }

    /// Forgets what was to be done for a body.
    pub(crate) fn forget_body(&mut self, body: BodyId) {
        self.0.retain(|chore| !chore.is_of_body(body));
    }

    /// Forgets that a shell was to be made.
    pub(crate) fn forget_shell(&mut self, wanted: ShellId) {
        self.0.retain(|chore| !matches!(chore, Chore::AddShell { shell } if *shell == wanted));
    }

    /// Forgets everything but what is to be ended.
    pub(crate) fn keep_discards(&mut self) {
        self.0.retain(|chore| matches!(chore, Chore::Discard(_)));
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether each of them may have to wait for an image.
    pub(crate) fn all_may_wait(&self) -> bool {
        self.0.iter().all(Chore::may_wait)
    }
}

/// A body that is out of the tables for the time of a piece of work.
#[derive(Debug)]
pub(crate) struct LentBody {
    pub(crate) id: BodyId,
    pub(crate) body: Box<Body>,
    pub(crate) image: Arc<Image>,
    /// The keeper of another body of the image.
    pub(crate) sibling: Option<i32>,
}

/// A piece of work.
#[derive(Debug)]
pub struct Work(pub(crate) WorkStep);

#[derive(Debug)]
pub(crate) enum WorkStep {
    Fork { id: ImageId, image: Arc<Image>, forker: Box<BodyForker>, body: BodyId },
    MakeShell { image: Arc<Image>, forker: Box<BodyForker>, then: Box<Task>, shell: ShellId },
    Rearm { slot: Box<ShellSlot>, shell: ShellId },
    BreakUp { body: Box<Body>, image: Arc<Image>, forker: Box<BodyForker>, then: Box<Task>, shell: ShellId },
    Prefault(LentBody),
    Trim(LentBody),
    Check(LentBody),
    GiveBack { id: ImageId, image: Arc<Image>, keepers: Vec<i32> },
    Renew { lent: LentBody, forker: Box<BodyForker> },
    Discard(Discarded),
}

/// A piece of work that is done.
#[derive(Debug)]
pub struct Finished(pub(crate) WorkResult);

#[derive(Debug)]
pub(crate) enum WorkResult {
    /// A body was forked, or could not be.
    Body {
        image: ImageId,
        id: BodyId,
        made: Option<Box<Body>>,
    },
    /// A shell was made, or could not be.
    Shell {
        shell: ShellId,
        made: Option<Box<ShellSlot>>,
    },
    /// A lent body comes back, unless it broke.
    Returned {
        id: BodyId,
        body: Option<Box<Body>>,
    },
    /// A lent body comes back after a spot check.
    Checked {
        id: BodyId,
        body: Box<Body>,
        seen: Observed,
    },
    /// An image has given pages back.
    GivenBack {
        image: ImageId,
    },
    Nothing,
}

impl Work {
    /// Carries it out. Takes up to some milliseconds, and needs no lock.
    #[must_use]
    pub fn carry_out(self) -> Finished {
        let result = match self.0 {
            WorkStep::Fork { id: image, image: of, forker, body: id } => {
                let made = forker.fork_ahead(&of);
                let made = made.inspect_err(|error| tracing::debug!(%error, "no body was added")).ok();
                WorkResult::Body { image, id, made: made.map(Box::new) }
            }
            WorkStep::MakeShell { image, forker, then, shell } => {
                shell_result(forker.make_shell(&image), *then, shell)
            }
            WorkStep::Rearm { slot, shell } => {
                let made = slot.shell.wait_ready(REARM_TIME).then_some(slot);
                WorkResult::Shell { shell, made }
            }
            WorkStep::BreakUp { body, image, forker, then, shell } => {
                // A body that had runs keeps its agent's memory until it ends: the shell is a fork of the same seed.
                drop(body);
                shell_result(forker.make_shell(&image), *then, shell)
            }
            WorkStep::Prefault(LentBody { id, body, image, sibling }) => {
                let good = sibling.is_none_or(|sibling| body.prefault_like(&image, sibling));
                WorkResult::Returned { id, body: good.then_some(body) }
            }
            WorkStep::Trim(LentBody { id, body, .. }) => {
                let good = body.trim();
                WorkResult::Returned { id, body: good.then_some(body) }
            }
            WorkStep::Check(LentBody { id, body, image, .. }) => {
                let seen = inspection::observe(&image, &body);
                WorkResult::Checked { id, body, seen }
            }
            WorkStep::GiveBack { id, image, keepers } => match giving::give_back(&image, &keepers) {
                Ok(0) => WorkResult::Nothing,
                Ok(pages) => {
                    tracing::debug!(pages, "an image has given pages back");
                    WorkResult::GivenBack { image: id }
                }
                Err(error) => {
                    tracing::debug!(%error, "an image keeps its pages");
                    WorkResult::Nothing
                }
            },
            WorkStep::Renew { lent: LentBody { id, body, image, .. }, forker } => {
                WorkResult::Returned { id, body: Some(giving::renew(&image, &forker, body)) }
            }
            WorkStep::Discard(gone) => {
                gone.end();
                WorkResult::Nothing
            }
        };
        Finished(result)
    }
}

fn shell_result(made: io::Result<Shell>, then: Task, shell: ShellId) -> WorkResult {
    let made = made.inspect_err(|error| tracing::debug!(%error, "no shell was made")).ok();
    WorkResult::Shell { shell, made: made.map(|made| Box::new(ShellSlot { shell: made, then })) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_not_worked_on() {
        let (one, two) = (BodyId::new(1), BodyId::new(2));
        let mut chores = Chores::default();
        chores.push(Chore::AddBody { program: ProgramId::new(1), body: one });
        chores.push_prefault(two);
        chores.push_prefault(two);
        chores.push(Chore::Trim { body: two });
        chores.push(Chore::AddShell { shell: ShellId::new(1) });
        assert_eq!(chores.len(), 4, "pages are mapped once");
        assert!(!chores.all_may_wait());
        chores.forget_body(two);
        assert_eq!(chores.len(), 2);
        assert!(chores.all_may_wait());
        chores.forget_shell(ShellId::new(1));
        chores.forget_body(one);
        assert!(chores.is_empty());
    }

    #[test]
    fn nothing_is_made_after_everything_was_begun_anew() {
        let mut chores = Chores::default();
        chores.push(Chore::AddShell { shell: ShellId::new(1) });
        chores.keep_discards();
        assert!(chores.pop().is_none());
    }
}
