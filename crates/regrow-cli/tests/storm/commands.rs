//! The load: commands of which output and status are known, and what becomes of each.

use std::fmt;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::Storm;
use crate::killer::Kind;
use crate::nursery::Subject;
use crate::random::Random;
use crate::service::{LIMIT, Said, shell_status, text};

/// The status of a run that `SIGKILL` has ended.
const KILLED: i32 = 137;
/// The status of a command that Regrow has failed.
const REGROW_FAILED: i32 = 125;
/// What such a command says.
const UNKNOWN: [&str; 2] = [
    "regrow: the daemon is gone, and whether the program has run is not known",
    "regrow: the status of the run is not known",
];

/// How a line of the log is known.
const LOG: &str = " regrow::run::";
/// What stands in the log before the number of a run.
const STARTED: &str = ": started pid=";
/// What stands in the log when the daemon has gone before the run had ended.
const SURVIVES: &str = "the run goes on without the daemon";

/// How long a process may live on after it was killed.
const DYING: Duration = LIMIT;

/// How a command has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// Right, in a kept body.
    Recycled,
    /// Right, executed by the command itself.
    Executed,
    /// Right, in a kept body whose daemon was gone before the run had ended.
    Survived,
    /// It was killed.
    CommandKilled,
    /// Its run was killed, and it says so.
    RunKilled,
    /// The daemon was killed, and it says that it does not know what became of its run.
    DaemonGone,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Recycled => "right and recycled",
            Self::Executed => "right and executed",
            Self::Survived => "right without the daemon that began them",
            Self::CommandKilled => "commands killed",
            Self::RunKilled => "told that the run was killed",
            Self::DaemonGone => "told that the daemon is gone",
        })
    }
}

/// A command and what it must give.
pub(crate) struct Job {
    pub(crate) args: Vec<String>,
    input: Vec<u8>,
    output: Vec<u8>,
    status: i32,
}

impl Job {
    /// A command of any sort, whose output no other command has.
    pub(crate) fn any(random: &mut Random) -> Job {
        Job::of(random.below(SORTS), random.next())
    }

    /// One of each sort.
    pub(crate) fn one_of_each() -> impl Iterator<Item = Job> {
        (0..SORTS).map(|sort| Job::of(sort, sort))
    }

    fn of(sort: u64, unique: u64) -> Job {
        let word = format!("{unique:x}");
        let lines = |count: usize| format!("{word}\n").repeat(count).into_bytes();
        let job = |args: &[&str], input: &[u8], output: &[u8], status| Job {
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            input: input.to_vec(),
            output: output.to_vec(),
            status,
        };
        match sort {
            0 => job(&["sh", "-c", "echo \"$1\"; exit 7", "sh", &word], b"", &lines(1), 7),
            1 => {
                let script = "print \"$ARGV[0]\\n\" x 500; exit 9";
                job(&["perl", "-e", script, &word], b"", &lines(500), 9)
            }
            2 => job(&["cat"], &lines(1000), &lines(1000), 0),
            3 => job(&["sleep", &format!("0.0{:02}", unique % 60)], b"", b"", 0),
            4 => {
                let script = "read word; sleep 0.02; echo \"$word\"; kill -TERM $$";
                job(&["sh", "-c", script], &lines(1), &lines(1), 143)
            }
            _ => job(&["sort", "-r"], &lines(20), &lines(20), 0),
        }
    }
}

/// How many sorts of commands there are.
const SORTS: u64 = 6;

/// Runs a command. `Err` says what it must not have done.
pub(crate) fn run(storm: &Storm, job: &Job) -> Result<Outcome, String> {
    let folder = storm.service.folder();
    let mut command = Command::new(env!("CARGO_BIN_EXE_regrow"));
    command.args(["--log", "info", "run", "--no-tty", "--"]).args(&job.args);
    command.env("XDG_RUNTIME_DIR", folder).env("TMPDIR", folder.join("tmp"));
    command.env_remove("REGROW_DISABLE").env_remove("REGROW_LOG");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let (mut child, subject) = storm.nursery.start(&mut command);
    // It fits in a pipe; a reader that is killed does not take it.
    let _ = child.stdin.take().unwrap().write_all(&job.input);
    let output = child.wait_with_output();
    storm.nursery.ended(&subject);
    judge(storm, job, started, &subject, &output.map_err(|error| error.to_string())?)
}

fn judge(
    storm: &Storm,
    job: &Job,
    started: Instant,
    subject: &Subject,
    output: &Output,
) -> Result<Outcome, String> {
    let log = Log::read(&output.stderr);
    let status = shell_status(output.status);
    let is_begun = job.output.starts_with(&output.stdout);
    if status == job.status && output.stdout == job.output && log.own.is_empty() {
        return Ok(match log.run {
            Some(_) if log.text.contains(SURVIVES) => Outcome::Survived,
            Some(_) if Said::read(&output.stderr).is_kept() => Outcome::Recycled,
            _ => Outcome::Executed,
        });
    }
    if subject.was_killed() && status == KILLED && is_begun {
        return Ok(Outcome::CommandKilled);
    }
    let kills = storm.kills.lock().unwrap();
    // A process that waits may be killed, and be given its order before it is gone.
    let is_killed = |pid| kills.iter().any(|kill| kill.pid == pid && kill.at + DYING >= started);
    if status == KILLED && is_begun && log.own.is_empty() && log.run.is_some_and(is_killed) {
        return Ok(Outcome::RunKilled);
    }
    let of_daemon = kills.iter().any(|kill| kill.kind == Kind::Daemon && kill.at >= started);
    let tells = |text: &&str| log.own.starts_with(text) && log.own.lines().count() == 1;
    if status == REGROW_FAILED && is_begun && of_daemon && UNKNOWN.iter().any(tells) {
        return Ok(Outcome::DaemonGone);
    }
    Err(format!(
        "{:?}, process {}, of status {} and {} bytes, after {:?}: status {status}, {} bytes, killed {}, {}",
        job.args,
        subject.pid(),
        job.status,
        job.output.len(),
        started.elapsed(),
        output.stdout.len(),
        subject.was_killed(),
        text(&output.stderr)
    ))
}

/// What a command has written to standard error.
struct Log {
    text: String,
    /// What is not of the log: what the command says to its caller.
    own: String,
    /// The number of the run, if it was started by a daemon.
    run: Option<i32>,
}

impl Log {
    fn read(stderr: &[u8]) -> Log {
        let text = text(stderr);
        let is_log = |line: &&str| line.contains(LOG);
        let own =
            text.lines().filter(|line| !is_log(line)).fold(String::new(), |own, line| own + line + "\n");
        let started = text.split_once(STARTED).map(|(_, rest)| rest.split_whitespace().next());
        let run = started.flatten().and_then(|pid| pid.parse().ok());
        Log { text, own, run }
    }
}
