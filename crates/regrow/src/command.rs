//! A command: the description of a run.

use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::io;
use std::iter::FusedIterator;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output};
use std::sync::Arc;
use std::time::Duration;

use regrow_abi::task::{Resource, Task};
use regrow_engine::run::creation::{Creation, Point, PrepareError};
use regrow_engine::run::exec::replace_caller;
use regrow_engine::run::request::{ExtraFd, Request, Warm, WarmOrder};
use regrow_sys::exec::{Hook, Identity};
use regrow_sys::strings::NulFound;

use crate::child::{Child, PipeEnds};
use crate::environment::{CommandEnvs, EnvChanges};
use crate::pool::Pool;
use crate::stdio::{Direction, Stdio};

/// How a process that was waited for was created and ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed {
    /// How it ended.
    pub status: ExitStatus,
    /// How it was created.
    pub creation: Creation,
}

/// How the start of a process is seen to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// It has started when `spawn` returns: it has taken over the directory and the umask that its caller has.
    Awaited,
    /// The caller waits for the end at once. A start that failed is seen then.
    Unawaited,
    /// Recycling was tried and failed.
    ByExec,
}

/// Describes runs of a program, as [`std::process::Command`], and starts them.
///
/// A command may be started any number of times.
///
/// ```
/// use regrow::Command;
///
/// # fn main() -> std::io::Result<()> {
/// let output = Command::new("sh").args(["-c", "echo $GREETING"]).env("GREETING", "hello").output()?;
/// assert_eq!(output.stdout, b"hello\n");
/// # Ok(())
/// # }
/// ```
pub struct Command {
    pool: Pool,
    program: OsString,
    arg0: Option<OsString>,
    args: Vec<OsString>,
    env: EnvChanges,
    current_dir: Option<PathBuf>,
    stdin: Option<Stdio>,
    stdout: Option<Stdio>,
    stderr: Option<Stdio>,
    extra_fds: Vec<ExtraFd>,
    task: Task,
    traced: bool,
    warm: Option<Arc<Warm>>,
    order: Option<Arc<Vec<u8>>>,
    preload: Vec<String>,
    compile: bool,
    busy_poll: bool,
    is_ahead: bool,
    single_use: bool,
    site: Option<u64>,
    pub(crate) identity: Identity,
    pub(crate) hooks: Vec<Hook>,
    pub(crate) opens_pidfd: bool,
}

impl Command {
    /// A command that runs `program` out of the pool of the process, without arguments and otherwise as the
    /// caller.
    ///
    /// A `program` with a slash is a path, relative to the directory that the run starts in; another is looked for
    /// in the `PATH` of the run.
    pub fn new<S: AsRef<OsStr>>(program: S) -> Self {
        Self::in_pool(Pool::global().clone(), program.as_ref())
    }

    pub(crate) fn in_pool(pool: Pool, program: &OsStr) -> Self {
        let mut task = Task::new();
        task.set_session(pool.has_sessions());
        Self {
            pool,
            program: program.to_owned(),
            arg0: None,
            args: Vec::new(),
            env: EnvChanges::default(),
            current_dir: None,
            stdin: None,
            stdout: None,
            stderr: None,
            extra_fds: Vec::new(),
            task,
            traced: false,
            warm: None,
            order: None,
            preload: Vec::new(),
            compile: false,
            busy_poll: false,
            is_ahead: false,
            single_use: false,
            site: None,
            identity: Identity::default(),
            hooks: Vec::new(),
            opens_pidfd: false,
        }
    }

    /// Adds an argument.
    pub fn arg<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<I, S>(&mut self, args: I) -> &mut Self
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets what the run sees as `argv[0]`, where it is not to be the program.
    pub fn arg0<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Self {
        self.arg0 = Some(arg.as_ref().to_owned());
        self
    }

