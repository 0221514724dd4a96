//! What is done for the pool between runs: bodies are forked, broken up, trimmed, given pages, dropped; shells are made.
//!
//! A piece of work is taken from the shard, carried out without the shard's lock, and handed back. Who has a loop of its own
//! (the daemon) does so when it is idle; for the others there is a *tender*: a thread that sleeps until there is work or
//! the policy wants to be asked.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use regrow_body::{Body, Shell};
use regrow_image::image::Image;
use regrow_pool::{BodyId, Event, Kept as KeptId, ProgramId, ShellId};
use regrow_sys::caller::Settable;
use regrow_sys::raw::detached_thread;

use crate::maker;
use crate::settings::Settings;
use crate::shard::Shard;
use crate::table::Slot;
use crate::watch::Owner;

/// How long a shell that was used may take to be one again.
const REARM_TIME: Duration = Duration::from_millis(100);
/// How long it is waited for a first image where only shells are to be made.
const PAUSE: Duration = Duration::from_secs(1);
/// How often the tender looks whether an image has been made that a body is to be added to.
const LOOK: Duration = Duration::from_millis(2);

/// A shell, and what its keeper has from the caller.
#[derive(Debug)]
pub(crate) struct ShellSlot {
    pub(crate) shell: Shell,
    pub(crate) then: Settable,
}

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

/// What there is to do.
#[derive(Debug)]
pub(crate) enum Todo {
    AddBody { program: ProgramId, body: BodyId },
    AddShell { shell: ShellId },
    BreakUp { body: Box<Body>, then: Box<Settable>, shell: ShellId },
    Prefault { body: BodyId },
    Trim { body: BodyId },
    Discard(Discarded),
}

impl Todo {
    /// Whether it is about a body that is in the tables, or will be.
    pub(crate) fn is_of(&self, wanted: BodyId) -> bool {
        match self {
            Todo::AddBody { body, .. } | Todo::Prefault { body } | Todo::Trim { body } => *body == wanted,
            Todo::AddShell { .. } | Todo::BreakUp { .. } | Todo::Discard(_) => false,
        }
    }
}

/// A body that is out of the tables for the time of a piece of work.
#[derive(Debug)]
pub(crate) struct Lent {
    pub(crate) owner: Owner,
    pub(crate) id: u64,
    pub(crate) body: Box<Body>,
    pub(crate) image: Arc<Image>,
    /// The keeper of another body of the image.
    pub(crate) sibling: Option<i32>,
}

/// A piece of work.
#[derive(Debug)]
pub struct Work(Step, u64);

#[derive(Debug)]
enum Step {
    Fork { owner: Owner, image: Arc<Image>, settings: Box<Settings>, body: BodyId },
    MakeShell { image: Arc<Image>, settings: Box<Settings>, then: Box<Settable>, shell: ShellId },
    Rearm { slot: Box<ShellSlot>, shell: ShellId },
    BreakUp { body: Box<Body>, then: Box<Settable>, shell: ShellId },
    Prefault(Lent),
    Trim(Lent),
    Discard(Discarded),
}

/// A piece of work that is done.
#[derive(Debug)]
pub struct Finished(Outcome, u64);

#[derive(Debug)]
enum Outcome {
    Body { owner: Owner, body: BodyId, made: Option<Box<Body>> },
    Shell { shell: ShellId, made: Option<Box<ShellSlot>> },
    GivenBack { owner: Owner, id: u64, body: Option<Box<Body>> },
    Nothing,
}

