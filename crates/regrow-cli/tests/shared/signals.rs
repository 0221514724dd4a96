//! Signals that the command is sent reach the run; the command stops, goes on and is killed with it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;

use rustix::process::Signal;

use crate::service::{LIMIT, Service, eventually, kernel_keeps_statuses, lives, shell_status, signal, state};

/// Tells its number and its parent's, then each of these signals that comes, says what it reads, and ends with its input.
/// Perl looks at a signal between two operations: one that comes right before a wait is found when the wait is over.
const LISTENER: &str = "$| = 1; for my $name (qw(INT TERM HUP QUIT WINCH USR1 USR2 CONT)) { \
    $SIG{$name} = sub { print \"$name\\n\" } } print \"$$ \", getppid, \"\\n\"; \
    while (1) { vec(my $set = '', 0, 1) = 1; next unless select($set, undef, undef, 0.01) > 0; \
    sysread(STDIN, my $text, 4096) or exit 5; print $text }";

/// A run that is under way.
struct Running {
    command: Child,
    lines: mpsc::Receiver<String>,
    to: Option<ChildStdin>,
    /// The number of the run itself.
    pid: i32,
    /// Its parent.
    parent: i32,
}

impl Running {
    /// Starts a program whose first line is its number and its parent's, as a shell starts a job: in a group of its own,
    /// in the session of these tests.
    fn start(service: &Service, program: &[&str]) -> Running {
        let mut command = service.without_setsid(service.runner());
        command.args(["run", "--no-tty"]).args(program).process_group(0);
        Running::of(command)
    }

    /// The same in a session of its own, where nobody would continue what has stopped.
    fn start_alone(service: &Service, prefix: &[&str], program: &[&str]) -> Running {
        let (first, rest) = prefix.split_first().unwrap();
        let mut command = service.plain(first);
        command.args(rest).args(program);
        Running::of(command)
    }

    fn of(mut command: Command) -> Running {
        let mut command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let to = command.stdin.take();
        let lines = lines(command.stdout.take().unwrap());
        let mut running = Running { command, lines, to, pid: 0, parent: 0 };
        let line = running.line();
        let mut numbers = line.split_whitespace().map(|word| word.parse().unwrap());
        running.pid = numbers.next().unwrap();
        running.parent = numbers.next().unwrap();
        running
    }

    /// Its next line.
    fn line(&self) -> String {
        self.lines.recv_timeout(LIMIT).unwrap()
    }

    /// In one piece, so that nothing comes between its parts when the program writes it again.
    fn write_line(&mut self, text: &str) {
        self.to.as_mut().unwrap().write_all(format!("{text}\n").as_bytes()).unwrap();
    }

    fn client(&self) -> i32 {
        self.command.id().cast_signed()
    }

    fn status(mut self) -> i32 {
        drop(self.to.take());
        shell_status(self.command.wait().unwrap())
    }
}

fn lines(from: ChildStdout) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        // The test may have seen enough.
        BufReader::new(from).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    receiver
}

/// A daemon that has recycled both `perl` and `sleep`.
fn service() -> (Service, i32) {
    let service = Service::start();
    service.warm(&["perl", "-e", "1"]);
    service.warm(&["sleep", "0"]);
    let daemon = service.daemon();
    (service, daemon)
}

#[test]
fn signals_are_passed_on() {
    let (service, daemon) = service();
    let run = Running::start(&service, &["perl", "-e", LISTENER]);
    assert_eq!(run.parent, daemon, "the run is the daemon's");
    assert_ne!(run.pid, run.client());
    let signals = [
        (Signal::INT, "INT"),
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::WINCH, "WINCH"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::CONT, "CONT"),
    ];
    let mut passed = 0;
    for _ in 0..5 {
        for (number, name) in signals {
            signal(run.client(), number);
            assert_eq!(run.line(), name);
            passed += 1;
        }
    }
    println!("signals: {passed} passed on");
    assert_eq!(run.status(), 5);
}

