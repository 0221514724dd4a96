//! A pool: starts the processes of images.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pyo3::prelude::*;
use regrow::{Command, Point, PointChoice, PrepareError, Resource, Reuse, Stdio};

use crate::errors::os_error;
use crate::files::Files;
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
struct StartArguments<'a> {
    words: &'a [OsString],
    call: Option<&'a [u8]>,
    environment: Option<Vec<(OsString, OsString)>>,
    directory: Option<PathBuf>,
    input: Option<Vec<u8>>,
    outputs: Vec<RawFd>,
    answer: Option<RawFd>,
    fds: Vec<(RawFd, RawFd)>,
    memory_limit: Option<u64>,
    place: Option<&'a str>,
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
            let files = CallFiles::new(self, call.is_some(), false);
            let files = files.map_err(|error| os_error(&error))?;
            let command = self.command(image, &words, call, None, &files);
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
        };
        py.detach(|| self.start_process(image, asked)).map_err(|error| os_error(&error))
    }

    /// How long it took to put the body of the last process back, where the pool is timed and that was recycled.
    fn reset_seconds(&self, py: Python<'_>) -> Option<f64> {
        let times = py.detach(|| self.pool.last_times(RESET_TIMEOUT))?.times;
        Some(Duration::from_nanos(times.armed_ns.saturating_sub(times.left_ns)).as_secs_f64())
    }

    /// Drops everything that is kept. Runs that go on are not touched.
    fn clear(&self, py: Python<'_>) {
        py.detach(|| self.pool.clear());
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
        match (call, &files.order) {
            (Some(payload), Some(order)) => image.call(&mut command, words, payload, order)?,
            _ => image.command_line(&mut command, words),
        }
        Ok(command)
    }

    fn start_process(&self, image: &PyImage, asked: StartArguments<'_>) -> io::Result<PyProcess> {
        let files = CallFiles::new(self, asked.call.is_some(), asked.answer.is_some())?;
        let mut command = self.command(image, asked.words, asked.call, asked.environment, &files)?;
        if let (Some(number), Some(answer)) = (asked.answer, &files.answer) {
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

/// The files of one call.
#[derive(Default)]
pub(crate) struct CallFiles {
    order: Option<OwnedFd>,
    answer: Option<OwnedFd>,
    /// Where they go when the call is over.
    home: Option<Arc<Files>>,
}

impl CallFiles {
    fn new(pool: &PyPool, has_order: bool, has_answer: bool) -> io::Result<Self> {
        let take = |wanted: bool| wanted.then(|| pool.files.take()).transpose();
        let home = pool.trusts_runs.then(|| Arc::clone(&pool.files));
        Ok(Self { order: take(has_order)?, answer: take(has_answer)?, home })
    }

    /// The answer, while it is there.
    pub(crate) fn answer(&self) -> Option<&OwnedFd> {
        self.answer.as_ref()
    }

    /// Closes the files of a process that has ended. Where it has ended as it should they are kept for other calls.
    pub(crate) fn close(&mut self, as_it_should: bool) {
        let files = [self.order.take(), self.answer.take()];
        if let Some(home) = self.home.take().filter(|_| as_it_should) {
            files.into_iter().flatten().for_each(|file| home.give(file));
        }
    }
}

/// Limits the memory that a process may have for itself: private memory that it can write to.
fn limit_memory(command: &mut Command, bytes: u64) {
    let most = rustix::process::getrlimit(rustix::process::Resource::Data).maximum.unwrap_or(u64::MAX);
    let bytes = bytes.min(most);
    command.limit(Resource::Data, bytes, bytes);
}

/// A copy of a descriptor that Python code names by its number.
fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::Error::from(rustix::io::Errno::BADF));
    }
    #[allow(unsafe_code, reason = "Python names descriptors by number")]
    // SAFETY: the number is not -1, and borrowed for this call alone. If nothing is open under it the copy fails, and if
    // another thread closes it meanwhile the copy is of what is there then, as with `os.dup`.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(rustix::io::fcntl_dupfd_cloexec(borrowed.as_fd(), 0)?)
}
