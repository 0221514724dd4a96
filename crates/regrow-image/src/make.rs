//! Makes an image: starts the program under trace, runs it to a snapshot point, loads the agent, and lets the process go
//! on as the image's seed.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use regrow_abi::{CONTROL_BYTES, features, point};
use regrow_sys::helper::{self, Exec};
use regrow_sys::maps::ReadMapsError;
use regrow_sys::{ptrace, raw};

use crate::image::{Image, Seed};
use crate::load;
use crate::trace::{self, AtPoint};

/// Why no image could be made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// The program's state at the point is not fit to be given to later runs.
    #[error("refused: {0}")]
    Refused(String),
    /// The traced process ended.
    #[error("the program ended during {step}")]
    Died {
        /// When.
        step: &'static str,
    },
    /// The program could not be started.
    #[error("starting {path:?}: {source}")]
    Exec {
        /// Its path.
        path: CString,
        /// Why.
        source: io::Error,
    },
    /// A step of the tracing failed.
    #[error("{step}: {source}")]
    Tracing {
        /// Which.
        step: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The mappings of the traced process could not be read.
    #[error(transparent)]
    Maps(#[from] ReadMapsError),
    /// The seed did not start.
    #[error("the seed did not start within {0:?}")]
    SeedSilent(Duration),
}

impl MakeError {
    /// For `map_err`: an error of this step.
    pub(crate) fn tracing(step: &'static str) -> impl FnOnce(io::Error) -> MakeError {
        move |source| MakeError::Tracing { step, source }
    }
}

/// A snapshot point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Point {
    /// After exec, before the first instruction.
    Entry,
    /// At the call of `main`.
    Main,
}

impl Point {
    /// The agent's number of the point.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Point::Entry => point::ENTRY,
            Point::Main => point::MAIN,
        }
    }
}

/// What an image is made of.
#[derive(Debug)]
pub struct Recipe<'a> {
    /// The path given to exec.
    pub path: &'a CStr,
    /// The first argument.
    pub argv0: &'a CStr,
    /// The environment: what the loader and constructors see.
    pub env: Vec<&'a CStr>,
    /// Where to stop.
    pub point: Point,
    /// [`regrow_abi::features`] that the agent may use.
    pub features: u32,
    /// Most zero pages that stay mapped after a reset.
    pub hot_zero_pages: u32,
    /// Have the loader resolve every symbol before `main`.
    pub bind_now: bool,
}

/// The agent's code in a memfd, for all images of a shard.
#[derive(Debug)]
pub struct AgentCode {
    fd: OwnedFd,
}

/// The agent, as the build made it.
pub(crate) static AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agent.bin"));

impl AgentCode {
    /// Puts the agent's code into a sealed memfd.
    ///
    /// # Errors
    /// As `memfd_create(2)` and `write(2)`.
    pub fn new() -> io::Result<AgentCode> {
        use rustix::fs::{SealFlags, fcntl_add_seals};
        let fd = raw::memfd("regrow-agent", 0)?;
        let mut file = std::fs::File::from(fd);
        io::Write::write_all(&mut file, AGENT)?;
        // The keeper's private memory is a private mapping beyond the code.
        file.set_len(load::code_bytes() + regrow_abi::PRIVATE_BYTES as u64)?;
        let fd = OwnedFd::from(file);
        fcntl_add_seals(&fd, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
        Ok(AgentCode { fd })
    }
}

/// The descriptors that a process has while its image is made, by number: standard ones, then those of the agent.
pub(crate) mod fd {
    pub(crate) const SOCKET: i32 = regrow_abi::KEEPER_SOCKET_FD;
    pub(crate) const CODE: i32 = 4;
    pub(crate) const STORE: i32 = 5;
    pub(crate) const CONTROL: i32 = 6;
    pub(crate) const COUNT: usize = 7;
}

/// Sources of those descriptors, out of the way of the numbers that they get.
struct Descriptors {
    null: OwnedFd,
    socket: OwnedFd,
    code: OwnedFd,
    store: OwnedFd,
    control: OwnedFd,
}

impl Descriptors {
    fn new(
        agent: &AgentCode,
        socket: BorrowedFd<'_>,
        store: BorrowedFd<'_>,
        control: BorrowedFd<'_>,
    ) -> io::Result<Self> {
        let up = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 64);
        let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
        Ok(Descriptors {
            null: up(null.as_fd())?,
            socket: up(socket)?,
            code: up(agent.fd.as_fd())?,
            store: up(store)?,
            control: up(control)?,
        })
    }

    fn pairs(&self) -> [(i32, i32); fd::COUNT] {
        let null = self.null.as_raw_fd();
        [
            (null, 0),
            (null, 1),
            (null, 2),
            (self.socket.as_raw_fd(), fd::SOCKET),
            (self.code.as_raw_fd(), fd::CODE),
            (self.store.as_raw_fd(), fd::STORE),
            (self.control.as_raw_fd(), fd::CONTROL),
        ]
    }
}