#[test]
fn a_run_that_a_signal_ends_gives_its_status() {
    let (service, daemon) = service();
    let signals = [Signal::INT, Signal::TERM, Signal::HUP, Signal::USR1, Signal::USR2];
    for number in signals {
        let program = ["perl", "-e", "$| = 1; print \"$$ \", getppid, \"\\n\"; sleep 600"];
        let run = Running::start(&service, &program);
        assert_eq!(run.parent, daemon);
        signal(run.client(), number);
        assert_eq!(run.status(), 128 + number.as_raw());
    }
}

/// A signal that is sent before the run is there is not lost either: it ends the command, or the run.
#[test]
fn a_signal_that_comes_early_ends_the_command() {
    let (service, _) = service();
    for pause_us in (0..40).map(|step| step * 50) {
        let mut command = service.regrow().args(["run", "sleep", "600"]).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_micros(pause_us));
        signal(command.id().cast_signed(), Signal::TERM);
        let mut status = None;
        eventually("the end of the command", || {
            status = command.try_wait().unwrap();
            status.is_some()
        });
        assert_eq!(status.map(shell_status), Some(143), "after {pause_us} us");
    }
    eventually("the end of all runs", || !any_run(&service, "sleep"));
}

/// Whether the daemon has a child that runs a program of this name with an argument.
fn any_run(service: &Service, name: &str) -> bool {
    let children = regrow_testkit::left::children(service.daemon().cast_unsigned()).unwrap();
    let is_run = |pid: &String| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.starts_with(format!("{name}\0600").as_bytes()) && lives(pid.parse().unwrap())
    };
    children.iter().any(is_run)
}

#[test]
fn a_run_stops_and_goes_on_with_the_command() {
    let (service, daemon) = service();
    let mut run = Running::start(&service, &["perl", "-e", LISTENER]);
    assert_eq!(run.parent, daemon);
    for round in 0..10 {
        signal(run.client(), Signal::TSTP);
        eventually("the run's stop", || state(run.pid) == Some('T'));
        eventually("the command's stop", || state(run.client()) == Some('T'));
        signal(run.client(), Signal::CONT);
        assert_eq!(run.line(), "CONT", "round {round}");
        eventually("the command goes on", || state(run.client()) != Some('T'));
        run.write_line(&format!("round {round}"));
        assert_eq!(run.line(), format!("round {round}"));
    }
    assert_eq!(run.status(), 5);
}

/// The shell that waits for the command sees it stop, whoever has stopped the run.
#[test]
fn a_run_that_stops_itself_stops_the_command() {
    let (service, daemon) = service();
    for name in ["STOP", "TSTP", "TTIN"] {
        let program = format!(
            "$| = 1; print \"$$ \", getppid, \"\\n\"; kill '{name}', $$; print \"on\\n\"; <STDIN>; exit 6"
        );
        let run = Running::start(&service, &["perl", "-e", &program]);
        assert_eq!(run.parent, daemon);
        eventually("the command's stop", || state(run.client()) == Some('T'));
        assert_eq!(state(run.pid), Some('T'));
        signal(run.client(), Signal::CONT);
        assert_eq!(run.line(), "on");
        assert_eq!(run.status(), 6);
    }
}

/// What is left of a job when its shell is gone is not stopped by the kernel, because nobody would continue it.
#[test]
fn a_run_that_nobody_would_continue_is_not_stopped() {
    let (service, daemon) = service();
    for prefix in [vec!["env"], vec![service.runner().as_str(), "run"]] {
        let run = Running::start_alone(&service, &prefix, &["perl", "-e", LISTENER]);
        assert_eq!(run.parent == daemon, prefix.len() == 2, "{prefix:?}");
        for _ in 0..20 {
            signal(run.client(), Signal::TSTP);
            signal(run.client(), Signal::USR1);
            assert_eq!(run.line(), "USR1");
            assert_ne!(state(run.client()), Some('T'), "{prefix:?}");
            assert_ne!(state(run.pid), Some('T'), "{prefix:?}");
        }
        assert_eq!(run.status(), 5);
    }
}

