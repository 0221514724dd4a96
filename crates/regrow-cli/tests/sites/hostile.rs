//! Commands with names that want to be more, and commands that do too much.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use regrow_testkit::program;
use serde_json::Value;

use crate::common::{regrow, stderr};

#[test]
fn names_of_programs_and_scripts_may_be_anything() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // A slash cannot be in a name: the end of an element is left open.
    let names: [&[u8]; 4] = [
        b"\x1b[2J\x1b]0;owned\x07",
        b"not \xff\xfe UTF-8",
        b"<img src=x onerror=alert(1)>",
        b"new\nline\ttab",
    ];
    for name in names {
        let copy = folder.join(OsStr::from_bytes(name));
        program::copy("/bin/true".as_ref(), &copy).unwrap();
        let script = folder.join(OsStr::from_bytes(&[name, b".sh"].concat()));
        program::write(&script, b"#!/bin/sh\nexpr 1 : 1 >/dev/null\n").unwrap();
    }
    let mut command = regrow();
    command.current_dir(folder).args([
        "sites",
        "--trace",
        "--json",
        "odd.json",
        "--csv",
        "odd.csv",
        "--html",
        "odd.html",
        "--pprof",
        "odd.pb.gz",
    ]);
    let output = command
        .args(["--", "sh", "-c", "for each in ./*; do [ -x \"$each\" ] && \"$each\"; done; exit 0"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let table = stderr(&output);
    assert!(!table.chars().any(|each| each.is_control() && each != '\n'), "{table:?}");
    for shown in ["\\x1b[2J\\x1b]0;owned\\x07", "not \u{fffd}\u{fffd} UTF-8", "new\\nline\\ttab"] {
        assert!(table.contains(shown), "{shown} in\n{table}");
    }
    let report: Value = serde_json::from_slice(&fs::read(folder.join("odd.json")).unwrap()).unwrap();
    let of_expr = report["sites"].as_array().unwrap().iter().filter(|site| site["child"] == "expr").count();
    assert_eq!(of_expr, names.len(), "each script is a site: {report:#}");
    let html = fs::read_to_string(folder.join("odd.html")).unwrap();
    assert!(!html.contains("<img"), "a name is no element");
}

#[test]
fn a_program_that_is_replaced_and_one_that_is_gone_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let script = "cp /bin/true ./it; ./it; cp /bin/false ./other; mv other it; ./it; rm it; exit 0";
    let mut command = regrow();
    command.current_dir(folder.path()).args(["sites", "--trace", "--json", "-", "--", "sh", "-c", script]);
    let output = command.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let its: Vec<&Value> =
        report["sites"].as_array().unwrap().iter().filter(|site| site["child"] == "it").collect();
    assert_eq!(its.len(), 2, "they are two programs: {report:#}");
    assert!(
        its.iter().all(|site| site["saved"]["refused"] == "the program could not be looked up"),
        "{report:#}"
    );
}

#[test]
fn a_deep_chain_and_many_at_a_time_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("again.sh"), "[ \"$1\" -eq 0 ] || sh again.sh $(($1 - 1)); exit 0\n")
        .unwrap();
    let script = "sh again.sh 200 & i=0; while [ $i -lt 300 ]; do (:) & i=$((i + 1)); done; wait";
    let mut command = regrow();
    let command = command
        .current_dir(folder.path())
        .args(["sites", "--trace", "--json", "-", "--", "sh", "-c", script]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["counts"]["created"], 300 + 201, "{}", report["counts"]);
    assert_eq!((&report["counts"]["alive"], &report["counts"]["lost_ends"]), (&0.into(), &0.into()));
    let nodes = report["nodes"].as_array().unwrap();
    let mut deepest = 0;
    let mut depths: Vec<u64> = Vec::new();
    for node in nodes {
        let depth = node["parent"].as_u64().map_or(0, |parent| depths[usize::try_from(parent).unwrap()] + 1);
        deepest = deepest.max(depth);
        depths.push(depth);
    }
    assert_eq!(deepest, 201);
}

#[test]
fn what_is_left_behind_is_counted_while_it_lives() {
    let folder = tempfile::tempdir().unwrap();
    // Standard error goes elsewhere, so that the end of the output is the end of the command.
    let mut command: Command = regrow();
    let command =
        command.current_dir(folder.path()).args(["sites", "--trace", "--json", "-", "--", "sh", "-c"]);
    let output = command.arg("sleep 0.3 & exit 0").output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    // The tracer stays until all have ended.
    assert_eq!((&report["counts"]["created"], &report["counts"]["alive"]), (&1.into(), &0.into()));
    assert!(report["sites"][0]["life"]["mean_us"].as_f64() >= Some(290_000.0), "{report:#}");
}
