//! A pool: starts the processes of images.

use std::ffi::OsString;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pyo3::prelude::*;
use regrow::{Command, Point, PointChoice, PoolUser, PrepareError, Resource, Reuse, Stdio};

use crate::descriptors::duplicate;
use crate::errors::os_error;
use crate::files::{CallFiles, Files};
use crate::image::PyImage;
use crate::pipes::Pipes;
use crate::process::PyProcess;

/// How long a body is waited for.
const RESET_TIMEOUT: Duration = Duration::from_secs(5);

/// What is kept between runs. A forked copy of the process makes one of its own.
#[pyclass(frozen, name = "Pool", module = "regrow._core")]
pub(crate) struct PyPool {
    pool: regrow::Pool,
    /// Files of orders and answers, where calls are trusted.
    files: Arc<Files>,
    /// Whether they are used again.
    trusts_runs: bool,
    /// `/dev/null`, for standard inputs.
    null: OnceLock<OwnedFd>,
}

/// What one run is asked to be, in the caller's descriptors.
#[derive(Default)]
pub(crate) struct StartArguments<'a> {
    pub(crate) words: &'a [OsString],
    pub(crate) call: Option<&'a [u8]>,
    pub(crate) environment: Option<Vec<(OsString, OsString)>>,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) input: Option<Vec<u8>>,
    pub(crate) outputs: Vec<RawFd>,
    pub(crate) answer: Option<RawFd>,
    pub(crate) fds: Vec<(RawFd, RawFd)>,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) place: Option<&'a str>,
    /// The process gets ready and waits until it is let go.
    pub(crate) is_ahead: bool,
}

#[pymethods]
impl PyPool {
    #[new]
    #[pyo3(signature = (max_bodies, *, recycle = true, single_use = false, warm_only = false, timed = false, trusts_runs = false))]
    fn new(
        max_bodies: usize,
        recycle: bool,
        single_use: bool,
        warm_only: bool,
        timed: bool,
        trusts_runs: bool,
    ) -> Self {
        let point = if warm_only { PointChoice::Only(Point::Warm) } else { PointChoice::Auto };
        let builder = regrow::Pool::builder()
            .max_bodies_per_program(max_bodies)
            .recycle(recycle)
            .reuse(if single_use { Reuse::Never } else { Reuse::Always })
            .point(point)
            .timed(timed)
            .trusts_runs(trusts_runs);
        Self { pool: builder.build(), files: Arc::default(), trusts_runs, null: OnceLock::new() }
    }

    /// Makes the image ahead, as the first start with these words would, and says where it stands; None, and why, when its
    /// processes will be started by exec.
    #[pyo3(signature = (image, words, *, call = None))]
    #[allow(clippy::needless_pass_by_value, reason = "it is made from a list of Python's")]
    fn prepare(
        &self,
        py: Python<'_>,
        image: &PyImage,
        words: Vec<OsString>,
        call: Option<&[u8]>,
    ) -> PyResult<(Option<String>, String)> {
        let prepared = py.detach(|| {
            let command = self.command(image, &words, call, None, &CallFiles::default());
            let command = command.map_err(|error| os_error(&error))?;
            Ok::<_, PyErr>(self.pool.prepare(&command))
        })?;
        match prepared {
            Ok(point) => Ok((Some(point.to_string()), String::new())),
            Err(PrepareError::Program { source, .. }) => Err(os_error(&source)),
            Err(why) => Ok((None, why.to_string())),
        }
    }

