//! What a daemon tells others than its clients: each creation in a file, and its counts over HTTP.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod service;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::Value;
use service::{LIMIT, Service, eventually, text};

/// The keys of a line.
const KEYS: [&str; 9] =
    ["at_s", "fallback", "how", "number", "point", "program", "site", "to_main_us", "took_us"];
/// Runs that are made after the program is kept.
const RUNS: usize = 20;

fn status(service: &Service) -> Value {
    let output = service.regrow().args(["status", "--json"]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The counts of a status: by how processes were created, and by why they were executed.
fn counts(status: &Value) -> BTreeMap<String, u64> {
    let creations = &status["pool"]["creations"];
    let sum = |counts: &Value| counts.as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>();
    let mut all: BTreeMap<String, u64> =
        ["recycled", "forked_body"].map(|how| (how.to_owned(), sum(&creations[how]))).into();
    for (reason, count) in creations["fallbacks"].as_object().unwrap() {
        all.insert(reason.clone(), count.as_u64().unwrap());
    }
    all.retain(|_, count| *count > 0);
    all
}

fn run(service: &Service) {
    service.warm(&["sh"]);
    for _ in 0..RUNS {
        let status = service.regrow().args(["run", "sh", "-c", "exit 3"]).status().unwrap();
        assert_eq!(status.code(), Some(3));
    }
}

#[test]
fn each_creation_is_a_line_of_the_file() {
    let mut service = Service::empty();
    let path = service.folder().join("creations.jsonl");
    let mut before = 0;
    // A second daemon goes on with the file.
    for _ in 0..2 {
        service.start_daemon(&["--log-creations", path.to_str().unwrap()]);
        run(&service);
        let counted = counts(&status(&service));
        assert!(service.regrow().arg("stop").status().unwrap().success());
        assert!(service.daemon_ends().success());
        let file = fs::read_to_string(&path).unwrap();
        let lines: Vec<Value> =
            file.lines().skip(before).map(|line| serde_json::from_str(line).unwrap()).collect();
        before += lines.len();
        let mut told: BTreeMap<String, u64> = BTreeMap::new();
        let mut sites = BTreeSet::new();
        for (number, line) in (1u64..).zip(&lines) {
            let mut keys: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
            keys.sort_unstable();
            assert_eq!(keys, KEYS);
            assert_eq!((&line["number"], &line["program"]), (&number.into(), &"sh".into()));
            let is_exec = line["how"] == "exec";
            assert_eq!(line["site"].is_null(), is_exec, "{line}");
            sites.extend(line["site"].as_u64());
            assert_eq!(line["fallback"].is_null(), !is_exec, "{line}");
            for known in ["point", "to_main_us", "took_us"] {
                assert_eq!(line[known].is_null(), is_exec, "{line}");
            }
            let kind = if is_exec { &line["fallback"] } else { &line["how"] };
            *told.entry(kind.as_str().unwrap().to_owned()).or_default() += 1;
        }
        assert_eq!(told, counted);
        assert_eq!(sites.len(), 2, "`-c :` and `-c exit` are two calls: {sites:?}");
        assert!(counted["recycled"] > RUNS as u64 / 2, "{counted:?}");
        println!("log of creations: {} lines, {told:?}", lines.len());
    }
}

/// The body of an answer, and its status.
fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Where a daemon says that it serves its metrics.
fn address_of_metrics(service: &Service) -> String {
    let mut address = String::new();
    eventually("the address of the metrics", || {
        let said = service.daemon_said();
        let line = said.lines().find(|line| line.contains("metrics are served"));
        address = line.and_then(|line| line.split_once("address=")).map_or("", |(_, rest)| rest).to_owned();
        !address.is_empty()
    });
    address
}

#[test]
fn who_asks_for_metrics_and_says_nothing_keeps_no_command_waiting() {
    const MOST: usize = 2;
    let limit = MOST.to_string();
    let service = Service::with(&["--metrics", "127.0.0.1:0", "--max-metrics-connections", &limit]);
    let address = address_of_metrics(&service);
    let held: Vec<TcpStream> = (0..3 * MOST).map(|_| TcpStream::connect(&address).unwrap()).collect();
    run(&service);
    assert!(counts(&status(&service))["recycled"] > RUNS as u64 / 2);
    drop(held);
    assert_eq!(get(&address, "/metrics").0, 200);
}

#[test]
fn metrics_are_the_counts_of_the_status() {
    let service = Service::with(&["--metrics", "127.0.0.1:0"]);
    run(&service);
    let address = address_of_metrics(&service);
    let (code, metrics) = get(&address, "/metrics");
    assert_eq!(code, 200);
    let mut told: BTreeMap<String, u64> = BTreeMap::new();
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let (name, count) = line.rsplit_once(' ').unwrap();
        let of =
            |metric: &str| name.strip_prefix(metric)?.strip_prefix("_total{kind=\"")?.strip_suffix("\"}");
        if let Some(kind) = of("regrow_creations").or_else(|| of("regrow_fallbacks")) {
            told.insert(kind.to_owned(), count.parse().unwrap());
        }
    }
    let counted = counts(&status(&service));
    told.retain(|name, count| name != "exec" && *count > 0);
    assert_eq!(told, counted);
    assert!(counted["first_run"] == 1 && counted["recycled"] > RUNS as u64 / 2, "{counted:?}");
    assert!(metrics.trim_end().ends_with("# EOF"), "{metrics}");
    assert_eq!(get(&address, "/").0, 404);
}

#[test]
fn a_daemon_that_cannot_tell_does_not_serve() {
    let service = Service::empty();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let taken_why =
        format!("the address of --metrics cannot be listened at: {address}: Address already in use");
    let cases = [
        (["--metrics", &address], taken_why.as_str()),
        (
            ["--log-creations", "/nonexistent/log"],
            "/nonexistent/log: cannot be written: No such file or directory",
        ),
    ];
    for (args, why) in cases {
        let output = service.regrow().arg("daemon").args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).starts_with(&format!("regrow: {why}")), "{}", text(&output.stderr));
        assert!(!service.place().socket().exists(), "{args:?}");
    }
}
