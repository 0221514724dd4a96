//! `regrow record` and `regrow replay`: real commands recorded, and what was recorded run through the policies.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod common;

use std::fs::{self, File};
use std::path::Path;

use common::{regrow, stderr, stdout};
use regrow_pool::sim::Costs;
use regrow_pool::trace::{Creation, argv_hash, read, write};
use serde_json::Value;

/// Records a command and reads the trace.
fn record(folder: &Path, words: &[&str]) -> (i32, Vec<Creation>) {
    let file = folder.join("trace.csv");
    let output = regrow().args(["record", "--output"]).arg(&file).arg("--").args(words).output().unwrap();
    let status = common::shell_status(output.status);
    assert!(stderr(&output).contains("creations of"), "{}", stderr(&output));
    (status, read(File::open(&file).unwrap()).unwrap())
}

fn name(creation: &Creation) -> &str {
    creation.program.rsplit('/').next().unwrap()
}

#[test]
fn a_script_is_recorded_with_parents_times_and_memory() {
    let folder = tempfile::tempdir().unwrap();
    let script = "env sleep 0.05 & wait; cat /dev/null; exit 3";
    let (status, trace) = record(folder.path(), &["sh", "-c", script]);
    assert_eq!(status, 3);
    let names: Vec<&str> = trace.iter().map(name).collect();
    assert_eq!(names[1..], ["env", "sleep", "cat"], "{trace:?}");
    let parents: Vec<u32> = trace.iter().map(|creation| creation.parent).collect();
    assert_eq!(parents, [0, 1, 2, 1], "env made sleep of itself");
    assert_eq!(trace[2].argv_hash, argv_hash(b"sleep\x000.05\0"));
    assert!(trace[2].end_us - trace[2].start_us >= 50_000, "{:?}", trace[2]);
    assert!(trace[1].end_us <= trace[2].start_us && trace[2].end_us <= trace[3].start_us, "{trace:?}");
    assert!(trace[0].end_us >= trace[3].end_us);
    assert!(trace[1].peak_kib.is_none(), "it was replaced");
    for ended in [&trace[0], &trace[2], &trace[3]] {
        assert!(ended.peak_kib.is_some_and(|kib| kib > 100), "{ended:?}");
    }
    assert!(trace.iter().all(|creation| creation.cpu_us.is_some_and(|us| us > 0)), "{trace:?}");
    assert!(trace[2].cpu_us.unwrap() < trace[2].end_us - trace[2].start_us, "it sleeps: {:?}", trace[2]);
}

#[test]
fn a_build_with_two_jobs_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let makefile = "all: a b c d\na b c d:\n\t@sed -n p /dev/null && cat /dev/null; sleep 0.01\n";
    fs::write(folder.path().join("Makefile"), makefile).unwrap();
    let path = folder.path().to_str().unwrap();
    let (status, trace) = record(folder.path(), &["make", "-j2", "-s", "-C", path]);
    assert_eq!(status, 0);
    let count = |wanted: &str| trace.iter().filter(|creation| name(creation) == wanted).count();
    assert_eq!((count("make"), count("sed"), count("cat"), count("sleep")), (1, 4, 4, 4), "{trace:?}");
    assert!(trace.iter().all(|creation| creation.parent <= 1 || name(creation) != "make"));
    // An end may be seen after the start that it has made room for: how many there were at a time cannot be told exactly.
    assert!(trace.iter().all(|creation| creation.start_us <= creation.end_us), "{trace:?}");
}

