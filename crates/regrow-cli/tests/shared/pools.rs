//! Pools that programs have for themselves: a command that repeats a program has one, and so has a program with the library.

use std::process::{Child, Stdio};

use serde_json::Value;

use crate::service::{Service, eventually, text};

/// What `regrow status --json` prints; nothing where it says that there is no daemon.
fn status(service: &Service) -> Value {
    let output = service.regrow().args(["status", "--json"]).output().unwrap();
    if output.status.code() == Some(2) {
        assert!(text(&output.stderr).contains("there is no daemon"), "{output:?}");
        return Value::Null;
    }
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A command with a pool of its own, which goes on for long.
fn repeating(service: &Service) -> Child {
    let mut command = service.without_setsid(env!("CARGO_BIN_EXE_regrow"));
    command.args(["run", "--repeat", "1000000", "--", "sh", "-c", "sleep 0.01"]);
    command.stdout(Stdio::null()).spawn().unwrap()
}

/// The only pool that is listed, when it has recycled so many processes.
fn listed(service: &Service, least: u64) -> Value {
    let mut pool = Value::Null;
    eventually("the pool in the list", || {
        pool = status(service)["pools"][0].clone();
        pool["creations"]["recycled"]["main"].as_u64().is_some_and(|recycled| recycled >= least)
    });
    pool
}

fn files(service: &Service) -> usize {
    std::fs::read_dir(service.folder().join("regrow-pools")).map_or(0, Iterator::count)
}

#[test]
fn a_pool_of_a_program_is_listed_with_and_without_a_daemon_until_it_is_killed() {
    let mut service = Service::empty();
    assert_eq!(status(&service), Value::Null);
    let mut command = repeating(&service);
    let pool = listed(&service, 1);
    assert_eq!(pool["pid"], command.id());
    assert!(
        pool["command"].as_str().unwrap().ends_with("run --repeat 1000000 -- sh -c sleep 0.01"),
        "{pool}"
    );
    assert!(pool["images"][0]["file"].as_str().unwrap().contains("sh"), "{pool}");
    assert_eq!(status(&service)["daemon"], Value::Null);
    let recycled = pool["creations"]["recycled"]["main"].as_u64().unwrap();

    service.start_daemon(&[]);
    listed(&service, recycled + 1);
    assert_eq!(status(&service)["daemon"]["pid"].as_i64(), Some(service.daemon().into()));
    let words = text(&service.regrow().arg("status").output().unwrap().stdout);
    assert!(words.starts_with("daemon     pid "), "{words}");
    let row = words.lines().last().unwrap().trim_start();
    assert!(row.starts_with(&format!("{}  regrow run ", command.id())), "{words}");

    assert_eq!(files(&service), 1);
    command.kill().unwrap();
    command.wait().unwrap();
    assert_eq!(status(&service)["pools"], serde_json::json!([]));
    assert_eq!(files(&service), 0, "whoever looks has tidied up");
}

#[test]
fn whoever_lists_a_pool_takes_away_what_killed_programs_have_left() {
    let service = Service::empty();
    for _ in 0..2 {
        let mut command = repeating(&service);
        eventually("its file", || {
            let entries = std::fs::read_dir(service.folder().join("regrow-pools")).into_iter().flatten();
            let names = entries.flatten().map(|entry| entry.file_name().into_string().unwrap());
            names.filter(|name| name.starts_with(&format!("{}-", command.id()))).count() == 1
        });
        assert_eq!(files(&service), 1);
        command.kill().unwrap();
        command.wait().unwrap();
        assert_eq!(files(&service), 1, "nobody has looked");
    }
    assert_eq!(status(&service), Value::Null);
    assert_eq!(files(&service), 0);
}
