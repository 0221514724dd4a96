//! `regrow bench`: what it prints and writes, and that it fails when runs differ. No time is asserted.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod common;

use std::fs;
use std::path::Path;

use common::{output, regrow, stderr, stdout};
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
    let of = |one: &Value, other: &Value| one.as_f64().unwrap() / other.as_f64().unwrap();
    for (key, ratio) in [
        ("to_main_of_wake_p50", of(&result["to_main_us"]["p50"], &result["wake_us"]["p50"])),
        ("cpu_of_posix_spawn", of(&result["cpu_us"]["regrow"], &result["cpu_us"]["posix_spawn"])),
    ] {
        assert!((result[key].as_f64().unwrap() - ratio).abs() < 0.006, "{key} is not {ratio}: {result}");
    }
    assert_eq!(result.get("prototype"), None, "nobody asked for the prototype: {result}");
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

#[test]
fn the_prototype_makes_runs_that_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.json");
    let log = folder.path().join("log");
    let script = format!("x=$((x+1)); echo $x; echo $$ >> {}; exit 3", log.display());
    let output = output(bench(&["--prototype", "--json", path.to_str().unwrap(), "--", "sh", "-c", &script]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("/ prototype"), "{text}");

    let results = results(&path);
    let prototype = &results[0]["prototype"];
    assert_eq!(prototype["runs"], 5, "{prototype}");
    for key in ["us", "to_main_us"] {
        assert!(prototype[key]["p50"].as_f64().unwrap() > 0.0, "{key}: {prototype}");
    }
    let p50 = |times: &Value| times["p50"].as_f64().unwrap();
    let ratio = p50(&results[0]["regrow_us"]) / p50(&prototype["us"]);
    assert!((prototype["regrow_of_prototype_p50"].as_f64().unwrap() - ratio).abs() < 0.006, "{prototype}");
    assert!(results[0]["cpu_us"]["prototype"].as_f64().unwrap() > 0.0, "{}", results[0]);
}

#[test]
fn a_run_by_the_prototype_that_differs_fails_the_benchmark() {
    // The variables of the prototype's own start do not count: the environment is the caller's.
    let alike = output(bench(&["--prototype", "--", "sh", "-c", "export -p"]));
    assert_eq!(alike.status.code(), Some(0), "{}", stderr(&alike));

    // Only in a run by the prototype its agent is mapped.
    let differs = "grep -q agent.so /proc/$$/maps && exit 4; exit 0";
    let output = output(bench(&["--prototype", "--", "sh", "-c", differs]));
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let text = stderr(&output);
    assert!(text.contains("by the prototype (kept at main) ended with exit status: 4"), "{text}");
}

#[test]
fn what_the_prototype_cannot_run_is_told_and_measured_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("static.c"), folder.path().join("static"));
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let compiled =
        std::process::Command::new("cc").args(["-static", "-o"]).args([&program, &source]).status().unwrap();
    assert!(compiled.success());
    let path = folder.path().join("bench.json");
    let program = program.to_str().unwrap();
    let output = output(bench(&["--prototype", "--json", path.to_str().unwrap(), "--", program]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let why = "its process ended with exit status: 0 before it stopped at main";
    assert!(stdout(&output).contains(&format!("{program}: not run by the prototype: {why}")));
    let result = &results(&path)[0];
    assert_eq!((result.get("prototype"), &result["without_prototype"]), (None, &why.into()));
}

#[test]
fn without_a_compiler_there_is_no_prototype() {
    let output = regrow()
        .args(bench(&["--prototype", "--", "/bin/true"]))
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output), "regrow: the prototype cannot be compiled: cc is not installed\n");
}
