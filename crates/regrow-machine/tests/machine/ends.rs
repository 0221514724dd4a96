//! Collectors that are killed, and those that may not collect: in a process of their own, which is this test again.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use regrow_machine::{Machine, MachineOptions, Missing, Scope, StartError};

use crate::case::{Case, nothing, programs};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "nothing_is_left_of_a_collector_that_is_killed",
        looks: true,
        needs: nothing,
        run: nothing_is_left_of_a_collector_that_is_killed,
    },
    Case {
        name: "what_is_missing_is_named",
        looks: false,
        needs: || programs(&["setpriv"]),
        run: what_is_missing_is_named,
    },
    Case {
        name: "another_namespace_is_named",
        looks: true,
        needs: || programs(&["unshare"]),
        run: another_namespace_is_named,
    },
    Case { name: "bad_settings_are_refused", looks: true, needs: nothing, run: bad_settings_are_refused },
];

/// The variable that says what this process is for.
pub(crate) const ROLE: &str = "REGROW_MACHINE_TEST";

/// Does what the role says.
pub(crate) fn play(role: &OsStr) -> ExitCode {
    match Machine::start(&MachineOptions::default()) {
        Ok(machine) if role == "collect" => {
            println!("ready");
            std::thread::sleep(Duration::from_secs(600));
            drop(machine);
            ExitCode::SUCCESS
        }
        Ok(_) => ExitCode::FAILURE,
        Err(StartError::Missing(missing)) => {
            let name = |missing: &Missing| match missing {
                Missing::Capability { name, .. } | Missing::TracePoint { name } => *name,
                Missing::TypeInformation { path } => *path,
                Missing::FirstNamespace => "namespace",
            };
            println!("{}", missing.iter().map(name).collect::<Vec<_>>().join(" "));
            ExitCode::from(2)
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// This test in a role.
fn again(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the test's own file"));
    command.env(ROLE, role).stdout(Stdio::piped());
    command
}

/// Programs of the kernel, their links and tables are gone with the process that holds them.
fn nothing_is_left_of_a_collector_that_is_killed() {
    let mut child = again("collect").spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("it says when");
    assert_eq!(line, "ready\n");
    let held = held(child.id());
    assert_eq!(held.len(), 4, "four programs");
    assert!(held.iter().all(|program| loaded().contains(program)));
    child.kill().expect("it is there");
    child.wait().expect("it ends");
    // The kernel frees them when nothing can run them any more, a moment later.
    let mut tries = 0;
    while held.iter().any(|program| loaded().contains(program)) {
        tries += 1;
        assert!(tries < 1_000, "they stay");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The numbers of the programs whose descriptors a process has.
fn held(pid: u32) -> Vec<u32> {
    let folder = format!("/proc/{pid}/fdinfo");
    let entries = std::fs::read_dir(folder).expect("it is there").filter_map(Result::ok);
    let texts = entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    let mut programs: Vec<u32> = texts
        .filter_map(|text| text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok()))
        .collect();
    programs.sort_unstable();
    programs.dedup();
    programs
}

/// The numbers of all programs in the kernel.
fn loaded() -> Vec<u32> {
    aya::programs::loaded_programs().filter_map(|program| Some(program.ok()?.id())).collect()
}

fn what_is_missing_is_named() {
    // Root without capabilities, which may go where the test stands; or whoever runs this.
    let own = std::env::current_exe().expect("the test's own file");
    let mut command = again("rights");
    if rustix::process::geteuid().is_root() {
        command = Command::new("setpriv");
        command.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(own).env(ROLE, "rights");
    }
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), "CAP_BPF CAP_PERFMON CAP_SYS_PTRACE", "{}", output.status);
    assert_eq!(output.status.code(), Some(2));
}

/// Processes have other numbers in a PID namespace of their own.
fn another_namespace_is_named() {
    let own = std::env::current_exe().expect("the test's own file");
    let mut command = Command::new("unshare");
    let output = command.args(["--pid", "--fork", "--mount-proc"]).arg(own).env(ROLE, "rights").output();
    let output = output.expect("it starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "namespace", "{}", output.status);
}

fn bad_settings_are_refused() {
    let start = |options: MachineOptions| Machine::start(&options).err();
    for ring_bytes in [0, 1, 4095, 5000, 3 << 20] {
        let error = start(MachineOptions { ring_bytes, ..MachineOptions::default() });
        assert!(
            matches!(error, Some(StartError::Ring { bytes }) if bytes == ring_bytes),
            "{ring_bytes}: {error:?}"
        );
    }
    let error = start(MachineOptions { scope: Scope::Below(u32::MAX), ..MachineOptions::default() });
    assert_eq!(error.map(|error| error.to_string()).as_deref(), Some("process 4294967295: there is none"));
}
