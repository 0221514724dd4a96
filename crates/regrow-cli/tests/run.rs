//! `regrow run` stands where `env` does: the same exit status, descriptors and signals. And it reports each run.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{output, regrow, shell_status, stderr, stdout};
use serde_json::Value;

/// How many runs a test makes that looks for recycled ones.
const RUNS: usize = 5;
/// What never comes is waited for so long.
const LIMIT: Duration = Duration::from_secs(20);

fn report_lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn script(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    regrow_testkit::program::write(&path, text.as_bytes()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_exit_status_is_that_of_env() {
    let folder = tempfile::tempdir().unwrap();
    let no_interpreter = script(folder.path(), "no-interpreter", "#!/nonexistent/interpreter\n");
    let plain = folder.path().join("plain");
    fs::write(&plain, "text\n").unwrap();
    let circle = folder.path().join("circle");
    std::os::unix::fs::symlink(&circle, &circle).unwrap();
    let (plain, circle) = (plain.to_str().unwrap(), circle.to_str().unwrap());
    let below_file = format!("{plain}/program");
    let cases: &[&[&str]] = &[
        &["true"],
        &["false"],
        &["/bin/true"],
        &["sh", "-c", "exit 3"],
        &["sh", "-c", "exit 125"],
        &["sh", "-c", "exit 255"],
        &["sh", "-c", "kill -TERM $$"],
        &["sh", "-c", "kill -KILL $$"],
        &["sh", "-c", "ulimit -c 0; kill -SEGV $$"],
        &["sh", "-c", "no-such-program-anywhere"],
        &["no-such-program-anywhere"],
        &["/nonexistent/program"],
        &[&no_interpreter],
        &[plain],
        &["/"],
        &[circle],
        &[&below_file],
    ];
    for case in cases {
        let by_env = Command::new("env").args(*case).stdin(Stdio::null()).output().unwrap();
        let expected = shell_status(by_env.status);
        let once = output([&["run", "--embedded", "--"], *case].concat());
        assert_eq!(shell_status(once.status), expected, "{case:?}: {}", stderr(&once));
        let twice = output([&["run", "--repeat", "2", "--"], *case].concat());
        assert_eq!(shell_status(twice.status), expected, "{case:?} twice: {}", stderr(&twice));
    }
}

#[test]
fn a_file_without_a_format_is_given_to_a_shell_as_env_does_and_never_by_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let program = script(folder.path(), "no-format", "echo a shell has run this\n");
    let by_env = Command::new("env").arg(&program).output().unwrap();
    let plain = output(["run", "--", &program]);
    assert_eq!((plain.status, stdout(&plain)), (by_env.status, stdout(&by_env)));
    let embedded = output(["run", "--embedded", "--", &program]);
    assert_eq!(embedded.status.code(), Some(126));
    assert_eq!(stdout(&embedded), "");
    assert_eq!(stderr(&embedded), format!("regrow: {program}: Exec format error (os error 8)\n"));
}

#[test]
fn an_error_names_the_program_or_the_file() {
    let missing = output(["run", "--", "no-such-program-anywhere"]);
    assert_eq!(
        stderr(&missing),
        "regrow: no-such-program-anywhere: No such file or directory (os error 2)\n"
    );

    let report = output(["run", "--report", "/nonexistent/folder/runs.jsonl", "--", "echo", "ran"]);
    assert_eq!(report.status.code(), Some(125));
    assert_eq!(stdout(&report), "", "nothing is run without its report");
    assert_eq!(
        stderr(&report),
        "regrow: /nonexistent/folder/runs.jsonl: cannot be written: No such file or directory (os error 2)\n"
    );
}

#[test]
fn a_wrong_command_line_is_a_failure_of_regrow() {
    for args in [
        &["run"][..],
        &["run", "--bogus", "true"],
        &["run", "--repeat", "0", "true"],
        &["run", "--point", "x", "true"],
    ] {
        let output = output(args);
        assert_eq!(output.status.code(), Some(125), "{args:?}");
        assert!(stderr(&output).contains("try '--help'"), "{args:?}: {}", stderr(&output));
    }
    let log = output(["run", "--log", "a=b=c", "--", "true"]);
    assert_eq!(log.status.code(), Some(125));
    assert!(stderr(&log).starts_with("regrow: --log or REGROW_LOG: \"a=b=c\" is no level and no filter"));
    let disabled = regrow().args(["run", "true"]).env("REGROW_DISABLE", "warp_drive").output().unwrap();
    assert_eq!(disabled.status.code(), Some(125));
    assert!(
        stderr(&disabled)
            .starts_with("regrow: REGROW_DISABLE: no feature is called \"warp_drive\"; known are ")
    );
}

#[test]
fn standard_descriptors_are_passed_through() {
    let mut child = regrow()
        .args(["run", "--repeat", "2", "--", "sh", "-c", "read line; echo out $line; echo err $line >&2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"one\ntwo\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(stdout(&output), "out one\nout two\n");
    assert_eq!(stderr(&output), "err one\nerr two\n");
}

#[test]
fn a_descriptor_that_the_caller_gave_is_passed_on() {
    let script = "exec 7<<'end'\nthrough seven\nend\n\"$1\" run --repeat \"$2\" -- sh -c 'cat <&7; test ! -e /dev/fd/8'";
    let program = env!("CARGO_BIN_EXE_regrow");
    for repeat in ["1", "2"] {
        let mut command = Command::new("sh");
        // There is no daemon, and none is started that would outlive the test.
        command.args(["-c", script, "sh", program, repeat]).env("XDG_RUNTIME_DIR", "/nonexistent");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stdout(&output), "through seven\n");
    }
}

#[test]
fn arguments_and_environment_are_passed_on() {
    let mut command = regrow();
    command.args([
        "run",
        "--repeat",
        "2",
        "--",
        "sh",
        "-c",
        "echo \"$0|$1|$2|$MARK\"",
        "a b",
        "",
        "--repeat",
    ]);
    let output = command.env("MARK", "kept").output().unwrap();
    assert_eq!(stdout(&output), "a b||--repeat|kept\na b||--repeat|kept\n");
}

#[test]
fn a_signal_for_the_command_reaches_the_run() {
    for repeat in ["1", "2"] {
        let script = "trap 'exit 42' TERM; echo ready; while :; do sleep 0.05; done";
        let mut child = regrow()
            .args(["run", "--repeat", repeat, "--", "sh", "-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let status = child.wait().unwrap();
        // A signal ends the repetition as well.
        assert!(
            matches!((repeat, status.code()), ("1", Some(42)) | ("2", Some(42 | 143))),
            "{repeat}: {status}"
        );
    }
}

/// The letter of a process's state, as `ps` shows it.
fn state(pid: &str) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn the_command_stops_with_its_run_and_goes_on_with_it() {
    let kill = |signal: &str, pid: &str| {
        assert!(Command::new("kill").args([signal, pid]).status().unwrap().success());
    };
    let say = "echo $$; read line; exit 9";
    // Who gets which signal, the script, and whether that stops it.
    for (to_run, signal, script, stops) in [
        (true, "-STOP", say.to_owned(), true),
        (true, "-TSTP", say.to_owned(), true),
        (false, "-TSTP", say.to_owned(), true),
        (false, "-TSTP", format!("trap '' TSTP; {say}"), false),
    ] {
        let case = format!("{signal} {to_run} {script}");
        let mut child = regrow()
            .args(["run", "--point", "main", "--", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut run = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut run).unwrap();
        let (run, command) = (run.trim().to_owned(), child.id().to_string());
        kill(signal, if to_run { &run } else { &command });
        if stops {
            until(&format!("both stop: {case}"), || state(&run) == 'T' && state(&command) == 'T');
            kill("-CONT", &command);
        }
        until(&format!("both go on: {case}"), || state(&run) == 'S' && state(&command) == 'S');
        child.stdin.take().unwrap().write_all(b"line\n").unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(9), "{case}");
    }
}

/// A shell waits for the command, so that must stop with its run; and what is stopped sees nobody continue its run.
#[test]
fn a_run_that_is_continued_by_its_own_number_leaves_the_command_stopped() {
    let kill = |signal: &str, pid: &str| {
        assert!(Command::new("kill").args([signal, pid]).status().unwrap().success());
    };
    let mut child = regrow()
        .args(["run", "--point", "main", "--", "sh", "-c", "echo $$; read line; echo $line; exit 9"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (run, command) = (lines.next().unwrap().unwrap(), child.id().to_string());
    kill("-STOP", &run);
    until("both stop", || state(&run) == 'T' && state(&command) == 'T');
    kill("-CONT", &run);
    child.stdin.take().unwrap().write_all(b"it goes on\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "it goes on");
    until("the run ends", || state(&run) == 'Z');
    assert_eq!(state(&command), 'T');
    kill("-CONT", &command);
    assert_eq!(child.wait().unwrap().code(), Some(9), "the status is there");
}

#[test]
fn a_run_has_default_signals_and_the_callers_ignored_ones() {
    let show = "grep -E '^Sig(Ign|Cgt):' /proc/self/status";
    let program = env!("CARGO_BIN_EXE_regrow");
    // SIGINT and others have handlers in the command, which are not to be seen in the run.
    for (trap, ignored) in [("", 0), ("trap '' INT; ", 1 << 1)] {
        let run = |script: &str| Command::new("sh").args(["-c", script]).output().unwrap();
        let by_env = run(&format!("{trap}env {show}"));
        let by_regrow = run(&format!("{trap}{program} run --repeat 2 -- {show}"));
        assert!(by_regrow.status.success(), "{}", stderr(&by_regrow));
        let expected = signal_sets(&stdout(&by_env));
        // What the test itself was started with is the runs' too.
        assert_eq!(expected.first().unwrap() & ignored, ignored, "{trap:?}");
        assert_eq!(signal_sets(&stdout(&by_regrow)), expected.repeat(2), "{trap:?}");
    }
}

/// The sets of signals of lines of `/proc/PID/status`, without the two that the C library keeps to itself: it installs
/// handlers for them in a process with threads.
fn signal_sets(status: &str) -> Vec<u64> {
    const OWN_OF_LIBC: u64 = 0b11 << 31;
    let numbers = status.lines().map(|line| line.split_once('\t').unwrap().1);
    numbers.map(|number| u64::from_str_radix(number, 16).unwrap() & !OWN_OF_LIBC).collect()
}

#[test]
fn the_report_has_a_line_for_each_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.jsonl");
    fs::write(&path, "what an earlier report left\n").unwrap();
    let runs = RUNS.to_string();
    let output = output([
        "run",
        "--embedded",
        "--repeat",
        &runs,
        "--verify",
        "--report",
        path.to_str().unwrap(),
        "--",
        "true",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = report_lines(&path);
    assert_eq!(lines.len(), RUNS);
    let mut recycled = 0;
    for (number, line) in (1..).zip(&lines) {
        let keys: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
        let expected =
            ["detail", "error", "fallback", "how", "pid", "point", "run", "signal", "status", "wall_us"];
        assert_eq!(keys, expected);
        assert_eq!((&line["run"], &line["status"]), (&Value::from(number), &Value::from(0)));
        assert!(line["pid"].as_u64().unwrap() > 1 && line["wall_us"].as_f64().unwrap() > 0.0, "{line}");
        assert!(line["signal"].is_null() && line["error"].is_null(), "{line}");
        let is_exec = line["how"] == "exec";
        assert_eq!(line["point"].is_null(), is_exec, "{line}");
        assert_eq!(line["fallback"].is_null(), !is_exec, "{line}");
        recycled += usize::from(!is_exec);
    }
    // One may come before the body is put back again.
    assert!(recycled >= RUNS - 1, "{lines:?}");
}

#[test]
fn the_point_is_the_one_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.jsonl");
    for point in ["main", "entry"] {
        let output = output(["run", "--point", point, "--report", path.to_str().unwrap(), "--", "true"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let lines = report_lines(&path);
        assert_eq!(lines.len(), 1);
        assert_eq!((&lines[0]["how"], &lines[0]["point"]), (&"recycled".into(), &point.into()), "{lines:?}");
    }
}

#[test]
fn the_report_says_why_a_run_was_not_recycled() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.jsonl");
    let mut command = regrow();
    command.args([
        "run",
        "--repeat",
        "2",
        "--report",
        path.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        "kill -9 $$",
    ]);
    let output = command.env("REGROW_DISABLE", "clone3").output().unwrap();
    assert_eq!(output.status.code(), Some(137), "{}", stderr(&output));
    let lines = report_lines(&path);
    assert_eq!(lines.len(), 2);
    for line in &lines {
        assert_eq!(
            (&line["how"], &line["fallback"]),
            (&"exec".into(), &"unsupported_kernel".into()),
            "{line}"
        );
        assert_eq!((&line["status"], &line["signal"]), (&137.into(), &9.into()), "{line}");
        assert!(line["detail"].as_str().unwrap().contains("kernel"), "{line}");
    }
}

#[test]
fn the_report_has_a_line_for_a_run_that_could_not_be_started() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.jsonl");
    let report = path.to_str().unwrap();
    let output = output(["run", "--repeat", "3", "--report", report, "--", "/nonexistent/program"]);
    assert_eq!(output.status.code(), Some(127));
    let lines = report_lines(&path);
    assert_eq!(lines.len(), 1, "what cannot be started is not tried again");
    assert!(lines[0]["how"].is_null() && lines[0]["pid"].is_null(), "{lines:?}");
    assert_eq!(lines[0]["status"], 127);
    assert_eq!(lines[0]["error"], "No such file or directory (os error 2)");
}

#[test]
fn the_first_failure_of_many_runs_is_the_exit_status() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    // Fails in the second of three runs.
    let script = format!("echo >> {0}; test $(wc -l < {0}) != 2 || exit 9", mark.display());
    let output = output(["run", "--repeat", "3", "--", "sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(9), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(&mark).unwrap(), "\n\n\n");
}
