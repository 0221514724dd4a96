//! Takes the shard's chores one by one, as work that can be carried out without its lock, and takes in what was done.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ids::{BodyId, ImageId, ProgramId, ShellId};
use crate::keeping::giving;
use crate::keeping::holdings::Holdings;
use crate::keeping::inspection::Reports;
use crate::keeping::work::{Chore, Discarded, Finished, Work, WorkResult, WorkStep};
use crate::spawn::finder::Finder;

/// How long to wait for a first image where only shells are to be made.
const PAUSE: Duration = Duration::from_secs(1);
/// How often to look whether an image has been made that a body is to be added to.
const LOOK: Duration = Duration::from_millis(2);

/// The next piece of work, if there is one.
pub(crate) fn take_work(finder: &mut Finder<'_>) -> Option<Work> {
    finder.holdings.tick();
    finder.take_made(false);
    for _ in 0..finder.holdings.chores.len() {
        let chore = finder.holdings.chores.pop()?;
        if let Some(step) = step(finder, chore) {
            return Some(Work(step));
        }
    }
    if !finder.holdings.chores.is_empty() {
        return None;
    }
    // Nobody wants used shells at present.
    let slot = finder.holdings.tables.shells.pop_used()?;
    Some(Work(WorkStep::Discard(Discarded::Shell(Box::new(slot.shell)))))
}

/// What is to be done for a chore; nothing when it is done already, or is put off.
fn step(finder: &mut Finder<'_>, chore: Chore) -> Option<WorkStep> {
    match chore {
        Chore::Discard(gone) => Some(WorkStep::Discard(gone)),
        Chore::BreakUp { body, image, then, shell } => {
            let forker = Box::new(finder.workshop.forker(finder.settings));
            Some(WorkStep::BreakUp { body, image, forker, then, shell })
        }
        Chore::Prefault { body } => finder.holdings.lend(body).map(WorkStep::Prefault),
        Chore::Trim { body } => finder.holdings.lend(body).map(WorkStep::Trim),
        Chore::Check { body } => finder.holdings.lend_for_check(body).map(WorkStep::Check),
        Chore::GiveBack { image } => give_back_step(finder.holdings, image),
        Chore::Renew { body } => {
            let forker = Box::new(finder.workshop.forker(finder.settings));
            finder.holdings.lend_to_renew(body).map(|lent| WorkStep::Renew { lent, forker })
        }
        Chore::AddShell { shell } => shell_step(finder, shell),
        Chore::AddBody { program, body } => body_step(finder, program, body),
    }
}

fn body_step(finder: &mut Finder<'_>, program: ProgramId, body: BodyId) -> Option<WorkStep> {
    if let Some((id, image)) = finder.image_to_fork(program, body) {
        let forker = Box::new(finder.workshop.forker(finder.settings));
        return Some(WorkStep::Fork { id, image, forker, body });
    }
    // The image is being made: its first body may be another one.
    if finder.holdings.ledger().is_awaited(body) && !is_first_of_an_image(finder.holdings, body) {
        finder.holdings.chores.push(Chore::AddBody { program, body });
    }
    None
}

fn give_back_step(holdings: &Holdings, id: ImageId) -> Option<WorkStep> {
    let image = Arc::clone(&holdings.tables.images.kept(id)?.image);
    let bodies: Vec<_> = holdings.tables.bodies.of(id).map(|(_, body)| body).collect();
    let keepers = bodies.iter().map(|body| body.keeper()).collect();
    giving::can_be_seen(&image, &bodies).then_some(WorkStep::GiveBack { id, image, keepers })
}

/// Whether an image is being made with this body as its first.
fn is_first_of_an_image(holdings: &Holdings, body: BodyId) -> bool {
    holdings.tables.images.iter().any(|(_, row)| row.awaited == Some(body))
}

fn shell_step(finder: &mut Finder<'_>, shell: ShellId) -> Option<WorkStep> {
    if let Some(slot) = finder.holdings.tables.shells.pop_used() {
        return Some(WorkStep::Rearm { slot: Box::new(slot), shell });
    }
    let Some((_, kept)) = finder.holdings.tables.images.iter_kept().next() else {
        // A shell is made from a body of any image: there will be one.
        finder.holdings.chores.push(Chore::AddShell { shell });
        return None;
    };
    let (image, then) = (Arc::clone(&kept.image), Box::new(*kept.then()));
    let forker = Box::new(finder.workshop.forker(finder.settings));
    Some(WorkStep::MakeShell { image, forker, then, shell })
}

/// Takes in what was done.
pub(crate) fn finish(holdings: &mut Holdings, finished: Finished, max_bodies: usize, reports: &mut Reports) {
    match finished.0 {
        WorkResult::Nothing => {}
        WorkResult::Body { image, id, made } => holdings.body_added(id, image, made, max_bodies),
        WorkResult::GivenBack { image } => holdings.image_gave_back(image),
        WorkResult::Returned { id, body } => holdings.take_back(id, body),
        WorkResult::Checked { id, body, seen } => {
            let goes_on = reports.note(body.keeper(), seen);
            holdings.checked(id, body, goes_on);
        }
        WorkResult::Shell { shell, made } => holdings.shell_made(shell, made.map(|made| *made)),
    }
}

/// When there is something to do again, if nothing else happens: at once where there is work.
pub(crate) fn next_work(holdings: &Holdings) -> Option<Instant> {
    if is_idle(holdings) {
        return holdings.untold_due().into_iter().chain(holdings.next_tick()).min();
    }
    let now = Instant::now();
    let images = &holdings.tables.images;
    let only_waits = holdings.tables.shells.no_used() && holdings.chores.all_may_wait();
    if only_waits && images.is_making() {
        return Some(now + LOOK);
    }
    if only_waits && images.iter_kept().next().is_none() {
        return holdings.next_tick().or(Some(now + PAUSE));
    }
    Some(now)
}

/// Whether there is nothing to do.
pub(crate) fn is_idle(holdings: &Holdings) -> bool {
    holdings.chores.is_empty() && holdings.tables.shells.no_used()
}

/// Whether there is something to do, or will be as soon as a run ends.
pub(crate) fn is_urgent(holdings: &Holdings) -> bool {
    !is_idle(holdings) || holdings.awaits_check()
}

/// Whether somebody has to look after what is kept.
pub(crate) fn is_wanted(holdings: &Holdings) -> bool {
    !is_idle(holdings) || holdings.next_tick().is_some()
}
