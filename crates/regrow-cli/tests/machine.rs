//! `regrow sites --system` and `--pid`: the table and the JSON of what happens meanwhile, how it ends, and what is said without the right.
//!
//! Where the machine may not be looked at, the tests check that this is said, and nothing else.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod common;
#[path = "schedule/scripts.rs"]
mod scripts;

use std::io::Write as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use common::{output, regrow, stderr, stdout};
use rustix::process::{Pid, Signal, kill_process};
use scripts::LONG_NICE;
use serde_json::Value;

/// Whether the machine may be looked at, as `regrow doctor` says; or what is said where it may not was checked.
fn may_look() -> bool {
    let findings: Value = serde_json::from_slice(&output(["doctor", "--json"]).stdout).unwrap();
    if findings["whole_machine"]["works"] == true {
        return true;
    }
    let refused = output(["sites", "--system", "--for", "1"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).starts_with("regrow: "), "{}", stderr(&refused));
    eprintln!("skipped: {}", findings["whole_machine"]["reason"]);
    false
}

/// A shell that starts three programs at one place when its input ends.
fn shell() -> Child {
    let script = "read -r _; for i in 1 2 3; do /bin/true; done; exit 0";
    Command::new("dash").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap()
}

/// Starts the command, and returns when it collects.
fn start(args: &[&str]) -> Child {
    let mut command = regrow();
    command
        .args(["sites", "--no-live", "--json", "-"])
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // Its programs are there when it holds four of them.
    let held = || {
        let entries = std::fs::read_dir(format!("/proc/{}/fdinfo", child.id())).unwrap();
        let texts = entries.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
        texts.filter(|text| text.contains("link_type:")).count()
    };
    while held() < 4 {
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn end(child: Child) -> (Output, Value) {
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stdout(&output)));
    (output, report)
}

/// The rows of the shell's programs: how many processes each counts.
fn rows(report: &Value) -> Vec<u64> {
    let sites = report["sites"].as_array().unwrap();
    let of_shell = sites.iter().filter(|site| {
        site["parent"].as_str().is_some_and(|path| path.ends_with("/dash")) && site["child"] == "true"
    });
    of_shell.map(|site| site["count"].as_u64().unwrap_or_else(|| panic!("a count: {site}"))).collect()
}

#[test]
fn a_part_of_the_machine_until_its_process_ends() {
    if !may_look() {
        return;
    }
    let mut shell = shell();
    let child = start(&["--pid", &shell.id().to_string()]);
    // What others do is not in it.
    assert!(self::shell().wait_with_output().unwrap().status.success());
    shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert!(shell.wait().unwrap().success());
    let (output, report) = end(child);
    assert_eq!(rows(&report), [3], "{report}");
    assert!(stderr(&output).contains("\ndash+0x"), "{}", stderr(&output));
    assert_eq!(report["title"], format!("process {} and all below it", shell.id()));
}

#[test]
fn all_of_the_machine_until_it_is_interrupted() {
    if !may_look() {
        return;
    }
    let child = start(&["--system"]);
    let shell = shell();
    assert!(shell.wait_with_output().unwrap().status.success());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let (_, report) = end(child);
    assert!(rows(&report).iter().sum::<u64>() >= 3, "{report}");
    assert_eq!(report["title"], "all processes of this machine");
}

#[test]
fn it_ends_by_itself() {
    if !may_look() {
        return;
    }
    let (_, report) = end(start(&["--system", "--for", "1"]));
    assert!(report["counts"]["created"].is_u64());
}

#[test]
fn what_is_missing_is_said() {
    if !rustix::process::geteuid().is_root() {
        may_look();
        return;
    }
    let mut command = Command::new("setpriv");
    command.args([
        "--bounding-set=-all",
        "--inh-caps=-all",
        env!("CARGO_BIN_EXE_regrow"),
        "sites",
        "--system",
    ]);
    let refused = command.output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(
        stderr(&refused),
        "regrow: the whole machine cannot be looked at, as root can; missing: CAP_BPF or CAP_SYS_ADMIN, to load BPF programs; \
         CAP_PERFMON or CAP_SYS_ADMIN, to attach them to tracepoints, and read the stacks of processes; \
         CAP_SYS_PTRACE, to read the executables of other users' processes\n"
    );
}

#[test]
fn flags_that_contradict_one_another_are_refused() {
    for args in [
        &["sites", "--system", "--", "true"][..],
        &["sites", "--pid", "1", "--system"],
        &["sites", "--for", "1", "--", "true"],
        &["sites", "--pid", "x"],
        &["sites"],
    ] {
        let refused = output(args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {}", stderr(&refused));
    }
    if may_look() {
        let refused = output(["sites", "--pid", "4194305"]);
        assert_eq!(refused.status.code(), Some(2));
        assert_eq!(stderr(&refused), "regrow: process 4194305: there is none\n");
    }
}

/// `regrow schedule --outside` in a folder with the scripts.
fn schedule_outside(words: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    scripts::put(folder.path());
    let mut command = regrow();
    command.current_dir(folder.path());
    command.args(["schedule", "--outside", "--fresh", "--limit-us", "20000", "--long-nice", LONG_NICE, "--"]);
    command.args(words).output().unwrap()
}

#[test]
fn processes_are_scheduled_from_outside_static_ones_too() {
    if !may_look() {
        let refused = schedule_outside(&["echo", "ran"]);
        assert_eq!((refused.status.code(), stdout(&refused).as_str()), (Some(2), ""), "{}", stderr(&refused));
        assert!(stderr(&refused).contains("missing"), "{}", stderr(&refused));
        return;
    }
    // The library that schedules otherwise is not in a static shell.
    let ran = schedule_outside(&["sh", "children.sh", "bash-static"]);
    let began = stdout(&ran);
    assert_eq!(ran.status.code(), Some(0), "one begins as a long one: {began} {}", stderr(&ran));
    assert!(began.starts_with("0\n") && began.ends_with("7\n"), "nothing is known of the first: {began}");
    let said = stderr(&ran);
    assert!(!said.contains(" 0 as long") && !said.contains("and 0 anew"), "{said}");
}

#[test]
fn a_command_that_is_scheduled_from_outside_is_what_it_is_without() {
    if !may_look() {
        return;
    }
    for (script, status) in
        [("echo out; exit 3", 3), ("echo out; kill -INT $$", 130), ("echo out; kill -KILL $$", 137)]
    {
        let ran = schedule_outside(&["sh", "-c", script]);
        assert_eq!((ran.status.code(), stdout(&ran).as_str()), (Some(status), "out\n"), "{}", stderr(&ran));
    }
    let missing = schedule_outside(&["./no-such-program"]);
    assert_eq!(missing.status.code(), Some(127), "{}", stderr(&missing));
    // What outlives the command keeps nothing of how it was scheduled.
    let script = "bash-static ./child.sh >/dev/null 2>&1 & child=$!; until [ \"$(nice_of $child)\" = 7 ]; do :; done; kill -STOP $child; echo $child";
    let nice_of = "nice_of() { read -r line </proc/$1/stat; set -- ${line##*) }; echo ${17}; }; ";
    let left = schedule_outside(&["sh", "-c", &format!("{nice_of}{script}")]);
    let child: i32 = stdout(&left).lines().last().unwrap().parse().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap();
    let nice = stat.rsplit(") ").next().unwrap().split(' ').nth(16).unwrap().to_owned();
    kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
    assert_eq!(nice, "0", "{}", stderr(&left));
}
