//! Finds the image that a run starts in, or has one made on a thread.
//!
//! ```text
//!   request ──> file, arguments ──> key ──> row of the table of images:
//!                  none            the policy is asked; a thread makes the image       FirstRun, or NotKept
//!                  being made                                                          ImageInProgress
//!                  refused         tried again after a while where the reason may pass its reason
//!                  kept            where files are not watched: unchanged?             the image
//! ```

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use regrow_abi::task::{Resource, Task};
use regrow_body::Keepers;
use regrow_image::image::Image;
use regrow_image::make::{self, AgentCode};
use regrow_image::resolve::FileIdentity;
use regrow_sys::caller;
use regrow_sys::disable::FeatureSet;
use regrow_sys::probe::{Feature, Kernel};
use regrow_sys::room;
use regrow_sys::strings::Strings;

use crate::ids::{BodyId, ImageId, ProgramId};
use crate::image::attempt::Job;
use crate::image::forking::BodyForker;
use crate::image::kept::{Identities, KeptImage};
use crate::image::maker::{self, Built};
use crate::keeping::holdings::Holdings;
use crate::run::creation::{Fallback, Point, RequestPart};
use crate::run::front_end::FrontEnd;
use crate::run::inherit::Inheritance;
use crate::run::program::{self, Key, Resolved};
use crate::run::request::Request;
use crate::settings::{PointChoice, Reuse, Settings};
use crate::tables::images::{Failures, Stage};
use regrow_abi::fault;

/// How often `prepare` begins anew when the program's files change while it is made.
const MAX_ATTEMPTS: usize = 100;
/// The same for a front end. Each time it is begun, and then waited for.
const MAX_WARM_ATTEMPTS: usize = 6;

/// The address space that a caller must have left where an image is made: an allocation that fails would end the caller. The making
/// takes 5 to 20 MiB, and the caller's other threads allocate meanwhile.
const MAKING_BYTES: u64 = 32 << 20;

/// What images and bodies are made with.
#[derive(Debug)]
pub(crate) struct Workshop {
    disabled: FeatureSet,
    /// What the kernel has, once somebody has asked it: that takes milliseconds, which a shard that keeps nothing has no use for.
    kernel: OnceLock<Kernel>,
    agent: Option<Arc<AgentCode>>,
    keepers: Keepers,
}

impl Workshop {
    /// Asks the kernel what it has, and prepares the agent's code, where something is to be recycled.
    pub(crate) fn new(settings: &Settings) -> Workshop {
        let agent = match settings.fault {
            fault::AGENT_MEMFD_FAILS => None,
            _ if !settings.recycle => None,
            _ => AgentCode::new().ok().map(Arc::new),
        };
        let disabled = settings.disabled;
        let workshop = Workshop { disabled, kernel: OnceLock::new(), agent, keepers: Keepers::default() };
        if settings.recycle {
            workshop.kernel();
        }
        workshop
    }

    fn kernel(&self) -> &Kernel {
        self.kernel.get_or_init(|| Kernel::probe(&self.disabled))
    }

    /// Whether files can be watched.
    pub(crate) fn can_watch(&self) -> bool {
        self.kernel().works(Feature::Inotify)
    }

    /// The keepers of all bodies that are made here.
    pub(crate) fn keepers(&self) -> &Keepers {
        &self.keepers
    }

    /// Forks bodies.
    pub(crate) fn forker(&self, settings: &Settings) -> BodyForker {
        BodyForker::new(settings, self.keepers.clone())
    }

    /// Whether anything can be recycled.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check(&self) -> Result<(), Fallback> {
        if !self.kernel().can_recycle() {
            return Err(Fallback::UnsupportedKernel);
        }
        self.agent.as_ref().map(|_| ()).ok_or(Fallback::NoMemory)
    }
}

/// What a search for an image uses of the shard.
#[derive(Debug)]
pub(crate) struct Finder<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) workshop: &'a Workshop,
    pub(crate) caller: &'a mut Inheritance,
    pub(crate) holdings: &'a mut Holdings,
}

/// A run whose image is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) resolved: &'a Resolved,
    pub(crate) request: &'a Request,
    /// What it is to be.
    pub(crate) task: &'a Task,
}

impl<'a> Wanted<'a> {
    /// The key of the image.
    fn key(&self, warm: Option<FrontEnd>, reuse: Reuse) -> Key<'a> {
        let ignored = self.task.ignored_signals().unwrap_or(0);
        Key {
            file: Cow::Borrowed(&self.resolved.file),
            argv0: Cow::Borrowed(&self.resolved.argv0),
            stack_limit: soft_limit(self.task, Resource::Stack),
            ignored: if warm.is_some() { ignored & !caller::OF_C_LIBRARY } else { 0 },
            warm,
            script: self.resolved.script().filter(|_| reuse == Reuse::Script).map(Cow::Borrowed),
        }
    }
}

