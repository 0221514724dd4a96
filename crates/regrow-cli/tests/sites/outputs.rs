//! A build and its files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::common::{regrow, shell_status, stderr, stdout};

/// A program of several files, and a check that is a script.
const MAKEFILE: &str = "\
OBJECTS = main.o one.o two.o three.o
all: program check
program: $(OBJECTS)
\t$(CC) -o $@ $(OBJECTS)
check: program
\t./check.sh
";
const CHECK: &str = "\
#!/bin/sh
for word in one two three four; do
    expr \"$word\" : t >/dev/null
done
./program | cat
";

fn project(folder: &Path) {
    fs::write(folder.join("Makefile"), MAKEFILE).unwrap();
    regrow_testkit::program::write(&folder.join("check.sh"), CHECK.as_bytes()).unwrap();
    for name in ["one", "two", "three"] {
        fs::write(folder.join(format!("{name}.c")), format!("int {name}(void) {{ return 1; }}")).unwrap();
    }
    let main = "#include <stdio.h>\nint one(void), two(void), three(void);\n\
                int main(void) { printf(\"%d\\n\", one() + two() + three()); return 0; }\n";
    fs::write(folder.join("main.c"), main).unwrap();
}

fn sites(folder: &Path, options: &[&str], words: &[&str]) -> Output {
    regrow()
        .current_dir(folder)
        .args(["sites", "--trace"])
        .args(options)
        .arg("--")
        .args(words)
        .output()
        .unwrap()
}

fn read(folder: &Path, name: &str) -> Value {
    serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap()
}

/// The sites whose children's name begins so, as places and counts.
fn of_child(report: &Value, wanted: &str) -> Vec<(String, u64)> {
    let sites = report["sites"].as_array().unwrap().iter();
    let of_it = sites.filter(|site| site["child"].as_str().unwrap().starts_with(wanted));
    of_it.map(|site| (site["place"].as_str().unwrap().to_owned(), site["count"].as_u64().unwrap())).collect()
}

#[test]
fn a_build_has_a_table_and_files_of_all_kinds() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    project(folder);
    let files =
        ["--json", "build.json", "--csv", "build.csv", "--pprof", "build.pb.gz", "--html", "build.html"];
    let output = sites(folder, &files, &["make", "-s", "-j2"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "3\n"), "{}", stderr(&output));
    let report = read(folder, "build.json");
    assert_eq!(report["title"], "make -s -j2");
    let count = |child: &str| of_child(&report, child).iter().map(|(_, count)| count).sum::<u64>();
    assert_eq!((count("cc1"), count("collect2")), (4, 1), "{report:#}");
    assert_eq!(of_child(&report, "expr"), [("check.sh".to_owned(), 4)]);
    assert_eq!(
        (of_child(&report, "program"), of_child(&report, "cat")),
        (vec![("check.sh".to_owned(), 1)], vec![("check.sh".to_owned(), 1)])
    );
    check_figures(&report);
    let table = stderr(&output);
    for part in
        ["created at", "check.sh", "cc1", "expr", "saved: an estimate. A recycled start is quicker by"]
    {
        assert!(table.contains(part), "{part} in\n{table}");
    }
    assert!(fs::read_to_string(folder.join("build.csv")).unwrap().contains(",check.sh,"));
    assert!(
        fs::read_to_string(folder.join("build.html"))
            .unwrap()
            .contains("<title>Process creations: make -s -j2</title>")
    );
    assert!(fs::read(folder.join("build.pb.gz")).unwrap().starts_with(&[0x1f, 0x8b]));
}

/// What holds of the figures of every run.
fn check_figures(report: &Value) {
    let counts = &report["counts"];
    assert_eq!(
        (&counts["alive"], &counts["found"], &counts["created"]),
        (&0.into(), &1.into(), &(counts["ended"].as_u64().unwrap() - 1).into())
    );
    for row in report["sites"].as_array().unwrap() {
        let (cpu, life) = (row["cpu"]["mean_us"].as_f64().unwrap(), row["life"]["mean_us"].as_f64().unwrap());
        // Both are read while the process stands at its end; one thread cannot have used more than it lived, but for the clocks' rounding.
        assert!(cpu > 0.0 && cpu <= life * 4.0 && row["peak_kib"].as_u64().unwrap() > 0, "{row:#}");
        let share = row["startup_share"].as_f64();
        assert!(share.is_none_or(|share| share > 0.0 && share <= 1.0), "{row:#}");
        let saved = row["saved"]["total_us"].as_f64().unwrap();
        assert!(saved >= 0.0 && saved <= row["life"]["sum_us"].as_f64().unwrap() + 1.0, "{row:#}");
    }
    let nodes = report["nodes"].as_array().unwrap();
    for (index, node) in nodes.iter().enumerate() {
        assert!(node["parent"].as_u64().is_none_or(|parent| parent < index as u64));
    }
}

