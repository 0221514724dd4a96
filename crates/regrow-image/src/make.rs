//! Makes an image: starts the program under trace, runs it to a snapshot point, loads the agent, and lets the process go
//! on as the image's seed.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use regrow_abi::{CONTROL_BYTES, features, point};
use regrow_sys::helper::{self, Exec};
use regrow_sys::maps::ReadMapsError;
use regrow_sys::{child, ptrace, raw};

use crate::image::{Image, Seed};
use crate::load;
use crate::trace::{self, AtPoint};
use crate::warm;

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
    /// Where the program stops itself, having prepared itself.
    Warm,
}

impl Point {
    /// The agent's number of the point.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Point::Entry => point::ENTRY,
            Point::Main => point::MAIN,
            Point::Warm => point::WARM,
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
    /// The arguments after it, of a front end: at the other points each run has its own.
    pub args: Vec<&'a CStr>,
    /// The environment: what the loader and constructors see.
    pub env: Vec<&'a CStr>,
    /// The directory that a front end may read relative paths in: the caller's own.
    pub directory: Option<&'a Path>,
    /// Where to stop.
    pub point: Point,
    /// [`regrow_abi::features`] that the agent may use.
    pub features: u32,
    /// Most zero pages that stay mapped after a reset.
    pub hot_zero_pages: u32,
    /// Have the loader resolve every symbol before `main`.
    pub bind_now: bool,
    /// The signals that a front end ignores from its start, bit 0 is signal 1; `None` for those of the calling process. At the
    /// other points each run has its own.
    pub ignored: Option<u64>,
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
    /// Of a front end.
    pub(crate) const REPORT: i32 = regrow_abi::WARM_FD;
}

/// Sources of those descriptors, out of the way of the numbers that they get.
struct Descriptors {
    null: OwnedFd,
    socket: OwnedFd,
    code: OwnedFd,
    store: OwnedFd,
    control: OwnedFd,
    report: Option<OwnedFd>,
}

impl Descriptors {
    fn new(
        agent: &AgentCode,
        socket: BorrowedFd<'_>,
        store: BorrowedFd<'_>,
        control: BorrowedFd<'_>,
        report: Option<BorrowedFd<'_>>,
    ) -> io::Result<Self> {
        let up = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 64);
        let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
        Ok(Descriptors {
            null: up(null.as_fd())?,
            socket: up(socket)?,
            code: up(agent.fd.as_fd())?,
            store: up(store)?,
            control: up(control)?,
            report: report.map(up).transpose()?,
        })
    }

    fn pairs(&self) -> Vec<(i32, i32)> {
        let null = self.null.as_raw_fd();
        let mut pairs = vec![
            (null, 0),
            (null, 1),
            (null, 2),
            (self.socket.as_raw_fd(), fd::SOCKET),
            (self.code.as_raw_fd(), fd::CODE),
            (self.store.as_raw_fd(), fd::STORE),
            (self.control.as_raw_fd(), fd::CONTROL),
        ];
        pairs.extend(self.report.as_ref().map(|report| (report.as_raw_fd(), fd::REPORT)));
        pairs
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
    let report = Report::new(recipe.point).map_err(setup("making a report's memfd"))?;
    let fds = Descriptors::new(agent, theirs.as_fd(), store.as_fd(), control.as_fd(), report.fd())
        .map_err(setup("placing descriptors"))?;
    drop(theirs);
    let bind_now = recipe.bind_now.then_some(c"LD_BIND_NOW=1");
    let own = [bind_now, report.fd().map(|_| WARM_ENTRY)];
    let env = recipe.env.iter().copied().chain(own.into_iter().flatten()).map(CStr::as_ptr);
    let env: Vec<_> = env.chain([std::ptr::null()]).collect();
    let argv = arguments(recipe);
    let exec =
        Exec { path: recipe.path, argv: &argv, envp: &env, fds: &fds.pairs(), ignored: recipe.ignored };
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
    Ok(Image::new(made, seed, store, recipe, report.read()))
}

/// What tells a front end of its descriptor.
const WARM_ENTRY: &CStr = c"REGROW_WARM=63";
const _: () = assert!(fd::REPORT == 63);