/// A program that catches the signal, puts things in order, and stops itself; here it does not.
#[test]
fn a_run_that_catches_the_stop_is_asked_each_time() {
    let (service, daemon) = service();
    let program = LISTENER.replace("USR2", "TSTP");
    let run = Running::start(&service, &["perl", "-e", &program]);
    assert_eq!(run.parent, daemon);
    for round in 0..20 {
        signal(run.client(), Signal::TSTP);
        assert_eq!(run.line(), "TSTP", "round {round}");
        assert_ne!(state(run.client()), Some('T'), "round {round}");
    }
    assert_eq!(run.status(), 5);
}

/// What a run has started stops and goes on with it: a job is a group.
#[test]
fn the_children_of_a_run_stop_and_go_on_with_it() {
    let (service, daemon) = service();
    service.warm(&["sh"]);
    let script = "sleep 600 & echo $$ $PPID; echo $!; read line; kill $!; exit 6";
    let run = Running::start(&service, &["sh", "-c", script]);
    assert_eq!(run.parent, daemon);
    let child: i32 = run.line().parse().unwrap();
    for _ in 0..5 {
        signal(run.client(), Signal::TSTP);
        for pid in [child, run.pid, run.client()] {
            eventually("the stop of all", || state(pid) == Some('T'));
        }
        signal(run.client(), Signal::CONT);
        for pid in [child, run.pid, run.client()] {
            eventually("all go on", || state(pid) == Some('S'));
        }
    }
    assert_eq!(run.status(), 6);
}

/// Without a daemon the command looks at the run by itself.
#[test]
fn signals_reach_a_run_whose_daemon_is_gone() {
    let (mut service, daemon) = service();
    let mut run = Running::start(&service, &["perl", "-e", LISTENER]);
    assert_eq!(run.parent, daemon);
    // The command has been told of the run when it passes a signal on.
    signal(run.client(), Signal::USR1);
    assert_eq!(run.line(), "USR1");
    service.kill_daemon();
    for round in 0..3 {
        signal(run.client(), Signal::TSTP);
        eventually("the run's stop", || state(run.pid) == Some('T'));
        eventually("the command's stop", || state(run.client()) == Some('T'));
        signal(run.client(), Signal::CONT);
        assert_eq!(run.line(), "CONT", "round {round}");
        signal(run.client(), Signal::INT);
        assert_eq!(run.line(), "INT", "round {round}");
    }
    run.write_line("alone");
    assert_eq!(run.line(), "alone");
    // A signal that the program does not catch.
    signal(run.pid, Signal::ALARM);
    let status = run.status();
    assert!(status == 142 || (status == 125 && !kernel_keeps_statuses()), "{status}");
}

/// Nobody need look between the two signals.
#[test]
fn a_stop_that_is_taken_back_at_once_stops_nothing_for_good() {
    let (service, _) = service();
    let mut run = Running::start(&service, &["perl", "-e", LISTENER]);
    for round in 0..100 {
        signal(run.client(), Signal::TSTP);
        signal(run.client(), Signal::CONT);
        let text = format!("round {round}");
        run.write_line(&text);
        while run.line() != text {}
    }
    eventually("the command goes on", || state(run.client()) != Some('T'));
    assert_eq!(run.status(), 5);
}

#[test]
fn a_command_that_is_killed_takes_its_run_with_it() {
    let (service, daemon) = service();
    for _ in 0..10 {
        let program = ["perl", "-e", "$| = 1; print \"$$ \", getppid, \"\\n\"; sleep 600"];
        let mut run = Running::start(&service, &program);
        assert_eq!(run.parent, daemon);
        run.command.kill().unwrap();
        assert_eq!(run.command.wait().unwrap().signal(), Some(9));
        eventually("the run's end", || !lives(run.pid));
    }
    service.warm(&["perl", "-e", "1"]);
}

/// A command that is killed while its run is stopped.
#[test]
fn a_stopped_run_is_killed_with_its_command() {
    let (service, _) = service();
    let mut run = Running::start(&service, &["perl", "-e", LISTENER]);
    signal(run.client(), Signal::TSTP);
    eventually("the command's stop", || state(run.client()) == Some('T'));
    run.command.kill().unwrap();
    run.command.wait().unwrap();
    eventually("the run's end", || !lives(run.pid));
}
