//! Programs that own the whole screen, or a line of it.

use std::fs;
use std::path::Path;

use crate::pair::Pair;
use crate::pty::{Terminal, warm};
use crate::service::Service;
use crate::shells::{has, last};

/// A session of a program by itself, and by `regrow run`, which has become the program.
fn pair(service: &Service, program: &[&str], files: impl Fn(&Path)) -> Pair {
    let regrow = [&[env!("CARGO_BIN_EXE_regrow"), "run", "--"], program].concat();
    Pair::start(service, program, &regrow, files)
}

/// A daemon that could recycle what is small.
fn service() -> Service {
    let service = Service::start();
    warm(&service, &["sh"]);
    service
}

#[test]
fn vim_edits_a_file() {
    let service = service();
    let mut pair = pair(&service, &["vim", "--clean", "-n", "story.txt"], |folder| {
        fs::write(folder.join("story.txt"), "first\nsecond\nthird\n").unwrap();
    });
    pair.until("the file", |rows| rows[0] == "first" && rows[23].contains("3L"));
    assert!(pair.regrow().executable().starts_with("vim"), "the command has become the program");
    pair.send("jonew words");
    pair.until("the words", |rows| rows[2] == "new words" && rows[23].contains("-- INSERT --"));
    pair.resize((30, 100));
    pair.until("the larger window", |rows| rows[28] == "~" && rows[29].contains("-- INSERT --"));
    pair.send("\x1b");
    pair.until("normal mode", |rows| !has(rows, "INSERT") && rows[29].contains("3,9"));
    pair.send(":set number\r");
    pair.until("numbers of lines", |rows| rows[2].trim_start() == "3 new words");
    pair.send(":wq\r");
    assert!(pair.ends().success());
    for folder in pair.folders() {
        assert_eq!(
            fs::read_to_string(folder.join("story.txt")).unwrap(),
            "first\nsecond\nnew words\nthird\n"
        );
    }
    pair.tell("vim");
}

#[test]
fn less_pages_and_searches() {
    let service = service();
    let mut pair = pair(&service, &["less", "numbers.txt"], |folder| {
        let lines: String = (1..=300).map(|number| format!("line {number}\n")).collect();
        fs::write(folder.join("numbers.txt"), lines).unwrap();
    });
    pair.until("the first page", |rows| rows[0] == "line 1" && rows[23] == "numbers.txt");
    assert_eq!(pair.regrow().executable(), "less", "the command has become the program");
    pair.send(" ");
    pair.until("the second page", |rows| rows[0] == "line 24" && rows[23] == ":");
    pair.send("/e 21[0-9]\r");
    pair.until("what is looked for", |rows| rows[0] == "line 210" && rows[23] == ":");
    pair.resize((12, 60));
    // It does not look for a signal that comes right before it waits for a key.
    pair.send("r");
    pair.until("the smaller window", |rows| rows[10] == "line 220" && rows[11] == ":");
    pair.send("G");
    pair.until("the end of the file", |rows| rows[10] == "line 300" && rows[11] == "(END)");
    pair.send("q");
    assert!(pair.ends().success());
    pair.tell("less");
}

#[test]
fn python_reads_expressions() {
    let service = service();
    let mut pair = pair(&service, &["/usr/bin/python3", "-q"], |_| ());
    pair.until("a prompt", |rows| rows[0] == ">>>");
    assert!(pair.regrow().executable().starts_with("python3"), "the command has become the program");
    pair.send("6 * 7\n");
    pair.until("a value", |rows| rows[1] == "42" && rows[2] == ">>>");
    // What is edited with the keys of the terminal.
    pair.send("priint\x1b[D\x1b[D\x1b[D\x7f\x05(__import__('os').ttyname(0)[:5])\n");
    pair.until("an edited line", |rows| rows[3] == "/dev/" && rows[4] == ">>>");
    pair.send("import time\n");
    pair.until("another prompt", |rows| rows[5] == ">>>");
    // It does not look for a signal that comes right before a long sleep.
    pair.send("for n in range(9999): n or print('sleep', 'ing'); time.sleep(0.05)\n\n");
    pair.until("something that takes long", |rows| rows[7] == "sleep ing");
    pair.send("\x03");
    pair.until("an interrupt", |rows| has(rows, "KeyboardInterrupt") && last(rows) == ">>>");
    pair.send("raise SystemExit(3)\n");
    assert_eq!(pair.ends().code(), Some(3));
    pair.tell("python3");
}

#[test]
fn python_ends_with_its_input() {
    let service = service();
    let mut pair = pair(&service, &["/usr/bin/python3", "-q"], |_| ());
    pair.until("a prompt", |rows| rows[0] == ">>>");
    pair.send("\x04");
    assert!(pair.ends().success());
    pair.tell("python3 and Ctrl-D");
}

#[test]
fn top_is_shown_and_left() {
    let service = service();
    let daemon = service.daemon().to_string();
    let mut pair = pair(&service, &["top", "-d", "600", "-p", &daemon], |_| ());
    pair.compare(words);
    pair.until("the table", |rows| has(rows, "PID USER") && has(rows, &format!("{daemon} ")));
    assert_eq!(pair.regrow().executable(), "top", "the command has become the program");
    pair.send("h");
    pair.until("the help", |rows| has(rows, "Help for Interactive Commands"));
    pair.send("q");
    pair.until("the table again", |rows| has(rows, "PID USER"));
    pair.send("q");
    assert!(pair.ends().success());
    pair.tell("top");
}

/// The words of a screen without numbers, which change from one look to the next, from its second row on.
fn words(screen: &vt100::Screen) -> Vec<u8> {
    let rows = crate::pty::rows(screen);
    let words = rows.iter().skip(1).flat_map(|row| row.split(|c: char| !c.is_ascii_alphabetic()));
    words.filter(|word| word.len() > 1).flat_map(|word| [word.as_bytes(), b" "].concat()).collect()
}

/// The command's own.
#[test]
fn regrow_top_shows_what_is_kept_and_leaves_the_terminal_as_it_was() {
    let service = service();
    for key in ["q", "\x1b", "\x03"] {
        let arguments = ["regrow", "top", "--interval-ms", "50"];
        let mut terminal = Terminal::start("regrow top", &arguments, &service, service.folder());
        let shell = |rows: &[String]| rows.iter().any(|row| row.contains("/sh ") && row.contains(" kept"));
        terminal.until("the images", |rows| has(rows, "creations in an interval") && shell(rows));
        terminal.resize((40, 120));
        terminal.until("the larger window", |rows| rows[39].contains("q quits") && shell(rows));
        warm(&service, &["true"]);
        terminal.until("another image", |rows| rows.iter().any(|row| row.contains("/true ")));
        terminal.send(key);
        assert!(terminal.ends().success());
        assert!(!terminal.screen().alternate_screen() && !terminal.screen().hide_cursor());
    }
}
