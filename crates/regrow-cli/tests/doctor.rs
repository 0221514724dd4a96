//! `regrow doctor`: what it prints, as a table and as JSON, and its exit status; and the help of the command.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod common;

use std::process::Output;

use common::{output, regrow, stderr, stdout};
use serde_json::Value;

fn doctor(disabled: &str, args: &[&str]) -> Output {
    regrow().arg("doctor").args(args).env("REGROW_DISABLE", disabled).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stdout(output)))
}

fn feature<'a>(findings: &'a Value, name: &str) -> &'a Value {
    findings["features"].as_array().unwrap().iter().find(|row| row["feature"] == name).unwrap()
}

#[test]
fn processes_are_recycled_here_at_both_points() {
    let output = output(["doctor"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    let text = stdout(&output);
    assert!(text.starts_with("kernel          Linux "), "{text}");
    assert!(text.ends_with("\nRegrow recycles processes here, at the points entry and main.\n"), "{text}");
    assert!(
        text.lines().any(|line| line.starts_with("clone3 ") && line.contains(" required  works ")),
        "{text}"
    );
}

#[test]
fn json_tells_facts_features_points_and_verdict() {
    let output = output(["doctor", "--json"]);
    let findings = json(&output);
    let facts = &findings["facts"];
    assert!(
        facts["cores"].as_u64().unwrap() >= 1 && facts["page_bytes"].as_u64().unwrap() >= 4096,
        "{facts}"
    );
    assert!(findings["features"].as_array().unwrap().len() > 20);
    let row = feature(&findings, "pagemap_scan");
    for key in ["since", "need", "state", "with", "without", "here"] {
        assert!(row[key].is_string(), "{key}: {row}");
    }
    assert_eq!(findings["can_recycle"], true);
    let points: Vec<&Value> =
        findings["points"].as_array().unwrap().iter().map(|trial| &trial["point"]).collect();
    assert_eq!(points, ["entry", "main"]);
    assert_eq!(findings["disabled"], Value::Array(Vec::new()));
    assert!(findings["verdict"].as_str().unwrap().starts_with("Regrow recycles "));
}

#[test]
fn a_feature_that_is_disabled_is_shown_and_done_without() {
    let output = doctor("pagemap_scan, procmap_query", &["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let findings = json(&output);
    assert_eq!(findings["disabled"], serde_json::json!(["pagemap_scan", "procmap_query"]));
    for name in ["pagemap_scan", "procmap_query"] {
        let row = feature(&findings, name);
        assert_eq!((&row["state"], &row["here"]), (&"disabled".into(), &row["without"]));
    }
    assert_eq!(feature(&findings, "clone3")["state"], "works");
    let text = stdout(&doctor("pagemap_scan", &[]));
    assert!(text.contains("\npagemap_scan (optional) is not used: disabled by REGROW_DISABLE.\n"), "{text}");
}

#[test]
fn without_what_is_needed_nothing_is_recycled() {
    let output = doctor("clone3", &[]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(text.ends_with("\nRegrow starts everything by exec here.\n"), "{text}");
    let reason = "Nothing is recycled at the point main: clone3 is disabled by REGROW_DISABLE.";
    assert!(text.contains(reason), "{text}");
    assert_eq!(json(&doctor("clone3", &["--json"]))["can_recycle"], false);
}

#[test]
fn a_feature_that_does_not_exist_is_an_error_that_lists_those_that_do() {
    let output = doctor("pagemap_scan,warp_drive", &[]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stdout(&output), "");
    let text = stderr(&output);
    let expected = "regrow: REGROW_DISABLE: no feature is called \"warp_drive\"; known are clone3,pidfd,";
    assert!(text.starts_with(expected) && text.lines().count() == 1, "{text}");
}

#[test]
fn help_names_every_action_and_what_the_environment_can_set() {
    let help = stdout(&output(["--help"]));
    for word in ["doctor", "run", "bench", "Usage: regrow", "REGROW_DISABLE", "REGROW_LOG", "Examples:"] {
        assert!(help.contains(word), "{word}: {help}");
    }
    let actions = [
        ("doctor", &["--json", "Exit status:", "Examples:"][..]),
        (
            "run",
            &["--embedded", "--repeat <N>", "--verify", "--point <POINT>", "--report <FILE>", "fallback"],
        ),
        (
            "bench",
            &["--runs <N>", "--parallel <P>", "--warmup <N>", "--pause-us <US>", "--json <FILE>", "--static"],
        ),
    ];
    for (action, words) in actions {
        let output = output([action, "--help"]);
        assert_eq!(output.status.code(), Some(0));
        let help = stdout(&output);
        for word in words {
            assert!(help.contains(word), "{action}: {word}: {help}");
        }
        assert!(help.lines().all(|line| line.chars().count() <= 120), "{help}");
    }
    assert!(stdout(&output(["--version"])).starts_with("regrow "));
}

#[test]
fn without_an_action_the_help_is_an_error() {
    let output = output::<_, &str>([]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("Usage: regrow"), "{}", stderr(&output));
}
