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
            Happened::Executed { pid } | Happened::Reached { pid } | Happened::Leaving { pid } => {
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

    check_addresses();

    match start(&["/nonexistent/program"]) {
        Err(FollowError::Exec(error)) => assert_eq!(error.raw_os_error(), Some(libc::ENOENT)),
        other => panic!("{other:?}"),
    }
}

/// The address of a process's first instruction.
fn entry(pid: i32) -> u64 {
    let vector = std::fs::read(format!("/proc/{pid}/auxv")).unwrap();
    let words: Vec<u64> =
        vector.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
    words.chunks_exact(2).find(|pair| pair[0] == libc::AT_ENTRY).unwrap()[1]
}

/// A process is told of when it comes to an address, once in each program, and traps of its own stay its own. Machines without debug registers
/// cannot tell.
fn check_addresses() {
    let script = "true; true; kill -TRAP $$";
    let mut follower = start(&["/bin/sh", "-c", &format!("/bin/true; /bin/true; {script}")]).unwrap();
    let (mut executed, mut reached, mut is_possible) = (0, 0, true);
    let mut end = 0;
    while let Some(happened) = follower.next_event().unwrap() {
        match happened {
            Happened::Executed { pid } => {
                executed += 1;
                is_possible &= follower.stop_at(pid, entry(pid)).is_ok();
            }
            Happened::Reached { pid } => {
                reached += 1;
                let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap();
                assert!(call.ends_with(&format!(" {:#x}\n", entry(pid))), "it stands there: {call}");
            }
            Happened::Gone { pid, status } if pid == follower.root() => end = status,
            _ => {}
        }
    }
    assert_eq!((executed, libc::WTERMSIG(end)), (3, libc::SIGTRAP));
    assert!(!is_possible || reached == executed, "{reached} of {executed}");
}