/// How long a front end may take to prepare itself.
const WARM_TIMEOUT: Duration = Duration::from_secs(120);

/// What a front end writes while it prepares itself; nothing at the other points.
struct Report(Option<std::fs::File>);

impl Report {
    fn new(point: Point) -> io::Result<Report> {
        let file = (point == Point::Warm).then(|| raw::memfd("regrow-report", 0)).transpose()?;
        Ok(Report(file.map(std::fs::File::from)))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }

    fn read(&self) -> Vec<u8> {
        use std::os::unix::fs::FileExt;
        let Some(file) = &self.0 else { return Vec::new() };
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        if file.read_exact_at(&mut bytes, 0).is_err() {
            bytes.clear();
        }
        bytes
    }

    /// Why the front end itself says that there can be no image.
    fn refusal(&self) -> Option<String> {
        self.first(b"refuse ")
    }

    /// Where it has the words that tell it how to wait for its order; zero if it has none.
    fn gate(&self) -> u64 {
        self.first(b"gate ").and_then(|address| address.parse().ok()).unwrap_or(0)
    }

    /// What follows these words in the first record that begins with them.
    fn first(&self, kind: &[u8]) -> Option<String> {
        let bytes = self.read();
        let record = bytes.split(|&byte| byte == 0).find_map(|record| record.strip_prefix(kind))?;
        Some(String::from_utf8_lossy(record).into_owned())
    }
}

/// The processes that were made on the way to a seed: the program itself, and the child that it stopped in its place.
#[derive(Debug, Default)]
struct Processes(Mutex<Vec<i32>>);

impl Processes {
    fn list(&self) -> std::sync::MutexGuard<'_, Vec<i32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, pid: i32) {
        self.list().push(pid);
    }

    /// The last one, and the others.
    fn seed(&self) -> (i32, Vec<i32>) {
        let mut list = self.list();
        (list.pop().unwrap_or(0), std::mem::take(&mut *list))
    }

    fn reap_all(&self) {
        std::mem::take(&mut *self.list()).into_iter().for_each(reap);
    }
}

/// Kills what is being made when it takes too long: the thread that makes it sleeps meanwhile. It ends with the value.
struct Deadline {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Deadline {
    fn start(processes: &Arc<Processes>, limit: Duration) -> Deadline {
        let (over, wait) = channel();
        let processes = Arc::clone(processes);
        let watch = move || {
            if wait.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                processes.list().iter().for_each(|&pid| child::kill(pid));
            }
        };
        // Without a thread there is no limit.
        let thread = std::thread::Builder::new().name("regrow-limit".to_owned()).spawn(watch).ok();
        Deadline { over: Some(over), thread }
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How many arguments a program has while its image is made at `main`: an odd number, so that whoever keeps it before
/// `main` can be told by its value, and gets each run's own. The others are empty.
pub(crate) const MAIN_ARGUMENTS: usize = 1297;

fn arguments(recipe: &Recipe<'_>) -> Vec<*const libc::c_char> {
    let empty = if recipe.point == Point::Main { MAIN_ARGUMENTS - 1 } else { 0 };
    let own = recipe.args.iter().map(|argument| argument.as_ptr());
    let empty = std::iter::repeat_n(c"".as_ptr(), empty);
    [recipe.argv0.as_ptr()].into_iter().chain(own).chain(empty).chain([std::ptr::null()]).collect()
}

/// Kills and reaps a process that was to become a seed.
fn reap(pid: i32) {
    child::kill(pid);
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
    report: &Report,
    processes: &Processes,
) -> Result<load::Made, MakeError> {
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
    load::load(at_point, recipe, report.gate(), store.as_fd())
}

fn run_to_point(tracee: ptrace::Tracee, recipe: &Recipe<'_>) -> Result<AtPoint, MakeError> {
    let entry = trace::to_entry(tracee)?;
    match recipe.point {
        Point::Entry => Ok(entry),
        Point::Main => trace::to_main(entry),
        Point::Warm => warm::to_warm(entry, recipe.directory),
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
        ("uffd_wp_async", features::TRACK_WRITES),
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
