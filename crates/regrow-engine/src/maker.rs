//! Decides at which point a program is kept, and makes its image and first bodies. Runs on a thread of its own, so that
//! the first run of a program need not wait for it.

use std::ffi::{CStr, CString};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::SystemTime;

use regrow_body::{Body, BodyError};
use regrow_image::elf::ElfFacts;
use regrow_image::envkey::{self, KeyNames};
use regrow_image::image::Image;
use regrow_image::make::{self, AgentCode, MakeError, Recipe};
use regrow_image::resolve::{Refusal, open_executable};
use regrow_sys::caller::Settable;

use crate::creation::{Fallback, Point};
use crate::fault;
use crate::front_end;
use crate::program::{Key, refusal};
use crate::request::Warm;
use crate::settings::{PointChoice, Settings};

/// Most zero pages that stay mapped in a body after a reset: 1 MiB.
const HOT_ZERO_PAGES: u32 = 256;

/// What is to be made.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) key: Key<'static>,
    pub(crate) env: Vec<CString>,
    pub(crate) settings: Settings,
    pub(crate) agent: Arc<AgentCode>,
    /// What the keepers will have from the caller.
    pub(crate) then: Settable,
    /// What the agent may use.
    pub(crate) features: u32,
    /// Whether the kernel has what the `main` point needs.
    pub(crate) can_main: bool,
}

/// An image with its first body.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) image: Image,
    pub(crate) bodies: Vec<Body>,
    /// Which environment variables belong to the key.
    pub(crate) names: KeyNames,
    /// Their entries.
    pub(crate) key_env: Vec<CString>,
    /// What the keepers have from the caller.
    pub(crate) then: Settable,
    /// Files that changed after this are not what the image was made of.
    pub(crate) started: SystemTime,
}

/// Makes an image on a thread of its own.
pub(crate) fn start(job: Job) -> Receiver<Result<Built, Fallback>> {
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name("regrow-image".to_owned());
    let spawned = thread.spawn(move || {
        // Nobody waits any more when the shard is gone: what was made is dropped.
        let _ = sender.send(build(&job));
    });
    if let Err(error) = spawned {
        tracing::warn!(%error, "no thread to make an image on");
    }
    receiver
}

/// Makes an image and its first body.
pub(crate) fn build(job: &Job) -> Result<Built, Fallback> {
    let started = SystemTime::now();
    if job.settings.fault == fault::NO_MEMORY {
        return Err(Fallback::NoMemory);
    }
    let env: Vec<&CStr> = job.env.iter().map(CString::as_c_str).collect();
    let facts = check_file(&job.key)?;
    let only_entry = !job.can_main
        || facts.loads_from_working_directory()
        || envkey::acts_before_main(env.iter().copied()).is_some()
        || envkey::loads_from_working_directory(env.iter().copied()).is_some();
    let (image, names) = match &job.key.warm {
        Some(front_end) => front_end::make_image(job, &env, front_end)?,
        None => {
            let image = make_image(job, &env, only_entry)?;
            let names = KeyNames::with_learned(&image.learned);
            (image, names)
        }
    };
    let key_env = names.select(env.iter().copied()).into_iter().map(CStr::to_owned).collect();
    let body = fork_ahead(&image, &job.settings);
    let body = body.map_err(|error| Fallback::ImageFailed { detail: error.to_string() })?;
    Ok(Built { image, bodies: vec![body], names, key_env, then: job.then.clone(), started })
}

/// Forks a body that nobody waits for, and maps what its first run is going to touch.
pub(crate) fn fork_ahead(image: &Image, settings: &Settings) -> Result<Body, BodyError> {
    let body = fork(image, settings)?;
    // In verify mode it waits to be compared first.
    if settings.verify || body.prefault_first(image) {
        return Ok(body);
    }
    Err(BodyError::Silent { keeper: body.keeper() })
}

