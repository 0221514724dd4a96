//! `regrow bench`: what it prints and writes, and that it fails when runs differ. No time is asserted.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod common;

use std::fs;
use std::path::Path;

use common::{output, stderr, stdout};
use serde_json::Value;

/// Few runs, so that the tests are quick.
const QUICK: [&str; 7] = ["bench", "--runs", "5", "--warmup", "1", "--pause-us", "0"];

fn bench<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&QUICK, args].concat()
}

fn results(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    serde_json::from_str::<Vec<Value>>(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn the_results_have_every_key_and_the_table_every_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.json");
    let output = output(bench(&[
        "--parallel",
        "2",
        "--json",
        path.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        "echo a; exit 3",
    ]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));

    let text = stdout(&output);
    for words in ["floors of this machine", "clone(CLONE_VM) + exit + wait", "wake another process by futex"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let rows = text.lines().filter(|line| line.starts_with("sh -c echo a; exit 3 ")).count();
    assert_eq!(rows, 3, "one of times, one of throughput for each number of clients: {text}");

    let results = results(&path);
    assert_eq!(results.len(), 1);
    let result = &results[0];
    assert_eq!((&result["program"], &result["runs"]), (&"sh -c echo a; exit 3".into(), &5.into()));
    for key in ["floor_us", "wake_us", "posix_spawn_us", "regrow_us", "to_main_us", "reset_us"] {
        let times = &result[key];
        assert!(times["p50"].as_f64().unwrap() > 0.0, "{key}: {result}");
        assert!(times["p99"].as_f64() >= times["p50"].as_f64(), "{key}: {result}");
    }
    assert!(result["cpu_us"]["posix_spawn"].as_f64().unwrap() > 0.0, "{result}");
    assert!(result["cpu_us"]["regrow"].as_f64().unwrap() > 0.0, "{result}");
    assert!(result["body_kib"].as_f64().unwrap() > 0.0, "{result}");
    assert!(result["ratio_p50"].as_f64().unwrap() > 0.0, "{result}");
    assert_eq!(result["point"], "main", "{result}");
    let execs: u64 =
        result["fallbacks"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(result["recycled"].as_u64().unwrap() + execs, 5, "{result}");
    let clients: Vec<&Value> =
        result["throughput"].as_array().unwrap().iter().map(|throughput| &throughput["clients"]).collect();
    assert_eq!(clients, [&Value::from(1), &Value::from(2)]);
}

#[test]
fn runs_that_write_something_else_fail_the_benchmark() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.json");
    for (script, stream) in [("echo $$", "standard output"), ("echo $$ >&2", "standard error")] {
        let output = output(bench(&["--json", path.to_str().unwrap(), "--", "sh", "-c", script]));
        assert_eq!(output.status.code(), Some(1), "{script}: {}", stdout(&output));
        let text = stderr(&output);
        assert!(text.starts_with(&format!("regrow: sh -c {script}: run ")), "{text}");
        assert!(text.contains(&format!("{stream} differs at byte ")), "{text}");
        assert_eq!(results(&path), Vec::<Value>::new(), "there is no result of runs that differed");
    }
}

#[test]
fn a_run_that_ends_otherwise_fails_the_benchmark() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    // The fourth run, whichever way it is started, fails.
    let script = format!("echo >> {0}; test $(wc -l < {0}) != 4", mark.display());
    let output = output(bench(&["--", "sh", "-c", &script]));
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let text = stderr(&output);
    assert!(text.ends_with("ended with exit status: 1, not with exit status: 0\n"), "{text}");
}

#[test]
fn what_cannot_be_carried_out_is_told_with_its_path() {
    let missing = output(bench(&["--", "no-such-program-anywhere"]));
    assert_eq!(missing.status.code(), Some(2));
    let expected = "regrow: no-such-program-anywhere: there is no such program that can be executed\n";
    assert_eq!(stderr(&missing), expected);

    let json = output(bench(&["--json", "/nonexistent/folder/bench.json", "--", "true"]));
    assert_eq!(json.status.code(), Some(2));
    let text = stderr(&json);
    assert!(text.starts_with("regrow: /nonexistent/folder/bench.json: cannot be written: "), "{text}");

    let usage = output(["bench", "--runs", "0"]);
    assert_eq!(usage.status.code(), Some(2));
}
