//! What all ways of asking have in common: a place among those that are answered at a time, and a process.
//!
//! ```text
//!  HTTP, FastCGI ──> admit ──> command ──> run ──> reply
//!                     503       500         504     502
//! ```

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use regrow::{Command, Pool, Resource, Stdio};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::access::AccessLog;
use crate::application::Prepared;
use crate::busy_poll::BusyPoll;
use crate::content;
use crate::error::{Refusal, WebError};
use crate::input::Input;
use crate::metrics::Metrics;
use crate::reply::{Feeding, Started};
use crate::run::{Ending, Run, Start};
use crate::settings::{Content, Settings};
use crate::spare::{Descriptors, Spare};
use crate::under_way::UnderWay;
use crate::variables::{self, Variables};

/// The gateway changes nothing of itself that scripts inherit. What others change, such as its limits, shows within this time.
const REREAD_AFTER: Duration = Duration::from_millis(100);

/// What answers requests, for all connections.
pub(crate) struct Gateway {
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    pub(crate) log: AccessLog,
    /// The folder of the scripts without links; of other content, one that is there.
    pub(crate) root: PathBuf,
    pub(crate) pool: Pool,
    places: Arc<Semaphore>,
    waiting: Cell<usize>,
    pub(crate) reaper: UnboundedSender<Ending>,
    /// The processes that answer.
    pub(crate) under_way: UnderWay,
    pub(crate) spare: Spare,
    busy_poll: BusyPoll,
    application: Option<Prepared>,
    /// The modules that interpreters are to have loaded, with their languages.
    modules: Vec<String>,
}

/// What is to be started for a request.
pub(crate) struct Job {
    /// What the log calls it.
    pub(crate) name: Rc<str>,
    /// The program, then its arguments.
    pub(crate) command: Vec<OsString>,
    /// The directory that it starts in.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) variables: Variables,
    pub(crate) input: Input,
    /// Whether its standard error is part of its output.
    pub(crate) joined: bool,
}

impl Gateway {
    /// Makes a gateway, and gives the work of its reaper.
    pub(crate) fn new(settings: Settings) -> Result<(Rc<Self>, UnboundedReceiver<Ending>), WebError> {
        let root = match &settings.content {
            Content::Directory(path) => folder(path)?,
            Content::Application(application) => folder(&application.directory)?,
            Content::Program(_) | Content::Function(_) => PathBuf::from("/"),
        };
        let log = AccessLog::open(settings.access_log.clone()).map_err(|source| WebError::Path {
            path: settings.access_log.clone().unwrap_or_default(),
            what: "the access log cannot be written",
            source,
        })?;
        let application = match &settings.content {
            Content::Application(application) => Some(Prepared::new(application, &root)?),
            _ => None,
        };
        let (reaper, endings) = unbounded_channel();
        let gateway = Self {
            metrics: Metrics::new(),
            log,
            root,
            pool: Pool::builder()
                .recycle(settings.recycle)
                .policy(settings.policy.clone())
                .sessions(true)
                .reread_after(REREAD_AFTER)
                .build(),
            places: Arc::new(Semaphore::new(settings.limits.requests)),
            waiting: Cell::new(0),
            reaper,
            under_way: UnderWay::default(),
            spare: Spare::default(),
            busy_poll: BusyPoll::default(),
            application,
            modules: modules(&settings),
            settings,
        };
        Ok((Rc::new(gateway), endings))
    }

    /// Reads the files again that may have changed.
    pub(crate) fn reload(&self) {
        if let Err(error) = self.log.reopen() {
            tracing::error!(%error, "the access log cannot be opened again");
        }
        self.pool.clear();
    }

