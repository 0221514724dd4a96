//! JSON, CSV and pprof, as files.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use regrow_profile::report::Report;

use crate::scene::build;

/// Compares with what is expected, or writes it.
fn expect(name: &str, text: &str) {
    // What `go tool pprof` writes has blanks at the ends of lines.
    let text: String = text.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outputs/expected").join(name);
    if std::env::var_os("REGROW_WRITE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{}; REGROW_WRITE=1 writes it anew", path.display());
}

/// `pprof`, which Go builds at its first use: in a folder that later runs find again.
fn tool() -> &'static Path {
    static TOOL: OnceLock<PathBuf> = OnceLock::new();
    TOOL.get_or_init(|| {
        let user = fs::metadata("/proc/self").unwrap().uid();
        let cache = std::env::temp_dir().join(format!("regrow-go-{user}"));
        let installed = Path::new("/usr/local/go/bin/go");
        let go = if installed.exists() { installed } else { Path::new("go") };
        let mut command = Command::new(go);
        command.args(["tool", "-n", "pprof"]).env("GOCACHE", &cache).env("HOME", &cache);
        let done = command.output().expect("Go is installed");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        PathBuf::from(String::from_utf8(done.stdout).unwrap().trim())
    })
}

/// What `go tool pprof` says of a report.
pub(crate) fn pprof(report: &Report, options: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profile.pb.gz");
    fs::write(&file, report.to_pprof().unwrap()).unwrap();
    let mut command = Command::new(tool());
    command.args(options).arg(&file).env("HOME", folder.path()).env("PPROF_TMPDIR", folder.path());
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn json_and_csv_are_as_expected() {
    let report = build().report("make -j2");
    expect("build.json", std::str::from_utf8(&report.to_json().unwrap()).unwrap());
    expect("build.csv", std::str::from_utf8(&report.to_csv().unwrap()).unwrap());
}

#[test]
fn pprof_is_as_expected_and_go_reads_it() {
    let report = build().report("make -j2");
    expect("build.pprof.txt", &pprof(&report, &["-raw"]));
    let top = pprof(&report, &["-top", "-sample_index=cpu"]);
    let first = top.lines().find(|line| line.ends_with("cc1")).unwrap_or_else(|| panic!("{top}"));
    // Twelve of 21 ms and a bit.
    assert!(first.contains("258.60ms"), "{top}");
    let processes = pprof(&report, &["-top", "-sample_index=processes"]);
    assert!(processes.contains("Showing nodes accounting for 47, 100% of 47 total"), "{processes}");
    let callers = pprof(&report, &["-peek=^sed$", "-sample_index=processes"]);
    assert!(callers.contains("check.sh:12"), "{callers}");
}

#[test]
fn what_is_written_is_whole() {
    let report = build().report("make -j2");
    let json: serde_json::Value = serde_json::from_slice(&report.to_json().unwrap()).unwrap();
    let sites = json["sites"].as_array().unwrap();
    let total: u64 = sites.iter().map(|site| site["count"].as_u64().unwrap()).sum();
    assert_eq!(total, json["counts"]["created"]);
    let in_tree: u64 =
        json["nodes"].as_array().unwrap().iter().map(|node| node["count"].as_u64().unwrap()).sum();
    assert_eq!(in_tree, total + 1, "and the command itself");
    let bytes = report.to_csv().unwrap();
    let mut csv = csv::Reader::from_reader(&*bytes);
    let count = csv.headers().unwrap().iter().position(|name| name == "count").unwrap();
    let counts: u64 = csv.records().map(|row| row.unwrap()[count].parse::<u64>().unwrap()).sum();
    assert_eq!(counts, total);
    let saved: f64 = sites.iter().map(|site| site["saved"]["total_us"].as_f64().unwrap()).sum();
    assert!((saved - json["saved_us"].as_f64().unwrap()).abs() < 1.0);
}