/// Forks a body with the settings' fault point in it.
pub(crate) fn fork(image: &Image, settings: &Settings) -> Result<Body, BodyError> {
    if settings.fault == fault::SEED_KILLED {
        image.seed().kill();
    }
    if settings.fault == fault::FORK_FAILS {
        let source = std::io::ErrorKind::OutOfMemory.into();
        return Err(BodyError::Fork { pid: image.seed().pid(), source });
    }
    let body = Body::fork(image, settings.verify, settings.sessions)?;
    if settings.fault < fault::TRACE_FAILS {
        body.set_fault(settings.fault);
    }
    Ok(body)
}

/// Reads the file that exec would load and refuses what cannot be kept.
fn check_file(key: &Key<'_>) -> Result<ElfFacts, Fallback> {
    let path = as_path(&key.file);
    let executable = open_executable(path, None).map_err(|error| refusal(&error))?;
    let facts = ElfFacts::read(&executable.file).map_err(|error| refusal(&Refusal::from_elf(path, error)))?;
    // A program that gives up rights during its run shares its memory with a keeper that has not: see SECURITY.md.
    let sandboxes = facts.needed.iter().any(|name| name.as_encoded_bytes().starts_with(b"libseccomp."));
    if sandboxes {
        return Err(Fallback::RefusedState { detail: "it sandboxes itself with libseccomp".to_owned() });
    }
    Ok(facts)
}

/// Tries the points from deep to shallow.
fn make_image(job: &Job, env: &[&CStr], only_entry: bool) -> Result<Image, Fallback> {
    let points: &[Point] = match job.settings.point {
        PointChoice::Auto if only_entry => &[Point::Entry],
        PointChoice::Auto => &[Point::Main, Point::Entry],
        PointChoice::Only(Point::Main) if only_entry => &[],
        PointChoice::Only(Point::Main) => &[Point::Main],
        PointChoice::Only(Point::Entry) => &[Point::Entry],
        PointChoice::Only(Point::Warm) => &[],
    };
    let only_warm = job.settings.point == PointChoice::Only(Point::Warm);
    let why = if only_warm { "it has no front end" } else { "the loader's settings act before main" };
    let mut last = Fallback::RefusedState { detail: why.to_owned() };
    for &point in points {
        // A program that does not start with every symbol resolved may start without.
        for bind_now in [true, false] {
            match attempt(job, env, point, bind_now, None) {
                Ok(image) => return Ok(image),
                Err(error) => {
                    tracing::debug!(program = ?job.key.file, %point, bind_now, %error, "no image at this point");
                    let died = matches!(error, MakeError::Died { .. });
                    last = fallback(error);
                    if !died {
                        break;
                    }
                }
            }
        }
    }
    Err(last)
}

pub(crate) fn attempt(
    job: &Job,
    env: &[&CStr],
    point: Point,
    bind_now: bool,
    warm: Option<&Warm>,
) -> Result<Image, MakeError> {
    if job.settings.fault == fault::TRACE_FAILS {
        return Err(MakeError::Tracing { step: "fault point", source: std::io::ErrorKind::Other.into() });
    }
    let (point, bind_now) = match point {
        Point::Entry => (make::Point::Entry, false),
        Point::Main => (make::Point::Main, bind_now),
        Point::Warm => (make::Point::Warm, bind_now),
    };
    make::make(
        &job.agent,
        &Recipe {
            path: &job.key.file,
            argv0: &job.key.argv0,
            args: warm.map_or_else(Vec::new, |warm| warm.args.iter().collect()),
            env: env.to_vec(),
            directory: warm.and_then(|warm| warm.directory.as_deref()).map(as_path),
            point,
            features: job.features,
            hot_zero_pages: HOT_ZERO_PAGES,
            bind_now,
            ignored: warm.map(|_| job.key.ignored),
        },
    )
}

/// A path from the bytes that the kernel is given.
pub(crate) fn as_path(path: &CStr) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()))
}

pub(crate) fn fallback(error: MakeError) -> Fallback {
    match error {
        MakeError::Refused(detail) => Fallback::RefusedState { detail },
        other => Fallback::ImageFailed { detail: other.to_string() },
    }
}
