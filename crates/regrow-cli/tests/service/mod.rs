//! A daemon of a test's own, in a folder of its own, and commands that go through it.
//!
//! Commands are started by `setsid`, or with `--no-tty`, so that a terminal that the tests have is not the command's.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use regrow_daemon::client::Client;
use regrow_daemon::place::Place;
use rustix::process::{Pid, Signal};

/// How long what is to come about may take. Nothing is measured by it.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// How often a command is repeated until it is recycled.
pub(crate) const ATTEMPTS: usize = 200;
/// How many bytes of a line of the log stand before its level.
const TIMESTAMP: usize = 28;

/// Whether these tests give their orders by the client of one page: `tests/client.rs` has the tests of others.
pub(crate) const BY_CLIENT: bool = matches!(env!("CARGO_CRATE_NAME").as_bytes(), b"client");

/// A place of its own, and the daemon there, if this process has started it.
pub(crate) struct Service {
    folder: tempfile::TempDir,
    daemon: Option<Child>,
}

impl Service {
    /// A place without a daemon.
    pub(crate) fn empty() -> Service {
        Service { folder: tempfile::tempdir().unwrap(), daemon: None }
    }

    /// A place with a daemon that listens.
    pub(crate) fn start() -> Service {
        Service::with(&[])
    }

    /// A place with a daemon that listens and has these arguments.
    pub(crate) fn with(args: &[&str]) -> Service {
        let mut service = Service::empty();
        service.start_daemon(args);
        service
    }

    /// Starts a daemon and waits until it listens.
    pub(crate) fn start_daemon(&mut self, args: &[&str]) {
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        let mut command = self.regrow();
        command.args(["--log", "info", "daemon"]).args(args);
        if !args.contains(&"--idle") {
            // Were the test killed, its daemon would not stay for long.
            command.args(["--idle", "120"]);
        }
        let mut daemon = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        eventually("the daemon's socket", || {
            assert!(daemon.try_wait().unwrap().is_none(), "{}", self.daemon_said());
            Client::connect(&self.place()).is_ok()
        });
        self.daemon = Some(daemon);
    }

