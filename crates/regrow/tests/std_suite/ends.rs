//! How a process ends, and what its parent learns of that.

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::facts::{of_error, of_output, raw, until};

#[test]
fn every_status_is_told() {
    let seen = same!(256, {
        let statuses = (0..=255).map(|status: i32| {
            let mut command = Command::new("sh");
            command.args(["-c", "exit $0"]).arg(status.to_string()).status().expect("it starts")
        });
        statuses.map(|status| (status.code(), status.success(), status.to_string())).collect::<Vec<_>>()
    });
    for (status, (code, is_success, _)) in (0..).zip(seen) {
        assert_eq!((code, is_success), (Some(status), status == 0));
    }
}

#[test]
fn every_end_by_a_signal_is_told() {
    let signals = ["HUP", "INT", "QUIT", "ABRT", "KILL", "SEGV", "PIPE", "TERM", "USR1"];
    let seen = same!(9, {
        let statuses = signals.map(|name| {
            let mut command = Command::new("sh");
            // Whether a core is written is a matter of the machine, not of the run.
            command.args(["-c", "ulimit -c 0; kill -$0 $$; echo goes on"]).arg(name);
            command.status().expect("it starts")
        });
        statuses.map(|status| (status.code(), status.signal(), status.core_dumped(), status.to_string()))
    });
    assert_eq!(seen[7], (None, Some(15), false, "signal: 15 (SIGTERM)".to_owned()));
    assert!(seen.iter().all(|(code, signal, _, _)| code.is_none() && signal.is_some()), "{seen:?}");
}

#[test]
fn the_status_is_the_same_however_often_it_is_asked_for() {
    let seen = same!(1, {
        let mut child = Command::new("/bin/sh").args(["-c", "false"]).spawn().expect("it starts");
        let first = raw(child.wait());
        let asked = child.try_wait().expect("it is known").map(ExitStatus::into_raw);
        (first, asked, raw(child.wait()), of_output(child.wait_with_output()).0)
    });
    assert_eq!(seen, (1 << 8, Some(1 << 8), 1 << 8, 1 << 8));
}

#[test]
fn a_child_that_goes_on_has_no_status() {
    let seen = same!(2, {
        let mut child = Command::new("sleep").arg("1000").spawn().expect("it starts");
        let before = [child.try_wait(), child.try_wait()].map(|asked| asked.expect("it can be asked"));
        child.kill().expect("it goes on");
        let ended = raw(child.wait());
        let after = [child.try_wait(), child.try_wait()].map(|asked| asked.expect("it is known"));
        let mut quick = Command::new("true").spawn().expect("it starts");
        let mut status = None;
        until("the end of true", || {
            status = quick.try_wait().expect("it can be asked");
            status.is_some()
        });
        (before, ended, after, status, quick.try_wait().expect("it is known"))
    });
    assert_eq!((seen.0, seen.1), ([None, None], libc::SIGKILL));
}

#[test]
fn whoever_waits_for_input_is_killed() {
    for program in ["cat", "sh"] {
        let seen = same!(1, {
            let mut child = Command::new(program).stdin(Stdio::piped()).spawn().expect("it starts");
            child.kill().expect("it goes on");
            // Before the wait the process has ended already, or ends; after it, it has.
            child.kill().expect("there is no error");
            let status = child.wait().expect("its end");
            child.kill().expect("there is no error after the end");
            (status.signal(), status.code())
        });
        assert_eq!(seen, (Some(libc::SIGKILL), None));
    }
}

#[test]
fn an_end_that_was_not_waited_for_is_no_error_for_whoever_kills() {
    same!(1, {
        let mut child = Command::new("true").stdout(Stdio::piped()).spawn().expect("it starts");
        // Its pipe's end says that it has ended, or is about to.
        child.stdout.as_mut().expect("a pipe").read_to_end(&mut Vec::new()).expect("the pipe's end");
        let stat = format!("/proc/{}/stat", child.id());
        until("the end of true", || fs::read_to_string(&stat).is_ok_and(|text| text.contains(") Z ")));
        child.kill().expect("there is no error");
        child.kill().expect("there is no error");
        raw(child.wait())
    });
}

#[test]
fn a_child_that_is_dropped_goes_on() {
    let seen = same!(1, {
        let mut command = Command::new("sh");
        command.args(["-c", "read line; echo \"still there: $line\""]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let (to, mut from) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        drop(child);
        std::io::Write::write_all(&mut { to }, b"a word\n").expect("it reads");
        let mut text = String::new();
        from.read_to_string(&mut text).expect("text");
        text
    });
    assert_eq!(seen, "still there: a word\n");
}

/// How many children of this thread have ended and were not waited for.
fn ended_children() -> usize {
    let children = fs::read_to_string("/proc/thread-self/children").expect("the kernel tells");
    let has_ended = |child: &&str| {
        fs::read_to_string(format!("/proc/{child}/stat")).is_ok_and(|stat| stat.contains(") Z "))
    };
    children.split_whitespace().filter(has_ended).count()
}

#[test]
fn a_start_that_fails_leaves_no_process() {
    let before = ended_children();
    same!(0, {
        for _ in 0..100 {
            of_error(Command::new("this-is-no-program-at-all").spawn());
        }
        (
            of_error(Command::new("/no/such/program").output()),
            of_error(Command::new("/no/such/program").status()),
            of_error(Command::new("/etc/passwd").output()),
        )
    });
    assert_eq!(ended_children(), before);
    // Each of these took a body, in which the directory was refused before the program began.
    same!(21, {
        for _ in 0..20 {
            of_error(Command::new("true").current_dir("/nowhere").output());
        }
        of_error(Command::new("true").current_dir("/nowhere").output())
    });
    assert_eq!(ended_children(), before);
}

#[test]
fn a_program_in_rust_ends_as_it_says() {
    let seen = same!(3, {
        ["exit 64", "panic", "abort"]
            .map(|what| raw(own_program!(what).stderr(Stdio::null()).stdout(Stdio::null()).status()))
    });
    assert_eq!(seen, [64 << 8, 101 << 8, libc::SIGABRT]);
}
