//! What a run is given by its caller: descriptors, directory, mask, limits, niceness, signals that are ignored.

use std::fs;
use std::io::{Read, Write};
use std::process::Stdio;

use crate::service::{Said, Service, differing_lines, eventually, text};

/// What a run says of itself; the shell reads what another process may not. The C library keeps two signals to itself, which no program can set.
const STATE: &str = "umask; pwd; ulimit -a; id; cat /proc/self/limits; \
    while read name value; do case $name in Uid:|Gid:|Groups:|SigPnd:|ShdPnd:|SigBlk:|SigCgt:|Cap*:|NoNewPrivs:|Seccomp*|Cpus_allowed*|THP_enabled:|Threads:|TracerPid:|CoreDumping:) \
    echo $name $value;; SigIgn:) echo $name $((0x$value & ~(3 << 31)));; esac; done </proc/self/status; readlink /proc/self/root; readlink /proc/$$/exe; \
    tr '\\0' '|' </proc/$$/cmdline; cat /proc/$$/comm /proc/$$/oom_score_adj /proc/$$/coredump_filter \
    /proc/$$/cgroup /proc/$$/personality; read slack </proc/self/timerslack_ns; echo slack $slack; \
    set -- $(cat /proc/$$/stat); echo terminal $7, priority ${18}, nice ${19}, threads ${20}, policy ${41}; \
    for n in 0 1 2 3 4 5 6 7 8 9 10 11 12; do [ -h /proc/$$/fd/$n ] && echo $n; done; tr '\\0' '\\n' </proc/$$/environ | sort";

/// Callers that differ from the daemon in something that a run can be given.
const CALLERS: &[&[&str]] = &[
    &[],
    &["sh", "-c", "umask 0; exec \"$@\"", "sh"],
    &["sh", "-c", "umask 0777; exec \"$@\"", "sh"],
    &["sh", "-c", "cd /usr/share; exec \"$@\"", "sh"],
    &["sh", "-c", "ulimit -n 77; exec \"$@\"", "sh"],
    &["sh", "-c", "ulimit -S -n 60; ulimit -c 0; ulimit -f 100000; ulimit -t 1000; exec \"$@\"", "sh"],
    &["sh", "-c", "ulimit -S -v 4000000; exec \"$@\"", "sh"],
    &["sh", "-c", "ulimit -s 4096; exec \"$@\"", "sh"],
    &["sh", "-c", "ulimit -S -s unlimited; exec \"$@\"", "sh"],
    &["nice", "-n", "5"],
    &["nice", "-n", "19"],
    &["taskset", "1"],
    &["env", "--ignore-signal=INT,TERM,USR1,CHLD,TSTP"],
    &["env", "--ignore-signal=PIPE"],
    &["env", "--default-signal=PIPE"],
    &["env", "--block-signal=USR2,INT"],
    &["env", "ONE=1", "EMPTY=", "LINES=a\nb", "LANG=de_DE.UTF-8"],
    &["env", "-u", "HOME", "-u", "PWD"],
    &["sh", "-c", "exec 7</etc/passwd 9>/dev/null; exec \"$@\"", "sh"],
];

#[test]
fn a_run_finds_what_its_caller_gives_it() {
    let service = Service::start();
    service.warm(&["sh"]);
    let program = ["sh", "-c", STATE, "sh", "an argument", ""];
    let kept: usize = CALLERS.iter().map(|caller| service.same_as_env(caller, &program)).sum();
    println!("callers: {} of them, {kept} recycled runs", CALLERS.len());
}

/// What a program in Python says of itself.
const PYTHON_STATE: &str = "import os, resource, signal; umask = os.umask(0); print(umask, os.getcwd(), os.nice(0), os.sched_getaffinity(0), \
    sorted(os.environ.items()), [resource.getrlimit(number) for number in range(16)], \
    [(number, str(signal.getsignal(number))) for number in signal.valid_signals()], \
    signal.pthread_sigmask(signal.SIG_BLOCK, []), os.listdir('/proc/self/fd'), sep=chr(10))";

/// Scripts ignore interrupts for their background jobs, `nohup` hang-ups, a service manager broken pipes: a front end is prepared so.
#[test]
fn a_program_in_python_is_recycled_warm_for_each_caller_and_finds_what_it_is_given() {
    let service = Service::start();
    for caller in CALLERS {
        let before = warm_runs(&service);
        eventually(&format!("a warm run of {caller:?}"), || {
            service.same_as_env(caller, &["/usr/bin/python3", "-c", PYTHON_STATE]);
            warm_runs(&service) > before
        });
    }
}

