//! `regrow run --no-tty`: a run of the daemon's, whose descriptors are the terminal, and whose session is another. The keys
//! of the terminal reach the command, and by it the run and what the run has started.

use rustix::process::Signal;

use crate::pty::{Terminal, warm};
use crate::service::{Service, eventually, lives, state};
use crate::shells::{background_job, foreground_job, has, interrupts, is_row, last, pipes, sizes, start};

/// What a shell is told to put before its commands.
const PREFIX: &str = "R=regrow run --no-tty --";

/// How often each key is typed.
const ROUNDS: usize = 5;

/// A process and its child: each tells its number, and when it is interrupted. The child tells what it reads. Both look
/// again and again, since Perl takes a signal between two steps only.
const FAMILY: &str = r#"
use POSIX ':sys_wait_h';
$| = 1;
my $child = fork;
my $who = $child ? "parent" : "child";
$SIG{INT} = sub { print "$who interrupted\n" };
print "$who $$ ", getppid, " ready\n";
while ($child) { exit 9 if waitpid($child, WNOHANG) == $child; select undef, undef, undef, 0.05 }
while (1) { vec(my $ready, 0, 1) = 1; print "child has ", scalar <STDIN> if select($ready, undef, undef, 0.05) > 0 }
"#;

/// A daemon that has recycled all of these.
fn service(programs: &[&str]) -> Service {
    let service = Service::start();
    for program in programs {
        warm(&service, &[program]);
    }
    service
}

/// How many processes were made out of kept ones.
fn recycled(service: &Service) -> u64 {
    let output = service.regrow().args(["status", "--json"]).output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let creations = &status["pool"]["creations"];
    let counts = ["recycled", "forked_body"].iter().filter_map(|how| creations[how].as_object());
    counts.flat_map(|points| points.values()).filter_map(serde_json::Value::as_u64).sum()
}

#[test]
fn keys_and_sizes_reach_a_run_that_is_in_another_session() {
    let service = service(&["sh", "cat", "env", "perl", "seq", "sort", "stty", "tee", "wc"]);
    let before = recycled(&service);
    let mut pair = start(&service, &["env", PREFIX, "sh", "-i"]);
    interrupts(&mut pair);
    foreground_job(&mut pair);
    background_job(&mut pair);
    sizes(&mut pair);
    pipes(&mut pair);
    pair.send("exit 7\n");
    assert_eq!(pair.ends().code(), Some(7));
    // Five of a shell, two of `stty`, the watcher, and five in a pipe.
    let recycled = recycled(&service) - before;
    assert!(recycled >= 13, "{recycled} of the runs");
    pair.tell(&format!("a shell with {recycled} recycled runs by `regrow run --no-tty`"));
}

fn tell(what: &str) {
    let line = format!("terminal: {what}");
    println!("{line}");
    regrow_testkit::summary::add(&line).unwrap();
}

/// A shell in a terminal, whose prompt is `next>`.
fn shell(service: &Service) -> Terminal {
    let mut terminal = Terminal::start("a shell", &["env", PREFIX, "sh", "-i"], service, service.folder());
    terminal.until("a shell", |rows| !rows[0].is_empty());
    terminal.send("PS1='next> '\n");
    terminal.until("the prompt", |rows| last(rows) == "next>");
    terminal
}

/// The numbers of a family that is in the foreground.
fn family(service: &Service, terminal: &mut Terminal) -> [i32; 2] {
    std::fs::write(service.folder().join("family.pl"), FAMILY).unwrap();
    terminal.send("clear; $R perl family.pl\n");
    terminal.until("a family", |rows| rows.iter().filter(|row| row.ends_with(" ready")).count() == 2);
    let rows = terminal.rows();
    let numbers = |name: &str| -> Vec<i32> {
        let row = rows.iter().find(|row| row.starts_with(name)).unwrap();
        row.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    let (parent, child) = (numbers("parent"), numbers("child"));
    assert_eq!(parent[1], service.daemon(), "the run is the daemon's");
    assert_eq!(child[1], parent[0]);
    [parent[0], child[0]]
}

#[test]
fn keys_reach_what_a_run_has_started() {
    let service = service(&["perl"]);
    let mut terminal = shell(&service);
    let family = family(&service, &mut terminal);
    for round in 0..ROUNDS {
        terminal.send("\x03");
        let count = |rows: &[String], who: &str| rows.iter().filter(|row| row.contains(who)).count();
        terminal.until("Ctrl-C in both", |rows| {
            count(rows, "parent interrupted") == round + 1 && count(rows, "child interrupted") == round + 1
        });
    }
    for round in 0..ROUNDS {
        terminal.send("\x1a");
        terminal.until("the prompt after Ctrl-Z", |rows| has(rows, "Stopped") && last(rows) == "next>");
        eventually("the stop of both", || family.map(state) == [Some('T'); 2]);
        terminal.send("clear; fg\n");
        terminal.until("the job in the foreground", |rows| rows[0].contains("perl family.pl"));
        terminal.send(&format!("line {round}\n"));
        terminal.until("what the child reads", |rows| is_row(rows, &format!("child has line {round}")));
        eventually("the parent goes on", || state(family[0]) != Some('T'));
    }
    crate::service::signal(family[1], Signal::KILL);
    terminal.until("the end of the run", |rows| last(rows) == "next>");
    terminal.send("exit\n");
    assert_eq!(
        terminal.ends().code(),
        Some(9),
        "a shell that is not told otherwise ends as its last job did"
    );
    tell(&format!("{ROUNDS} times Ctrl-C, and Ctrl-Z and fg, reached a recycled run and its child"));
}

#[test]
fn a_terminal_that_hangs_up_ends_the_run() {
    let service = service(&["perl"]);
    let mut terminal = shell(&service);
    let family = family(&service, &mut terminal);
    terminal.hang_up();
    eventually("the end of the run", || !lives(family[0]));
    eventually("the end of its child", || !lives(family[1]));
    warm(&service, &["perl", "-e", "1"]);
}

/// What makes programs that own the terminal unfit for it.
#[test]
fn a_run_without_a_terminal_of_its_own_cannot_open_it_by_name() {
    let service = service(&["sh"]);
    let mut terminal = shell(&service);
    let script = "test -t 0 && test -t 1 && echo a terminal for $PPID; echo hi >/dev/tty || echo none";
    terminal.send(&format!("clear; $R sh -c '{script}' 2>/dev/null\n"));
    let row = format!("a terminal for {}", service.daemon());
    terminal.until("what it has", |rows| is_row(rows, &row) && is_row(rows, "none") && !is_row(rows, "hi"));
    // The same without the flag is a run of the command's own.
    terminal.send(&format!("clear; regrow run -- sh -c '{script}'\n"));
    terminal.until("what it has", |rows| {
        is_row(rows, "hi") && has(rows, "a terminal for ") && !is_row(rows, &row)
    });
    terminal.send("exit 0\n");
    assert!(terminal.ends().success());
}