    /// Sets a variable of the run's environment.
    pub fn env<K, V>(&mut self, key: K, value: V) -> &mut Self
    where
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        self.env.set(key.as_ref(), value.as_ref());
        self
    }

    /// Sets variables of the run's environment.
    pub fn envs<I, K, V>(&mut self, variables: I) -> &mut Self
    where
        I: IntoIterator<Item = (K, V)>,
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        for (key, value) in variables {
            self.env.set(key.as_ref(), value.as_ref());
        }
        self
    }

    /// Removes a variable from the run's environment, also one of the caller's.
    pub fn env_remove<K: AsRef<OsStr>>(&mut self, key: K) -> &mut Self {
        self.env.remove(key.as_ref());
        self
    }

    /// Removes all variables from the run's environment, also the caller's.
    pub fn env_clear(&mut self) -> &mut Self {
        self.env.clear();
        self
    }

    /// Sets the directory that the run starts in.
    pub fn current_dir<P: AsRef<Path>>(&mut self, directory: P) -> &mut Self {
        self.current_dir = Some(directory.as_ref().to_owned());
        self
    }

    /// Sets the standard input: by default the caller's, and nothing for [`Command::output`].
    pub fn stdin<T: Into<Stdio>>(&mut self, stdin: T) -> &mut Self {
        self.stdin = Some(stdin.into());
        self
    }

    /// Sets the standard output: by default the caller's, and a pipe for [`Command::output`].
    pub fn stdout<T: Into<Stdio>>(&mut self, stdout: T) -> &mut Self {
        self.stdout = Some(stdout.into());
        self
    }

    /// Sets the standard error: by default the caller's, and a pipe for [`Command::output`].
    pub fn stderr<T: Into<Stdio>>(&mut self, stderr: T) -> &mut Self {
        self.stderr = Some(stderr.into());
        self
    }

    /// Gives the run a further descriptor: `source`, under the number `target`. The run has no descriptors but
    /// the three standard ones and those given so.
    ///
    /// The command keeps `source` open for its further runs. Of two with one target the later counts, and a target
    /// below three takes the place of the standard descriptor.
    ///
    /// ```
    /// use std::io::Read;
    ///
    /// use regrow::Command;
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let (mut reader, writer) = std::io::pipe()?;
    /// let mut command = Command::new("sh");
    /// command.args(["-c", "echo through seven >&7"]).fd(writer, 7);
    /// assert!(command.status()?.success());
    /// drop(command);
    /// let mut text = String::new();
    /// reader.read_to_string(&mut text)?;
    /// assert_eq!(text, "through seven\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn fd<F: Into<OwnedFd>>(&mut self, source: F, target: RawFd) -> &mut Self {
        self.extra_fds.retain(|fd| fd.target != target);
        self.extra_fds.push(ExtraFd { source: Arc::new(source.into()), target });
        self
    }

    /// Puts the run into a process group; 0 makes a group of its own.
    pub fn process_group(&mut self, group: i32) -> &mut Self {
        self.task.set_process_group(group);
        self
    }

    /// Has the process stop when it is about to end, with its memory still there, traced by the calling thread: for tools
    /// that keep processes alive, or look at them. `regrow_sys::ptrace::await_exit` waits for that moment, `let_exit`
    /// lets it pass; a process that is not let go is killed when the thread ends.
    pub fn stop_at_exit(&mut self, stop: bool) -> &mut Self {
        self.traced = stop;
        self
    }

    /// Sets whether the run starts as the leader of a session of its own, without a controlling terminal.
    /// By default it does in a pool with [`PoolBuilder::sessions`](crate::PoolBuilder::sessions).
    pub fn setsid(&mut self, setsid: bool) -> &mut Self {
        self.task.set_session(setsid);
        self
    }

    /// Sets the file mode creation mask of the run.
    pub fn umask(&mut self, mask: u32) -> &mut Self {
        self.task.set_umask(mask);
        self
    }

    /// Sets a limit of the run, in the unit of the resource; [`UNLIMITED`](crate::UNLIMITED) is no limit.
    ///
    /// ```
    /// use regrow::{Command, Resource};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let mut command = Command::new("sh");
    /// let output = command.args(["-c", "ulimit -n"]).limit(Resource::Nofile, 40, 50).output()?;
    /// assert_eq!(output.stdout, b"40\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn limit(&mut self, resource: Resource, soft: u64, hard: u64) -> &mut Self {
        self.task.set_limit(resource, soft, hard);
        self
    }

    /// Names modules that the program, an interpreter for which Regrow has a front end (Python, and Perl with a script that is named by
    /// an absolute path), is to have loaded when the run starts. They are loaded once, while the image is made, and not at all where the
    /// run is started by exec: to the program a module is loaded as quickly as ever, or it is there already. Of Perl's, a name with
    /// `?` behind it may be missing. A name with `perl:` or `python:` before it is for that language alone.
    pub fn preload<I, S>(&mut self, modules: I) -> &mut Self
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        self.preload.extend(modules.into_iter().map(Into::into));
        self
    }

    /// Whether a Perl script is to be compiled ahead too, when its image is made: what its `BEGIN` blocks and its modules do is then
    /// done once, and not in every run. There is no such image of a script that opens files then, or reads variables of a CGI request.
    pub fn compile_ahead(&mut self, compile: bool) -> &mut Self {
        self.compile = compile;
        self
    }

    /// Has the run start in the image of a front end: of the program, executed with the arguments of `front_end`, that has prepared
    /// itself and stopped (`docs/warm.md`). Where there is no such image, the program is started with the arguments of the command: it
    /// is to do the same then.
    ///
    /// A descriptor 63 that the command passes ([`Command::fd`]) is the order; where there is none, the order says arguments and
    /// environment of the command.
    pub fn warm(&mut self, front_end: Arc<Warm>) -> &mut Self {
        self.warm = Some(front_end);
        self
    }

    /// Passes the order to the front end of [`Command::warm`]. A front end that can takes it from memory that its body shares with the
    /// caller, where it may answer too ([`Child::take_answer`]); for all others, and where the program is started otherwise, it
    /// is in a file at descriptor 63.
    pub fn order(&mut self, order: Vec<u8>) -> &mut Self {
        self.order = Some(Arc::new(order));
        self
    }

    /// Starts the process ahead of its turn: its front end gets ready with the order and waits until [`Child::let_go`]. Where that cannot be,
    /// because there is no body for it or the order goes another way, nothing is started, and [`Command::spawn`] says `WouldBlock`.
    pub fn ahead(&mut self, is_ahead: bool) -> &mut Self {
        self.is_ahead = is_ahead;
        self
    }

    /// Whether the run has its body alone: no run was in it before, and none comes after. [`PoolBuilder::reuse`](crate::PoolBuilder::reuse) says so
    /// for all runs of a pool.
    pub fn single_use(&mut self, single_use: bool) -> &mut Self {
        self.single_use = single_use;
        self
    }

    /// Whether [`Command::spawn`] busy-polls for the beginning of a run in a body, for at most 40 microseconds, before it sleeps until then. The
    /// caller takes the processor from others for that time; in return nobody has to wake it, which takes the run 5 to 30 microseconds.
    pub fn busy_poll(&mut self, polls: bool) -> &mut Self {
        self.busy_poll = polls;
        self
    }

    /// Names the place at which the run is asked for: `name`, `within` something that tells its names apart. The pool learns by places which
    /// programs come next. Without it the place is the line that calls [`Command::spawn`], [`Command::output`] or [`Command::status`]; a program
    /// that starts processes for others (a server for its scripts, a binding for another language) knows better ones.
    pub fn creation_site(&mut self, within: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> &mut Self {
        self.site = Some(regrow_sites::place::named(within.as_ref(), name.as_ref()));
        self
    }

    /// Sets the niceness of the run, as a value from -20 to 19 and not as a difference to the caller's.
    pub fn nice(&mut self, niceness: i32) -> &mut Self {
        self.task.set_nice(niceness);
        self
    }

    /// Sets how long the scheduler lets the run go on before others: by default some milliseconds. A run with a shorter slice
    /// gets the processor sooner, for a shorter time, at no loss of its share. The kernel takes lengths from 0.1 to 100
    /// milliseconds, and what is beyond them for the next of these. Without effect before Linux 6.12; a run under a
    /// real-time policy has no slice, so that it is not started: `InvalidInput`.
    pub fn slice(&mut self, length: Duration) -> &mut Self {
        // Zero would ask for the default.
        self.task.set_slice_ns(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX).max(1));
        self
    }

    /// Starts the process.
    ///
    /// # Errors
    /// As those of [`std::process::Command::spawn`]: `NotFound` when there is no such program or directory,
    /// `PermissionDenied`, `InvalidInput` for a NUL byte in a string, and what else `posix_spawn` reports. The
    /// program has then not run.
    #[track_caller]
    pub fn spawn(&mut self) -> io::Result<Child> {
        self.spawn_with(&Stdio::inherit(), &Stdio::inherit(), Start::Awaited)
    }

    /// Starts the process, reads its output and waits for its end. Unless set otherwise its standard input is
    /// empty, and its output and error are read.
    ///
    /// # Errors
    /// As [`Command::spawn`] and [`Child::wait_with_output`].
    #[track_caller]
    pub fn output(&mut self) -> io::Result<Output> {
        let (stdin, output) = (Stdio::null(), Stdio::piped());
        let mut child = self.spawn_with(&stdin, &output, Start::Unawaited)?;
        let finished = child.finish()?;
        if child.was_refused() {
            return self.spawn_with(&stdin, &output, Start::ByExec)?.wait_with_output();
        }
        Ok(finished)
    }

    /// Starts the process and waits for its end.
    ///
    /// # Errors
    /// As [`Command::spawn`] and [`Child::wait`].
    #[track_caller]
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.complete().map(|completed| completed.status)
    }

    /// As [`Command::status`], and tells how the process was created.
    ///
    /// # Errors
    /// As [`Command::status`].
    #[track_caller]
    pub fn complete(&mut self) -> io::Result<Completed> {
        let inherit = Stdio::inherit();
        let mut child = self.spawn_with(&inherit, &inherit, Start::Unawaited)?;
        let mut status = child.wait()?;
        if child.was_refused() {
            child = self.spawn_with(&inherit, &inherit, Start::ByExec)?;
            status = child.wait()?;
        }
        Ok(Completed { status, creation: child.creation().clone() })
    }

    /// Starts the process, with the caller's standard streams where nothing else was said.
    pub(crate) fn start(&self, start: Start) -> io::Result<Child> {
        let inherit = Stdio::inherit();
        self.spawn_with(&inherit, &inherit, start)
    }

    /// Whether nothing was said of the standard input.
    pub(crate) fn has_no_stdin(&self) -> bool {
        self.stdin.is_none()
    }

    /// Whether what the run prints (1: standard output, 2: standard error) is for the caller, where nothing was said or a pipe.
    pub(crate) fn is_collected(&self, stream: i32) -> bool {
        let stdio = if stream == 1 { &self.stdout } else { &self.stderr };
        stdio.as_ref().is_none_or(Stdio::is_piped)
    }

    /// The program as it was given.
    #[must_use]
    pub fn get_program(&self) -> &OsStr {
        &self.program
    }

    /// The arguments after `argv[0]`.
    #[must_use]
    pub fn get_args(&self) -> CommandArgs<'_> {
        CommandArgs { args: self.args.iter() }
    }

    /// The changes to the environment: the variables that are set, and without value those that are removed. That
    /// the environment is cleared does not show.
    #[must_use]
    pub fn get_envs(&self) -> CommandEnvs<'_> {
        self.env.iter()
    }

    /// The directory that the run starts in, if it was set.
    #[must_use]
    pub fn get_current_dir(&self) -> Option<&Path> {
        self.current_dir.as_deref()
    }

    #[track_caller]
    fn spawn_with(&self, default_stdin: &Stdio, default_output: &Stdio, start: Start) -> io::Result<Child> {
        let mut request = self.request_without_stdio()?;
        request.site = Some(self.site.unwrap_or_else(|| {
            let place = Location::caller();
            regrow_sites::place::of_source(place.file(), place.line(), place.column())
        }));
        request.waits_for_end = start == Start::Unawaited;
        request.traced = self.traced;
        request.busy_poll = self.busy_poll;
        request.is_ahead = self.is_ahead;
        request.single_use = self.single_use;
        let (stdin, our_stdin) = self.stdin.as_ref().unwrap_or(default_stdin).open(Direction::In)?;
        let (stdout, our_stdout) = self.stdout.as_ref().unwrap_or(default_output).open(Direction::Out)?;
        let (stderr, our_stderr) = self.stderr.as_ref().unwrap_or(default_output).open(Direction::Out)?;
        request.stdio = [stdin, stdout, stderr];
        let pipes = PipeEnds { stdin: our_stdin, stdout: our_stdout, stderr: our_stderr };
        let started = match start {
            Start::ByExec => self.pool.exec(&request)?,
            Start::Awaited | Start::Unawaited => self.pool.spawn(&request)?,
        };
        if self.opens_pidfd {
            started.pidfd()?;
        }
        Ok(Child::new(started, pipes))
    }

    /// Makes the calling process the program.
    pub(crate) fn replace_caller(&self) -> io::Error {
        let inherit = Stdio::inherit();
        let open = |stdio: &Option<Stdio>, direction| {
            let (fd, _ours) = stdio.as_ref().unwrap_or(&inherit).open(direction)?;
            io::Result::Ok(fd)
        };
        let request = || {
            let mut request = self.request_without_stdio()?;
            request.stdio = [
                open(&self.stdin, Direction::In)?,
                open(&self.stdout, Direction::Out)?,
                open(&self.stderr, Direction::Out)?,
            ];
            io::Result::Ok(request)
        };
        let request = match request() {
            Ok(request) => request,
            Err(error) => return error,
        };
        // What the pool keeps would have a parent that knows nothing of it.
        self.pool.clear();
        replace_caller(&request)
    }

    /// The request for one run, its standard descriptors the caller's.
    pub(crate) fn request_without_stdio(&self) -> io::Result<Request> {
        let mut request = Request::new(c_string(&self.program)?);
        request.arg0 = self.arg0.as_deref().map(c_string).transpose()?;
        for arg in &self.args {
            request.args.push(&[arg.as_bytes()])?;
        }
        request.env = self.env.resolve()?;
        request.current_dir = self.current_dir.as_deref().map(Path::as_os_str).map(c_string).transpose()?;
        request.extra_fds.clone_from(&self.extra_fds);
        request.task = self.task;
        request.identity.clone_from(&self.identity);
        request.hooks.clone_from(&self.hooks);
        request.warm.clone_from(&self.warm);
        request.order = self.order.clone().map(|bytes| Arc::new(WarmOrder::new(bytes)));
        request.preload.clone_from(&self.preload);
        request.compile = self.compile;
        Ok(request)
    }

    /// The part of the command that `std::process` has as well.
    fn to_std(&self) -> std::process::Command {
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.args);
        if let Some(arg0) = &self.arg0 {
            command.arg0(arg0);
        }
        if self.env.is_cleared() {
            command.env_clear();
        }
        for (name, value) in self.env.iter() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(directory) = &self.current_dir {
            command.current_dir(directory);
        }
        self.tell_identity(&mut command);
        let shown = |stdio: &Option<Stdio>| stdio.as_ref().and_then(Stdio::to_std);
        if let Some(stdin) = shown(&self.stdin) {
            command.stdin(stdin);
        }
        if let Some(stdout) = shown(&self.stdout) {
            command.stdout(stdout);
        }
        if let Some(stderr) = shown(&self.stderr) {
            command.stderr(stderr);
        }
        command
    }

    /// Tells a command of `std::process` which user and group the process is to have.
    fn tell_identity(&self, command: &mut std::process::Command) {
        if let Some(uid) = self.identity.uid {
            command.uid(uid);
        }
        if let Some(gid) = self.identity.gid {
            command.gid(gid);
        }
        if let Some(group) = self.task.process_group() {
            command.process_group(group);
        }
    }
}