/// How many runs were recycled that a front end had prepared.
fn warm_runs(service: &Service) -> u64 {
    let output = service.regrow().args(["status", "--json"]).output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    status["pool"]["creations"]["recycled"]["warm"].as_u64().unwrap()
}

/// What the daemon cannot give ends in exec, and is right.
#[test]
fn a_caller_of_another_domain_executes_the_program_itself() {
    let service = Service::start();
    service.warm(&["sh"]);
    let callers: &[&[&str]] = &[
        &["sh", "-c", "echo 100000 >/proc/self/timerslack_ns; exec \"$@\"", "sh"],
        &["ionice", "-c", "3"],
        &["setpriv", "--no-new-privs"],
        &["setarch", "--addr-no-randomize"],
    ];
    for caller in callers {
        let (first, rest) = caller.split_first().unwrap();
        let plain = service.plain(first).args(rest).args(["sh", "-c", STATE]).output().unwrap();
        let mut command = service.plain(first);
        command.args(rest).arg(service.runner()).args(["--log", "info", "run", "sh", "-c", STATE]);
        let output = command.output().unwrap();
        let said = Said::read(&output.stderr);
        assert!(said.why.as_deref().unwrap_or_default().contains("caller_changed"), "{caller:?}: {said:?}");
        assert_eq!(differing_lines(&output.stdout, &plain.stdout), [], "{caller:?}");
    }
    service.warm(&["sh"]);
}

/// Each of the eight ways to close standard descriptors. The exit status tells which numbers the run has.
#[test]
fn closed_standard_descriptors_are_closed_in_the_run() {
    let service = Service::start();
    service.warm(&["sh"]);
    let daemon = service.daemon();
    let note = service.folder().join("note");
    let program = "n=0; bits=0; for bit in 1 2 4 8 16 32 64; do \
        [ -h /proc/self/fd/$n ] && bits=$((bits + bit)); n=$((n + 1)); done; \
        echo $PPID >\"$1\"; exit $bits";
    for closed in ["", "0<&-", "1>&-", "2>&-", "0<&- 1>&-", "0<&- 2>&-", "1>&- 2>&-", "0<&- 1>&- 2>&-"] {
        let statuses: Vec<_> = ["env", service.runner().as_str()]
            .iter()
            .map(|prefix| {
                let run = if *prefix == "env" { "" } else { "run" };
                let script = format!("prefix=$1; shift; exec \"$prefix\" {run} \"$@\" {closed}");
                let mut command = service.plain("sh");
                command.args(["-c", &script, "sh", prefix, "sh", "-c", program, "sh"]).arg(&note);
                command.output().unwrap().status.code().unwrap()
            })
            .collect();
        let open = 7
            - closed.matches("0<").count()
            - 2 * closed.matches("1>").count()
            - 4 * closed.matches("2>").count();
        assert_eq!(statuses, [i32::try_from(open).unwrap(); 2], "{closed}");
        let parent: i32 = fs::read_to_string(&note).unwrap().trim().parse().unwrap();
        assert_eq!(parent, daemon, "{closed}: the run is the daemon's");
    }
}

#[test]
fn further_descriptors_are_passed_on_with_their_numbers_and_offsets() {
    let service = Service::start();
    let file = service.folder().join("file");
    fs::write(&file, "one\ntwo\nthree\nfour\n").unwrap();
    let file = file.to_str().unwrap();
    let wrapper =
        ["sh", "-c", "exec 3<$0 5>>$0 9<>$0; read line <&3; \"$@\"; read line <&3; echo after: $line", file];
    // The run reads a line byte by byte from the descriptor that its caller goes on to read.
    let program = [
        "sh",
        "-c",
        "read line <&3; echo run: $line; [ -e /proc/self/fd/4 ] || echo no 4; \
        read line <&9; echo $line; [ -e /proc/self/fd/10 ] || echo no 10",
    ];
    let kept = service.same_as_env(&wrapper, &program);
    assert!(kept > 0);
}

