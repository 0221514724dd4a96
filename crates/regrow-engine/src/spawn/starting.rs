//! Starts a run in a body of an image: chooses the body, writes the order, notes the process.
//!
//! Whatever goes wrong before the program's first instruction ends in a [`Fallback`], and the run is exec'd; a body in doubt is
//! dropped, never used again.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use regrow_abi::task::Task;
use regrow_abi::{MOST_ORDER_BYTES, State};
use regrow_body::{Body, BodyError, Run, StartError};
use regrow_image::image::Image;
use regrow_sys::caller::RandomWords;

use crate::ids::{BodyId, ImageId};
use crate::image::forking::BodyForker;
use crate::keeping::inspection::{self, Reports};
use crate::ledger::{BodyOf, RunInBody};
use crate::run::creation::{Creation, Fallback, Point, RequestPart};
use crate::run::front_end;
use crate::run::program::Resolved;
use crate::run::request::Request;
use crate::run::started::Started;
use crate::settings::{PointChoice, Reuse, Settings};
use crate::spawn::finder::{Finder, Wanted};
use crate::tables::processes::ProcessRow;
use regrow_abi::fault;

/// How long a run waits for a body that is being put back, before another one is made.
const RESET_WAIT: Duration = Duration::from_micros(400);
/// How long it waits for one that is put back on the caller's processor. Longer than a tick, so that no timer is set: in a virtual machine that
/// costs as much as a fifth of a reset.
const HERE_WAIT: Duration = Duration::from_millis(10);
/// The same in verify mode, where comparing takes long.
const VERIFY_WAIT: Duration = Duration::from_secs(2);

/// A body for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChosenBody {
    id: BodyId,
    /// It was made for this run.
    forked: bool,
    /// How long the run has waited for it to be put back.
    waited: Duration,
}

/// What starting a run uses of the shard.
#[derive(Debug)]
pub(crate) struct Starter<'a> {
    pub(crate) finder: Finder<'a>,
    pub(crate) forker: &'a BodyForker,
    pub(crate) reports: &'a mut Reports,
    pub(crate) random: &'a mut RandomWords,
    /// The calling thread is about to sleep until the run is over or under way.
    pub(crate) caller_sleeps: bool,
    /// When the caller asked for the run, on the monotonic clock in nanoseconds.
    pub(crate) ordered_ns: u64,
}

