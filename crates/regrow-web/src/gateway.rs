//! What all ways of asking have in common: a place among those that are answered at a time, a process, and the head of its reply.
//!
//! ```text
//!  HTTP, FastCGI ──> admit ──> command ──> run ──> head ──> reply: what is left of the output
//!                     503       500         504     502
//! ```

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use regrow::{Command, Pool, Resource, Stdio};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::access::AccessLog;
use crate::application::Prepared;
use crate::content;
use crate::error::{Refusal, WebError};
use crate::head::{self, Head};
use crate::input::Input;
use crate::metrics::{Count, Metrics};
use crate::orphans::Groups;
use crate::run::{Ending, Run, Start};
use crate::settings::{Content, Settings};
use crate::variables::{self, Variables};

/// How much of a function's output is collected before any of it is sent.
const MAX_RESULT_BYTES: usize = 8 << 20;
/// How long a reply whose output has ended waits for its process to end as well: one that has closed its output to go on working is not
/// waited for.
const PATIENCE: Duration = Duration::from_millis(10);
/// The longest head of a reply.
const MAX_HEAD_BYTES: usize = 256 * 1024;

/// What answers requests, for all connections.
pub(crate) struct Gateway {
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    pub(crate) log: AccessLog,
    /// The folder of the scripts without links; of other content, one that is there.
    pub(crate) root: PathBuf,
    pool: Pool,
    places: Arc<Semaphore>,
    waiting: Cell<usize>,
    reaper: UnboundedSender<Ending>,
    /// The groups of the processes that answer.
    pub(crate) groups: Groups,
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

/// A process that is about to write a reply.
pub(crate) struct Started {
    // The feed is stopped before the process is waited for: it knows the process by its number.
    _feed: Feeding,
    run: Run,
    /// Whether an exit status says that the reply is not whole. A signal always does.
    fails_by_status: bool,
    _under_way: Count,
}

/// The task that passes a request's body on.
struct Feeding(Option<AbortHandle>);

/// A reply: its head, and what follows.
pub(crate) struct Reply {
    pub(crate) head: Head,
    pub(crate) rest: Rest,
}

/// What follows the head of a reply.
pub(crate) struct Rest {
    first: Option<Bytes>,
    /// How much is to come, where the head has said it: then the reply does not wait for the process.
    missing: Option<u64>,
    state: State,
}

/// Where what follows the head of a reply comes from.
enum State {
    Output(Box<Started>),
    /// How the process ends says whether it is whole.
    End(Pin<Box<dyn Future<Output = Option<Refusal>>>>),
    Over,
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
            pool: Pool::builder().recycle(settings.recycle).policy(settings.policy.clone()).build(),
            places: Arc::new(Semaphore::new(settings.limits.requests)),
            waiting: Cell::new(0),
            reaper,
            groups: Groups::default(),
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
        let (stdin, feed) = job.input.open().map_err(Refusal::Start)?;
        command.stdin(stdin);
        let timeout = self.settings.limits.run_timeout;
        let groups = self.groups.clone();
        let start = Start { name: job.name, timeout, place, groups, joined: job.joined };
        let run = Run::start(&mut command, start, self.reaper.clone()).map_err(Refusal::Start)?;
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

impl Started {
    /// Waits for the head of the reply.
    pub(crate) async fn reply(mut self) -> Result<Reply, Refusal> {
        let mut bytes = BytesMut::new();
        loop {
            let piece = self.run.output().await.ok_or(Refusal::NoHead)??;
            bytes.extend_from_slice(&piece);
            if let Some((head, length)) = head::parse(&bytes)? {
                bytes.advance(length);
                let first = Some(bytes.freeze()).filter(|first| !first.is_empty());
                let missing = head.length();
                if missing == Some(0) {
                    self.run.is_whole();
                }
                return Ok(Reply {
                    head,
                    rest: Rest { first, missing, state: State::Output(Box::new(self)) },
                });
            }
            if bytes.len() > MAX_HEAD_BYTES {
                return Err(Refusal::LongHead { limit: MAX_HEAD_BYTES });
            }
        }
    }

    /// Waits for the output of a function, and gives it, if the function has not failed. Of one that writes more than is collected the
    /// rest follows, and how it ends is not known before.
    pub(crate) async fn result(mut self) -> Result<(Bytes, Option<Rest>), Refusal> {
        let mut bytes = BytesMut::new();
        while let Some(piece) = self.run.output().await {
            bytes.extend_from_slice(&piece?);
            if bytes.len() > MAX_RESULT_BYTES {
                return Ok((
                    Bytes::new(),
                    Some(Rest {
                        first: Some(bytes.freeze()),
                        missing: None,
                        state: State::Output(Box::new(self)),
                    }),
                ));
            }
        }
        match self.run.status(None).await {
            Some(status) if !status.success() => Err(Refusal::Failed(status)),
            _ => Ok((bytes.freeze(), None)),
        }
    }
}

/// Why a reply whose output has ended is not whole, if the process shows it soon enough.
async fn end_of(started: Started) -> Option<Refusal> {
    let Started { run, fails_by_status, .. } = started;
    let status = run.status(Some(PATIENCE)).await?;
    let fails = status.code().is_none() || fails_by_status && !status.success();
    fails.then_some(Refusal::Failed(status))
}

impl Drop for Feeding {
    fn drop(&mut self) {
        // What the process has not read it does not read any more: its reply is complete.
        if let Some(feed) = &self.0 {
            feed.abort();
        }
    }
}

impl Rest {
    /// The next piece; `None` at the end.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Refusal>>> {
        if self.missing == Some(0) {
            return Poll::Ready(None);
        }
        let mut next = ready!(self.poll_output(context));
        if let (Some(Ok(piece)), Some(missing)) = (&mut next, &mut self.missing) {
            piece.truncate(usize::try_from(*missing).unwrap_or(usize::MAX));
            *missing -= u64::try_from(piece.len()).unwrap_or(u64::MAX);
            if let (0, State::Output(started)) = (*missing, &mut self.state) {
                started.run.is_whole();
            }
        }
        Poll::Ready(next)
    }

    /// The next piece of what is written.
    fn poll_output(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Refusal>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        loop {
            match std::mem::replace(&mut self.state, State::Over) {
                State::Over => return Poll::Ready(None),
                State::Output(mut started) => match started.run.poll_output(context) {
                    Poll::Ready(None) => self.state = State::End(Box::pin(end_of(*started))),
                    next => {
                        self.state = State::Output(started);
                        return next;
                    }
                },
                State::End(mut end) => match end.as_mut().poll(context) {
                    Poll::Ready(failure) => return Poll::Ready(failure.map(Err)),
                    Poll::Pending => {
                        self.state = State::End(end);
                        return Poll::Pending;
                    }
                },
            }
        }
    }

    /// The next piece, if it is there.
    pub(crate) fn ready(&mut self) -> Option<Option<Result<Bytes, Refusal>>> {
        match self.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(next) => Some(next),
            Poll::Pending => None,
        }
    }

    /// As [`Rest::poll_next`], to be awaited.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, Refusal>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// Reads to the end what nobody wants: a process is not to be killed for what was asked for (a reply to HEAD has no body).
    pub(crate) async fn discard(mut self) {
        while let Some(Ok(_)) = self.next().await {}
    }
}
