//! The builtins for bash stand where programs do: scripts have the same output and status with them and without, and so many of their programs
//! are recycled as a script says. The shell takes the builtins by `BASH_ENV`, so that the scripts are the same.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod service;

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::Signal;
use service::{ATTEMPTS, Service, eventually, lives, shell_status, signal, text};

/// A daemon, and the files by which a shell takes builtins or none.
struct Shells {
    service: Service,
}

impl Shells {
    fn new() -> Shells {
        let shells = Shells { service: Service::start() };
        fs::write(shells.file("none"), "").unwrap();
        fs::write(shells.file("all"), shells.line(&[]).stdout).unwrap();
        shells
    }

    fn file(&self, name: &str) -> PathBuf {
        self.service.folder().join(name)
    }

    /// What `regrow builtins` prints.
    fn line(&self, names: &[&str]) -> Output {
        let mut command = self.service.plain(env!("CARGO_BIN_EXE_regrow"));
        command.arg("builtins").args(names).env("XDG_DATA_HOME", self.service.folder()).output().unwrap()
    }

    /// A shell with a script, which takes the builtins that a file names.
    fn shell(&self, script: &str, builtins: &str) -> Command {
        let path = self.file("script.sh");
        fs::write(&path, script).unwrap();
        let mut command = self.service.plain("bash");
        command.arg(path).args(["an argument", ""]).env("BASH_ENV", self.file(builtins));
        command.current_dir(self.service.folder());
        command
    }