impl Work {
    /// Carries it out. Takes up to some milliseconds, and needs no lock.
    #[must_use]
    pub fn carry_out(self) -> Finished {
        let outcome = match self.0 {
            Step::Fork { owner, image, settings, body } => {
                let made = maker::fork_ahead(&image, &settings);
                let made = made.inspect_err(|error| tracing::debug!(%error, "no body was added")).ok();
                Outcome::Body { owner, body, made: made.map(Box::new) }
            }
            Step::MakeShell { image, settings, then, shell } => {
                let made = maker::fork(&image, &settings).map_err(io::Error::other).and_then(Body::break_up);
                shell_outcome(made, then, shell)
            }
            Step::Rearm { slot, shell } => {
                let made = slot.shell.wait_ready(REARM_TIME).then_some(slot);
                Outcome::Shell { shell, made }
            }
            Step::BreakUp { body, then, shell } => shell_outcome(body.break_up(), then, shell),
            Step::Prefault(Lent { owner, id, body, image, sibling }) => {
                let good = sibling.is_none_or(|sibling| body.prefault_like(&image, sibling));
                Outcome::GivenBack { owner, id, body: good.then_some(body) }
            }
            Step::Trim(Lent { owner, id, body, .. }) => {
                let good = body.trim();
                Outcome::GivenBack { owner, id, body: good.then_some(body) }
            }
            Step::Discard(gone) => {
                gone.end();
                Outcome::Nothing
            }
        };
        Finished(outcome, self.1)
    }
}

fn shell_outcome(made: io::Result<Shell>, then: Box<Settable>, shell: ShellId) -> Outcome {
    let made = made.inspect_err(|error| tracing::debug!(%error, "no shell was made")).ok();
    Outcome::Shell { shell, made: made.map(|made| Box::new(ShellSlot { shell: made, then: *then })) }
}

impl Shard {
    /// The next piece of work, if there is one.
    pub fn take_work(&mut self) -> Option<Work> {
        self.tick();
        self.take_in_ready();
        for _ in 0..self.keeping.todo.len() {
            let todo = self.keeping.todo.pop_front()?;
            if let Some(step) = self.step(todo) {
                return Some(Work(step, self.keeping.epoch));
            }
        }
        if self.keeping.todo.is_empty() {
            // Nobody wants them at present.
            return self
                .keeping
                .spare
                .pop()
                .map(|slot| Work(Step::Discard(Discarded::Shell(Box::new(slot.shell))), self.keeping.epoch));
        }
        None
    }

    /// What is to be done for a thing; nothing when it is done already, or is put off.
    fn step(&mut self, todo: Todo) -> Option<Step> {
        match todo {
            Todo::Discard(gone) => Some(Step::Discard(gone)),
            Todo::BreakUp { body, then, shell } => Some(Step::BreakUp { body, then, shell }),
            Todo::Prefault { body } => self.lend(body).map(Step::Prefault),
            Todo::Trim { body } => self.lend(body).map(Step::Trim),
            Todo::AddShell { shell } => self.shell_step(shell),
            Todo::AddBody { program, body } => {
                let settings = Box::new(self.settings.clone());
                match self.image_for(program, body) {
                    Some((owner, image)) => Some(Step::Fork { owner, image, settings, body }),
                    // Its image is being made: the first body of it may be another one.
                    None if self.is_awaited_elsewhere(body) => {
                        self.keeping.todo.push_back(Todo::AddBody { program, body });
                        None
                    }
                    None => None,
                }
            }
        }
    }

    /// Whether a body is waited for that is not the one an image is being made with.
    fn is_awaited_elsewhere(&self, body: BodyId) -> bool {
        let state = self.keeping.pool().state();
        let adding = state.body(body).is_some_and(|body| body.status == regrow_pool::state::Status::Adding);
        adding && !self.tables.entries.values().any(|entry| entry.awaited == Some(body))
    }

    fn shell_step(&mut self, shell: ShellId) -> Option<Step> {
        if let Some(slot) = self.keeping.spare.pop() {
            return Some(Step::Rearm { slot: Box::new(slot), shell });
        }
        let mut kept = self.tables.entries.values().filter_map(|entry| match &entry.slot {
            Slot::Kept(kept) => Some(kept),
            _ => None,
        });
        let Some(kept) = kept.next() else {
            // A shell is made from a body of any image: there will be one.
            self.keeping.todo.push_back(Todo::AddShell { shell });
            return None;
        };
        let (image, then) = (Arc::clone(&kept.image), Box::new(kept.then().clone()));
        let settings = Box::new(Settings { verify: false, ..self.settings.clone() });
        Some(Step::MakeShell { image, settings, then, shell })
    }

