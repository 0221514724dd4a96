//! What the library does not see, and what is known of it all the same: programs without a loader, another environment, more rights.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::harness::{Place, is_there};

#[test]
fn a_static_program_is_seen_by_its_parent_alone() {
    let place = Place::new();
    let program = place.compile("cc", "creates.c", &["-static", "-pthread", "-Wno-error"]);
    let script = format!("{} fork 3\nexit 0\n", program.display());
    let told = place.watch_shell("bash", &script).whole();
    let processes = told.processes();
    assert_eq!(processes.len(), 1, "its own children are not seen: {processes:#?}");
    assert_eq!(processes[0].executed, [program.file_name().expect("a name").to_string_lossy()]);
    let usage = processes[0].usage.expect("its parent has waited for it");
    assert!(usage.cpu_us > 0 && usage.peak_kib > 0, "{usage:?}");
}

#[test]
fn a_program_with_an_empty_environment_is_seen_by_its_parent_alone() {
    let place = Place::new();
    let told =
        place.watch_shell("bash", "env -i /bin/sh -c '/bin/true; /bin/true; exit 6'\necho $?\n").whole();
    assert_eq!(told.output, "6\n");
    let processes = told.processes();
    assert_eq!(processes.len(), 1, "{processes:#?}");
    assert_eq!(processes[0].executed, ["env", "dash"], "the shell by what env was about to execute");
    assert!(processes[0].usage.is_some());
}

#[test]
fn the_loader_ignores_the_library_where_rights_are_gained() {
    // Only root can make such a file and become another user.
    if !rustix::process::geteuid().is_root() || !is_there("setpriv") {
        return;
    }
    let place = Place::new();
    let copy = place.path("gains");
    fs::copy("/usr/bin/id", &copy).expect("it is copied");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).expect("it is ours");
    for part in [place.path("."), place.library()] {
        fs::set_permissions(part, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    let script = format!("setpriv --reuid 65534 --clear-groups {} -u\necho $?\n", copy.display());
    let told = place.watch_shell("bash", &script);
    assert_eq!(told.output, "0\n0\n", "it has run with the rights that it gains");
    let programs: Vec<_> = told.processes().into_iter().map(|seen| seen.executed).collect();
    assert_eq!(programs, [["setpriv", "gains"]], "by what was about to be executed");
}

#[test]
fn nothing_changes_without_a_channel() {
    let place = Place::new();
    let program = place.compile("cc", "creates.c", &["-pie", "-pthread"]);
    fs::write(place.path("text"), "no channel").expect("it is written");
    for variable in [None, Some("/nowhere"), Some("text"), Some("/dev/tty"), Some("/"), Some("")] {
        for way in ["fork", "vfork", "spawn", "system", "popen", "waits", "failing", "handler", "cancelled"] {
            let mut command = Command::new(&program);
            command.args([way, "2"]).current_dir(place.path(".")).env("LD_PRELOAD", place.library());
            if let Some(variable) = variable {
                command.env("REGROW_SITES", variable);
            }
            let output = command.output().expect("it starts");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success() && said.is_empty(),
                "{variable:?}, {way}: {}: {said}",
                output.status
            );
        }
    }
}

#[test]
fn a_process_that_outlives_the_collection_goes_on() {
    let place = Place::new();
    let script =
        "(sleep 0.5; /bin/true && echo ok >done; sh -c 'echo more >>done') >/dev/null 2>error &\nexit 0\n";
    let told = place.watch_shell("bash", script);
    assert!(told.status.success());
    for _ in 0..200 {
        if fs::read_to_string(place.path("done")).is_ok_and(|text| text == "ok\nmore\n") {
            assert_eq!(fs::read_to_string(place.path("error")).expect("it is there"), "");
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("it has not gone on");
}