/// What a pool does with commands.
impl Pool {
    /// A command that runs `program` out of this pool, otherwise as [`Command::new`].
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        Command::in_pool(self.clone(), program.as_ref())
    }

    /// Makes the image of the command's program ahead, so that its first run is recycled as well. Returns when
    /// that is done.
    ///
    /// ```
    /// use regrow::{Command, Pool};
    ///
    /// match Pool::global().prepare(&Command::new("git")) {
    ///     Ok(point) => println!("git will start at {point}"),
    ///     Err(error) => println!("git will start by exec: {error}"),
    /// }
    /// ```
    ///
    /// # Errors
    /// When there is no such program, or when it is one that is not recycled, with the reason. Its runs are
    /// started by exec.
    pub fn prepare(&self, command: &Command) -> Result<Point, PrepareError> {
        let request = command
            .request_without_stdio()
            .map_err(|source| PrepareError::Program { program: command.get_program().to_owned(), source })?;
        self.prepare_request(&request)
    }
}

fn c_string(string: &OsStr) -> Result<CString, NulFound> {
    CString::new(string.as_bytes()).map_err(|_| NulFound)
}

/// Shows the command as `std::process` does: roughly as one would type it in a shell.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_std().fmt(f)
    }
}

/// The arguments of a command: see [`Command::get_args`].
#[derive(Debug, Clone)]
pub struct CommandArgs<'a> {
    args: std::slice::Iter<'a, OsString>,
}

impl<'a> Iterator for CommandArgs<'a> {
    type Item = &'a OsStr;

    fn next(&mut self) -> Option<&'a OsStr> {
        self.args.next().map(OsString::as_os_str)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.args.size_hint()
    }
}

impl ExactSizeIterator for CommandArgs<'_> {}

impl FusedIterator for CommandArgs<'_> {}
