//! The client of one page stands where `regrow run` does: the tests of `regrow run` that make no use of its log, with the client in its place,
//! and what is the client's own. The daemon's counters show that runs were recycled for clients, and not by the full command.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod service;

#[path = "shared/given.rs"]
mod given;
#[path = "shared/signals.rs"]
mod signals;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use service::{BY_CLIENT, Service, eventually, kernel_keeps_statuses, shell_status, signal, text};

#[test]
fn the_exit_status_is_that_of_env() {
    const { assert!(BY_CLIENT) };
    let service = Service::start();
    let cases: &[&[&str]] = &[
        &["true"],
        &["false"],
        &["sh", "-c", "exit 255"],
        &["sh", "-c", "kill -TERM $$"],
        &["sh", "-c", "kill -KILL $$"],
        &["sh", "-c", "kill -PIPE $$"],
        &["sh", "-c", "ulimit -c 0; kill -SEGV $$"],
        &["sh", "-c", "no-such-program-anywhere"],
        &["sh", "-c", "exec env sh -c 'exit 9'"],
        &["git", "--version"],
        &["perl", "-e", "print 7"],
    ];
    for case in cases {
        assert!(service.same_as_env(&[], case) > 0, "{case:?}");
    }
}

#[test]
fn what_cannot_be_started_has_the_status_that_env_gives_it() {
    let service = Service::start();
    let file = |name: &str, content: &str, mode: u32| {
        let path = service.folder().join(name);
        regrow_testkit::program::write(&path, content.as_bytes()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let no_interpreter = file("no-interpreter", "#!/nonexistent/interpreter\n", 0o755);
    let no_format = file("no-format", "echo a shell has run this\n", 0o755);
    let plain = file("plain", "text\n", 0o644);
    let programs =
        ["no-such-program-anywhere", "/nonexistent/program", "", &no_interpreter, &no_format, &plain, "/"];
    for program in programs {
        let by_env = service.plain("env").arg("--").arg(program).output().unwrap();
        for _ in 0..3 {
            let output = service.regrow().args(["run", "--", program]).output().unwrap();
            assert_eq!(shell_status(output.status), shell_status(by_env.status), "{program}: {output:?}");
            assert_eq!(text(&output.stdout), text(&by_env.stdout), "{program}");
        }
    }
}

/// Under the name of a program, in a folder at the front of `PATH`.
#[test]
fn a_launcher_is_recycled_and_its_program_sees_what_exec_would_show() {
    let service = Service::start();
    service.launcher("sh");
    let launchers = service.folder().join("launchers");
    let path = format!("{}:{}", launchers.display(), std::env::var("PATH").unwrap());
    let script = "tr '\\0' '|' </proc/$$/cmdline; readlink /proc/$$/exe; echo $PATH; type sh; read line; echo $line; exit 7";
    let run = |program: &str| {
        let mut command = service.plain("env");
        command.arg(format!("PATH={path}")).args([program, "-c", script, "an argument", ""]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"a line\n").unwrap();
        child.wait_with_output().unwrap()
    };
    let plain = run("/bin/sh");
    let expected = text(&plain.stdout).replacen("/bin/sh|", "sh|", 1);
    eventually("a recycled run of a launcher", || {
        let before = service.counted();
        let output = run("sh");
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(7), expected.clone()), "{output:?}");
        let after = service.counted();
        after[0] > before[0] && after[1] > before[1]
    });
}

/// One that is started by its path, and that `PATH` does not have, is recycled by the client itself as well.
#[test]
fn a_launcher_that_path_does_not_have_is_recycled() {
    let service = Service::start();
    let launcher = service.launcher("sh");
    eventually("a recycled run of a launcher", || {
        let before = service.counted();
        let output = service.plain(&launcher).args(["-c", "echo right; exit 3"]).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(3), "right\n"), "{output:?}");
        let after = service.counted();
        after[0] > before[0] && after[1] > before[1]
    });
}

