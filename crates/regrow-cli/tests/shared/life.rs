//! The daemon's own life: it is started by the first command, there is one of it, it leaves when it is told to or has
//! nothing to do, and when it is killed the runs go on.

use std::io::Write;
use std::process::{Child, Stdio};

use regrow_daemon::client::Client;

use crate::service::{Said, Service, eventually, kernel_keeps_statuses, lives, shell_status, text};

/// Commands that find no daemon, all at once.
const FIRST_CLIENTS: usize = 16;
/// How many times.
const FIRSTS: usize = 5;

#[test]
fn of_many_first_commands_one_starts_the_daemon() {
    for round in 0..FIRSTS {
        let service = Service::empty();
        let commands: Vec<Child> = (0..FIRST_CLIENTS)
            .map(|number| {
                let mut command = service.regrow();
                command.args(["--log", "info", "run", "sh", "-c", &format!("echo {number}; exit 7")]);
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        for (number, command) in commands.into_iter().enumerate() {
            let output = command.wait_with_output().unwrap();
            assert_eq!(text(&output.stdout), format!("{number}\n"));
            assert_eq!(output.status.code(), Some(7));
            assert_eq!(text(&Said::read(&output.stderr).rest), "");
        }
        // Every one that was to become a daemon is there by the time its command has ended. Those that lose leave, and
        // what the one starts is a copy of it for a moment.
        eventually("its socket", || Client::connect(&service.place()).is_ok());
        eventually(&format!("one daemon in round {round}"), || service.processes() == [service.daemon()]);
        service.warm(&["sh"]);
        service.stop();
        eventually("the end of everything", || service.everything().is_empty());
        assert!(!service.place().socket().exists());
    }
    println!("autostart: {FIRSTS} times {FIRST_CLIENTS} first commands, {FIRSTS} daemons");
}

/// The daemon has nothing of the command that started it: no descriptor, no directory, no signal that is ignored.
#[test]
fn the_daemon_that_a_command_starts_has_nothing_of_it() {
    let service = Service::empty();
    let mut command = service.plain("env");
    let script = "umask 0777; cd /usr; exec 5</etc/passwd; exec \"$@\"";
    command.args([
        "--ignore-signal=INT,USR1",
        "sh",
        "-c",
        script,
        "sh",
        env!("CARGO_BIN_EXE_regrow"),
        "run",
        "true",
    ]);
    assert!(command.stdin(Stdio::piped()).output().unwrap().status.success());
    eventually("a daemon", || Client::connect(&service.place()).is_ok());
    let daemon = service.daemon();
    let link = |name: &str| std::fs::read_link(format!("/proc/{daemon}/{name}")).unwrap();
    assert_eq!(link("cwd").to_str(), Some("/"));
    for number in 0..3 {
        assert_eq!(link(&format!("fd/{number}")).to_str(), Some("/dev/null"), "{number}");
    }
    let files: Vec<_> = std::fs::read_dir(format!("/proc/{daemon}/fd"))
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
        .filter(|file| {
            file.to_string_lossy().contains("passwd") || file.to_string_lossy().starts_with("pipe:")
        })
        .collect();
    assert!(files.is_empty(), "{files:?}");
    let status = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let of = |status: &str, name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
    };
    let own = status(std::process::id().cast_signed());
    let status = status(daemon);
    let field = |name: &str| of(&status, name);
    // The C library keeps two signals to itself, which no program can set.
    let ignored = u64::from_str_radix(&field("SigIgn:"), 16).unwrap() & !(3 << 31);
    assert_eq!(ignored, 0, "{ignored:x}");
    assert_ne!(field("Umask:"), "0777");
    // That of the test may be zero: in a container its leader can be outside.
    assert_ne!(field("NSsid:"), of(&own, "NSsid:"));
    service.stop();
}

#[test]
fn a_daemon_that_is_told_to_stop_leaves_nothing() {
    let mut service = Service::start();
    service.warm(&["sh"]);
    let children = regrow_testkit::left::children(service.daemon().cast_unsigned()).unwrap();
    assert!(children.len() >= 2, "a seed and a keeper at least: {children:?}");
    service.stop();
    assert!(service.daemon_ends().success());
    eventually("the end of everything", || service.everything().is_empty());
    assert!(!service.place().socket().exists());
    let again = service.regrow().arg("stop").output().unwrap();
    assert!(!again.status.success());
    assert!(text(&again.stderr).contains("no daemon"), "{}", text(&again.stderr));
}

/// Runs that are under way are waited for; further ones are executed.
#[test]
fn a_daemon_that_is_told_to_stop_waits_for_its_runs() {
    let mut service = Service::start();
    service.warm(&["sh"]);
    let mut command = service.regrow();
    command.args(["--log", "info", "run", "sh", "-c", "echo ready; read line; echo $line; exit 8"]);
    let mut run =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut byte = [0];
    std::io::Read::read_exact(run.stdout.as_mut().unwrap(), &mut byte).unwrap();
    let mut stopping = service.regrow().arg("stop").spawn().unwrap();
    let mut declined = 0;
    eventually("no further runs", || {
        let output = service.regrow().args(["--log", "info", "run", "sh", "-c", "exit 3"]).output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        declined += usize::from(!Said::read(&output.stderr).is_kept());
        declined > 1
    });
    assert!(stopping.try_wait().unwrap().is_none(), "it waits");
    run.stdin.take().unwrap().write_all(b"last words\n").unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("eady\nlast words\n", Some(8)));
    assert!(Said::read(&output.stderr).is_kept());
    assert!(stopping.wait().unwrap().success());
    assert!(service.daemon_ends().success());
}

