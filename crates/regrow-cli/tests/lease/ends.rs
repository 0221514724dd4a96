//! The ends of leases: by clients that are killed or idle, by the daemon's, and by what runs leave behind.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use regrow_daemon::place::Place;
use rustix::process::Signal;

use crate::borrower::{Borrower, children, service};
use crate::service::{eventually, kernel_keeps_statuses, lives, signal, state};

/// Where the client of another process finds its daemon; it is one that is killed.
const PLACE: &str = "REGROW_TEST_PLACE";
/// What it runs.
const SCRIPT: &str = "REGROW_TEST_SCRIPT";

/// A client in a process of its own, for the tests below: it makes a run on lease that ends with nothing.
#[test]
#[ignore = "it is a part of other tests, in a process that they kill"]
fn client_of_another_process() {
    let (folder, script) = (std::env::var(PLACE).unwrap(), std::env::var(SCRIPT).unwrap());
    let place = Place::at(folder.into(), rustix::process::geteuid().as_raw()).unwrap();
    let mut borrower = Borrower::at(place);
    borrower.lease();
    let running = borrower.shell_with_input(&script);
    println!("\nrun {}", running.pid());
    running.end(Some(0));
}

#[test]
fn a_client_that_is_killed_leaves_no_run_and_no_body() {
    let service = service();
    service.warm(&["sh", "-c", "exit 0"]);
    for script in ["echo $$; while :; do sleep 1; done", "echo $$; exec sleep 600"] {
        let mut client = Command::new(std::env::current_exe().unwrap());
        client.args(["--exact", "ends::client_of_another_process", "--ignored", "--nocapture"]);
        client.env(PLACE, service.folder()).env(SCRIPT, script).env("XDG_RUNTIME_DIR", service.folder());
        let mut client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(client.stdout.take().unwrap()).lines();
        let run = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("run ")?.parse::<i32>().ok());
        let run = run.expect("it tells of its run");
        assert!(lives(run) && children(service.daemon()).contains(&run));
        let mut observer = Borrower::of(&service);
        assert_eq!(observer.status().leases, 1);
        client.kill().unwrap();
        client.wait().unwrap();
        eventually("the end of the run", || state(run).is_none());
        eventually("the end of the lease", || observer.status().leases == 0);
    }
    let daemon = service.daemon();
    eventually("nothing that is not waited for", || children(daemon).into_iter().all(lives));
}

#[test]
fn a_run_that_is_killed_ends_so_and_the_next_one_does_not() {
    let service = service();
    let mut borrower = Borrower::of(&service);
    for _ in 0..5 {
        borrower.lease();
        let running = borrower.shell_with_input("echo $$; read line");
        signal(running.pid(), Signal::KILL);
        borrower = running.end(Some(9));
        assert_eq!(borrower.shell("exit 2").0, Some(2 << 8));
    }
}

#[test]
fn a_run_goes_on_when_its_lender_is_killed() {
    let mut service = service();
    let mut borrower = Borrower::of(&service);
    borrower.lease();
    let running = borrower.shell_with_input("echo $$; read line; exit 5");
    service.kill_daemon();
    assert!(lives(running.pid()));
    if kernel_keeps_statuses() {
        let mut borrower = running.end(Some(5 << 8));
        eventually("the daemon's absence", || {
            let message = borrower.message(std::path::Path::new("/bin/sh"), &["-c", "exit 0"]);
            let null = std::fs::File::open("/dev/null").unwrap();
            let null = std::os::fd::AsFd::as_fd(&null);
            borrower.client.complete(message, &[null, null, null]).is_err()
        });
    }
}

#[test]
fn a_daemon_that_is_told_to_stop_waits_for_a_run_on_lease() {
    let mut service = service();
    let mut borrower = Borrower::of(&service);
    borrower.lease();
    let mut observer = Borrower::of(&service);
    let running = borrower.shell_with_input("echo $$; read line; exit 6");
    let daemon = service.daemon();
    observer.client.stop().unwrap();
    eventually("the end of the lease", || observer.status().leases == 0);
    assert!(lives(running.pid()) && lives(daemon));
    let mut borrower = running.end(Some(6 << 8));
    let after = borrower.client.leased_runs();
    let message = borrower.message(std::path::Path::new("/bin/sh"), &["-c", "exit 0"]);
    let null = std::fs::File::open("/dev/null").unwrap();
    let null = std::os::fd::AsFd::as_fd(&null);
    // It declines, or is gone.
    assert!(
        borrower.client.complete(message, &[null, null, null]).is_ok_and(|ended| ended.is_none())
            || !lives(daemon)
    );
    assert_eq!(borrower.client.leased_runs(), after, "nothing is started any more");
    drop((borrower, observer));
    assert!(service.daemon_ends().success());
}

#[test]
fn a_lease_that_is_not_used_ends_and_another_one_is_asked_for() {
    let service = service();
    let mut borrower = Borrower::of(&service);
    borrower.lease();
    let mut observer = Borrower::of(&service);
    assert_eq!(observer.status().leases, 1);
    eventually("the end of the lease", || observer.status().leases == 0);
    assert_eq!(borrower.shell("exit 1").0, Some(1 << 8));
    borrower.lease();
    assert_eq!(observer.status().leases, 1);
    // What is dropped on demand goes with what the daemon keeps.
    observer.client.clear().unwrap();
    assert_eq!(observer.status().leases, 0);
    let before = borrower.client.leased_runs();
    let (status, _) = borrower.shell("exit 1");
    assert!(status.is_none_or(|status| status == 1 << 8));
    assert_eq!(borrower.client.leased_runs(), before);
}

#[test]
fn a_run_that_leaves_a_process_behind_costs_its_body() {
    let service = service();
    let mut borrower = Borrower::of(&service);
    borrower.lease();
    // One that has executed another program, and one that has a copy of the memory and a group of its own.
    for script in
        ["exec >/dev/null 2>&1; sleep 600 &", "exec >/dev/null 2>&1; set -m; (while :; do sleep 600; done) &"]
    {
        borrower.lease();
        let before = borrower.client.leased_runs();
        assert_eq!(borrower.shell(script).0, Some(0));
        assert_eq!(borrower.client.leased_runs(), before + 1);
        let mut observer = Borrower::of(&service);
        eventually("the end of the lease", || {
            assert_eq!(borrower.shell("exit 3").0, Some(3 << 8));
            observer.status().leases == 0
        });
        let daemon = service.daemon();
        let kept = children(daemon);
        for left in service.everything() {
            if left != daemon && !kept.contains(&left) {
                signal(left, Signal::KILL);
            }
        }
    }
    borrower.lease();
}