impl Starter<'_> {
    /// Starts a run that is to be this task, in a body of the deepest image that there is for it. Gives the body too.
    ///
    /// # Errors
    /// Why the run is to be started by exec.
    pub(crate) fn start(&mut self, request: &Request, task: &Task) -> Result<(BodyId, Started), Fallback> {
        if let Some(what) = request.only_exec_gives() {
            return Err(Fallback::UnsupportedRequest { what });
        }
        let resolved = self.finder.holdings.resolve(request)?;
        let wanted = Wanted { resolved: &resolved, request, task };
        let front_end = self.finder.front_end(&resolved, request);
        let mut not_loaded = front_end::not_loaded(front_end.as_ref(), request);
        if let Some(front_end) = front_end {
            let found = self.finder.find_warm(wanted, &front_end);
            match found.and_then(|image| self.start_in(image, &resolved, request, task)) {
                Err(why) if self.finder.settings.point == PointChoice::Auto => {
                    tracing::debug!(%why, "not started in the image of a front end");
                    let of_image = why.is_of_image().then_some(&why);
                    not_loaded = of_image
                        .or_else(|| self.finder.failed_before(wanted, &front_end))
                        .filter(|_| front_end.loads_modules_of(request))
                        .map(ToString::to_string);
                }
                other => return other,
            }
        }
        let image = self.finder.find(wanted, None)?;
        let mut started = self.start_in(image, &resolved, request, task);
        match &mut started {
            Ok((_, started)) => started.not_loaded = not_loaded,
            Err(Fallback::AllBusy) => self.finder.holdings.run_crowded_out(image, request.site),
            Err(_) => {}
        }
        started
    }

    fn start_in(
        &mut self,
        image: ImageId,
        resolved: &Resolved,
        request: &Request,
        task: &Task,
    ) -> Result<(BodyId, Started), Fallback> {
        if self.finder.settings.sessions && !task.session() {
            // The process that would be it leads a session already.
            return Err(Fallback::UnsupportedRequest { what: RequestPart::CallersSession });
        }
        let chosen = self.choose(image, self.is_single_use(request))?;
        let mut started = self.give_order(image, chosen, resolved, request, task)?;
        self.note(image, chosen, request, &mut started);
        Ok((chosen.id, started))
    }

    /// Writes the order of a run, and sends it to the armed process of the body.
    fn give_order(
        &mut self,
        image: ImageId,
        chosen: ChosenBody,
        resolved: &Resolved,
        request: &Request,
        task: &Task,
    ) -> Result<Started, Fallback> {
        let single_use = self.is_single_use(request);
        let tables = &mut self.finder.holdings.tables;
        let kept = tables.images.kept_mut(image).ok_or(Fallback::BodyBroken)?;
        let arguments = resolved.arguments(request);
        let in_exchange = order_in_exchange(&kept.image, request);
        if request.is_ahead && in_exchange.is_none() {
            return Err(Fallback::UnsupportedRequest { what: RequestPart::Ahead });
        }
        let fds =
            if in_exchange.is_some() { request.descriptors_beside_order() } else { request.descriptors() };
        let mut fds =
            fds.map_err(|_| Fallback::UnsupportedRequest { what: RequestPart::DescriptorNumber })?;
        let is_warm = kept.point() == Point::Warm;
        let is_told = is_warm && in_exchange.is_none();
        let order = if is_told { front_end::order(&fds, &arguments, &request.env)? } else { None };
        fds.extend(order.as_ref().map(|order| (order.as_fd(), regrow_front::DESCRIPTOR)));
        let processors = task.affinity().or(kept.then().affinity());
        let task = task.beyond(kept.then());
        let run = Run {
            order: in_exchange,
            is_ahead: request.is_ahead,
            processors: processors.filter(|_| !is_warm),
            caller_sleeps: self.caller_sleeps,
            exec_path: resolved.own_exec_path(),
            timed: self.finder.settings.timed,
            single_use,
            random: self.random.take().map_err(|_| Fallback::UnsupportedKernel)?,
            ..request.run(&task, &arguments, &fds)
        };
        let body = tables.bodies.get_mut(chosen.id).ok_or(Fallback::BodyBroken)?;
        let started = launch(body, &kept.image, chosen.forked, &run, self.finder.settings);
        match &started {
            Ok(_) => kept.remember(&request.env),
            Err(Fallback::BodyBroken) => drop(tables.bodies.remove(chosen.id)),
            Err(_) => {}
        }
        started
    }

    /// Adds the process to its table, and tells the ledger of the run.
    fn note(&mut self, image: ImageId, chosen: ChosenBody, request: &Request, started: &mut Started) {
        let tables = &mut self.finder.holdings.tables;
        let ChosenBody { id: body, forked, waited } = chosen;
        let process = tables.processes.insert(ProcessRow::new(request, started, Some(body), self.ordered_ns));
        started.process = Some(process);
        let Some(row) = tables.images.get(image) else { return };
        let of = BodyOf { image, program: row.program };
        let single_use = self.is_single_use(request);
        let site = request.site;
        self.finder.holdings.run_started(RunInBody { process, body, of, forked, waited, single_use, site });
    }

    /// Whether a run is to have its body alone.
    fn is_single_use(&self, request: &Request) -> bool {
        request.single_use || self.finder.settings.reuse == Reuse::Never
    }

    /// A body for a run; one that had no run before, where `unused` says so. Where none is ready at once, the planner is told first of what
    /// has happened.
    fn choose(&mut self, image: ImageId, unused: bool) -> Result<ChosenBody, Fallback> {
        self.finder.holdings.retire_spent();
        if self.armed(image, unused).is_none() {
            self.finder.holdings.look_at(image);
        }
        let kept = self.finder.holdings.tables.images.kept(image).ok_or(Fallback::NotKept)?;
        let (image_of, point) = (Arc::clone(&kept.image), kept.point());
        let chosen = self.choose_or_fork(image, &image_of, point, unused);
        if let Err(why) = &chosen {
            if !image_of.seed().lives() {
                // No body can be made any more: the next run has the image made anew.
                self.finder.holdings.drop_image(image);
            } else if *why == Fallback::NoDescriptors {
                self.finder.holdings.drop_least_used();
            }
        }
        chosen
    }

    /// Finds an armed body, or makes one.
    fn choose_or_fork(
        &mut self,
        id: ImageId,
        image: &Image,
        point: Point,
        unused: bool,
    ) -> Result<ChosenBody, Fallback> {
        let began = Instant::now();
        if let Some(body) = self.await_reset_here(id, unused) {
            return Ok(ChosenBody { id: body, forked: false, waited: began.elapsed() });
        }
        if let Some(body) = self.inspect_for_armed(id, image, unused) {
            return Ok(ChosenBody { id: body, forked: false, waited: Duration::ZERO });
        }
        if !unused {
            if let Some(body) = self.await_reset(id, image, point, began) {
                return Ok(ChosenBody { id: body, forked: false, waited: began.elapsed() });
            }
            if self.has_all_bodies(id) {
                return Err(Fallback::AllBusy);
            }
        }
        let forked = self.forker.fork(image).map_err(|error| {
            tracing::debug!(%error, "no further body");
            match error {
                BodyError::Fork { source, .. } if is_shortage(&source) => Fallback::NoMemory,
                BodyError::Setup { .. } => Fallback::NoDescriptors,
                _ => Fallback::BodyBroken,
            }
        })?;
        let new = self.finder.holdings.reserve_body();
        self.finder.holdings.tables.bodies.insert(new, id, Box::new(forked));
        // Another one may have become ready meanwhile.
        let body = self.inspect_for_armed(id, image, unused).ok_or(Fallback::BodyBroken)?;
        Ok(ChosenBody { id: body, forked: body == new, waited: began.elapsed() })
    }

    /// Waits for a body that is being put back on this processor: another one would find the processor busy, and this thread would be woken on
    /// another.
    fn await_reset_here(&mut self, image: ImageId, unused: bool) -> Option<BodyId> {
        if unused || !self.caller_sleeps || self.finder.settings.verify {
            return None;
        }
        let bodies = &mut self.finder.holdings.tables.bodies;
        let (id, _) = bodies.of(image).find(|(_, body)| body.is_put_back_here())?;
        let body = bodies.get_mut(id)?;
        (body.await_armed(HERE_WAIT) && body.state() == Some(State::Armed)).then_some(id)
    }

    /// Waits a while for a body that is being put back.
    fn await_reset(&mut self, id: ImageId, image: &Image, point: Point, began: Instant) -> Option<BodyId> {
        let bodies = || self.finder.holdings.tables.bodies.of(id).map(|(_, body)| body);
        // A run that nobody has waited for may have ended. A keeper that is woken for nothing costs a processor.
        bodies().filter(|body| body.has_unawaited_end()).for_each(|body| body.bell().ring());
        let patience = self.patience(id, point);
        while began.elapsed() < patience {
            let (_, body) =
                self.finder.holdings.tables.bodies.of(id).find(|(_, body)| body.is_being_put_back())?;
            if body.state() == Some(State::Running) {
                // Its run has ended since.
                body.bell().ring();
            }
            body.wait_ready(RESET_WAIT / 4);
            if let Some(body) = self.inspect_for_armed(id, image, false) {
                return Some(body);
            }
        }
        None
    }

    /// At the limit a run waits longer: exec is the alternative, not a fork. The exec of an interpreter, with all that it would have to
    /// prepare again, takes tens of milliseconds.
    fn patience(&self, image: ImageId, point: Point) -> Duration {
        if self.finder.settings.verify {
            VERIFY_WAIT
        } else if self.has_all_bodies(image) {
            if point == Point::Warm { RESET_WAIT * 50 } else { RESET_WAIT * 4 }
        } else {
            RESET_WAIT
        }
    }

    fn has_all_bodies(&self, image: ImageId) -> bool {
        self.finder.holdings.tables.reusable_bodies(image) >= self.finder.settings.max_bodies_per_program
    }

    /// An armed body; one that had no run before, where `unused` says so.
    fn armed(&self, image: ImageId, unused: bool) -> Option<BodyId> {
        let mut bodies = self.finder.holdings.tables.bodies.of(image);
        let fits = |body: &Body| (!unused || body.runs() == 0) && body.state() == Some(State::Armed);
        bodies.find(|(_, body)| fits(body)).map(|(id, _)| id)
    }

    /// An armed body. Where there is none at once, all bodies of the image are inspected.
    fn inspect_for_armed(&mut self, id: ImageId, image: &Image, unused: bool) -> Option<BodyId> {
        self.armed(id, unused).or_else(|| {
            let may_go_on = |body: &Body| inspection::may_go_on(image, body, self.reports);
            self.finder.holdings.tables.bodies.retain(id, may_go_on);
            self.armed(id, unused)
        })
    }
}

