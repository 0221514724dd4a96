//! Following a command: what is told, in which order. Each test is a process of its own kind of waiting: `waitpid(-1)` takes
//! any child, so that all of it is one test.

use std::collections::HashMap;
use std::ffi::CString;

use regrow_sys::follow::{FollowError, Follower, Happened};

fn start(words: &[&str]) -> Result<Follower, FollowError> {
    let words: Vec<CString> = words.iter().map(|word| CString::new(*word).unwrap()).collect();
    let argv: Vec<_> = words.iter().map(CString::as_c_str).collect();
    Follower::start(&words[0], &argv, &[c"PATH=/usr/bin:/bin"])
}

/// All that happens, with the name of each program that was executed, read while its process was stopped.
fn follow(words: &[&str]) -> (i32, Vec<(Happened, Option<String>)>) {
    let mut follower = start(words).unwrap();
    let mut all = Vec::new();
    while let Some(happened) = follower.next_event().unwrap() {
        let name = match happened {
            Happened::Executed { pid } => {
                let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap();
                Some(exe.file_name().unwrap().to_string_lossy().into_owned())
            }
            Happened::Leaving { pid } => {
                let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
                assert!(status.contains("VmHWM:"), "its memory is there: {status}");
                None
            }
            _ => None,
        };
        all.push((happened, name));
    }
    (follower.root(), all)
}

fn names(all: &[(Happened, Option<String>)]) -> Vec<&str> {
    all.iter().filter_map(|(_, name)| name.as_deref()).collect()
}

/// Each process is born before anything else of it is told, and gone after.
fn check_order(root: i32, all: &[(Happened, Option<String>)]) {
    let mut alive = HashMap::from([(root, true)]);
    for (happened, _) in all {
        match *happened {
            Happened::Born { pid, parent } => {
                assert_eq!(alive.get(&parent), Some(&true), "{happened:?}");
                assert_eq!(alive.insert(pid, true), None, "{happened:?}");
            }
            Happened::Executed { pid } | Happened::Leaving { pid } => {
                assert_eq!(alive.get(&pid), Some(&true), "{happened:?}");
            }
            Happened::Gone { pid, .. } => assert_eq!(alive.insert(pid, false), Some(true), "{happened:?}"),
        }
    }
    assert!(alive.values().all(|alive| !alive), "{alive:?}");
}

#[test]
fn a_command_is_followed() {
    // A child, one of a subshell, a pipe, and an exec in place of the shell.
    let (root, all) =
        follow(&["/bin/sh", "-c", "env true; (sleep 0); echo a | cat >/dev/null; exec env sh -c 'exit 7'"]);
    check_order(root, &all);
    let shell = names(&all)[0].to_owned();
    let executed = names(&all);
    let count = |name: &str| executed.iter().filter(|each| **each == name).count();
    assert_eq!(
        (count("env"), count("true"), count("sleep"), count("cat"), count(&shell)),
        (2, 1, 1, 1, 2),
        "{executed:?}"
    );
    let born = all.iter().filter(|(happened, _)| matches!(happened, Happened::Born { .. })).count();
    assert!(born >= 4, "{born}");
    let end = all.iter().rev().find_map(|(happened, _)| match happened {
        Happened::Gone { pid, status } if *pid == root => Some(*status),
        _ => None,
    });
    assert_eq!(end.map(|status| libc::WEXITSTATUS(status)), Some(7));

    // Many at a time, and a signal that ends one.
    let (root, all) =
        follow(&["/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8; do true & sleep 0 & done; wait; kill -TERM $$"]);
    check_order(root, &all);
    assert_eq!(names(&all).iter().filter(|name| **name == "sleep").count(), 8);
    let mut gone = all.iter().filter_map(|(happened, _)| match happened {
        Happened::Gone { pid, status } if *pid == root => Some(libc::WTERMSIG(*status)),
        _ => None,
    });
    assert_eq!(gone.next_back(), Some(libc::SIGTERM));

    match start(&["/nonexistent/program"]) {
        Err(FollowError::Exec(error)) => assert_eq!(error.raw_os_error(), Some(libc::ENOENT)),
        other => panic!("{other:?}"),
    }
}