    /// Starts the process of a request when it is its turn.
    pub(crate) async fn start(&self, job: Job) -> Result<Started, Refusal> {
        let place = self.admit().await?;
        let mut command = self.command(&job)?;
        let Descriptors { empty, output, errors } = self.spare.take().map_err(Refusal::Start)?;
        let (stdin, feed) = job.input.open(empty).map_err(Refusal::Start)?;
        command.stdin(stdin);
        let timeout = self.settings.limits.run_timeout;
        let under_way = self.under_way.clone();
        // No other run waits for this thread then.
        let polls = feed.is_none() && under_way.is_empty() && self.busy_poll.is_due();
        let start =
            Start { name: job.name, timeout, place, under_way, output, errors, joined: job.joined, polls };
        let run = Run::start(command, start, self.reaper.clone()).map_err(Refusal::Start)?;
        if polls {
            self.busy_poll.note(run.is_at_end());
        }
        self.metrics.run(run.how());
        let feed = feed.map(|feed| {
            let feed = feed.run(self.settings.limits.idle_timeout, run.group(), run.fault());
            tokio::task::spawn_local(feed).abort_handle()
        });
        let fails_by_status = content::fails_by_status(self);
        Ok(Started { _feed: Feeding(feed), run, fails_by_status, _under_way: self.metrics.under_way() })
    }

    /// Waits for a place among the requests that are answered at a time.
    async fn admit(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(place);
        }
        if self.waiting.get() >= self.settings.limits.queue {
            return Err(Refusal::Busy);
        }
        let waiting = Waiting::new(self);
        let place =
            timeout(self.settings.limits.queue_timeout, Arc::clone(&self.places).acquire_owned()).await;
        drop(waiting);
        place.ok().and_then(Result::ok).ok_or(Refusal::Busy)
    }

    /// The command of a job, without its descriptors.
    fn command(&self, job: &Job) -> Result<Command, Refusal> {
        let program = job.command.first().map_or(OsStr::new(""), OsString::as_os_str);
        let mut command = self.pool.command(program);
        command.args(job.command.iter().skip(1)).env_clear();
        for (name, value) in &job.variables {
            command.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
        }
        for (name, value) in &self.settings.variables {
            command.env(name, value);
        }
        if let Some(directory) = &job.directory {
            command.current_dir(directory);
        }
        if let Some(bytes) = self.settings.limits.memory_bytes {
            command.limit(Resource::As, bytes, bytes);
        }
        command.preload(self.modules.iter().cloned()).compile_ahead(self.settings.compile);
        if let Some(application) = &self.application {
            let own = self.settings.variables.iter();
            let own = own.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
            let variables = job.variables.iter().cloned().chain(own).collect();
            application.warm(&mut command, &variables).map_err(Refusal::Start)?;
        }
        Ok(command)
    }

    /// The command line of the Python application that is served, if one is.
    pub(crate) fn application_command(&self) -> Vec<OsString> {
        self.application.as_ref().map(Prepared::command).unwrap_or_default()
    }

    /// Makes ahead what the first request for a program needs: an image with the variables that all requests have. Blocks.
    pub(crate) fn prepare(&self, command: Vec<OsString>) {
        let name = Rc::from(command.first().map_or("", |name| name.to_str().unwrap_or("")));
        let directory = command.first().and_then(|program| Path::new(program).parent()).map(Path::to_owned);
        let variables = variables::of_all_requests();
        let job = Job { name, command, directory, variables, input: Input::Empty, joined: false };
        let Ok(mut command) = self.command(&job) else { return };
        command.stdin(Stdio::null());
        match self.pool.prepare(&command) {
            Ok(point) => tracing::info!(name = &*job.name, %point, "prepared"),
            Err(error) => tracing::info!(name = &*job.name, %error, "not prepared"),
        }
    }
}

/// The modules that interpreters are to have loaded, with their languages.
fn modules(settings: &Settings) -> Vec<String> {
    let perl = settings.perl_modules.iter().map(|name| format!("perl:{name}"));
    perl.chain(settings.python_modules.iter().map(|name| format!("python:{name}"))).collect()
}

/// A folder without links.
fn folder(path: &Path) -> Result<PathBuf, WebError> {
    let cannot = |what| move |source| WebError::Path { path: path.to_owned(), what, source };
    let folder = path.canonicalize().map_err(cannot("there is no such folder"))?;
    if !folder.is_dir() {
        return Err(cannot("is no folder")(io::ErrorKind::NotADirectory.into()));
    }
    Ok(folder)
}

/// A request that waits for its turn.
struct Waiting<'g>(&'g Gateway);

impl<'g> Waiting<'g> {
    fn new(gateway: &'g Gateway) -> Self {
        gateway.waiting.set(gateway.waiting.get() + 1);
        gateway.metrics.waiting(gateway.waiting.get());
        Self(gateway)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get().saturating_sub(1));
        self.0.metrics.waiting(self.0.waiting.get());
    }
}