    /// The folder, in which a test may put files of its own.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn place(&self) -> Place {
        Place::at(self.folder().to_owned(), rustix::process::geteuid().as_raw()).unwrap()
    }

    fn log(&self) -> PathBuf {
        self.folder().join("daemon.log")
    }

    /// What the daemon has written to its log.
    pub(crate) fn daemon_said(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// The number of the daemon that listens, whoever has started it.
    pub(crate) fn daemon(&self) -> i32 {
        let client = Client::connect(&self.place()).unwrap();
        let peer = rustix::net::sockopt::socket_peercred(client.as_fd()).unwrap();
        peer.pid.as_raw_nonzero().get()
    }

    /// Kills the daemon that this process has started, and waits for its end.
    pub(crate) fn kill_daemon(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// Waits for the end of the daemon that this process has started.
    pub(crate) fn daemon_ends(&mut self) -> ExitStatus {
        let mut daemon = self.daemon.take().unwrap();
        eventually("the daemon's end", || daemon.try_wait().unwrap().is_some());
        daemon.wait().unwrap()
    }

    /// Has the daemon leave, and waits until it has.
    pub(crate) fn stop(&self) {
        let output = self.regrow().arg("stop").output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }

    /// Every process whose environment names this place.
    pub(crate) fn everything(&self) -> Vec<i32> {
        let variable = format!("XDG_RUNTIME_DIR={}", self.folder().display());
        let names =
            fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let is_ours = |pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|entry| entry == variable.as_bytes()) && lives(*pid)
        };
        names.filter_map(|name| name.parse().ok()).filter(is_ours).collect()
    }

    /// The processes of `regrow` among them.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let own = fs::canonicalize(env!("CARGO_BIN_EXE_regrow")).unwrap();
        let is_regrow =
            |pid: &i32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|program| program == own);
        self.everything().into_iter().filter(is_regrow).collect()
    }

    /// Those that are daemons, or about to be.
    fn daemons(&self) -> Vec<i32> {
        let is_daemon = |pid: &i32| command_line(*pid).contains(" daemon");
        self.processes().into_iter().filter(is_daemon).collect()
    }

    /// What is there when everything should be gone, after waiting for it to go. Each daemon is told once to leave: also one that a command has
    /// started last, and that was about to be a daemon when the others were told.
    fn left(&self) -> Vec<i32> {
        let deadline = Instant::now() + LIMIT;
        let mut told = Vec::new();
        loop {
            for daemon in self.daemons() {
                if !told.contains(&daemon) {
                    signal(daemon, Signal::TERM);
                    told.push(daemon);
                }
            }
            let left = self.everything();
            if left.is_empty() || Instant::now() > deadline {
                return left;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// A program in this place, in a session of its own, with nothing to read.
    pub(crate) fn plain(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.without_setsid("setsid");
        command.arg(program);
        command
    }

    /// A program in this place, in the session of these tests, with nothing to read. It does not ignore what a shell has its background jobs
    /// ignore.
    pub(crate) fn without_setsid(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,QUIT").arg(program);
        command.stdin(Stdio::null()).env("XDG_RUNTIME_DIR", self.folder());
        command.env_remove("REGROW_DISABLE").env_remove("REGROW_LOG");
        command
    }

    /// `regrow` in this place.
    pub(crate) fn regrow(&self) -> Command {
        self.plain(self.runner())
    }

    /// What is executed as `regrow`: the command, or the client of one page under its name.
    pub(crate) fn runner(&self) -> String {
        if !BY_CLIENT {
            return env!("CARGO_BIN_EXE_regrow").to_owned();
        }
        self.launcher("regrow")
    }

    /// A launcher of this name, in a folder of this place.
    pub(crate) fn launcher(&self, name: &str) -> String {
        let folder = self.folder().join("launchers");
        let path = folder.join(name);
        if !path.exists() {
            let mut link = Command::new(env!("CARGO_BIN_EXE_regrow"));
            let output = link.args(["link", "--dir"]).arg(&folder).arg(name).output().unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
        path.to_str().unwrap().to_owned()
    }

    /// How many runs the daemon has given to clients of one page, and how many it has recycled.
    pub(crate) fn counted(&self) -> [u64; 2] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_regrow"));
        command.env("XDG_RUNTIME_DIR", self.folder()).args(["status", "--json"]);
        let output = command.output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let creations = &status["pool"]["creations"];
        let of = |way: &str| -> u64 {
            let points = creations[way].as_object().unwrap_or_else(|| panic!("{creations}"));
            points.values().map(|number| number.as_u64().unwrap()).sum()
        };
        [status["daemon"]["once"].as_u64().unwrap(), of("recycled") + of("forked_body")]
    }

    /// Runs a program until it is recycled, so that those after it are too.
    pub(crate) fn warm(&self, program: &[&str]) {
        self.warm_in(program, |_| ());
    }

    /// The same in a world that `set_up` makes: the environment can decide which image a run is of.
    pub(crate) fn warm_in(&self, program: &[&str], set_up: impl Fn(&mut Command)) {
        for _ in 0..ATTEMPTS {
            let mut command = self.regrow();
            set_up(&mut command);
            let output = command.args(["--log", "info", "run", "--"]).args(program).output().unwrap();
            let said = Said::read(&output.stderr);
            if said.is_kept() {
                return;
            }
            assert!(said.may_be_kept_later(), "{program:?}: {said:?}, {}", self.daemon_said());
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("{program:?} is not recycled: {}", self.daemon_said());
    }

    /// What `wrapper… env PROGRAM…` gives, and that `wrapper… regrow run PROGRAM…` gives the same, also recycled. Returns
    /// how many runs were recycled.
    pub(crate) fn same_as_env(&self, wrapper: &[&str], program: &[&str]) -> usize {
        let (first, rest) = wrapper.split_first().unwrap_or((&"env", &[]));
        let mut plain = self.plain(first);
        let plain = plain.args(rest).arg("env").args(program).output().unwrap();
        let mut kept = 0;
        for attempt in 0..ATTEMPTS {
            let before = if BY_CLIENT { self.counted() } else { [0; 2] };
            let mut command = self.plain(first);
            command.args(rest).arg(self.runner());
            if !BY_CLIENT {
                command.args(["--log", "info"]);
            }
            let output = command.args(["run", "--"]).args(program).output().unwrap();
            let mut said = Said::read(&output.stderr);
            if BY_CLIENT {
                // The daemon counts what it has recycled for a client of one page.
                let after = self.counted();
                let is_counted = after[0] > before[0] && after[1] > before[1];
                (said.how, said.why) = if is_counted {
                    (Some("recycled".into()), None)
                } else {
                    (None, Some("first_run".into()))
                };
            }
            let what = format!("{wrapper:?} {program:?}, run {attempt}, {said:?}");
            let differing = differing_lines(&output.stdout, &plain.stdout);
            assert_eq!(differing, [], "{what}");
            assert_eq!(text(&output.stdout), text(&plain.stdout), "{what}");
            assert_eq!(text(&said.rest), text(&plain.stderr), "{what}");
            assert_eq!(shell_status(output.status), shell_status(plain.status), "{what}");
            kept += usize::from(said.is_kept());
            if kept == 2 {
                return kept;
            }
            assert!(said.is_kept() || said.may_be_kept_later(), "{what}");
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("{wrapper:?} {program:?} is not recycled: {}", self.daemon_said());
    }
}

/// The end of a test: what it has started is told to leave, and it is a failure when something stays. Where the test has
/// failed already, whatever there is is killed.
impl Drop for Service {
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        if failed {
            eprintln!("the daemon has said:\n{}", self.daemon_said());
        }
        let left = if failed { self.everything() } else { self.left() };
        let left: Vec<String> = left.into_iter().map(command_line).collect();
        let deadline = Instant::now() + LIMIT;
        // What is about to start another process is found the next time.
        while Instant::now() < deadline && !self.everything().is_empty() {
            self.everything().iter().for_each(|&pid| signal(pid, Signal::KILL));
            std::thread::sleep(Duration::from_millis(2));
        }
        if let Some(daemon) = &mut self.daemon {
            let _ = daemon.wait();
        }
        assert!(failed || left.is_empty(), "left behind: {left:?}");
    }
}

/// What `regrow --log info run` has written to standard error: of itself, and the program's own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    /// How the process was made, when the daemon has made it.
    pub(crate) how: Option<String>,
    /// Why the command has executed the program itself, when it has.
    pub(crate) why: Option<String>,
    /// What is not the command's.
    pub(crate) rest: Vec<u8>,
}

impl Said {
    pub(crate) fn read(stderr: &[u8]) -> Said {
        let mut said = Said { rest: stderr.to_vec(), ..Said::default() };
        said.how = take_line(&mut said.rest, "regrow::run::shared: started ", "how=");
        said.why = take_line(&mut said.rest, "regrow::run::shared: executed by the command itself ", "why=");
        said
    }

    /// Whether the run had a body that was kept.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self.how.as_deref(), Some("recycled" | "forked_body"))
    }

    /// Whether the next run of the same may have one.
    pub(crate) fn may_be_kept_later(&self) -> bool {
        let why = self.why.as_deref().unwrap_or_default();
        // The kernel counts the descriptors that other tests of this user have on their way.
        let reasons = ["first_run", "image_in_progress", "all_busy", "body_broken", "Too many references"];
        reasons.iter().any(|name| why.contains(name))
    }
}

/// Takes the line of the log with this text out, and gives the quoted value of its field.
fn take_line(stderr: &mut Vec<u8>, text: &str, field: &str) -> Option<String> {
    let at = stderr.windows(text.len()).position(|window| window == text.as_bytes())?;
    let level = stderr[..at].windows(5).rposition(|window| window == b" INFO")?;
    let from = level.checked_sub(TIMESTAMP)?;
    let end = at + stderr[at..].iter().position(|&byte| byte == b'\n')?;
    let line: Vec<u8> = stderr.drain(from..=end).collect();
    let line = String::from_utf8_lossy(&line).into_owned();
    let value = line.split_once(field)?.1.trim_end();
    Some(value.trim_matches('"').to_owned())
}

/// The status as a shell tells it.
pub(crate) fn shell_status(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The lines that are not the same, with what stands in their place.
pub(crate) fn differing_lines(found: &[u8], expected: &[u8]) -> Vec<(String, String)> {
    let (found, expected) = (text(found), text(expected));
    let pairs = found.lines().zip(expected.lines()).filter(|(found, expected)| found != expected);
    pairs.map(|(found, expected)| (found.to_owned(), expected.to_owned())).collect()
}

/// Waits until a condition holds.
pub(crate) fn eventually(what: &str, condition: impl FnMut() -> bool) {
    assert!(comes_about(condition), "{what} did not come about");
}

/// Waits until a condition holds; false when it does not in the time that anything may take.
pub(crate) fn comes_about(mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// The state of a process, as a letter; `None` when it is gone.
pub(crate) fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Whether a process is there and does not merely wait to be waited for.
pub(crate) fn lives(pid: i32) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Whether the kernel tells the status of a run that somebody else has waited for (Linux 6.15).
pub(crate) fn kernel_keeps_statuses() -> bool {
    let release = rustix::system::uname();
    let mut numbers = release.release().to_str().unwrap().split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next().and_then(|word| word.parse::<u32>().ok()).unwrap_or(0);
    (number(), number()) >= (6, 15)
}

fn command_line(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    text(&line).replace('\0', " ")
}

/// Sends a signal; the process may be gone.
pub(crate) fn signal(pid: i32, signal: Signal) {
    let _ = rustix::process::kill_process(Pid::from_raw(pid).unwrap(), signal);
}
