//! A shell: the keys that send signals, job control, the size of the window, and the terminal by its name.

use crate::pair::Pair;
use crate::pty::warm;
use crate::service::Service;

/// Tells the size of the window when it gets another.
const WATCH: &str =
    "$| = 1; $SIG{WINCH} = sub { system 'stty size'; exit }; print \"watching\\n\"; sleep 1 while 1;\n";

/// A shell in each terminal, that with Regrow started as `regrow` says. Each command that is typed begins with the variable
/// `R`, which is empty in the first.
pub(crate) fn start(service: &Service, regrow: &[&str]) -> Pair {
    let mut pair = Pair::start(service, &["sh", "-i"], regrow, |folder| {
        std::fs::write(folder.join("watch.pl"), WATCH).unwrap();
    });
    pair.until("a shell", |rows| !rows[0].is_empty());
    pair.send("PS1='next> '\n");
    pair.until("the prompt", |rows| last(rows) == "next>");
    pair
}

/// The last row with something in it.
pub(crate) fn last(rows: &[String]) -> &str {
    rows.iter().rfind(|row| !row.is_empty()).map_or("", |row| row)
}

/// Whether this is a whole row.
pub(crate) fn is_row(rows: &[String], text: &str) -> bool {
    rows.iter().any(|row| row == text)
}

/// Whether this is in a row.
pub(crate) fn has(rows: &[String], text: &str) -> bool {
    rows.iter().any(|row| row.contains(text))
}

/// A program in the foreground that has said so: what is typed is not yet the same text.
fn foreground(pair: &mut Pair, word: &str, program: &str) {
    let (head, tail) = word.split_at(2);
    pair.send(&format!("clear; $R sh -c \"echo {head}''{tail}; exec {program}\"\n"));
    pair.until(word, |rows| is_row(rows, word));
}

fn status(pair: &mut Pair, status: i32) {
    pair.send("echo \"status=$?\"\n");
    pair.until("a status", |rows| is_row(rows, &format!("status={status}")) && last(rows) == "next>");
}

pub(crate) fn interrupts(pair: &mut Pair) {
    foreground(pair, "sleeping", "sleep 600");
    pair.send("\x03");
    pair.until("the prompt after Ctrl-C", |rows| has(rows, "^C") && last(rows) == "next>");
    status(pair, 130);
    foreground(pair, "quitting", "env -i /bin/sh -c 'ulimit -c 0; sleep 600'");
    pair.send("\x1c");
    pair.until("the prompt after Ctrl-\\", |rows| has(rows, "^\\") && last(rows) == "next>");
    status(pair, 131);
    // A shell ends its loop when the command has ended by the signal, not when it tells so by a number.
    pair.send("clear; for n in 1 2 3; do $R sh -c \"echo ro''und; exec sleep 600\"; done\n");
    pair.until("a loop", |rows| is_row(rows, "round"));
    pair.send("\x03");
    pair.until("the end of the loop", |rows| has(rows, "^C") && last(rows) == "next>");
}

pub(crate) fn foreground_job(pair: &mut Pair) {
    foreground(pair, "reading", "cat");
    pair.send("\x1a");
    pair.until("the stopped job", |rows| has(rows, "Stopped") && last(rows) == "next>");
    pair.send("clear; fg\n");
    pair.until("the job in the foreground", |rows| rows[0].contains("exec cat"));
    pair.send("words\n");
    // Once as an echo, once from the program.
    pair.until("the words", |rows| rows.iter().filter(|row| *row == "words").count() == 2);
    pair.send("\x04");
    pair.until("the end of the input", |rows| last(rows) == "next>");
    status(pair, 0);
}

pub(crate) fn background_job(pair: &mut Pair) {
    foreground(pair, "sleeping", "sleep 600");
    pair.send("\x1a");
    pair.until("the stopped job", |rows| has(rows, "Stopped") && last(rows) == "next>");
    pair.send("clear; bg; jobs\n");
    pair.until("the job in the background", |rows| has(rows, "Running") && last(rows) == "next>");
    // A shell may tell the end of a job twice: it depends on when it sees it.
    pair.send("kill -TERM %1; wait %1; status=$?; clear; echo \"status=$status\"\n");
    pair.until("the end of the job", |rows| is_row(rows, "status=143") && last(rows) == "next>");
}

pub(crate) fn sizes(pair: &mut Pair) {
    pair.send("clear; $R stty size\n");
    pair.until("the size", |rows| is_row(rows, "24 80"));
    pair.send("clear; $R perl watch.pl\n");
    pair.until("the watcher", |rows| is_row(rows, "watching"));
    pair.resize((30, 100));
    pair.until("the size that is told", |rows| is_row(rows, "30 100") && last(rows) == "next>");
    pair.send("clear; $R stty size\n");
    pair.until("the size", |rows| rows[0] == "30 100" && last(rows) == "next>");
}

pub(crate) fn pipes(pair: &mut Pair) {
    pair.send("clear; $R seq 3 | $R sort -r | $R tee copy; $R cat copy | $R wc -l\n");
    pair.until("the end of the pipe", |rows| rows[3].trim() == "3" && last(rows) == "next>");
}

fn names(pair: &mut Pair) {
    pair.send("clear; $R sh -c 'echo hi >/dev/tty' </dev/null >/dev/null 2>&1\n");
    pair.until("what is written to the terminal", |rows| rows[0] == "hi" && last(rows) == "next>");
    pair.send("clear; $R sh -c 'echo wait''ing; read line </dev/tty; echo \"[$line]\"' </dev/null\n");
    pair.until("a reader", |rows| is_row(rows, "waiting"));
    pair.send("typed\n");
    pair.until("what is read from it", |rows| is_row(rows, "[typed]") && last(rows) == "next>");
    pair.send("clear; $R tty | sed 's/[0-9]*$//'\n");
    pair.until("its name", |rows| rows[0] == "/dev/pts/" && last(rows) == "next>");
}

/// The shell itself is what `regrow run` has become.
#[test]
fn a_shell_of_regrow_has_its_jobs() {
    let service = Service::start();
    warm(&service, &["sh"]);
    let mut pair = start(&service, &["regrow", "run", "--", "sh", "-i"]);
    assert!(["sh", "dash", "bash", "busybox"].contains(&&*pair.regrow().executable()));
    session(&mut pair);
    pair.tell("a shell by `regrow run`");
}

/// The commands of a shell are.
#[test]
fn commands_of_a_shell_are_jobs() {
    let service = Service::start();
    warm(&service, &["sh"]);
    let mut pair = start(&service, &["env", "R=regrow run --", "sh", "-i"]);
    session(&mut pair);
    pair.tell("a shell with commands by `regrow run`");
}

fn session(pair: &mut Pair) {
    interrupts(pair);
    foreground_job(pair);
    background_job(pair);
    sizes(pair);
    pipes(pair);
    names(pair);
    pair.send("exit 7\n");
    assert_eq!(pair.ends().code(), Some(7));
}

/// Runs of a pool in the command itself are in its session and group.
#[test]
fn recycled_commands_with_a_pool_of_their_own_are_jobs() {
    let service = Service::empty();
    let prefix = "R=regrow run --point main --report report.jsonl --";
    let mut pair = start(&service, &["env", prefix, "sh", "-i"]);
    session(&mut pair);
    let report = std::fs::read_to_string(pair.folders()[1].join("report.jsonl")).unwrap();
    let last: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&last["how"], &last["point"]), (&"recycled".into(), &"main".into()));
    pair.tell("a shell with recycled commands by `regrow run --point main`");
}
