//! Bodies that the daemon lends to connected clients: what runs in them is what it would be without, whatever becomes of files, clients
//! and the daemon meanwhile. Each test has a daemon of its own, and sees that its runs were started without it.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod service;

#[path = "lease/borrower.rs"]
mod borrower;
#[path = "lease/ends.rs"]
mod ends;
#[path = "lease/untrusted.rs"]
mod untrusted;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use borrower::{Borrower, children, has_in_memory};
use regrow_abi::task::Resource;
use service::eventually;

/// How often a program is replaced.
const REPLACEMENTS: usize = 40;
/// How many runs on lease there are between two replacements. A lease of few is not followed by another one at once.
const LEASED_BETWEEN: u64 = 20;
/// Clients at a time.
const CLIENTS: usize = 32;
/// Runs of each.
const RUNS: usize = 25;

#[test]
fn a_request_that_is_made_again_needs_the_daemon_no_more() {
    let service = borrower::service();
    let mut borrower = Borrower::of(&service);
    borrower.lease();
    let before = (borrower.status(), borrower.client.leased_runs());
    let keepers = children(service.daemon());
    for number in 0..10 {
        let (status, said) = borrower.shell(&format!("echo $PPID {number}; exit {number}"));
        assert_eq!(status, Some(number << 8));
        assert_eq!(said, format!("{} {number}\n", service.daemon()));
    }
    assert_eq!(borrower.client.leased_runs(), before.1 + 10);
    // What the daemon tells is told when it has looked.
    eventually("all runs in the daemon's figures", || borrower.created() == before.0.created + 10);
    let status = borrower.status();
    assert_eq!((status.leases, status.runs), (1, 0));
    // Each process that is armed is another one; what keeps the body stays.
    let stays = children(service.daemon()).intersection(&keepers).count();
    assert!(stays >= 3, "seed, keepers: {stays} of {}", keepers.len());
    drop(borrower);
    eventually("the end of the lease", || Borrower::of(&service).status().leases == 0);
}

#[test]
fn the_status_of_a_leased_run_is_that_of_its_program() {
    let service = borrower::service();
    let mut borrower = Borrower::of(&service);
    let scripts = [
        "exit 0",
        "exit 3",
        "exit 125",
        "exit 255",
        "kill -TERM $$",
        "kill -KILL $$",
        "ulimit -c 0; kill -SEGV $$",
        "exec /bin/false",
        "exec /bin/true",
        "(exit 9)",
    ];
    for script in scripts {
        borrower.lease();
        let before = borrower.client.leased_runs();
        let plain = Command::new("sh").args(["-c", script]).status().unwrap();
        assert_eq!(borrower.shell(script).0, Some(plain.into_raw()), "{script}");
        assert_eq!(borrower.client.leased_runs(), before + 1, "{script}");
    }
}

#[test]
fn nothing_of_a_leased_run_is_in_the_next() {
    const SECRET: &str = "what-only-one-run-knows";
    let service = borrower::service();
    let mut borrower = Borrower::of(&service);
    borrower.lease();
    let running = borrower.shell_with_input(&format!("word={SECRET}; echo $$; read line; exit 4"));
    assert!(has_in_memory(&[running.pid()], SECRET), "as long as it runs");
    let mut borrower = running.end(Some(4 << 8));
    let lease_before = borrower.client.leased_runs();
    assert_eq!(borrower.shell("echo $word"), (Some(0), "\n".to_owned()));
    assert_eq!(borrower.client.leased_runs(), lease_before + 1);
    let kept: Vec<i32> = children(service.daemon()).into_iter().collect();
    assert!(!has_in_memory(&kept, SECRET));
}

