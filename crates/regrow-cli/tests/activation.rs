//! A daemon on a socket that a service manager has made and passes to it, started as `contrib/systemd/regrow.service` says.

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// The command under test.
const REGROW: &str = env!("CARGO_BIN_EXE_regrow");
const SERVICE: &str = include_str!("../../../contrib/systemd/regrow.service");
const SOCKET: &str = include_str!("../../../contrib/systemd/regrow.socket");
/// How long something may take that has to happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a line of a unit sets.
fn setting<'a>(unit: &'a str, key: &str) -> &'a str {
    unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap()
}

/// What a service manager does for a user.
struct Manager {
    runtime: tempfile::TempDir,
    socket: OwnedFd,
    daemon: Option<Child>,
}

impl Manager {
    /// Makes the socket of `regrow.socket`.
    fn new() -> Manager {
        let private = fs::Permissions::from_mode(0o700);
        let runtime = tempfile::Builder::new().permissions(private).tempdir().unwrap();
        let path = setting(SOCKET, "ListenSequentialPacket").replace("%t", runtime.path().to_str().unwrap());
        let kind = SocketType::SEQPACKET;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        rustix::net::listen(&socket, 16).unwrap();
        Manager { runtime, socket, daemon: None }
    }

    fn path(&self) -> PathBuf {
        self.runtime.path().join("regrow.sock")
    }

    /// A command of the user, without a terminal.
    fn regrow(&self) -> Command {
        let mut command = Command::new("setsid");
        command.args(["--wait", REGROW]).env("XDG_RUNTIME_DIR", self.runtime.path()).stdin(Stdio::null());
        command.env_remove("REGROW_DISABLE").env_remove("REGROW_LOG");
        command
    }

    /// Starts the daemon of `regrow.service` with the socket as descriptor 3. The variables name this process, or another.
    fn start(&mut self, process: &str) {
        let command_line = setting(SERVICE, "ExecStart").split_once(' ').unwrap().1;
        let script = format!(
            "exec 3<&0 0</dev/null; export LISTEN_PID={process} LISTEN_FDS=1; exec \"$0\" {command_line}"
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, REGROW]).env("XDG_RUNTIME_DIR", self.runtime.path());
        shell.stdin(self.socket.try_clone().unwrap()).env_remove("REGROW_DISABLE").env_remove("REGROW_LOG");
        self.daemon = Some(shell.spawn().unwrap());
    }

    fn stop(&mut self) {
        let output = self.regrow().arg("stop").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let mut daemon = self.daemon.take().unwrap();
        eventually("the daemon's end", || daemon.try_wait().unwrap().is_some());
        assert_eq!(daemon.wait().unwrap().code(), Some(0));
    }

    /// Runs a command until the daemon is its parent.
    fn until_recycled(&self) {
        let daemon = self.daemon.as_ref().unwrap().id().to_string();
        eventually("a run of the daemon's", || {
            let output = self.regrow().args(["run", "--", "sh", "-c", "echo $PPID"]).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            text(&output).trim() == daemon
        });
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not come about");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_socket_that_is_passed_is_served_and_left_where_it_is() {
    let mut manager = Manager::new();
    manager.start("$$");
    manager.until_recycled();
    manager.stop();
    assert!(manager.path().exists(), "the socket is the service manager's");
    assert!(!manager.runtime.path().join("regrow.lock").exists(), "no place was taken");
}

#[test]
fn the_first_command_waits_for_the_daemon_that_it_has_started() {
    let mut manager = Manager::new();
    let first = manager.regrow().args(["run", "--", "echo", "first"]).stdout(Stdio::piped()).spawn().unwrap();
    // The service manager sees a connection, and starts the daemon.
    let mut poll = [rustix::event::PollFd::new(&manager.socket, rustix::event::PollFlags::IN)];
    let limit = rustix::event::Timespec::try_from(PATIENCE).unwrap();
    assert_eq!(rustix::event::poll(&mut poll, Some(&limit)), Ok(1));
    manager.start("$$");
    let output = first.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output).as_str()), (Some(0), "first\n"));
    manager.until_recycled();
    // The same once more, after the daemon has left.
    manager.stop();
    manager.start("$$");
    manager.until_recycled();
    manager.stop();
}

#[test]
fn a_socket_that_was_passed_to_another_process_is_not_taken() {
    let mut manager = Manager::new();
    // What a daemon that was started so inherited is its parent's, and it makes a socket of its own.
    fs::remove_file(manager.path()).unwrap();
    manager.start("1");
    eventually("a socket of the daemon's own", || manager.path().exists());
    assert!(manager.runtime.path().join("regrow.lock").exists());
    manager.until_recycled();
    manager.stop();
    assert!(!manager.path().exists(), "the daemon's own socket goes with it");
}

#[test]
fn the_units_belong_to_one_another() {
    assert_eq!(setting(SOCKET, "ListenSequentialPacket"), "%t/regrow.sock");
    assert_eq!(setting(SERVICE, "Requires"), "regrow.socket");
    let words: Vec<OsString> = setting(SERVICE, "ExecStart").split(' ').map(OsString::from).collect();
    assert_eq!(words[1..], ["daemon", "--any-cgroup", "--idle", "0"]);
}