    /// Starts a process of the image. `words` follow the interpreter's options; with `call` the run is a call, and they
    /// become `sys.argv`. `outputs` are descriptors of the run that its `Process` reads; `answer` is one that has a file, which
    /// `Process.answer` reads when the run is over; `fds` are pairs of a descriptor
    /// here and its number in the run. The standard input has `input`, or nothing. `place` names where the process is asked for: a pool
    /// learns by places what comes next.
    #[pyo3(signature = (image, words, *, call = None, environment = None, directory = None, input = None,
                        outputs = vec![], answer = None, fds = vec![], memory_limit = None, place = None))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords in Python")]
    #[allow(clippy::needless_pass_by_value, reason = "it is made from a list of Python's")]
    fn start(
        &self,
        py: Python<'_>,
        image: &PyImage,
        words: Vec<OsString>,
        call: Option<&[u8]>,
        environment: Option<Vec<(OsString, OsString)>>,
        directory: Option<PathBuf>,
        input: Option<Vec<u8>>,
        outputs: Vec<RawFd>,
        answer: Option<RawFd>,
        fds: Vec<(RawFd, RawFd)>,
        memory_limit: Option<u64>,
        place: Option<&str>,
    ) -> PyResult<PyProcess> {
        let words = &words;
        let asked = StartArguments {
            words,
            call,
            environment,
            directory,
            input,
            outputs,
            answer,
            fds,
            memory_limit,
            place,
            is_ahead: false,
        };
        py.detach(|| self.start_process(image, asked)).map_err(|error| os_error(&error))
    }

    /// How long it took to put the body of the last process back, where the pool is timed and that was recycled.
    fn reset_seconds(&self, py: Python<'_>) -> Option<f64> {
        let times = py.detach(|| self.pool.last_times(RESET_TIMEOUT))?.times;
        Some(Duration::from_nanos(times.armed_ns.saturating_sub(times.left_ns)).as_secs_f64())
    }

    /// What putting that body back took, in pages: compared with the image, copied from it, zeroed, and given back.
    fn reset_pages(&self, py: Python<'_>) -> Option<(u32, u32, u32, u32)> {
        let work = py.detach(|| self.pool.last_times(RESET_TIMEOUT))?.work;
        Some((work.compared, work.copied, work.zeroed, work.dropped))
    }

    /// Drops everything that is kept. Runs that go on are not touched.
    fn clear(&self, py: Python<'_>) {
        py.detach(|| self.pool.clear());
    }

    /// Says for whom the pool starts processes, in the list that `regrow status` and `regrow top` show. `number` is one of several users,
    /// `loaded` what its processes have loaded when they start.
    #[pyo3(signature = (number, name, loaded, workers, *, waiting = 0, failed = 0))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn set_user(
        &self,
        py: Python<'_>,
        number: u64,
        name: String,
        loaded: String,
        workers: u64,
        waiting: u64,
        failed: u64,
    ) {
        let user = PoolUser { name, loaded, workers, waiting, failed };
        py.detach(|| self.pool.set_user(number, Some(user)));
    }

    /// Takes a user off that list.
    fn drop_user(&self, py: Python<'_>, number: u64) {
        py.detach(|| self.pool.set_user(number, None));
    }

    /// Takes the pool off that list for good.
    fn unlist(&self, py: Python<'_>) {
        py.detach(|| self.pool.unlist());
    }

    /// The processes that keep images and bodies.
    fn keepers(&self, py: Python<'_>) -> Vec<i32> {
        py.detach(|| self.pool.keepers())
    }
}

impl PyPool {
    /// The command of an image with the arguments of a run, and an environment other than the caller's if one is given.
    fn command(
        &self,
        image: &PyImage,
        words: &[OsString],
        call: Option<&[u8]>,
        environment: Option<Vec<(OsString, OsString)>>,
        files: &CallFiles,
    ) -> io::Result<Command> {
        let mut command = self.pool.command(image.program());
        if let Some(variables) = environment {
            command.env_clear().envs(variables);
        }
        match call {
            Some(payload) => image.call(&mut command, words, payload, files.order())?,
            None => image.command_line(&mut command, words),
        }
        Ok(command)
    }

    /// Starts a process; see `start`.
    pub(crate) fn start_process(&self, image: &PyImage, asked: StartArguments<'_>) -> io::Result<PyProcess> {
        let has_order = asked.call.is_some_and(|payload| !PyImage::is_for_runner(payload));
        let files = CallFiles::new(&self.files, self.trusts_runs, (has_order, asked.answer.is_some()))?;
        let mut command = self.command(image, asked.words, asked.call, asked.environment, &files)?;
        if let (Some(number), Some(answer)) = (asked.answer, files.answer()) {
            command.fd(answer.try_clone()?, number);
        }
        if let Some(directory) = asked.directory {
            command.current_dir(directory);
        }
        for (source, target) in asked.fds {
            command.fd(duplicate(source)?, target);
        }
        if let Some(bytes) = asked.memory_limit {
            limit_memory(&mut command, bytes);
        }
        if let Some(place) = asked.place {
            command.creation_site("python", place);
        }
        command.ahead(asked.is_ahead);
        let pipes = Pipes::give(&mut command, asked.input, &asked.outputs)?;
        if !pipes.has_input() {
            command.stdin(self.null()?);
        }
        let child = command.spawn()?;
        // The run's ends of the pipes are the command's, and would keep them open here.
        drop(command);
        Ok(PyProcess::new(child, pipes, files))
    }

    fn null(&self) -> io::Result<Stdio> {
        let null = match self.null.get() {
            Some(null) => null,
            None => {
                let opened = std::fs::File::open("/dev/null")?.into();
                self.null.get_or_init(|| opened)
            }
        };
        Ok(Stdio::from(null.try_clone()?))
    }
}

/// Limits the memory that a process may have for itself: private memory that it can write to.
fn limit_memory(command: &mut Command, bytes: u64) {
    let most = rustix::process::getrlimit(rustix::process::Resource::Data).maximum.unwrap_or(u64::MAX);
    let bytes = bytes.min(most);
    command.limit(Resource::Data, bytes, bytes);
}