/// Of the second, whose daemon is killed while it runs, the kernel tells the status.
#[test]
fn a_run_goes_on_when_its_daemon_is_killed_and_gives_its_status() {
    let mut service = Service::start();
    service.warm(&["sh"]);
    let daemon = service.daemon();
    let script = "echo $PPID; read line; exit 9";
    let mut command = service.regrow();
    command.args(["run", "sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = loop {
        let mut child = command.spawn().unwrap();
        let mut parent = [0; 16];
        let bytes = child.stdout.as_mut().unwrap().read(&mut parent).unwrap();
        if text(&parent[..bytes]).trim() == daemon.to_string() {
            break child;
        }
        drop(child.stdin.take());
        child.wait().unwrap();
    };
    // The daemon tells of a start after two milliseconds, and the run waits.
    std::thread::sleep(std::time::Duration::from_millis(200));
    service.kill_daemon();
    child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    let status = child.wait().unwrap().code().unwrap();
    let expected = if kernel_keeps_statuses() { 9 } else { status };
    assert_eq!(status, expected);
}

/// What stands at the socket is none that a daemon listens at.
#[test]
fn what_is_no_daemon_does_not_stop_a_client() {
    let service = Service::empty();
    let other = UnixDatagram::bind(service.folder().join("regrow.sock")).unwrap();
    runs_right(&service);
    drop(other);
}

#[test]
fn in_an_unsafe_place_a_client_starts_no_daemon() {
    let service = Service::empty();
    fs::set_permissions(service.folder(), fs::Permissions::from_mode(0o777)).unwrap();
    runs_right(&service);
    // A daemon that is started listens after some milliseconds.
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(!service.folder().join("regrow.sock").exists());
}

fn runs_right(service: &Service) {
    let output = service.regrow().args(["run", "sh", "-c", "echo right; exit 3"]).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(3), "right\n".to_owned()), "{output:?}");
}

/// A namespace of its own: the daemon asks the kernel, whatever the client says.
#[test]
fn a_client_in_another_namespace_executes_its_program() {
    let service = Service::start();
    service.same_as_env(&[], &["sh", "-c", "exit 4"]);
    let can_unshare =
        Command::new("unshare").args(["-u", "true"]).status().is_ok_and(|status| status.success());
    if !can_unshare {
        println!("no right to make namespaces");
        return;
    }
    for flag in ["-u", "-i", "-m", "-n", "-C"] {
        let before = service.counted();
        let mut command = service.plain("unshare");
        command.args([flag, "--"]).arg(service.runner()).args([
            "run",
            "--",
            "sh",
            "-c",
            "echo $PPID; exit 4",
        ]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{flag}: {output:?}");
        assert_ne!(text(&output.stdout).trim(), service.daemon().to_string(), "{flag}");
        assert_eq!(service.counted(), before, "{flag}");
    }
}

/// What the client counts as one call more is a call more in every run.
#[test]
fn a_client_makes_few_system_calls() {
    let service = Service::start();
    service.same_as_env(&[], &["true"]);
    let log = service.folder().join("calls");
    let mut fewest = usize::MAX;
    for _ in 0..20 {
        let before = service.counted();
        let mut command = service.plain("strace");
        command.arg("-o").arg(&log).arg(service.runner()).args(["run", "--", "/bin/true"]);
        assert!(command.status().unwrap().success());
        let calls = fs::read_to_string(&log).unwrap();
        if service.counted()[0] > before[0] && !calls.contains("execve(\"/proc") {
            let is_search = |line: &str| line.starts_with("stat(") || line.starts_with("fcntl(");
            fewest = fewest.min(calls.lines().filter(|line| !is_search(line)).count());
        }
    }
    println!("{fewest} system calls beside the search for program and descriptors");
    assert!(fewest < 60, "{fewest}");
}

#[test]
fn a_client_that_is_killed_takes_its_run_with_it() {
    let service = Service::start();
    service.same_as_env(&[], &["sleep", "0"]);
    let mut client = service.regrow().args(["run", "sleep", "600"]).spawn().unwrap();
    let runs = || {
        let everything = service.everything();
        let is_run = |pid: &&i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line == b"sleep\x00600\x00"
        };
        everything.iter().filter(is_run).count()
    };
    eventually("the run", || runs() > 0);
    signal(client.id().cast_signed(), Signal::KILL);
    client.wait().unwrap();
    for pid in service.everything() {
        // `setsid` starts the client where it leads a group already.
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if line.windows(3).any(|part| part == b"run") {
            signal(pid, Signal::KILL);
        }
    }
    eventually("the end of the run", || runs() == 0);
}
