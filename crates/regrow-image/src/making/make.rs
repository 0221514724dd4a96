//! Makes an image: starts the program under trace, runs it to a snapshot point, loads the agent, and lets the process go
//! on as the image's seed.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use regrow_abi::{CONTROL_BYTES, features};
use regrow_front::channel::WARM_ENTRY;
use regrow_sys::helper::{self, Exec};
use regrow_sys::probe::{Feature, Kernel};
use regrow_sys::{ptrace, raw};

pub use crate::error::MakeError;
use crate::image::{Image, ImageContents};
pub use crate::making::agent_code::AgentCode;
use crate::making::descriptors::MakingDescriptors;
use crate::making::load;
use crate::making::processes::{Deadline, Processes, reap};
use crate::making::report_file::ReportFile;
use crate::making::trace::{self, AtPoint};
use crate::making::warm;
use crate::point::Point;
pub use crate::recipe::{Dependencies, Recipe};
use crate::seed::Seed;
use crate::store;

/// Makes an image. Its seed is a child of the calling process.
///
/// # Errors
/// [`MakeError`]; nothing of the attempt is left behind.
pub fn make(agent: &AgentCode, recipe: &Recipe<'_>) -> Result<Image, MakeError> {
    let setup = MakeError::tracing;
    let (ours, theirs) = raw::agent_socket().map_err(setup("making a socket"))?;
    let store = raw::memfd(store::NAME, 0).map_err(setup("making the image's memfd"))?;
    let control =
        raw::memfd("regrow-control", CONTROL_BYTES as u64).map_err(setup("making the control memfd"))?;
    let shared = raw::SharedMapping::new(control.as_fd(), CONTROL_BYTES)
        .map_err(setup("mapping the control memfd"))?;
    let report = ReportFile::new(recipe.point).map_err(setup("making a report's memfd"))?;
    let fds = MakingDescriptors::new(agent, theirs.as_fd(), store.as_fd(), control.as_fd(), report.fd())
        .map_err(setup("placing descriptors"))?;
    drop(theirs);
    let bind_now = recipe.bind_now.then_some(c"LD_BIND_NOW=1");
    let own = [bind_now, report.fd().map(|_| WARM_ENTRY)];
    let env = recipe.env.iter().copied().chain(own.into_iter().flatten()).map(CStr::as_ptr);
    let env: Vec<_> = env.chain([std::ptr::null()]).collect();
    let argv = arguments(recipe);
    let exec = Exec {
        path: recipe.path,
        argv: &argv,
        envp: &env,
        fds: &fds.pairs(),
        ignored: recipe.ignored,
        stack_limit: recipe.stack_limit,
    };
    let processes = Arc::<Processes>::default();
    let limit = (recipe.point == Point::Warm).then(|| Deadline::start(&processes, WARM_TIMEOUT));
    let made = helper::run(|| start_and_load(&exec, recipe, &store, &report, &processes));
    drop(limit);
    let made = made.map_err(setup("starting the tracer")).and_then(|made| made);
    let made = match made {
        Ok(made) => made,
        Err(error) => {
            processes.reap_all();
            return Err(report.refusal().map_or(error, MakeError::Refused));
        }
    };
    let (seed, others) = processes.seed();
    others.into_iter().for_each(reap);
    let seed = Seed::adopt(seed, ours, &shared).inspect_err(|_| reap(seed))?;
    Ok(Image::new(made, seed, store, recipe.point, report.read()))
}

/// How long a front end may take to prepare itself.
const WARM_TIMEOUT: Duration = Duration::from_secs(120);

/// How many arguments a program has while its image is made at `main`: an odd number, so that whoever keeps it before
/// `main` can be told by its value, and gets each run's own. The others are empty.
const MAIN_ARGUMENTS: usize = 1297;

fn arguments(recipe: &Recipe<'_>) -> Vec<*const libc::c_char> {
    let empty = if recipe.point == Point::Main { MAIN_ARGUMENTS - 1 } else { 0 };
    let own = recipe.args.iter().map(|argument| argument.as_ptr());
    let empty = std::iter::repeat_n(c"".as_ptr(), empty);
    [recipe.argv0.as_ptr()].into_iter().chain(own).chain(empty).chain([std::ptr::null()]).collect()
}

/// Runs in the helper process: it alone traces.
fn start_and_load(
    exec: &Exec<'_>,
    recipe: &Recipe<'_>,
    store: &OwnedFd,
    report: &ReportFile,
    processes: &Processes,
) -> Result<ImageContents, MakeError> {
    let pending = helper::prepare(exec).map_err(MakeError::tracing("starting the program"))?;
    processes.add(pending.pid());
    let tracee = ptrace::seize(pending.pid()).map_err(MakeError::tracing("attaching"));
    pending.go();
    let at_point = tracee.and_then(|tracee| run_to_point(tracee, recipe));
    if let Some(source) = pending.error() {
        return Err(MakeError::Exec { path: recipe.path.to_owned(), source });
    }
    let at_point = at_point?;
    if at_point.remote.pid() != pending.pid() {
        processes.add(at_point.remote.pid());
    }
    load::load(at_point, recipe, report.named_words(), store.as_fd())
}

fn run_to_point(tracee: ptrace::Tracee, recipe: &Recipe<'_>) -> Result<AtPoint, MakeError> {
    let entry = trace::to_entry(tracee)?;
    match recipe.point {
        Point::Entry => Ok(entry),
        Point::Main => trace::to_main(entry),
        Point::Warm => warm::to_warm(entry, recipe.directory, recipe.unfollowed),
    }
}

/// What this processor and kernel let the agent do, as [`regrow_abi::features`].
#[must_use]
pub fn agent_features(kernel: &Kernel) -> u32 {
    let table = [
        (Feature::PagemapScan, features::PAGEMAP_SCAN),
        (Feature::ProcmapQuery, features::PROCMAP_QUERY),
        (Feature::ExtendedState, features::EXTENDED_STATE),
        (Feature::Pkeys, features::PKEYS),
        (Feature::MembarrierQuery, features::MEMBARRIER),
        (Feature::UffdWpAsync, features::TRACK_WRITES),
    ];
    table.iter().filter(|(feature, _)| kernel.works(*feature)).fold(0, |bits, (_, bit)| bits | bit)
}
