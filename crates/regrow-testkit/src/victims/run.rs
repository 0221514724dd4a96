//! One run of a victim, and all that is known of it from outside.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use regrow::{Child, Pool, Stdio};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, OFlags};
use rustix::process::Pid;

use super::caller::Caller;
use super::error::VictimsError;
use super::manifest::{Case, Ending, StdoutRule, signal_number};
use super::world::{Places, World};

/// How long a run may take before it is killed and counted as a failure.
const RUN_LIMIT: Duration = Duration::from_secs(60);

/// The result of a run.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) child: Option<Child>,
    pub(super) pid: u32,
    pub(super) stdout: Vec<u8>,
    /// What went wrong.
    pub(super) wrong: Vec<String>,
    /// It did not end by itself.
    pub(super) hung: bool,
}

/// Runs a case once.
///
/// # Errors
/// When the caller cannot be changed as the world wants it. What is wrong with the run is in [`Ran::wrong`].
pub(super) fn run_once(
    pool: &Pool,
    case: &Case,
    world: &World,
    caller: &mut Caller,
    places: &Places,
) -> Result<Ran, VictimsError> {
    let chdir = |errno: rustix::io::Errno| VictimsError::Caller { step: "chdir", source: errno.into() };
    rustix::process::chdir(&places.directories[world.directory]).map_err(chdir)?;
    if let Some(change) = &world.caller {
        caller.become_like(change)?;
        pool.refresh();
    }
    let failed = |what: &str, source: &io::Error| Ran {
        child: None,
        pid: 0,
        stdout: Vec::new(),
        wrong: vec![format!("{what}: {source}")],
        hung: false,
    };
    match start(pool, case, world, caller, places) {
        Err(source) => Ok(failed("it was not started", &source)),
        Ok(started) => Ok(finish(started, case, world).unwrap_or_else(|source| failed("its end", &source))),
    }
}

/// A run, and where its output can be read.
struct Started {
    child: Child,
    output: [Output; 2],
}

/// What a run writes to, seen from the caller.
enum Output {
    Pipe(File),
    /// A file in memory.
    Memory(File),
}

fn start(pool: &Pool, case: &Case, world: &World, caller: &Caller, places: &Places) -> io::Result<Started> {
    let mut command = pool.command(&case.path);
    world.command(&mut command, case, caller, places)?;
    if world.output_by_pipe {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (Some(stdout), Some(stderr)) = (stdout, stderr) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let output =
            [OwnedFd::from(stdout), OwnedFd::from(stderr)].map(|pipe| Output::Pipe(File::from(pipe)));
        return Ok(Started { child, output });
    }
    let memory = |name| rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC).map(File::from);
    let (stdout, stderr) = (memory("stdout")?, memory("stderr")?);
    let child = command.stdout(stdout.try_clone()?).stderr(stderr.try_clone()?).spawn()?;
    Ok(Started { child, output: [Output::Memory(stdout), Output::Memory(stderr)] })
}

fn finish(started: Started, case: &Case, world: &World) -> io::Result<Ran> {
    let Started { mut child, output } = started;
    let mut wrong = Vec::new();
    let pid = child.id();
    if !ends_in_time(&child)? {
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        wrong.push(format!("it did not end within {RUN_LIMIT:?}: {state}"));
        child.kill()?;
        child.wait()?;
        return Ok(Ran { child: Some(child), pid, stdout: Vec::new(), wrong, hung: true });
    }
    wrong.extend(look_from_outside(pid, world));
    let status = child.wait()?;
    let [stdout, stderr] = output;
    let (stdout, stderr) = (read(stdout)?, read(stderr)?);
    if !ended_well(&case.status, status) {
        wrong.push(format!("it ended with {status}, not {:?}", case.status));
    }
    let is_silent = case.status == Ending::Exit(0);
    if !stderr.is_empty() && (is_silent || !wrong.is_empty()) {
        wrong.push(format!("it wrote {:?}", text(&stderr)));
    }
    if case.stdout_rule == StdoutRule::Exact && stdout != case.stdout.as_bytes() {
        wrong.push(format!("it printed {:?}, not {:?}", text(&stdout), case.stdout));
    }
    Ok(Ran { child: Some(child), pid, stdout, wrong, hung: false })
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.len().min(400);
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

fn ends_in_time(child: &Child) -> io::Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(child.pidfd()?, PollFlags::IN)];
    let limit = Timespec::try_from(RUN_LIMIT).map_err(io::Error::other)?;
    Ok(poll(&mut fds, Some(&limit))? > 0)
}

/// Checks what nobody can tell the victim ahead: that its session and its group have its own number. The process has
/// ended, and nobody has waited for it.
fn look_from_outside(pid: u32, world: &World) -> Vec<String> {
    let mut wrong = Vec::new();
    let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return wrong };
    if world.asked.setsid && rustix::process::getsid(Some(process)) != Ok(process) {
        wrong.push("it does not lead a session of its own".to_owned());
    }
    let leads = world.asked.setsid || world.asked.group == Some(0);
    if leads && rustix::process::getpgid(Some(process)) != Ok(process) {
        wrong.push("it does not lead a group of its own".to_owned());
    }
    let parent = fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|stat| {
        let rest = stat.rsplit_once(')')?.1.to_owned();
        rest.split_whitespace().nth(1)?.parse::<u32>().ok()
    });
    if parent != Some(std::process::id()) {
        wrong.push(format!("its parent is {parent:?}, not {}", std::process::id()));
    }
    wrong
}

/// All that the run itself has written. It does not wait for a child of the run that holds the output open.
fn read(output: Output) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match output {
        Output::Memory(mut file) => {
            file.rewind()?;
            file.read_to_end(&mut bytes)?;
        }
        Output::Pipe(mut pipe) => {
            rustix::fs::fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
            match pipe.read_to_end(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => drop(other?),
            }
        }
    }
    Ok(bytes)
}

/// Whether a status is the one that the manifest has.
pub(super) fn ended_well(wanted: &Ending, status: ExitStatus) -> bool {
    match wanted {
        Ending::Exit(code) => status.code() == Some(*code),
        Ending::Signal(name) => status.signal() == signal_number(name),
    }
}