/// Makes an image. Its seed is a child of the calling process.
///
/// # Errors
/// [`MakeError`]; nothing of the attempt is left behind.
pub fn make(agent: &AgentCode, recipe: &Recipe<'_>) -> Result<Image, MakeError> {
    let setup = MakeError::tracing;
    let (ours, theirs) = seqpacket_pair().map_err(setup("making a socket"))?;
    let store = raw::memfd("regrow-image", 0).map_err(setup("making the image's memfd"))?;
    let control =
        raw::memfd("regrow-control", CONTROL_BYTES as u64).map_err(setup("making the control memfd"))?;
    let shared = raw::SharedMapping::new(control.as_fd(), CONTROL_BYTES)
        .map_err(setup("mapping the control memfd"))?;
    let fds = Descriptors::new(agent, theirs.as_fd(), store.as_fd(), control.as_fd())
        .map_err(setup("placing descriptors"))?;
    drop(theirs);
    let bind_now = recipe.bind_now.then_some(c"LD_BIND_NOW=1");
    let env: Vec<_> =
        recipe.env.iter().copied().chain(bind_now).map(CStr::as_ptr).chain([std::ptr::null()]).collect();
    let argv = arguments(recipe);
    let exec = Exec { path: recipe.path, argv: &argv, envp: &env, fds: &fds.pairs() };
    let mut pid = 0;
    let made =
        helper::run(|| start_and_load(&exec, recipe, &store, &mut pid)).map_err(setup("starting the tracer"));
    let made = match made.and_then(|made| made) {
        Ok(made) => made,
        Err(error) => {
            reap(pid);
            return Err(error);
        }
    };
    let seed = Seed::adopt(pid, ours, &shared).inspect_err(|_| reap(pid))?;
    Ok(Image::new(made, seed, store, recipe))
}

/// How many arguments a program has while its image is made at `main`: an odd number, so that whoever keeps it before
/// `main` can be told by its value, and gets each run's own. The others are empty.
pub(crate) const MAIN_ARGUMENTS: usize = 1297;

fn arguments(recipe: &Recipe<'_>) -> Vec<*const libc::c_char> {
    let count = if recipe.point == Point::Main { MAIN_ARGUMENTS } else { 1 };
    let empty = std::iter::repeat_n(c"".as_ptr(), count - 1);
    [recipe.argv0.as_ptr()].into_iter().chain(empty).chain([std::ptr::null()]).collect()
}

/// Kills and reaps a process that was to become a seed.
fn reap(pid: i32) {
    if pid <= 0 {
        return;
    }
    if let Ok(pidfd) = raw::pidfd_open(pid) {
        let _ = raw::pidfd_kill(pidfd.as_fd(), libc::SIGKILL);
    }
    let _ = raw::wait_pid(pid, false);
}

fn seqpacket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Runs in the helper process: it alone traces.
fn start_and_load(
    exec: &Exec<'_>,
    recipe: &Recipe<'_>,
    store: &OwnedFd,
    pid: &mut i32,
) -> Result<load::Made, MakeError> {
    let pending = helper::prepare(exec).map_err(MakeError::tracing("starting the program"))?;
    *pid = pending.pid();
    let tracee = ptrace::seize(pending.pid()).map_err(MakeError::tracing("attaching"));
    pending.go();
    let at_point = tracee.and_then(|tracee| run_to_point(tracee, recipe));
    if let Some(source) = pending.error() {
        return Err(MakeError::Exec { path: recipe.path.to_owned(), source });
    }
    load::load(at_point?, recipe, store.as_fd())
}

fn run_to_point(tracee: ptrace::Tracee, recipe: &Recipe<'_>) -> Result<AtPoint, MakeError> {
    let entry = trace::to_entry(tracee)?;
    match recipe.point {
        Point::Entry => Ok(entry),
        Point::Main => trace::to_main(entry),
    }
}

/// What this processor and kernel let the agent do, as [`regrow_abi::features`].
#[must_use]
pub fn agent_features(kernel: &dyn Fn(&str) -> bool) -> u32 {
    let table = [
        ("pagemap_scan", features::PAGEMAP_SCAN),
        ("procmap_query", features::PROCMAP_QUERY),
        ("xsave", features::XSAVE),
        ("pkeys", features::PKEYS),
        ("membarrier_query", features::MEMBARRIER),
    ];
    table.iter().filter(|(name, _)| kernel(name)).fold(0, |bits, (_, bit)| bits | bit)
}

/// Files that an image depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// Files whose content is in the image, or was read on the way to it.
    pub files: Vec<PathBuf>,
    /// Names that were looked for and not found: a file that appears there could change the image.
    pub absent: Vec<PathBuf>,
}