#[test]
fn a_program_that_is_replaced_is_never_run_from_an_earlier_file() {
    let service = borrower::service();
    let program = service.folder().join("program");
    let replace = |with: &str| {
        let new = service.folder().join("new");
        regrow_testkit::program::copy(with.as_ref(), &new).unwrap();
        fs::rename(&new, &program).unwrap();
    };
    let mut borrower = Borrower::of(&service);
    let mut leased = 0;
    for round in 0..REPLACEMENTS {
        let (file, status) = if round % 2 == 0 { ("/bin/true", 0) } else { ("/bin/false", 1 << 8) };
        replace(file);
        for _ in 0..3 {
            let message = borrower.message(&program, &[]);
            // The daemon declines the first runs of a file.
            let ended = borrower.complete(&message).0;
            assert!(ended.is_none_or(|ended| ended == status), "round {round}: {ended:?}");
        }
        let before = borrower.client.leased_runs();
        eventually("a run on lease", || {
            let message = borrower.message(&program, &[]);
            let ended = borrower.complete(&message).0;
            assert!(ended.is_none_or(|ended| ended == status), "round {round}: {ended:?}");
            borrower.client.leased_runs() >= before + LEASED_BETWEEN
        });
        leased += borrower.client.leased_runs() - before;
    }
    assert!(leased >= LEASED_BETWEEN * REPLACEMENTS as u64);
}

#[test]
fn a_run_has_the_environment_the_directory_and_the_limits_of_its_own_request() {
    let service = borrower::service();
    let mut borrower = Borrower::of(&service);
    let script = "echo $WORD $(pwd) $(ulimit -n) $(umask); exit 0";
    for round in 0..12u64 {
        let mut message = borrower.message(Path::new("/bin/sh"), &["-c", script]);
        let word = format!("WORD={}", round % 3);
        message.env.push(&[word.as_bytes()]).unwrap();
        let directory = ["/", "/usr"][usize::from(round % 2 == 0)];
        message.directory = directory.as_bytes().to_vec();
        message.task.set_limit(Resource::Nofile, 100 + round % 4, 200).set_umask(0o20 + (round % 2) as u32);
        let expected = format!("{} {directory} {} 00{:o}\n", round % 3, 100 + round % 4, 0o20 + round % 2);
        let mut times = 0;
        eventually("some runs of it", || {
            let (status, said) = borrower.complete(&message);
            if status.is_some() {
                assert_eq!((status, said), (Some(0), expected.clone()));
                times += 1;
            }
            times >= 5
        });
    }
    assert!(borrower.client.leased_runs() > 0);
}

#[test]
fn many_clients_have_leases_at_a_time() {
    let service = borrower::service();
    service.warm(&["sh", "-c", "exit 0"]);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let service = &service;
            scope.spawn(move || {
                let mut borrower = Borrower::of(service);
                borrower.lease();
                let before = borrower.client.leased_runs();
                for run in 0..RUNS {
                    let code = i32::try_from((number * RUNS + run) % 100).unwrap();
                    let (status, said) = borrower.shell(&format!("echo {number}; exit {code}"));
                    assert_eq!((status, said), (Some(code << 8), format!("{number}\n")));
                }
                assert!(borrower.client.leased_runs() > before);
            });
        }
    });
}

#[test]
fn an_order_that_is_refused_is_the_daemons_to_decline() {
    let service = borrower::service();
    let mut borrower = Borrower::of(&service);
    let folder = service.folder().join("folder");
    fs::create_dir(&folder).unwrap();
    let mut message = borrower.message(Path::new("/bin/true"), &[]);
    message.directory = folder.to_str().unwrap().as_bytes().to_vec();
    borrower.lease_of(&message);
    let before = borrower.client.leased_runs();
    fs::remove_dir(&folder).unwrap();
    assert_eq!(borrower.complete(&message).0, None, "the directory is not there");
    assert_eq!(borrower.client.leased_runs(), before + 1, "it was tried");
    fs::create_dir(&folder).unwrap();
    borrower.lease_of(&message);
    assert_eq!(borrower.complete(&message).0, Some(0));
}
