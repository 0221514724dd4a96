//! Starts the process of a job, once the job has a place.
//!
//! ```text
//!  job ──> place ──> command ──> process ──> pending reply
//!           503        500         504          502
//! ```

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use regrow::{Command, Pool, Resource, Stdio};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::error::WebError;
use crate::job::{RequestJob, program_of};
use crate::metrics::WebMetrics;
use crate::request_error::RequestError;
use crate::serve::admission::Admission;
use crate::serve::application::WarmApplication;
use crate::serve::busy_poll::BusyPoll;
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
    pool: Pool,
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
            pool: Pool::builder()
                .recycle(settings.recycle)
                .policy(settings.policy.clone())
                .reuse(settings.reuse)
                .spot_checks(settings.spot_checks)
                .sessions(true)
                .reread_after(REREAD_AFTER)
                .build(),
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
        let mut command = self.command(&job)?;
        let StdioPipes { empty, output, errors } = self.spare_pipes.take().map_err(RequestError::Start)?;
        let (stdin, feed) = stdin_feed::open(job.stdin, empty).map_err(RequestError::Start)?;
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
        let process =
            ScriptProcess::start(command, setup, self.reaper.clone()).map_err(RequestError::Start)?;
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
    fn command(&self, job: &RequestJob) -> Result<Command, RequestError> {
        let mut command = self.pool.command(program_of(&job.command));
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
            application.warm(&mut command, &variables).map_err(RequestError::Start)?;
        }
        Ok(command)
    }

    /// The command line of the Python application; empty if the gateway serves none.
    pub(crate) fn application_command(&self) -> Vec<OsString> {
        self.application.as_ref().map(WarmApplication::command).unwrap_or_default()
    }

    /// Makes the image that the first process of a job starts from. Blocks until it is there.
    pub(crate) fn prepare(&self, job: &RequestJob) {
        let Ok(mut command) = self.command(job) else { return };
        command.stdin(Stdio::null());
        match self.pool.prepare(&command) {
            Ok(point) => tracing::info!(name = &*job.name, %point, "prepared"),
            Err(error) => tracing::info!(name = &*job.name, %error, "not prepared"),
        }
    }

    /// Makes the pipes of the next processes.
    pub(crate) fn fill_pipes(&self) {
        self.spare_pipes.fill();
    }

    /// Drops all images.
    pub(crate) fn clear(&self) {
        self.pool.clear();
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
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

/// The modules that images have loaded, with their languages.
fn modules(settings: &GatewaySettings) -> Vec<String> {
    let perl = settings.perl_modules.iter().map(|name| format!("perl:{name}"));
    perl.chain(settings.python_modules.iter().map(|name| format!("python:{name}"))).collect()
}
