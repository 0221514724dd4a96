//! The live view in a terminal: what is on the screen while a command runs, and what is left on it.

use std::fs;

use crate::pty::Terminal;
use crate::service::Service;

fn has(rows: &[String], text: &str) -> bool {
    rows.iter().any(|row| row.contains(text))
}

/// A command that waits for a file.
const WAITING: &str = "i=0; while [ ! -e go ]; do expr 1 : 1 >/dev/null; echo line $i; i=$((i + 1)); sleep 0.05; done; echo the end >&2; [ -t 1 ] || echo no terminal; exit 5";

fn start(service: &Service, options: &[&str]) -> Terminal {
    let regrow = env!("CARGO_BIN_EXE_regrow");
    let words = [&[regrow, "sites", "--trace"], options, &["--", "sh", "-c", WAITING]].concat();
    Terminal::start("a terminal", &words, service, service.folder())
}

#[test]
fn a_live_table_is_shown_and_the_output_follows_it() {
    let service = Service::start();
    let mut terminal = start(&service, &[]);
    terminal
        .until("the table", |rows| has(rows, "creation sites") && has(rows, "expr") && has(rows, "sleep"));
    terminal.until("the output", |rows| has(rows, "│line "));
    terminal.resize((30, 130));
    terminal.until("a wider table", |rows| has(rows, "life p99") && rows[29].contains("q quits the view"));
    terminal.send("l");
    // Half of the time is that of `sleep`, and it comes first.
    let place =
        |rows: &[String], name: &str| rows.iter().position(|row| row.starts_with("│-") && row.contains(name));
    terminal.until("the order by life", |rows| {
        place(rows, "sleep").zip(place(rows, "expr")).is_some_and(|(sleep, expr)| sleep < expr)
    });
    fs::write(service.folder().join("go"), "").unwrap();
    terminal
        .until("the table at the end", |rows| has(rows, "saved: an estimate") || has(rows, "not complete"));
    assert_eq!(terminal.ends().code(), Some(5));
    let rows = terminal.rows();
    assert!(
        has(&rows, "the end")
            && has(&rows, "no terminal")
            && has(&rows, "created at")
            && !has(&rows, "q quits"),
        "{rows:#?}"
    );
    assert!(!terminal.screen().alternate_screen() && !terminal.screen().hide_cursor());
}

#[test]
fn the_view_can_be_left_and_the_command_interrupted() {
    let service = Service::start();
    let mut terminal = start(&service, &[]);
    terminal.until("the table", |rows| has(rows, "creation sites") && has(rows, "expr"));
    terminal.send("q");
    terminal
        .until("the output from its beginning", |rows| has(rows, "line 1") && !has(rows, "creation sites"));
    // The terminal makes a signal of it.
    terminal.send("\x03");
    assert_eq!(terminal.ends().code(), Some(130));

    let mut terminal = start(&service, &[]);
    terminal.until("the table", |rows| has(rows, "creation sites") && has(rows, "expr"));
    // The terminal is raw: the command takes the key.
    terminal.send("\x03");
    assert_eq!(terminal.ends().code(), Some(130));
    assert!(has(&terminal.rows(), "processes at"), "{:?}", terminal.rows());
}

#[test]
fn without_a_live_view_the_command_has_the_terminal() {
    let service = Service::start();
    let mut terminal = start(&service, &["--no-live"]);
    terminal.until("its output", |rows| has(rows, "line 1"));
    fs::write(service.folder().join("go"), "").unwrap();
    assert_eq!(terminal.ends().code(), Some(5));
    let rows = terminal.rows();
    assert!(!has(&rows, "no terminal") && has(&rows, "created at"), "{rows:#?}");
}