    /// Takes in what was done.
    pub fn finish(&mut self, finished: Finished) {
        match finished.0 {
            Outcome::Nothing => {}
            Outcome::Body { owner, body, made } => self.added(owner, body, made.map(|made| *made)),
            Outcome::GivenBack { owner, id, body } => self.give_back_lent(owner, id, body),
            Outcome::Shell { .. } if finished.1 != self.keeping.epoch => {}
            Outcome::Shell { shell, made } => {
                let mut shells = self.keeping.pool().state().shells();
                let Some((_, there)) = shells.find(|(id, _)| *id == shell) else { return };
                let ready = there.ready;
                drop(shells);
                match made {
                    None => self.tell(&Event::Lost(KeptId::Shell(shell))),
                    Some(slot) => {
                        self.keeping.shells.insert(shell, *slot);
                        if !ready {
                            self.tell(&Event::Ready(KeptId::Shell(shell)));
                        }
                    }
                }
            }
        }
    }

    /// When there is something to do again, if nothing else happens: at once where there is work.
    #[must_use]
    pub fn next_work(&self) -> Option<Instant> {
        let now = Instant::now();
        if self.keeping.has_notes() {
            return Some(now);
        }
        if self.keeping.todo.is_empty() && self.keeping.spare.is_empty() {
            return self.keeping.next_tick();
        }
        let waits = |todo: &Todo| matches!(todo, Todo::AddBody { .. } | Todo::AddShell { .. });
        let only_waits = self.keeping.spare.is_empty() && self.keeping.todo.iter().all(waits);
        let slots = || self.tables.entries.values().map(|entry| &entry.slot);
        if only_waits && slots().any(|slot| matches!(slot, Slot::Making { .. })) {
            return Some(now + LOOK);
        }
        let none_kept = !slots().any(|slot| matches!(slot, Slot::Kept(_)));
        if only_waits && none_kept { self.keeping.next_tick().or(Some(now + PAUSE)) } else { Some(now) }
    }

    /// Whether a tender is to be started or woken. True for at most one caller at a time.
    fn wants_tender(&mut self) -> bool {
        let is_idle = self.keeping.todo.is_empty() && self.keeping.spare.is_empty();
        if self.keeping.has_tender {
            if let Some(tender) = self.keeping.tender.as_ref().filter(|_| !is_idle) {
                tender.unpark();
            }
            return false;
        }
        !is_idle || self.keeping.next_tick().is_some()
    }
}

/// Sees to it that somebody carries out what there is to do for the pool of this shard, which the caller has locked.
pub(crate) fn tend(shard: &Arc<Mutex<Shard>>, locked: &mut Shard) {
    if !locked.wants_tender() {
        return;
    }
    let weak = Arc::downgrade(shard);
    match detached_thread(move || tender(&weak)) {
        Ok(()) => locked.keeping.has_tender = true,
        Err(error) => tracing::debug!(%error, "no thread for what is kept"),
    }
}

/// The tender's life: as long as there is a shard that keeps something.
fn tender(weak: &Weak<Mutex<Shard>>) {
    loop {
        let Some(shard) = weak.upgrade() else { return };
        let mut locked = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(work) = locked.take_work() {
            drop(locked);
            drop(shard);
            let finished = work.carry_out();
            if let Some(shard) = weak.upgrade() {
                shard.lock().unwrap_or_else(PoisonError::into_inner).finish(finished);
            }
            continue;
        }
        let Some(next) = locked.next_work() else {
            (locked.keeping.tender, locked.keeping.has_tender) = (None, false);
            return;
        };
        locked.keeping.tender.get_or_insert_with(std::thread::current);
        drop(locked);
        // Whoever drops the last handle wakes this thread.
        drop(shard);
        std::thread::park_timeout(next.saturating_duration_since(Instant::now()));
    }
}