#[test]
fn a_limit_leaves_the_rest_out_and_signals_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("few.csv");
    let mut command = regrow();
    command.args(["record", "--limit", "2", "--output"]).arg(&file);
    let output =
        command.args(["--", "sh", "-c", "cat </dev/null; cat </dev/null; kill -TERM $$"]).output().unwrap();
    assert_eq!(output.status.code(), Some(143));
    assert!(stderr(&output).contains("; 1 more were left out"), "{}", stderr(&output));
    assert_eq!(read(File::open(&file).unwrap()).unwrap().len(), 2);

    let output = regrow().args(["record", "-o"]).arg(&file).args(["--", "no-such-program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    for denied in ["/etc/passwd", "/etc"] {
        let output = regrow().args(["record", "-o"]).arg(&file).args(["--", denied]).output().unwrap();
        assert_eq!(output.status.code(), Some(126), "{denied}");
        assert!(stderr(&output).contains("Permission denied"), "{}", stderr(&output));
    }
    let mut command = regrow();
    let output = command.env("PATH", "/nonexistent:/etc").args(["record", "-o"]).arg(&file);
    let output = output.args(["--", "passwd"]).output().unwrap();
    assert_eq!(output.status.code(), Some(126), "{}", stderr(&output));
    let output = regrow().args(["record", "-o", "/nonexistent/x.csv", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("/nonexistent/x.csv: cannot be written"), "{}", stderr(&output));
}

/// How many processes a loop of `cat` and `env true` makes, with its shell.
const LOOP: &str = "i=0; while [ $i -lt 60 ]; do cat /dev/null; env true; i=$((i + 1)); done";
const LOOP_CREATIONS: u64 = 181;

/// How a replay has counted the creations at its end: each of them is of one kind.
fn assert_each_is_counted(run: &Value) {
    let end = run["points"].as_array().unwrap().last().unwrap();
    let kinds = ["in_body", "with_image", "in_shell", "from_nothing"].map(|kind| end[kind].as_u64().unwrap());
    assert_eq!(
        (kinds.iter().sum::<u64>(), &end["creations"]),
        (LOOP_CREATIONS, &Value::from(LOOP_CREATIONS)),
        "{run}"
    );
}

#[test]
fn a_trace_is_replayed_through_every_policy() {
    let folder = tempfile::tempdir().unwrap();
    let (_, trace) = record(folder.path(), &["sh", "-c", LOOP]);
    assert_eq!(trace.len() as u64, LOOP_CREATIONS);
    let (json, plots) = (folder.path().join("replay.json"), folder.path().join("plots"));
    let mut command = regrow();
    command.arg("replay").arg(folder.path().join("trace.csv")).args([
        "--simulate",
        "--existing",
        "1,4,recorded",
    ]);
    let output = command.arg("--json").arg(&json).arg("--plot").arg(&plots).output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let text = stdout(&output);
    for policy in ["none", "recycle", "recycle-one", "pool", "adaptive"] {
        assert_eq!(text.lines().filter(|line| line.starts_with(&format!("{policy} "))).count(), 3, "{text}");
    }
    let replay: Value = serde_json::from_reader(File::open(&json).unwrap()).unwrap();
    assert_eq!((&replay["absent"], &replay["creations"]), (&Value::from(0), &Value::from(LOOP_CREATIONS)));
    assert!(replay["costs"]["whole"]["us"].as_f64() > Some(0.0) && replay["measured"][0] == "whole");
    let runs = replay["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 15);
    for run in runs {
        assert_eq!((run["points"].as_array().unwrap().len(), &run["mode"]), (2, &Value::from("simulated")));
        assert_each_is_counted(run);
        if run["policy"] == "none" {
            assert_eq!(run["points"][1]["from_nothing"], LOOP_CREATIONS, "{run}");
        }
    }
    let drawn = plots.read_dir().unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut drawn: Vec<String> = drawn.collect();
    drawn.sort();
    assert_eq!(drawn.len(), 10, "{drawn:?}");
    assert!(drawn.contains(&"trace-front.png".to_owned()) && drawn.contains(&"trace-front.svg".to_owned()));
}

/// What a policy has ready depends on the gaps of the trace and on what everything costs: both are given.
#[test]
fn policies_have_ready_what_a_regular_trace_asks_for() {
    const GAP_US: u64 = 10_000;
    let folder = tempfile::tempdir().unwrap();
    let (costs, file) = (folder.path().join("costs.json"), folder.path().join("regular.csv"));
    serde_json::to_writer(File::create(&costs).unwrap(), &Costs::linux()).unwrap();
    let (_, mut trace) = record(folder.path(), &["sh", "-c", LOOP]);
    for (number, creation) in (0..).zip(&mut trace) {
        creation.start_us = number * GAP_US;
        creation.end_us = (number + 1) * GAP_US - GAP_US / 2;
        creation.peak_kib = Some(1500);
    }
    trace[0].end_us = LOOP_CREATIONS * GAP_US;
    write(File::create(&file).unwrap(), "", &trace).unwrap();
    let json = folder.path().join("replay.json");
    let mut command = regrow();
    command
        .arg("replay")
        .arg(&file)
        .args(["--simulate", "--existing", "1,4,recorded", "--costs"])
        .arg(&costs);
    let output = command.arg("--json").arg(&json).output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let replay: Value = serde_json::from_reader(File::open(&json).unwrap()).unwrap();
    assert_eq!(replay["measured"], Value::Array(Vec::new()));
    for run in replay["runs"].as_array().unwrap() {
        assert_each_is_counted(run);
        let ready = run["points"][1]["in_body"].as_u64().unwrap();
        match run["policy"].as_str() {
            Some("none") => assert_eq!(ready, 0),
            Some("recycle" | "adaptive") => assert!(ready > 150, "{run}"),
            _ => {}
        }
    }
}

/// As many real processes as there are rows, held alive; what is kept is real as well.
#[test]
fn a_trace_is_replayed_with_real_processes() {
    let folder = tempfile::tempdir().unwrap();
    let (_, trace) = record(folder.path(), &["sh", "-c", LOOP]);
    let json = folder.path().join("replay.json");
    let mut command = regrow();
    command.arg("replay").arg(folder.path().join("trace.csv")).args([
        "--real",
        "--simulate",
        "--existing",
        "3",
    ]);
    let output = command.args(["--policy", "none,adaptive"]).arg("--json").arg(&json).output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let replay: Value = serde_json::from_reader(File::open(&json).unwrap()).unwrap();
    assert_eq!(replay["absent"], 0);
    assert_eq!(replay["costs"]["programs"].as_object().unwrap().len(), 4, "sh, cat, env and true");
    let runs = replay["runs"].as_array().unwrap();
    let found: Vec<_> = runs.iter().map(|run| (run["policy"].as_str(), run["mode"].as_str())).collect();
    let expected = [("none", "real"), ("adaptive", "real"), ("none", "simulated"), ("adaptive", "simulated")];
    assert_eq!(found, expected.map(|(policy, mode)| (Some(policy), Some(mode))));
    let end = |run: usize| runs[run]["points"].as_array().unwrap().last().unwrap().clone();
    let number = |run: usize, field: &str| end(run)[field].as_u64().unwrap();
    for run in 0..4 {
        assert_eq!(number(run, "creations"), trace.len() as u64);
    }
    runs.iter().for_each(assert_each_is_counted);
    assert_eq!((number(0, "kept_bytes"), number(0, "from_nothing")), (0, LOOP_CREATIONS));
    // How many depends on what else the machine does meanwhile.
    assert!(number(1, "in_body") > 0, "{}", end(1));
    println!("replay: {} of 181 real processes in a ready body", number(1, "in_body"));
}

#[test]
fn what_cannot_be_replayed_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let told = |words: &[&str]| {
        let output = regrow().arg("replay").args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        stderr(&output)
    };
    assert!(told(&["/nonexistent.csv", "--simulate"]).contains("/nonexistent.csv: cannot be read"));
    let bad = folder.path().join("bad.csv");
    fs::write(&bad, "program,argv_hash,parent,start_us,end_us,peak_kib\na,0,0,5,1,\n").unwrap();
    let bad = bad.to_str().unwrap();
    assert!(told(&[bad, "--simulate"]).contains("`end_us` is before `start_us`"));
    assert!(told(&[bad, "--simulate", "--existing", "0"]).contains("a number of processes from 1"));
    let good = folder.path().join("good.csv");
    fs::write(&good, "program,argv_hash,parent,start_us,end_us,peak_kib\na,0,0,1,5,\n").unwrap();
    let good = good.to_str().unwrap();
    let unknown = told(&[good, "--simulate", "--policy", "lru"]);
    assert!(unknown.contains("--policy: there is no policy 'lru' (one of none, recycle, "), "{unknown}");
    assert!(told(&[good, "--policy", ""]).contains("--policy: there is no policy ''"));
    assert!(told(&[good, "--simulate", "--costs", bad]).contains("no table of costs"));
}

#[test]
fn what_is_no_trace_is_told_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let told = |path: &Path| {
        let output = regrow().arg("replay").arg(path).output().unwrap();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{}", path.display());
        assert!(stderr(&output).contains(path.to_str().unwrap()), "{}", stderr(&output));
        stderr(&output)
    };
    assert!(told(folder.path()).contains("Is a directory"));
    let file = folder.path().join("trace.csv");
    let header = "program,argv_hash,parent,start_us,end_us,peak_kib\n";
    for empty in ["", header] {
        fs::write(&file, empty).unwrap();
        assert!(told(&file).contains("holds no creation"));
    }
    for (row, expected) in [
        ("a,x,0,0,0,", "line 3: column `argv_hash`: \"x\""),
        ("a,0,x,0,0,", "line 3: column `parent`: \"x\""),
        ("a,0,7,0,0,", "line 3: creation 1: `parent` is not an earlier creation"),
    ] {
        fs::write(&file, format!("# a comment\n{header}{row}\n")).unwrap();
        assert!(told(&file).contains(expected), "{}", told(&file));
    }
}

#[test]
fn what_cannot_be_written_is_told_before_the_replay() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv");
    fs::write(&trace, "program,argv_hash,parent,start_us,end_us,peak_kib\na,0,0,1,5,\n").unwrap();
    let nowhere = [("--json", folder.path().join("no/replay.json")), ("--plot", trace.join("plots"))];
    for (flag, path) in nowhere {
        let output = regrow().arg("replay").arg(&trace).arg(flag).arg(&path).output().unwrap();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{flag}");
        let expected = format!("{}: cannot be written", path.display());
        assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
    }
}