/// What an image's processes have from a caller, with the soft limit of the stack that exec lays the image out by.
fn with_stack_limit(mut then: Task, soft: u64) -> Result<Task, Fallback> {
    let hard = then.limit(Resource::Stack).map_or(soft, |limit| limit.hard);
    if soft > hard {
        return Err(Fallback::UnsupportedRequest { what: RequestPart::StackLimit });
    }
    Ok(*then.set_limit(Resource::Stack, soft, hard))
}

/// The soft limit of a resource; 0 where the task says none.
fn soft_limit(task: &Task, resource: Resource) -> u64 {
    task.limit(resource).map_or(0, |limit| limit.soft)
}

impl Finder<'_> {
    /// The front end of a request: its own, or one that Regrow has for the program.
    pub(crate) fn front_end(&self, resolved: &Resolved, request: &Request) -> Option<FrontEnd> {
        if !matches!(self.settings.point, PointChoice::Auto | PointChoice::Only(Point::Warm)) {
            return None;
        }
        let own = request.warm.clone().map(FrontEnd::Own);
        own.or_else(|| FrontEnd::of_program(&resolved.file, || resolved.arguments(request), request))
    }

    /// The image of this front end; where there can be none, that of a plainer one.
    ///
    /// # Errors
    /// Why the run is started otherwise.
    pub(crate) fn find_warm(
        &mut self,
        wanted: Wanted<'_>,
        front_end: &FrontEnd,
    ) -> Result<ImageId, Fallback> {
        let found = self.find(wanted, Some(front_end.clone()));
        let Err(why) = found else { return found };
        let Some(plainer) = front_end.plainer() else { return Err(why) };
        if !why.is_of_image() && !self.is_kept(wanted, &plainer) {
            return Err(why);
        }
        tracing::debug!(%why, "started in the image of a plainer front end");
        self.find(wanted, Some(plainer))
    }

    /// Why the image of a front end could not be made the last time, where it is being tried again.
    pub(crate) fn failed_before(&self, wanted: Wanted<'_>, front_end: &FrontEnd) -> Option<&Fallback> {
        let images = &self.holdings.tables.images;
        let key = wanted.key(Some(front_end.clone()), self.settings.reuse);
        images.get(images.find(&key, &wanted.request.env)?)?.failures.last.as_ref()
    }

    /// Whether the image of a front end is kept.
    fn is_kept(&self, wanted: Wanted<'_>, front_end: &FrontEnd) -> bool {
        let images = &self.holdings.tables.images;
        let found =
            images.find(&wanted.key(Some(front_end.clone()), self.settings.reuse), &wanted.request.env);
        found.is_some_and(|image| images.kept(image).is_some())
    }

    /// The kept image for a run. Where there is none, one may be made on a thread.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn find(&mut self, wanted: Wanted<'_>, warm: Option<FrontEnd>) -> Result<ImageId, Fallback> {
        let key = wanted.key(warm, self.settings.reuse);
        let env = &wanted.request.env;
        let Some(image) = self.holdings.tables.images.use_for(&key, env) else {
            return Err(self.first_run(key.into_owned(), wanted.request, Failures::default()));
        };
        let row = self.holdings.tables.images.get(image).ok_or(Fallback::BodyBroken)?;
        match &row.stage {
            Stage::Making(_) => Err(Fallback::ImageInProgress),
            Stage::Refused(_) if row.is_to_be_tried_again(Instant::now()) => {
                let failures = row.failures.clone();
                self.holdings.drop_image(image);
                Err(self.first_run(key.into_owned(), wanted.request, failures))
            }
            Stage::Refused(why) => Err(why.clone()),
            Stage::Kept(kept) if !self.holdings.watches() && !kept.is_unchanged() => {
                self.holdings.drop_image(image);
                Err(Fallback::ProgramChanged)
            }
            Stage::Kept(_) => Ok(image),
        }
    }

    /// Makes the image for runs of a request ahead, and waits for it. Gives its point.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn prepare(&mut self, request: &Request, task: &Task) -> Result<Point, Fallback> {
        let resolved = self.holdings.resolve(request)?;
        let wanted = Wanted { resolved: &resolved, request, task };
        let mut front_end = self.front_end(wanted.resolved, wanted.request);
        while let Some(warm) = front_end {
            match self.await_image(wanted, Some(&warm)) {
                Err(why) if self.settings.point == PointChoice::Auto || warm.plainer().is_some() => {
                    tracing::debug!(%why, "no image of a front end");
                }
                other => return other,
            }
            front_end = warm.plainer();
        }
        self.await_image(wanted, None)
    }

    fn await_image(&mut self, wanted: Wanted<'_>, warm: Option<&FrontEnd>) -> Result<Point, Fallback> {
        // A front end takes long, and may change what it reads itself: it is not prepared for ever.
        let most = if warm.is_some() { MAX_WARM_ATTEMPTS } else { MAX_ATTEMPTS };
        for _ in 0..most {
            match self.find(wanted, warm.cloned()) {
                Ok(image) => {
                    let kept = self.holdings.tables.images.kept(image);
                    return kept.map(KeptImage::point).ok_or(Fallback::ImageInProgress);
                }
                Err(Fallback::FirstRun | Fallback::ImageInProgress) => self.take_made(true),
                Err(why) => return Err(why),
            }
        }
        Err(Fallback::ProgramChanged)
    }

    /// A run of a program that has no image: the policy says whether one is made. Gives the reason for the run's exec.
    fn first_run(&mut self, key: Key<'static>, request: &Request, failures: Failures) -> Fallback {
        let (env, site) = (&request.env, request.site);
        let program = self.holdings.program(&key, env);
        match self.holdings.run_without_image(program, site) {
            Some(body) => self.begin(key, env, failures, (program, body)),
            None => Fallback::NotKept,
        }
    }

    /// The image of a program that a body is to be added to. Begins to make it where there is none.
    pub(crate) fn image_to_fork(
        &mut self,
        program: ProgramId,
        body: BodyId,
    ) -> Option<(ImageId, Arc<Image>)> {
        let row = self.holdings.tables.programs.get(program)?;
        let known = row.image.and_then(|image| Some((image, self.holdings.tables.images.get(image)?)));
        if let Some((image, known)) = known {
            let kept = Arc::clone(&known.kept()?.image);
            if self.holdings.tables.reusable_bodies(image) < self.settings.max_bodies_per_program {
                return Some((image, kept));
            }
            self.holdings.body_is_gone(body);
            return None;
        }
        let (key, env) = (row.key.clone(), row.env.clone());
        self.begin(key, &env, Failures::default(), (program, body));
        None
    }

    /// Begins to make an image for this body of the planner. Gives the reason for the exec of the run that asked for it.
    fn begin(
        &mut self,
        key: Key<'static>,
        env: &Strings,
        failures: Failures,
        (program, body): (ProgramId, BodyId),
    ) -> Fallback {
        let job = match self.job(key.clone(), env) {
            Ok(job) => job,
            Err(why) => {
                self.holdings.body_is_gone(body);
                return why;
            }
        };
        let images = &mut self.holdings.tables.images;
        let image = images.next_id();
        images.insert(image, key, env, maker::start(job), failures, (program, body));
        if let Some(row) = self.holdings.tables.programs.get_mut(program) {
            row.image = Some(image);
        }
        Fallback::FirstRun
    }

    /// What is to be made, where it can be.
    fn job(&mut self, key: Key<'static>, env: &Strings) -> Result<Job, Fallback> {
        let agent = self.workshop.agent.clone().ok_or(Fallback::NoMemory)?;
        if !self.holdings.tables.images.may_make() {
            return Err(Fallback::ImageInProgress);
        }
        if !room::is_left(MAKING_BYTES) {
            return Err(Fallback::NoMemory);
        }
        // The image's process starts with what the caller has at this moment.
        self.caller.refresh();
        let then = self.caller.check().map_err(|what| Fallback::CallerChanged { what })?;
        let then = with_stack_limit(then, key.stack_limit)?;
        let descriptors = soft_limit(&then, Resource::Nofile);
        if let Some(surplus) = self.holdings.tables.images.surplus(descriptors) {
            self.holdings.drop_image(surplus);
        }
        let mounts = self.holdings.mounts_seen();
        let kernel = self.workshop.kernel();
        Ok(Job {
            key,
            mounts,
            env: program::env_strings(env).into_iter().map(ToOwned::to_owned).collect(),
            settings: self.settings.clone(),
            forker: self.workshop.forker(self.settings),
            agent,
            then,
            features: make::agent_features(kernel),
            can_main: kernel.works(Feature::HwBreakpoints) && kernel.works(Feature::PtraceRseq),
        })
    }

    /// Takes in the images that have been made; with `wait` those as well that are being made.
    pub(crate) fn take_made(&mut self, wait: bool) {
        for (image, result) in self.holdings.tables.images.take_made(wait) {
            match result.and_then(|built| self.watch(image, &built).map(|files| (built, files))) {
                Ok((Built { image: made, body, names, key_env, then, .. }, files)) => {
                    self.holdings.image_made(image, KeptImage::new(made, names, key_env, then, files), body);
                }
                // It was written while it was read: the next run tries again.
                Err(Fallback::ProgramChanged) => drop(self.holdings.drop_image(image)),
                Err(why) => self.holdings.image_refused(image, why),
            }
        }
    }

    /// Watches what an image was made of, and gives which files they are. A file that changed since the making began is not what is in
    /// the image, and what was mounted since may be in its place.
    fn watch(&mut self, image: ImageId, built: &Built) -> Result<Identities, Fallback> {
        let of = &built.image.dependencies;
        let watched = self.holdings.watch_for(image, &of.files, &of.absent);
        watched.map_err(|error| Fallback::ImageFailed { detail: format!("watching its files: {error}") })?;
        if !self.holdings.is_mounted_as(built.mounts.as_deref(), &of.files) {
            return Err(Fallback::ProgramChanged);
        }
        let unchanged = |file: &PathBuf| {
            let identity =
                FileIdentity::of_path(file).ok().filter(|found| found.changed_before(built.started));
            identity.map(|identity| (file.clone(), identity)).ok_or(Fallback::ProgramChanged)
        };
        of.files.iter().map(unchanged).collect()
    }
}
