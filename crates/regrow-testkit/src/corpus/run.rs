//! One run of one invocation, through whatever starts processes.
//!
//! [`Spawner`] is the door: [`PlainExec`] goes through `std::process`, and a recycling one can be put beside it.
//! Both gather what the run says with [`gather`], which also ends a run that takes too long.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait before looking again whether a run that has closed its output is over.
const POLL: Duration = Duration::from_micros(200);

/// Where a run's standard input comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// `/dev/null`.
    Null,
    /// A pipe that brings this text and is then closed.
    Text(Vec<u8>),
    /// A file, from its start.
    File(PathBuf),
}

/// Where a run's standard output goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A pipe; it ends up in [`RunResult::stdout`].
    Pipe,
    /// A file, emptied first.
    File(PathBuf),
}

/// All that the test gives a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The entry that it belongs to.
    pub entry: String,
    /// The program: a name to look for in the `PATH` of `env`, or an absolute path.
    pub program: OsString,
    /// The arguments after the program's name.
    pub args: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Standard input.
    pub stdin: Input,
    /// Standard output.
    pub stdout: Output,
    /// How long the run may take.
    pub limit: Duration,
}

/// How a run ended, what it wrote, and how it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunResult {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to standard output, if that was a pipe.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
    /// How the process was made: `exec`, `recycled`, …
    pub how: String,
    /// The snapshot point that it started from, if any.
    pub point: Option<String>,
    /// Why it was not recycled, if it was not.
    pub fallback: Option<String>,
}

/// Something that starts a program and waits for it.
pub trait Spawner {
    /// Runs `invocation` in the directory `dir` and waits for its end.
    ///
    /// # Errors
    ///
    /// The system's reason if the program could not be started, and [`io::ErrorKind::TimedOut`] if it did not end
    /// within the invocation's limit (it is killed then).
    fn run(&mut self, invocation: &Invocation, dir: &Path) -> io::Result<RunResult>;
}

/// The spawner that everything is compared with: fork (or `posix_spawn`) and exec by `std::process`.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainExec;

impl Spawner for PlainExec {
    fn run(&mut self, invocation: &Invocation, dir: &Path) -> io::Result<RunResult> {
        let gathered = run_command(Command::new(&invocation.program), invocation, dir)?;
        Ok(RunResult {
            status: gathered.status,
            stdout: gathered.stdout,
            stderr: gathered.stderr,
            how: "exec".to_owned(),
            point: None,
            fallback: None,
        })
    }
}

/// Runs a command that takes the program's arguments after its own, as the invocation says.
///
/// # Errors
///
/// As [`Spawner::run`].
pub fn run_command(mut command: Command, invocation: &Invocation, dir: &Path) -> io::Result<Gathered> {
    command.args(&invocation.args).env_clear().current_dir(dir);
    command.envs(invocation.env.iter().map(|(name, value)| (name, value)));
    command.stdin(match &invocation.stdin {
        Input::Null => Stdio::null(),
        Input::Text(_) => Stdio::piped(),
        Input::File(path) => Stdio::from(File::open(path)?),
    });
    command.stdout(match &invocation.stdout {
        Output::Pipe => Stdio::piped(),
        Output::File(path) => Stdio::from(File::create(path)?),
    });
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    // A file that the output goes to is closed here.
    drop(command);
    let pipes = Pipes::new(child.stdin.take(), child.stdout.take(), child.stderr.take());
    gather(&mut child, pipes, invocation)
}

/// A process that can be waited for without blocking, and killed.
pub trait Running {
    /// The status, if it is over.
    ///
    /// # Errors
    ///
    /// The system's reason if that cannot be told.
    fn poll_status(&mut self) -> io::Result<Option<ExitStatus>>;
    /// Ends it by `SIGKILL` and waits for it.
    ///
    /// # Errors
    ///
    /// The system's reason if it cannot be killed or waited for.
    fn kill_and_wait(&mut self) -> io::Result<()>;
}

impl Running for std::process::Child {
    fn poll_status(&mut self) -> io::Result<Option<ExitStatus>> {
        self.try_wait()
    }

    fn kill_and_wait(&mut self) -> io::Result<()> {
        self.kill()?;
        self.wait().map(drop)
    }
}

/// The caller's ends of a run's pipes.
pub struct Pipes {
    stdin: Option<Box<dyn Write + Send>>,
    stdout: Option<Box<dyn Read + Send>>,
    stderr: Option<Box<dyn Read + Send>>,
}

impl Pipes {
    /// Those that a run has, as `std::process` hands them out.
    pub fn new(stdin: Option<ChildStdin>, stdout: Option<ChildStdout>, stderr: Option<ChildStderr>) -> Self {
        Self {
            stdin: stdin.map(|pipe| Box::new(pipe) as Box<dyn Write + Send>),
            stdout: stdout.map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
            stderr: stderr.map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
        }
    }
}

impl fmt::Debug for Pipes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipes").finish_non_exhaustive()
    }
}

/// The end of a run and what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gathered {
    /// How it ended.
    pub status: ExitStatus,
    /// All of its standard output.
    pub stdout: Vec<u8>,
    /// All of its standard error.
    pub stderr: Vec<u8>,
}

/// Feeds a run its input, reads both streams to their end, and waits; kills it when the limit has passed.
///
/// A stream ends when the last process that holds it is gone, so descendants that write are waited for too.
///
/// # Errors
///
/// As [`Spawner::run`].
pub fn gather(process: &mut dyn Running, pipes: Pipes, invocation: &Invocation) -> io::Result<Gathered> {
    let deadline = Instant::now() + invocation.limit;
    if let (Some(mut pipe), Input::Text(text)) = (pipes.stdin, invocation.stdin.clone()) {
        // A run that ends without reading all its input closes the pipe; that is its right.
        thread::spawn(move || drop(pipe.write_all(&text)));
    }
    let stdout = read_in_background(pipes.stdout);
    let stderr = read_in_background(pipes.stderr);
    let outcome = finish(process, &stdout, &stderr, deadline);
    if outcome.is_err() {
        process.kill_and_wait()?;
    }
    outcome
}

type Stream = mpsc::Receiver<io::Result<Vec<u8>>>;

fn read_in_background(pipe: Option<Box<dyn Read + Send>>) -> Stream {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let result = pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut bytes));
        // The receiver is gone only when the run has been given up.
        let _ = sender.send(result.map(|_| bytes));
    });
    receiver
}

fn finish(
    process: &mut dyn Running,
    stdout: &Stream,
    stderr: &Stream,
    deadline: Instant,
) -> io::Result<Gathered> {
    let stdout = receive(stdout, deadline)?;
    let stderr = receive(stderr, deadline)?;
    loop {
        if let Some(status) = process.poll_status()? {
            return Ok(Gathered { status, stdout, stderr });
        }
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(POLL);
    }
}

fn receive(stream: &Stream, deadline: Instant) -> io::Result<Vec<u8>> {
    let left = deadline.saturating_duration_since(Instant::now());
    match stream.recv_timeout(left) {
        Ok(result) => result,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}