/// The order of a request, where a run in a body of this image is given it in the exchange.
fn order_in_exchange<'r>(image: &Image, request: &'r Request) -> Option<&'r [u8]> {
    let order = request.order.as_ref()?.bytes();
    let is_passed = request.extra_fds.iter().any(|fd| fd.target == regrow_front::DESCRIPTOR);
    let fits = (1..=MOST_ORDER_BYTES).contains(&order.len()) && image.has_exchange();
    (fits && !is_passed).then_some(order)
}

/// Whether a seed could not make a body because there was no room for it, and not because it is gone.
fn is_shortage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::OutOfMemory | io::ErrorKind::WouldBlock)
}

/// Sends the order.
fn launch(
    body: &mut Body,
    image: &Image,
    forked: bool,
    run: &Run<'_>,
    settings: &Settings,
) -> Result<Started, Fallback> {
    inject_before(body, settings)?;
    let point = image.point;
    match body.start(image, run) {
        Ok(pid) => {
            if settings.fault == fault::KEEPER_KILLED_AFTER_ORDER {
                body.kill_keeper();
            }
            let creation = if forked { Creation::ForkedBody { point } } else { Creation::Recycled { point } };
            Ok(Started::in_body(pid, body.bell(), creation))
        }
        Err(StartError::TooLarge) => Err(Fallback::ArgumentsTooLarge),
        Err(StartError::TooManyDescriptors(count)) => {
            Err(Fallback::UnsupportedRequest { what: RequestPart::Descriptors { count } })
        }
        Err(StartError::NotArmed) => Err(Fallback::AllBusy),
        // Exec finds the same error, or none.
        Err(error @ StartError::Refused { step, .. }) => {
            tracing::debug!(%error, "an order was refused");
            Err(Fallback::UnsupportedRequest { what: RequestPart::Step(Some(step)) })
        }
        Err(error @ StartError::Broken(_)) => {
            tracing::debug!(%error, "a body is broken");
            Err(Fallback::BodyBroken)
        }
    }
}

fn inject_before(body: &Body, settings: &Settings) -> Result<(), Fallback> {
    match settings.fault {
        fault::SEND_FAILS => Err(Fallback::FaultInjected),
        fault::KEEPER_KILLED_BEFORE_ORDER => {
            body.kill_keeper();
            Ok(())
        }
        fault::ARMED_KILLED_BEFORE_ORDER => {
            body.kill_armed();
            Ok(())
        }
        _ => Ok(()),
    }
}
