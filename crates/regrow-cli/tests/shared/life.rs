//! The daemon's own life: it is started by the first command, there is one of it, it leaves when it is told to or has
//! nothing to do, and when it is killed the runs go on.

use std::io::Write;
use std::process::{Child, Stdio};

use regrow_daemon::client::Client;

use crate::service::{LIMIT, Said, Service, eventually, lives, shell_status, text};

/// Commands that find no daemon, all at once.
const FIRST_CLIENTS: usize = 16;
/// How many times.
const FIRSTS: usize = 5;

/// The processes of `regrow` whose environment names the place.
fn processes(service: &Service) -> Vec<i32> {
    let own = std::fs::canonicalize(env!("CARGO_BIN_EXE_regrow")).unwrap();
    let variable = format!("XDG_RUNTIME_DIR={}", service.folder().display());
    let entries =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_ours = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let program = std::fs::read_link(format!("/proc/{pid}/exe"));
        environment.split(|&byte| byte == 0).any(|entry| entry == variable.as_bytes())
            && program.is_ok_and(|program| program == own)
            && lives(*pid)
    };
    entries.filter_map(|name| name.parse().ok()).filter(is_ours).collect()
}

/// Every process whose environment names the place.
fn everything(service: &Service) -> Vec<i32> {
    let variable = format!("XDG_RUNTIME_DIR={}", service.folder().display());
    let entries =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_ours = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|entry| entry == variable.as_bytes()) && lives(*pid)
    };
    entries.filter_map(|name| name.parse().ok()).filter(is_ours).collect()
}

fn stop(service: &Service) {
    let output = service.regrow().arg("stop").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

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
        // Every one that was to become a daemon is there by the time its command has ended.
        eventually("one daemon", || processes(&service).len() == 1);
        eventually("its socket", || Client::connect(&service.place()).is_ok());
        assert_eq!(processes(&service), [service.daemon()], "round {round}");
        service.warm(&["sh"]);
        stop(&service);
        eventually("the end of everything", || everything(&service).is_empty());
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
    let status = std::fs::read_to_string(format!("/proc/{daemon}/status")).unwrap();
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    // The C library keeps two signals to itself, which no program can set.
    let ignored = u64::from_str_radix(&field("SigIgn:"), 16).unwrap() & !(3 << 31);
    assert_eq!(ignored, 0, "{ignored:x}");
    assert_ne!(field("Umask:"), "0777");
    let session = std::fs::read_to_string(format!("/proc/{daemon}/stat")).unwrap();
    let session: i32 =
        session.rsplit_once(')').unwrap().1.split_whitespace().nth(3).unwrap().parse().unwrap();
    assert_ne!(session, rustix::process::getsid(None).unwrap().as_raw_nonzero().get());
    stop(&service);
}

#[test]
fn a_daemon_that_is_told_to_stop_leaves_nothing() {
    let mut service = Service::start();
    service.warm(&["sh"]);
    let children = regrow_testkit::left::children(service.daemon().cast_unsigned()).unwrap();
    assert!(children.len() >= 2, "a seed and a keeper at least: {children:?}");
    stop(&service);
    assert!(service.daemon_ends().success());
    eventually("the end of everything", || everything(&service).is_empty());
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
    eventually("the end of everything", || everything(&service).is_empty());
    assert!(!service.place().socket().exists());
    // The next command starts another.
    let output = service.regrow().args(["run", "sh", "-c", "exit 4"]).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    eventually("another daemon", || Client::connect(&service.place()).is_ok());
    service.warm(&["sh"]);
    stop(&service);
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

/// The kernel tells the run's status where it keeps it for a pidfd (Linux 6.15).
fn kernel_keeps_statuses() -> bool {
    let release = rustix::system::uname();
    let mut numbers = release.release().to_str().unwrap().split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next().and_then(|word| word.parse::<u32>().ok()).unwrap_or(0);
    (number(), number()) >= (6, 15)
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
        service.kill_daemon();
        run.stdin.take().unwrap().write_all(b"alone\n").unwrap();
        let output = run.wait_with_output().unwrap();
        assert_eq!(text(&output.stdout), "eady\nalone\n");
        let said = text(&output.stderr);
        assert!(said.contains("started"), "{said}");
        if kernel_keeps_statuses() {
            assert_eq!(shell_status(output.status), status, "{said}");
        } else {
            assert_eq!(output.status.code(), Some(125), "{said}");
            assert!(said.contains("the status of the run is not known"), "{said}");
        }
        // The next command finds a socket that nobody listens at, and starts a daemon again.
        let output = service.regrow().args(["run", "sh", "-c", "exit 4"]).output().unwrap();
        assert_eq!(output.status.code(), Some(4));
        eventually("another daemon", || Client::connect(&service.place()).is_ok());
        service.warm(&["sh"]);
        stop(&service);
        eventually("the end of everything", || everything(&service).is_empty());
    }
}

/// A run whose daemon has gone ends with its command all the same: signals are passed on to it.
#[test]
fn a_run_without_a_daemon_still_gets_signals() {
    let mut service = Service::start();
    service.warm(&["sleep", "0"]);
    let mut command = service.regrow();
    let mut run = command.args(["run", "sleep", "600"]).spawn().unwrap();
    eventually("the run", || sleeper(&service).is_some());
    let pid = sleeper(&service).unwrap();
    service.kill_daemon();
    let client = run.id().cast_signed();
    crate::service::signal(client, rustix::process::Signal::TERM);
    let deadline = std::time::Instant::now() + LIMIT / 6;
    while run.try_wait().unwrap().is_none() && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let ended = run.try_wait().unwrap();
    crate::service::signal(pid, rustix::process::Signal::KILL);
    let _ = run.kill();
    let _ = run.wait();
    assert!(ended.is_some(), "a signal that is sent after the daemon's end is passed on");
}

/// The child of the daemon that is `sleep 600`.
fn sleeper(service: &Service) -> Option<i32> {
    let children = regrow_testkit::left::children(service.daemon().cast_unsigned()).ok()?;
    let is_run = |pid: &String| {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == b"sleep\x00600\x00")
    };
    children.iter().find(|pid| is_run(pid))?.parse().ok()
}