#[test]
fn a_daemon_without_clients_leaves() {
    let mut service = Service::with(&["--idle", "1"]);
    service.warm(&["sh"]);
    assert!(service.daemon_ends().success());
    eventually("the end of everything", || service.everything().is_empty());
    assert!(!service.place().socket().exists());
    // The next command starts another.
    let output = service.regrow().args(["run", "sh", "-c", "exit 4"]).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    eventually("another daemon", || Client::connect(&service.place()).is_ok());
    service.warm(&["sh"]);
    service.stop();
}

#[test]
fn a_second_daemon_leaves_the_first_alone() {
    let service = Service::start();
    let daemon = service.daemon();
    let output = service.regrow().arg("daemon").output().unwrap();
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("a daemon is there already"), "{}", text(&output.stderr));
    assert_eq!(service.daemon(), daemon);
}

#[test]
fn a_run_goes_on_when_the_daemon_is_killed() {
    for (script, status) in [("exit 9", 9), ("kill -TERM $$", 143), ("exit 0", 0)] {
        let mut service = Service::start();
        service.warm(&["sh"]);
        let mut command = service.regrow();
        let script = format!("echo ready; read line; echo $line; {script}");
        command.args(["--log", "info", "run", "sh", "-c", &script]);
        let mut run =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut byte = [0];
        std::io::Read::read_exact(run.stdout.as_mut().unwrap(), &mut byte).unwrap();
        // A command that has not been told that its run was started cannot know.
        let said = first_line(run.stderr.as_mut().unwrap());
        assert!(said.contains("started"), "{said}");
        service.kill_daemon();
        run.stdin.take().unwrap().write_all(b"alone\n").unwrap();
        let output = run.wait_with_output().unwrap();
        assert_eq!(text(&output.stdout), "eady\nalone\n");
        let said = text(&output.stderr);
        if !kernel_keeps_statuses() && output.status.code() == Some(125) {
            assert!(said.contains("the status of the run is not known"), "{said}");
        } else {
            assert_eq!(shell_status(output.status), status, "{said}");
        }
        // The next command finds a socket that nobody listens at, and starts a daemon again.
        let output = service.regrow().args(["run", "sh", "-c", "exit 4"]).output().unwrap();
        assert_eq!(output.status.code(), Some(4));
        eventually("another daemon", || Client::connect(&service.place()).is_ok());
        service.warm(&["sh"]);
        service.stop();
        eventually("the end of everything", || service.everything().is_empty());
    }
}

fn first_line(from: &mut impl std::io::Read) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\n") {
        from.read_exact(&mut byte).unwrap();
        line.extend_from_slice(&byte);
    }
    text(&line)
}

/// A run whose daemon has gone ends with its command all the same: signals are passed on to it.
#[test]
fn a_run_without_a_daemon_still_gets_signals() {
    let mut service = Service::start();
    service.warm(&["sleep", "0"]);
    let mut command = service.regrow();
    command.args(["--log", "info", "run", "sleep", "600"]);
    let mut run = command.stderr(Stdio::piped()).spawn().unwrap();
    let said = first_line(run.stderr.as_mut().unwrap());
    assert!(said.contains("started"), "{said}");
    let pid = said.split_once("pid=").unwrap().1.split_whitespace().next().unwrap().parse().unwrap();
    assert!(lives(pid));
    service.kill_daemon();
    let client = run.id().cast_signed();
    crate::service::signal(client, rustix::process::Signal::TERM);
    eventually("the end of the command", || run.try_wait().unwrap().is_some());
    assert!(!lives(pid));
    let status = shell_status(run.wait().unwrap());
    assert!(status == 143 || (status == 125 && !kernel_keeps_statuses()), "{status}");
}
