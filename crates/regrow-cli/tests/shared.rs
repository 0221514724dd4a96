//! `regrow run` through a daemon stands where `env` does: the same exit status, descriptors, limits and signals, and the
//! same end whatever becomes of the daemon. Each test has a daemon of its own, and sees that its runs were recycled.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod service;

#[path = "shared/given.rs"]
mod given;
#[path = "shared/life.rs"]
mod life;
#[path = "shared/pools.rs"]
mod pools;
#[path = "shared/signals.rs"]
mod signals;
#[path = "shared/strangers.rs"]
mod strangers;
#[path = "shared/told.rs"]
mod told;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use service::{ATTEMPTS, Said, Service, eventually, shell_status, text};

#[test]
fn the_exit_status_is_that_of_env() {
    let service = Service::start();
    let cases: &[&[&str]] = &[
        &["true"],
        &["false"],
        &["/bin/true"],
        &["sh", "-c", "exit 3"],
        &["sh", "-c", "exit 125"],
        &["sh", "-c", "exit 255"],
        &["sh", "-c", "kill -TERM $$"],
        &["sh", "-c", "kill -KILL $$"],
        &["sh", "-c", "kill -PIPE $$"],
        &["sh", "-c", "ulimit -c 0; kill -QUIT $$"],
        &["sh", "-c", "ulimit -c 0; kill -SEGV $$"],
        &["sh", "-c", "no-such-program-anywhere"],
        &["sh", "-c", "exec env sh -c 'exit 9'"],
    ];
    let kept: usize = cases.iter().map(|case| service.same_as_env(&[], case)).sum();
    println!("exit status: {} commands, {kept} recycled runs", cases.len());
}

#[test]
fn what_cannot_be_started_has_the_status_that_env_gives_it() {
    let service = Service::start();
    let no_interpreter = script(&service, "no-interpreter", "#!/nonexistent/interpreter\n");
    let no_format = script(&service, "no-format", "echo a shell has run this\n");
    let plain = service.folder().join("plain");
    fs::write(&plain, "text\n").unwrap();
    let circle = service.folder().join("circle");
    std::os::unix::fs::symlink(&circle, &circle).unwrap();
    let (plain, circle) = (plain.to_str().unwrap(), circle.to_str().unwrap());
    let below_file = format!("{plain}/program");
    let programs = [
        "no-such-program-anywhere",
        "/nonexistent/program",
        "",
        &no_interpreter,
        &no_format,
        plain,
        "/",
        circle,
        &below_file,
    ];
    for program in programs {
        // What has no format is given to a shell by both.
        let by_env = service.plain("env").arg("--").arg(program).output().unwrap();
        // The second time the daemon has seen it before.
        for _ in 0..3 {
            let output = service.regrow().args(["run", "--", program]).output().unwrap();
            assert_eq!(shell_status(output.status), shell_status(by_env.status), "{program}: {output:?}");
            assert_eq!(text(&output.stdout), text(&by_env.stdout), "{program}");
            if output.status.code().unwrap() >= 126 && program != plain {
                assert!(text(&output.stderr).starts_with(&format!("regrow: {program}: ")), "{output:?}");
            }
        }
    }
}

/// With `REGROW_LOG` the flags are read; without it the command takes a shorter way.
#[test]
fn the_short_way_is_recycled_too() {
    let service = Service::start();
    service.warm(&["sh"]);
    let daemon = service.daemon().to_string();
    let mut by_daemon = 0;
    // A run that finds every body busy is executed by the command.
    for run in 0..ATTEMPTS {
        let args = ["run", "sh", "-c", "echo $PPID; echo \"$@\" >&2; exit 4", "sh", "--", "-x", ""];
        let output = service.regrow().args(args).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(4), "-- -x \n".to_owned()), "{run}");
        by_daemon += usize::from(text(&output.stdout).trim_end() == daemon);
        if by_daemon == 10 {
            return;
        }
    }
    panic!("{by_daemon} of {ATTEMPTS} runs are the daemon's children");
}

/// `--no-daemon` keeps everything in the command: it asks no daemon and starts none.
#[test]
fn without_a_daemon_nothing_is_asked_of_one() {
    let service = Service::empty();
    let script = "echo $1; exit 6";
    for flag in ["--no-daemon", "--embedded"] {
        let output = service.regrow().args(["run", flag, "sh", "-c", script, "sh", flag]).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(6), format!("{flag}\n")));
        assert_eq!(text(&output.stderr), "");
    }
    assert_eq!(fs::read_dir(service.folder()).unwrap().count(), 0, "no socket");
    assert!(service.everything().is_empty());

    let service = Service::start();
    service.warm(&["sh"]);
    let daemon = service.daemon().to_string();
    let parent_of = |flags: &[&str]| {
        let output =
            service.regrow().arg("run").args(flags).args(["sh", "-c", "echo $PPID"]).output().unwrap();
        text(&output.stdout).trim_end().to_owned()
    };
    eventually("a run of the daemon's", || parent_of(&[]) == daemon);
    assert_ne!(parent_of(&["--no-daemon"]), daemon);
    // From the second run on these are recycled too, in the command's own pool.
    let report = service.folder().join("report");
    let mut command = service.regrow();
    command
        .args(["run", "--no-daemon", "--repeat", "20", "--report"])
        .arg(&report)
        .args(["sh", "-c", "exit 0"]);
    assert!(command.status().unwrap().success());
    let report = fs::read_to_string(report).unwrap();
    let recycled = report.lines().filter(|line| !line.contains("\"how\":\"exec\"")).count();
    assert_eq!((report.lines().count(), recycled), (20, 20), "{report}");
}

#[test]
fn a_caller_without_a_safe_place_executes_the_program() {
    let service = Service::empty();
    fs::set_permissions(service.folder(), fs::Permissions::from_mode(0o777)).unwrap();
    let output =
        service.regrow().args(["--log", "info", "run", "--", "sh", "-c", "exit 6"]).output().unwrap();
    let said = Said::read(&output.stderr);
    assert_eq!(output.status.code(), Some(6));
    assert!(said.why.unwrap().contains("others may write to it"));
    assert_eq!(fs::read_dir(service.folder()).unwrap().count(), 0, "no daemon is started there");
}

fn script(service: &Service, name: &str, text: &str) -> String {
    let path = service.folder().join(name);
    regrow_testkit::program::write(&path, text.as_bytes()).unwrap();
    path.to_str().unwrap().to_owned()
}
