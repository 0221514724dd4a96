//! Starts the process of a job, once the job has a place.
//!
//! ```text
//!  job ──> place ──> command ──> process ──> pending reply
//!           503        500         504          502
//! ```

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use regrow::{Command, Pool, Resource, Stdio};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::error::WebError;
use crate::job::{RequestJob, Variables, program_of};
use crate::metrics::WebMetrics;
use crate::request_body::StdinSource;
use crate::request_error::RequestError;
use crate::serve::admission::Admission;
use crate::serve::application::WarmApplication;
use crate::serve::busy_poll::BusyPoll;
use crate::serve::content_check::ImportCheck;
use crate::serve::pools::Pools;
use crate::serve::process::{ScriptProcess, ScriptSetup};
use crate::serve::reply::PendingReply;
use crate::serve::spare_pipes::{SparePipes, StdioPipes};
use crate::serve::stdin_feed::{self, FeedGuard};
use crate::serve::under_way::UnderWay;
use crate::serve::unreaped::UnreapedProcess;
use crate::settings::{Content, GatewaySettings};

/// Scripts inherit limits and niceness from the gateway, which changes none itself. The pool looks this often whether somebody else
/// has changed them.
const REREAD_AFTER: Duration = Duration::from_millis(100);

/// Starts processes.
pub(crate) struct Launcher {
    settings: Rc<GatewaySettings>,
    metrics: Rc<WebMetrics>,
    pools: Rc<Pools>,
    admission: Admission,
    under_way: UnderWay<UnreapedProcess>,
    reaper: UnboundedSender<UnreapedProcess>,
    spare_pipes: SparePipes,
    busy_poll: BusyPoll,
    application: Option<WarmApplication>,
    /// The modules that images have loaded, with their languages.
    modules: Vec<String>,
}

impl Launcher {
    /// Makes a launcher, and the queue of the processes that the reaper has to wait for.
    pub(crate) fn new(
        settings: Rc<GatewaySettings>,
        metrics: Rc<WebMetrics>,
        root: &Path,
    ) -> Result<(Self, UnboundedReceiver<UnreapedProcess>), WebError> {
        let application = match &settings.content {
            Content::Application(application) => Some(WarmApplication::new(application, root)?),
            _ => None,
        };
        let (reaper, unreaped) = unbounded_channel();
        let launcher = Self {
            pools: Rc::new(Pools::new(pool_of(&settings))),
            admission: Admission::new(&settings.limits, Rc::clone(&metrics)),
            under_way: UnderWay::default(),
            reaper,
            spare_pipes: SparePipes::default(),
            busy_poll: BusyPoll::default(),
            application,
            modules: modules(&settings),
            settings,
            metrics,
        };
        Ok((launcher, unreaped))
    }

    /// Starts the process of a job as soon as the job has a place.
    pub(crate) async fn start(&self, job: RequestJob) -> Result<PendingReply, RequestError> {
        let place = self.admission.admit().await?;
        let mut command = self.command(&self.pools.current(), &job)?;
        let name = Rc::clone(&job.name);
        let cannot = |source| RequestError::Start { program: name.to_string(), source };
        let StdioPipes { empty, output, errors } = self.spare_pipes.take().map_err(&cannot)?;
        let (stdin, feed) = stdin_feed::open(job.stdin, empty).map_err(&cannot)?;
        command.stdin(stdin);
        // While the gateway polls, no other process may need its thread.
        let polls = feed.is_none() && self.under_way.is_empty() && self.busy_poll.is_due();
        let setup = ScriptSetup {
            name: job.name,
            timeout: self.settings.limits.run_timeout,
            place,
            under_way: self.under_way.clone(),
            output,
            errors,
            joined: job.joined,
            polls,
        };
        let process = ScriptProcess::start(command, setup, self.reaper.clone()).map_err(cannot)?;
        if polls {
            self.busy_poll.note(process.is_at_end());
        }
        self.metrics.run(process.creation());
        let feed = feed.map(|feed| {
            let feed = feed.run(self.settings.limits.idle_timeout, process.group(), process.fault());
            tokio::task::spawn_local(feed).abort_handle()
        });
        Ok(PendingReply {
            _feed: FeedGuard(feed),
            process,
            fails_by_status: self.settings.content.fails_by_status(),
            _under_way: self.metrics.under_way(),
        })
    }