    /// Runs a script with and without builtins until so many of its programs are recycled.
    fn same(&self, script: &str, recycled: u64) {
        let seen = |output: &Output| {
            // The names of the two files differ.
            let out = text(&output.stdout)
                .replace(&*self.file("all").to_string_lossy(), &self.file("none").to_string_lossy());
            (shell_status(output.status), out, text(&output.stderr))
        };
        let plain = seen(&self.shell(script, "none").output().unwrap());
        let mut last = 0;
        for _ in 0..ATTEMPTS {
            let before = self.service.counted();
            let output = self.shell(script, "all").output().unwrap();
            assert_eq!(seen(&output), plain, "{script}");
            let after = self.service.counted();
            last = (after[0] - before[0]).min(after[1] - before[1]);
            if last == recycled {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        panic!("{script}\n{last} of {recycled} programs are recycled: {}", self.service.daemon_said());
    }

    /// A shell that has begun to read from its input: it has written a line before.
    fn waiting(&self, script: &str) -> Child {
        let mut command = self.shell(script, "all");
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut byte = [0];
        while child.stdout.as_mut().unwrap().read(&mut byte).unwrap() == 1 && byte != *b"\n" {}
        child
    }
}

#[test]
fn words_streams_and_statuses_are_a_programs() {
    let shells = Shells::new();
    shells.same("cat /nonexistent; echo $?; expr 1 + 2; expr 1 - 1; echo $?", 3);
    shells.same("for n in 1 2 3; do echo line $n | sed 's/i/I/'; done > out; cat out; cat < out | tr a-z A-Z; rm out; ls", 8);
    shells.same(
        "x=$(expr \"$1\" : 'an \\(.*\\)'); echo \"<$x>\"; cat <<< \"here $x\"; expr length '' \\| 7",
        3,
    );
    shells.same("cat no-such-file 2>&1 | sed s/cat/dog/; echo ${PIPESTATUS[*]}; ! cat /dev/null; echo $?", 3);
    shells.same("set -e; echo begin; cat /dev/null; cat /nonexistent; echo never", 2);
    shells.same(
        "if cat /dev/null && expr 3 \\> 2 >/dev/null; then echo yes; fi; cat - <<E\ntext $((1+1))\nE",
        3,
    );
    shells.same("printf '%s\\0' a b | sed -z 's/^/x/' | tr '\\0' '|'; awk 'BEGIN { print ARGC, ARGV[1]; exit 7 }' ''; echo $?", 3);
}

#[test]
fn a_program_has_what_the_shell_would_give_it() {
    let shells = Shells::new();
    shells.same("export A='a b'; unset B; C=not-exported; D='only here' cat /proc/self/environ | tr '\\0' '\\n' | grep -v ^BASH_ENV | sort", 4);
    shells.same("cat /proc/self/cmdline /proc/self/comm | tr '\\0' '|'; readlink /proc/self/exe; command cat /proc/self/comm", 4);
    shells.same("cd /usr; readlink /proc/self/cwd; umask 027; grep Umask /proc/self/status; (cd /; readlink /proc/self/cwd)", 3);
    shells.same("ulimit -n 77; ulimit -c 0; grep -E 'open files|core' /proc/self/limits; ulimit -Sn 50; grep 'open files' /proc/self/limits", 2);
    shells.same("trap '' USR1 INT; grep -E 'Sig(Ign|Blk|Cgt)' /proc/self/status; trap - USR1; grep SigIgn /proc/self/status", 2);
    shells.same("trap '' QUIT; grep SigIgn /proc/self/status; trap - QUIT; grep SigIgn /proc/self/status", 2);
    shells.same("grep SigIgn /proc/self/status & wait; (grep SigIgn /proc/self/status; :) & wait; (trap '' TERM; grep SigI /proc/self/status)", 3);
    shells.same("exec 3<script.sh 7>seven; ls /proc/self/fd | wc -l; exec 3<&-; cat /proc/self/fd/../comm >&7; cat seven; rm seven", 5);
    shells.same("cat <(echo by a pipe) /dev/fd/5 5<script.sh | head -1", 2);
    shells.same("PATH=/nonexistent; cat /dev/null; echo $?", 0);
}

#[test]
fn functions_and_the_path_come_first_as_before() {
    let shells = Shells::new();
    let own = shells.file("own");
    fs::create_dir(&own).unwrap();
    for (name, does) in [("sed", "echo my own sed: \"$@\""), ("cut", "exit 3")] {
        let path = own.join(name);
        regrow_testkit::program::write(&path, format!("#!/bin/sh\n{does}\n").as_bytes()).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    // A script is recycled as its interpreter is.
    shells.same("PATH=$PWD/own:$PATH; sed x; cut; echo $?; hash -r; cat /dev/null", 3);
    shells.same("cat() { echo function \"$@\"; }; cat a; unset -f cat; cat /dev/null", 1);
    shells.same("PATH=own:$PATH; sed relative; cd own; PATH=.:$PATH; hash -r; sed here", 2);
    let launcher = PathBuf::from(shells.service.launcher("cat"));
    let folder = launcher.parent().unwrap().display().to_string();
    // It asks the daemon itself.
    shells.same(&format!("PATH={folder}:$PATH; cat script.sh"), 1);
}

#[test]
fn subshells_and_jobs_have_connections_of_their_own() {
    let shells = Shells::new();
    shells.same("(cat /dev/null; expr 1; (expr 2)); expr 3; { expr 4; } | { cat; expr 5; }", 7);
    shells.same("sed q script.sh & wait $!; echo $?; sed -n '$=' script.sh; for n in 1 2 3; do expr $n & done | sort; wait", 6);
    shells.same("coproc cat; echo through >&${COPROC[1]}; read -r line <&${COPROC[0]}; echo $line; kill $!; wait $! 2>/dev/null; expr 1", 2);
}

#[test]
fn a_shell_stays_as_it_was_however_much_it_runs() {
    let shells = Shells::new();
    // The shell itself expands the names: beside a subshell it has ends of a pipe for a while.
    let script = "cat /dev/null; before=(/proc/$$/fd/*); for ((n = 0; n < 300; n++)); do cat /dev/null; done; \
                  after=(/proc/$$/fd/*); [ \"${before[*]}\" = \"${after[*]}\" ] && echo same || echo \"${before[*]}, ${after[*]}\"";
    let output = shells.shell(script, "all").output().unwrap();
    assert_eq!(text(&output.stdout), "same\n", "{output:?}");
    // One connection has served them.
    let before = shells.service.counted();
    let output = shells.shell("for ((n = 0; n < 100; n++)); do cat /dev/null; done", "all").output().unwrap();
    let after = shells.service.counted();
    assert_eq!((output.status.code(), after[0] - before[0]), (Some(0), 100), "{output:?}");
}

#[test]
fn an_end_by_a_signal_is_a_status() {
    let shells = Shells::new();
    shells.same("exec 2>/dev/null; perl -e 'kill 15, $$'; echo $?; perl -e 'kill 9, $$'; echo $?; perl -e 'exit 255'; echo $?", 3);
}

/// The trap waits for the program, as for one that the shell has executed.
#[test]
fn a_trap_is_called_when_the_program_has_ended() {
    let shells = Shells::new();
    shells.service.warm(&["sed", "q"]);
    let mut child = shells.waiting("trap 'echo trapped' USR1 TERM; echo begun; sed -u q; echo after $?");
    eventually("the run of sed", || shells.service.everything().len() > 2);
    let shell = shell_of(&child);
    signal(shell, Signal::USR1);
    signal(shell, Signal::TERM);
    std::thread::sleep(std::time::Duration::from_millis(50));
    child.stdin.take().unwrap().write_all(b"a line\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let mut lines: Vec<_> = text(&output.stdout).lines().map(str::to_owned).collect();
    assert_eq!(lines.pop().as_deref(), Some("after 0"));
    assert_eq!(lines, ["a line", "trapped", "trapped"], "{output:?}");
}

#[test]
fn a_shell_that_a_signal_ends_takes_its_run_along() {
    for with in [Signal::TERM, Signal::HUP, Signal::KILL] {
        let shells = Shells::new();
        shells.service.warm(&["sed", "q"]);
        let child = shells.waiting("echo begun; sed -u q; echo after");
        let daemon = shells.service.daemon();
        let sed = eventually_some(|| {
            shells
                .service
                .everything()
                .into_iter()
                .find(|&pid| is_named(pid, "sed") && parent(pid) == daemon && !is_waiting(pid))
        });
        signal(shell_of(&child), with);
        eventually("the end of the run", || !lives(sed));
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (shell_status(output.status), text(&output.stdout).as_str()),
            (128 + with.as_raw(), ""),
            "{output:?}"
        );
    }
}

#[test]
fn a_daemon_that_is_gone_is_told_and_the_next_program_is_executed() {
    let mut shells = Shells::new();
    shells.service.warm(&["sed", "q"]);
    let mut child = shells.waiting("echo begun; sed -u q; echo after $?; expr 3; sed q script.sh");
    std::thread::sleep(std::time::Duration::from_millis(200));
    shells.service.kill_daemon();
    child.stdin.take().unwrap().write_all(b"a line\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let out = text(&output.stdout);
    let (first, rest) = out.split_once("after ").unwrap();
    assert_eq!(first, "a line\n", "a run outlives its daemon: {output:?}");
    assert!(
        rest.starts_with("125\n3\n") && text(&output.stderr).contains("the daemon is gone"),
        "{output:?}"
    );
}

#[test]
fn without_a_daemon_and_with_a_terminal_the_shell_executes_the_programs() {
    let mut shells = Shells::new();
    shells.same("expr 1 + 1", 1);
    let before = shells.service.counted();
    let path = shells.file("script.sh");
    fs::write(&path, "expr 1 + 1; type -t expr").unwrap();
    let mut terminal = shells.service.plain("script");
    terminal
        .args(["-qec", &format!("bash {}", path.display()), "/dev/null"])
        .env("BASH_ENV", shells.file("all"));
    let output = terminal.output().unwrap();
    assert_eq!(text(&output.stdout).replace('\r', ""), "2\nbuiltin\n", "{output:?}");
    assert_eq!(shells.service.counted(), before);
    let disabled = shells.shell("expr 1 + 1", "all").env("REGROW_DISABLE", "recycling").output().unwrap();
    assert_eq!((text(&disabled.stdout).as_str(), shells.service.counted()), ("2\n", before));
    shells.service.kill_daemon();
    let output = shells.shell("expr 1 + 1; cat /nonexistent; echo $?", "all").output().unwrap();
    assert_eq!(text(&output.stdout), "2\n1\n", "{output:?}");
}

/// The connection stays, and the kernel is asked who has made it.
#[test]
fn a_shell_in_another_namespace_executes_the_programs() {
    let shells = Shells::new();
    shells.same("expr 1 + 1; expr 2 + 2", 2);
    let can_unshare =
        Command::new("unshare").args(["-u", "true"]).status().is_ok_and(|status| status.success());
    if !can_unshare {
        println!("no right to make namespaces");
        return;
    }
    for flag in ["-u", "-i", "-m", "-n", "-C"] {
        let before = shells.service.counted();
        let mut command = shells.service.plain("unshare");
        command.args([flag, "--", "bash"]).arg(shells.file("script.sh")).env("BASH_ENV", shells.file("all"));
        let output = command.output().unwrap();
        assert_eq!(
            (output.status.code(), text(&output.stdout).as_str()),
            (Some(0), "2\n4\n"),
            "{flag}: {output:?}"
        );
        assert_eq!(shells.service.counted(), before, "{flag}");
    }
}

#[test]
fn what_is_too_long_for_a_message_is_executed() {
    let shells = Shells::new();
    shells.same("export LONG=$(printf '%0200000d' 1); expr length a; unset LONG; expr length b", 1);
    shells.same("exec {a}<script.sh; for ((n = 0; n < 80; n++)); do exec {b}<script.sh; done; expr 1", 0);
}

#[test]
fn the_line_is_for_the_names_that_are_asked_for() {
    let shells = Shells::new();
    let output = shells.line(&["sed", "cat"]);
    assert!(text(&output.stdout).ends_with("builtins.so cat sed; fi\n"), "{output:?}");
    assert!(!text(&shells.line(&[]).stdout).contains(" true"));
    for (name, says) in [
        ("true", "true: there is no builtin for it"),
        ("a/b", "a/b: there is no builtin"),
        ("", "there is no builtin"),
    ] {
        let output = shells.line(&["sed", name]);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{name}");
        assert!(text(&output.stderr).contains(says), "{output:?}");
    }
    let mut command = shells.service.plain(env!("CARGO_BIN_EXE_regrow"));
    let output = command.arg("builtins").env_remove("HOME").env_remove("XDG_DATA_HOME").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    // Other shells do nothing.
    let line = text(&shells.line(&["sed"]).stdout);
    let output = Command::new("dash").args(["-euc", &format!("{line}\necho fine")]).output().unwrap();
    assert_eq!(text(&output.stdout), "fine\n", "{output:?}");
}

/// The shell below `setsid`.
fn shell_of(child: &Child) -> i32 {
    // `env` and `setsid` execute the next program in their own place.
    child.id().cast_signed()
}

fn field(pid: i32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim_start_matches(':').trim().to_owned()
}

fn is_named(pid: i32, name: &str) -> bool {
    field(pid, "Name") == name
}

fn parent(pid: i32) -> i32 {
    field(pid, "PPid").parse().unwrap_or(0)
}

/// Whether it is a keeper, or a process that waits for an order: these have other descriptors than a run.
fn is_waiting(pid: i32) -> bool {
    fs::read_link(format!("/proc/{pid}/fd/2")).is_err()
}

fn eventually_some<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let mut result = None;
    eventually("it", || {
        result = found();
        result.is_some()
    });
    result.unwrap()
}
