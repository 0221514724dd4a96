//! `regrow schedule`, looked at from outside: how the processes below it are scheduled is what `/proc` says of them.

mod common;
#[path = "schedule/scripts.rs"]
mod scripts;

use std::path::Path;
use std::process::{Command, Output};

use common::{output, regrow, shell_status, stderr, stdout};
use scripts::{FUNCTIONS, LONG_NICE};

/// Debian's own: another one may be a script.
const PYTHON: &str = "/usr/bin/python3";

/// `regrow schedule` with what it keeps in a folder, in which it runs.
fn schedule(folder: &Path, options: &[&str], command: &[&str]) -> Output {
    let mut regrow = regrow();
    regrow.current_dir(folder).env("XDG_STATE_HOME", folder.join("state"));
    regrow
        .args(["schedule", "--limit-us", "20000", "--long-nice", LONG_NICE])
        .args(options)
        .arg("--")
        .args(command);
    regrow.output().unwrap()
}

#[test]
fn a_process_that_outlives_the_limit_is_scheduled_as_a_long_one() {
    let folder = tempfile::tempdir().unwrap();
    scripts::put(folder.path());
    let ran = schedule(folder.path(), &["--fresh"], &["sh", "child.sh"]);
    assert_eq!((ran.status.code(), stdout(&ran).as_str()), (Some(0), "0\n"), "{}", stderr(&ran));
    assert!(stderr(&ran).contains("and 1 anew as they went on"), "{}", stderr(&ran));
    assert!(!folder.path().join("state").exists(), "nothing is kept");
}

#[test]
fn a_child_is_scheduled_by_what_those_before_it_have_used_and_by_what_was_kept() {
    let folder = tempfile::tempdir().unwrap();
    scripts::put(folder.path());
    let began = |ran: &Output| stdout(ran).lines().map(str::to_owned).collect::<Vec<_>>();
    let first = schedule(folder.path(), &[], &["sh", "children.sh", "sh"]);
    assert_eq!(first.status.code(), Some(0), "one begins as a long one: {:?}", began(&first));
    assert_eq!(began(&first).first().map(String::as_str), Some("0"), "nothing is known of the first");
    let second = schedule(folder.path(), &[], &["sh", "children.sh", "sh"]);
    assert_eq!(second.status.code(), Some(0), "one begins as a long one: {:?}", began(&second));
    assert!(began(&second).len() <= 5, "what was kept helps from the second child on: {:?}", began(&second));
}

#[test]
fn children_that_never_end_teach_while_they_run() {
    let folder = tempfile::tempdir().unwrap();
    scripts::put(folder.path());
    let ran = schedule(folder.path(), &["--fresh"], &["sh", "endless.sh"]);
    let began: Vec<String> = stdout(&ran).lines().map(str::to_owned).collect();
    assert_eq!(
        (ran.status.code(), began.last().map(String::as_str)),
        (Some(0), Some("7")),
        "{began:?}: {}",
        stderr(&ran)
    );
    assert_eq!(began.first().map(String::as_str), Some("0"), "nothing is known of the first");
}

#[test]
fn a_run_has_a_long_slice_where_that_is_asked_for_or_was_learned() {
    let folder = tempfile::tempdir().unwrap();
    scripts::put(folder.path());
    let python = |options: &[&str]| {
        let mut run = regrow();
        run.current_dir(folder.path()).env("XDG_STATE_HOME", folder.path().join("state"));
        let ran =
            run.args(["run", "--embedded"]).args(options).args(["--", PYTHON, "slice.py"]).output().unwrap();
        assert!(ran.status.success(), "{}", stderr(&ran));
        stdout(&ran).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let usual = python(&[]);
    assert_eq!(python(&["--schedule=long"]), ["20000000"], "by exec");
    assert_eq!(python(&["--schedule=long", "--repeat", "3"]), ["20000000"; 3], "in bodies");
    assert_eq!(python(&["--schedule"]), usual, "nothing is known");
    let learning = format!("for each in 1 2 3 4 5 6; do {PYTHON} slice.py; done; :");
    let ran = schedule(folder.path(), &[], &["sh", "-c", &learning]);
    assert!(ran.status.success(), "{}", stderr(&ran));
    assert_eq!(python(&["--schedule"]), ["20000000"]);
    assert_eq!(python(&["--schedule", "--repeat", "2"]), ["20000000"; 2]);
    assert_eq!(python(&[]), usual, "it is asked for");
}

#[test]
fn what_needs_the_kernel_is_not_asked_of_the_library() {
    let refused = output(["schedule", "--by", "parent", "--", "true"]);
    assert_eq!(refused.status.code(), Some(125));
    assert!(stderr(&refused).contains("--by parent needs --outside"), "{}", stderr(&refused));
}

#[test]
fn what_a_process_has_chosen_for_itself_stays() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "{FUNCTIONS}\ni=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 0.2; niceness; echo $nice"
    );
    let ran = schedule(folder.path(), &["--fresh"], &["nice", "-n", "3", "sh", "-c", &script]);
    assert_eq!((ran.status.code(), stdout(&ran).as_str()), (Some(0), "3\n"), "{}", stderr(&ran));
}

#[test]
fn a_command_is_what_it_is_without() {
    let folder = tempfile::tempdir().unwrap();
    for (script, status) in
        [("exit 3", 3), ("kill -TERM $$", 143), ("kill -INT $$", 130), ("echo out; echo err >&2", 0)]
    {
        let plain = Command::new("sh").args(["-c", script]).output().unwrap();
        let ran = schedule(folder.path(), &["--fresh"], &["sh", "-c", script]);
        assert_eq!(shell_status(plain.status), status);
        assert_eq!(
            (ran.status.code(), &ran.stdout),
            (Some(status), &plain.stdout),
            "{script}: {}",
            stderr(&ran)
        );
        assert!(stderr(&ran).starts_with(&stderr(&plain)), "{script}: {}", stderr(&ran));
    }
    for (program, status) in [("./no-such-program", 127), (".", 126)] {
        let ran = schedule(folder.path(), &["--fresh"], &[program]);
        assert_eq!(ran.status.code(), Some(status), "{}", stderr(&ran));
        assert!(stderr(&ran).contains(program), "{}", stderr(&ran));
    }
    let refused = output(["schedule", "--long-slice-us", "99", "--", "true"]);
    assert_eq!(refused.status.code(), Some(125), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("a slice of 99 µs"), "{}", stderr(&refused));
}

#[test]
fn a_command_that_is_watched_begins_with_its_callers_blocked_signals() {
    let blocked = |words: &[&str]| {
        let script = "grep SigBlk /proc/self/status; kill -INT $$; echo alive";
        let mut command = Command::new(words[0]);
        let ran = command.args(&words[1..]).args(["sh", "-c", script]).output().unwrap();
        (stdout(&ran), shell_status(ran.status))
    };
    let regrow = env!("CARGO_BIN_EXE_regrow");
    let plain = blocked(&["env"]);
    assert_eq!(plain.1, 130);
    for way in [&["schedule", "--fresh", "--"][..], &["sites", "--"], &["sites", "--trace", "--"]] {
        let ran = blocked(&[&[regrow], way].concat());
        assert_eq!(ran, plain, "{way:?}");
    }
}