    /// The command of a job, without its descriptors.
    fn command(&self, pool: &Pool, job: &RequestJob) -> Result<Command, RequestError> {
        let mut command = self.plain_command(pool, &job.command, job);
        let path = job.variables.iter().find(|(name, _)| name == b"PATH_INFO");
        command.creation_site(job.name.as_bytes(), path.map_or(&[][..], |(_, path)| path));
        command.preload(self.modules.iter().cloned()).compile_ahead(self.settings.compile);
        if let Some(application) = &self.application {
            let own = self.settings.variables.iter();
            let own = own.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
            let variables = job.variables.iter().cloned().chain(own).collect();
            let cannot = |source| RequestError::Start { program: job.name.to_string(), source };
            application.warm(&mut command, &variables).map_err(cannot)?;
        }
        Ok(command)
    }

    /// A command line with the variables, the folder and the limits of a job.
    fn plain_command(&self, pool: &Pool, words: &[OsString], job: &RequestJob) -> Command {
        let mut command = pool.command(program_of(words));
        command.args(words.iter().skip(1)).env_clear();
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
        command
    }

    /// The folders in which the program of a job is looked for.
    pub(crate) fn search_path(&self, job: &RequestJob) -> Option<Vec<u8>> {
        let own = self.settings.variables.iter().rfind(|(name, _)| name == "PATH");
        let own = own.map(|(_, value)| value.as_bytes().to_vec());
        let jobs = || job.variables.iter().rfind(|(name, _)| name == b"PATH").map(|(_, value)| value.clone());
        own.or_else(jobs)
    }

    /// The job of a request to the Python application.
    pub(crate) fn application_job(
        &self,
        directory: Option<PathBuf>,
        variables: Variables,
        stdin: StdinSource,
    ) -> RequestJob {
        let application = self.application.as_ref();
        let command = application.map(WarmApplication::command).unwrap_or_default();
        let job = RequestJob::new(command, directory, variables, stdin);
        application.map(WarmApplication::name).into_iter().fold(job, RequestJob::named)
    }

    /// A process that tells why the Python application has no image; `None` if the gateway serves none.
    pub(crate) fn import_check(&self, job: &RequestJob) -> Option<ImportCheck> {
        let application = self.application.as_ref()?;
        let pool = Pool::builder().recycle(false).build();
        Some(ImportCheck {
            name: job.name.to_string(),
            python: program_of(&job.command).to_owned(),
            command: self.plain_command(&pool, &application.check_command(), job),
            timeout: self.settings.limits.run_timeout,
        })
    }

    /// The command that the image of a job is made for.
    pub(crate) fn prepared_command(&self, pool: &Pool, job: &RequestJob) -> Result<Command, RequestError> {
        let mut command = self.command(pool, job)?;
        command.stdin(Stdio::null());
        Ok(command)
    }

    /// A pool like the current one, that has nothing yet.
    pub(crate) fn new_pool(&self) -> Pool {
        pool_of(&self.settings)
    }

    /// Makes the pipes of the next processes.
    pub(crate) fn fill_pipes(&self) {
        self.spare_pipes.fill();
    }

    pub(crate) fn pools(&self) -> &Rc<Pools> {
        &self.pools
    }

    pub(crate) fn under_way(&self) -> &UnderWay<UnreapedProcess> {
        &self.under_way
    }

    /// Gives a process to the reaper.
    pub(crate) fn hand_over(&self, process: UnreapedProcess) {
        // Without a reaper the gateway is stopping, and ends all processes itself.
        let _ = self.reaper.send(process);
    }
}

/// A pool with the settings of a gateway.
fn pool_of(settings: &GatewaySettings) -> Pool {
    Pool::builder()
        .recycle(settings.recycle)
        .policy(settings.policy.clone())
        .reuse(settings.reuse)
        .spot_checks(settings.spot_checks)
        .sessions(true)
        .reread_after(REREAD_AFTER)
        .build()
}

/// The modules that images have loaded, with their languages.
fn modules(settings: &GatewaySettings) -> Vec<String> {
    let perl = settings.perl_modules.iter().map(|name| format!("perl:{name}"));
    perl.chain(settings.python_modules.iter().map(|name| format!("python:{name}"))).collect()
}
