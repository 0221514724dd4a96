//! One attempt to make an image: of one program, at one snapshot point.

use std::ffi::{CStr, CString};
use std::path::Path;
use std::sync::Arc;

use regrow_abi::fault;
use regrow_abi::task::Task;
use regrow_image::image::Image;
use regrow_image::make::{self, AgentCode, MakeError, Recipe};

use crate::image::forking::BodyForker;
use crate::run::creation::{Fallback, Point};
use crate::run::program::Key;
use crate::run::request::Warm;
use crate::settings::Settings;

/// Most zero pages that stay mapped in a body after a reset: 1 MiB.
const HOT_ZERO_PAGES: u32 = 256;

/// What an image is made of.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) key: Key<'static>,
    /// The mounts when the program was looked up.
    pub(crate) mounts: Option<Arc<str>>,
    pub(crate) env: Vec<CString>,
    pub(crate) settings: Settings,
    pub(crate) forker: BodyForker,
    pub(crate) agent: Arc<AgentCode>,
    /// What the keepers will have from the caller.
    pub(crate) then: Task,
    /// What the agent may use.
    pub(crate) features: u32,
    /// Whether the kernel has what the `main` point needs.
    pub(crate) can_main: bool,
}

/// Starts the program of a job, lets it run to the point and keeps it there. `warm` is how a front end is executed.
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
    make::make(
        &job.agent,
        &Recipe {
            path: &job.key.file,
            argv0: &job.key.argv0,
            args: warm.map_or_else(Vec::new, |warm| warm.args.iter().collect()),
            env: env.to_vec(),
            directory: warm.and_then(|warm| warm.directory.as_deref()).map(as_path),
            unfollowed: warm.is_some_and(|warm| warm.unfollowed),
            point,
            features: job.features,
            hot_zero_pages: HOT_ZERO_PAGES,
            bind_now: bind_now && point != Point::Entry,
            ignored: warm.map(|_| job.key.ignored),
            stack_limit: job.key.stack_limit,
        },
    )
}

/// A path from the bytes that the kernel is given.
pub(crate) fn as_path(path: &CStr) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()))
}

/// Why there is no image, as the runs are told.
pub(crate) fn fallback(error: MakeError) -> Fallback {
    match error {
        MakeError::Refused(detail) => Fallback::RefusedState { detail },
        other => Fallback::ImageFailed { detail: other.to_string() },
    }
}