/// What a program does before its `main` is start-up, where the machine has breakpoints.
#[test]
fn the_start_up_is_what_comes_before_main() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let source = "#include <unistd.h>\n\
                  __attribute__((constructor)) static void prepare(void) { usleep(80000); }\n\
                  int main(void) { usleep(20000); return 0; }\n";
    fs::write(folder.join("slow.c"), source).unwrap();
    for flags in [&["-pie", "-fPIE"][..], &["-no-pie"], &["-static"], &["-pie", "-fPIE", "-s"]] {
        let compiled = std::process::Command::new("cc")
            .current_dir(folder)
            .args(flags)
            .args(["-o", "slow", "slow.c"])
            .status();
        assert!(compiled.unwrap().success());
        let output = sites(folder, &["--json", "slow.json"], &["sh", "-c", "./slow; ./slow; true"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let report = read(folder, "slow.json");
        let site = report["sites"].as_array().unwrap().iter().find(|site| site["child"] == "slow").unwrap();
        let (count, life) = (site["count"].as_u64(), site["life"]["p50_us"].as_f64().unwrap());
        assert!(count == Some(2) && life >= 100_000.0, "{site:#}");
        // Some virtual machines have no debug registers.
        let Some(startup) = site["startup"]["p50_us"].as_f64() else { continue };
        assert!(startup >= 80_000.0 && startup <= life - 20_000.0, "{flags:?}: {site:#}");
    }
}

#[test]
fn files_may_be_standard_output_and_the_order_is_the_one_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let script = "i=0; while [ $i -lt 9 ]; do expr 1 : 2 >&2; i=$((i + 1)); done; sleep 1; exit 3";
    let output = sites(folder.path(), &["--json", "-", "--sort", "life"], &["sh", "-c", script]);
    assert_eq!(output.status.code(), Some(3));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["sites"].as_array().unwrap();
    let lives: Vec<f64> = rows.iter().map(|site| site["life"]["sum_us"].as_f64().unwrap()).collect();
    assert!(lives.len() == 2 && lives[0] >= lives[1], "{report:#}");
    let output =
        sites(folder.path(), &["--csv", "-", "--sort", "count", "--limit", "1"], &["sh", "-c", script]);
    let csv = stdout(&output);
    assert!(csv.lines().nth(1).unwrap().contains(",expr,"), "{csv}");
    assert!(stderr(&output).contains("… and 1 sites with 1 processes (--limit)"), "{}", stderr(&output));
}

#[test]
fn it_ends_as_the_command_does() {
    let folder = tempfile::tempdir().unwrap();
    let status = |words: &[&str]| shell_status(sites(folder.path(), &[], words).status);
    assert_eq!(status(&["sh", "-c", "exit 7"]), 7);
    assert_eq!(status(&["sh", "-c", "kill -TERM $$"]), 143);
    assert_eq!(status(&["no-such-program"]), 127);
    assert_eq!(status(&["/etc/passwd"]), 126);
    let output = sites(folder.path(), &["--html", "/nonexistent/x.html"], &["touch", "it-ran"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("/nonexistent/x.html: cannot be written"), "{}", stderr(&output));
    assert!(!folder.path().join("it-ran").exists(), "the command was not started");
    // A command that creates nothing.
    let output = sites(folder.path(), &[], &["true"]);
    assert!(
        output.status.success() && stderr(&output).contains("0 processes at 0 sites"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn what_is_not_recycled_is_told_with_the_reason_of_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("rights");
    fs::copy("/bin/true", &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let output = sites(folder.path(), &["--json", "r.json"], &["sh", "-c", "./rights; ./rights; exit 0"]);
    assert!(output.status.success());
    assert!(
        stderr(&output).contains("not recycled: rights: the file has the set-user-ID bit\n"),
        "{}",
        stderr(&output)
    );
    let report = read(folder.path(), "r.json");
    let saved = &report["sites"][0]["saved"];
    assert_eq!(
        (&saved["total_us"], &saved["from"]),
        (&Value::from(0.0), &Value::from("nothing")),
        "{report:#}"
    );
}