/// More descriptors than a message carries, and more arguments: the command executes the program itself.
#[test]
fn what_does_not_fit_in_an_order_is_executed() {
    let service = Service::start();
    service.warm(&["sh"]);
    let many = "n=10; while [ $n -lt 100 ]; do eval \"exec $n</dev/null\"; n=$((n + 1)); done; exec \"$@\"";
    let count = "set -- /proc/$$/fd/*; echo $#";
    // A shell that closes nothing but knows numbers of several digits.
    let mut command = service.plain("bash");
    command.args(["-c", many, "bash", &service.runner(), "--log", "info", "run", "sh", "-c", count]);
    let output = command.output().unwrap();
    let said = Said::read(&output.stderr);
    assert!(said.why.as_deref().unwrap_or_default().contains("descriptors"), "{said:?}");
    let found: usize = text(&output.stdout).trim().parse().unwrap();
    assert!(found >= 93, "{found}");

    let long = "x".repeat(100_000);
    let args = ["--log", "info", "run", "sh", "-c", "echo ${#1} ${#2}", "sh", &long, &long];
    let output = service.regrow().args(args).output().unwrap();
    assert_eq!(text(&output.stdout), "100000 100000\n");
    assert!(Said::read(&output.stderr).why.is_some());
    // As many as do fit, all the same.
    let fitting = "x".repeat(20_000);
    service.same_as_env(&[], &["sh", "-c", "echo $1$2", "sh", &fitting, &fitting]);
}

#[test]
fn a_working_directory_that_is_gone_is_the_runs_too() {
    let service = Service::start();
    service.warm(&["sh"]);
    let gone = service.folder().join("gone");
    let script = "mkdir -p $0 && cd $0 && rmdir $0 && exec \"$@\"";
    for prefix in [vec!["env"], vec![service.runner().as_str(), "run"]] {
        let mut command = service.plain("sh");
        command.arg("-c").arg(script).arg(&gone).args(&prefix);
        let output = command.args(["sh", "-c", "readlink /proc/$$/cwd"]).output().unwrap();
        assert!(text(&output.stdout).ends_with("gone (deleted)\n"), "{prefix:?}: {output:?}");
    }
}

/// Bytes whose period fits no buffer's size.
fn pattern() -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..65_521).map(next).collect()
}

#[test]
fn a_gibibyte_passes_through_a_run_unchanged() {
    const BYTES: usize = 1 << 30;
    let service = Service::start();
    service.warm(&["cat"]);
    let mut command = service.regrow();
    command.args(["--log", "info", "run", "cat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let writer = std::thread::spawn(move || {
        let pattern = pattern();
        let mut left = BYTES;
        while left > 0 {
            let part = left.min(pattern.len());
            to.write_all(&pattern[..part]).unwrap();
            left -= part;
        }
    });
    let twice = [pattern(), pattern()].concat();
    let period = twice.len() / 2;
    let (mut count, mut buffer) = (0, vec![0; 1 << 16]);
    loop {
        let got = from.read(&mut buffer[..period]).unwrap();
        if got == 0 {
            break;
        }
        let at = count % period;
        assert!(buffer[..got] == twice[at..at + got], "a difference after byte {count}");
        count += got;
    }
    writer.join().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((count, output.status.code()), (BYTES, Some(0)));
    assert!(Said::read(&output.stderr).is_kept(), "{}", text(&output.stderr));
}

/// A reader that leaves early: the run ends by `SIGPIPE`, or sees an error where its caller ignores the signal.
#[test]
fn a_reader_that_leaves_ends_the_run_as_it_does_without_us() {
    let service = Service::start();
    service.warm(&["yes", "--version"]);
    for caller in ["--default-signal=PIPE", "--ignore-signal=PIPE"] {
        let script = "{ \"$@\" 2>/dev/null; echo $? >&3; } 3>&2 | head -c 10 >/dev/null";
        let mut statuses = Vec::new();
        for prefix in [vec!["env"], vec![service.runner().as_str(), "run"]] {
            let mut command = service.plain("env");
            command.args([caller, "sh", "-c", script, "sh"]).args(&prefix).arg("yes");
            statuses.push(text(&command.output().unwrap().stderr));
        }
        assert_eq!(statuses[0], statuses[1], "{caller}");
    }
}

/// A descendant that stays holds the pipe, and the command does not wait for it.
#[test]
fn a_descendant_that_stays_is_not_waited_for() {
    let service = Service::start();
    service.warm(&["sh"]);
    let note = service.folder().join("note");
    let mut command = service.regrow();
    // A shell gives its children in the background nothing to read unless told.
    command.args(["run", "sh", "-c", "exec 9<&0; { read line <&9; echo $line >\"$1\"; } & exit 3", "sh"]);
    let mut child = command.arg(&note).stdin(Stdio::piped()).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    to.write_all(b"it goes on\n").unwrap();
    eventually("what the descendant writes", || {
        fs::read_to_string(&note).is_ok_and(|text| text == "it goes on\n")
    });
}
