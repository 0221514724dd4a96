//! What a command is told: program, arguments, environment, directory.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::facts::{of_error, of_output};
use crate::recycled::Ready;

fn copy_of(program: &str, to: &std::path::Path) {
    // Written by another process: a child of another thread would have the file open for writing.
    let copied = std::process::Command::new("cp").arg(program).arg(to).status();
    assert!(copied.expect("cp starts").success());
}

#[test]
fn the_environment_is_read_when_the_process_starts() {
    const NAMES: [&str; 2] = ["REGROW_TEST_SET_BEFORE", "REGROW_TEST_SET_LATER"];
    let seen = same!(2, {
        let mut command = Command::new("env");
        command.env(NAMES[0], "1");
        // SAFETY: no test of this program reads the environment by another way than the standard library's, which has a lock.
        unsafe { std::env::set_var(NAMES[1], "2") };
        let with = of_output(command.output());
        // SAFETY: as above.
        unsafe { std::env::remove_var(NAMES[1]) };
        let without = of_output(command.output());
        [with, without].map(|(status, output, error)| {
            let own = output.lines().filter(|line| NAMES.iter().any(|name| line.starts_with(name)));
            (status, own.map(str::to_owned).collect::<Vec<_>>(), error)
        })
    });
    assert_eq!(seen[0].1, ["REGROW_TEST_SET_BEFORE=1", "REGROW_TEST_SET_LATER=2"]);
    assert_eq!(seen[1].1, ["REGROW_TEST_SET_BEFORE=1"]);
}

#[test]
fn an_environment_without_variables_is_one() {
    let seen = same!(2, {
        let none = of_output(Command::new("/usr/bin/env").env_clear().ready().output());
        (
            none,
            of_output(
                Command::new("cat").arg("/proc/self/environ").env_clear().env("A", "").ready().output(),
            ),
        )
    });
    assert_eq!(seen, ((0, String::new(), String::new()), (0, "A=\0".to_owned(), String::new())));
}

#[test]
fn bytes_that_are_no_text_are_passed_on() {
    let odd = OsStr::from_bytes(b"\xff\xfe a\x80b");
    let seen = same!(2, {
        let mut command = Command::new("printf");
        let output = command.arg("%s|").args([odd, OsStr::new(""), odd]).output().expect("it starts");
        let mut command = Command::new("/usr/bin/env");
        let variables =
            command.env_clear().env("ODD", odd).env(OsStr::from_bytes(b"\xfdNAME"), "1").ready().output();
        [output, variables.expect("it starts")].map(|output| (output.status, output.stdout, output.stderr))
    });
    assert_eq!(seen[0].1, b"\xff\xfe a\x80b||\xff\xfe a\x80b|");
    assert_eq!(seen[1].1, b"ODD=\xff\xfe a\x80b\n\xfdNAME=1\n");
}

#[test]
fn many_arguments_and_empty_ones() {
    // What is beyond a body's room for arguments goes by exec.
    let seen = same!(2, {
        let count = "echo $#";
        let empty = of_output(Command::new("sh").args(["-c", count, "sh", "", "", ""]).output());
        let many = of_output(
            Command::new("sh").args(["-c", count, "sh"]).args((0..5000).map(|n| n.to_string())).output(),
        );
        let long = OsString::from_vec(vec![b'x'; 100_000]);
        let mut command = Command::new("sh");
        let long = of_output(command.args(["-c", "echo ${#1} ${#2}", "sh"]).args([&long, &long]).output());
        let mut command = Command::new("sh");
        let some =
            of_output(command.args(["-c", count, "sh"]).args((0..500).map(|n| n.to_string())).output());
        [empty.1, some.1, many.1, long.1]
    });
    assert_eq!(seen, ["3\n", "500\n", "5000\n", "100000 100000\n"]);
}

#[test]
fn names_in_other_letters() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let inner = folder.path().join("d\u{ef}rectory \u{65e5}\u{672c}");
    fs::create_dir(&inner).expect("a folder");
    let program = inner.join("pr\u{f6}gram \u{43f}\u{440}");
    copy_of("/bin/sh", &program);
    let seen = same!(1, {
        let mut command = Command::new(&program);
        command.args(["-c", "echo \"$0|$1|$V\u{e4}L|$VAL\"; pwd", "n\u{fc}ll", "\u{1f600}"]);
        of_output(command.env("VAL", "w\u{e9}rt").current_dir(&inner).output())
    });
    let expected = format!("n\u{fc}ll|\u{1f600}|\u{e4}L|w\u{e9}rt\n{}\n", inner.display());
    assert_eq!((seen.0, seen.1), (0, expected));
}

#[test]
fn a_program_is_found_at_the_end_of_the_path() {
    let folder = tempfile::tempdir().expect("temporary directory");
    copy_of("/bin/echo", &folder.path().join("regrow-test-echo"));
    let path = {
        let mut folders: Vec<_> = std::env::split_paths(&std::env::var_os("PATH").expect("a path")).collect();
        folders.push(folder.path().to_owned());
        std::env::join_paths(folders).expect("a path")
    };
    let seen = same!(1, {
        of_output(Command::new("regrow-test-echo").env("PATH", &path).arg("found").ready().output())
    });
    assert_eq!(seen, (0, "found\n".to_owned(), String::new()));
}

#[test]
fn a_path_with_a_slash_is_looked_for_in_the_directory_of_the_run() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let deep = folder.path().join("fo\\");
    fs::create_dir(&deep).expect("a folder");
    copy_of("/bin/pwd", &deep.join("o"));
    for program in ["fo\\/o", "./fo\\/o", "fo\\/../fo\\/o"] {
        let seen = same!(1, { of_output(Command::new(program).current_dir(folder.path()).ready().output()) });
        assert_eq!(seen.1, format!("{}\n", folder.path().display()));
    }
    // Without the directory it is not there, and a name without a slash is not looked for in it.
    same!(0, { of_error(Command::new("fo\\/o").spawn()) });
    same!(0, { of_error(Command::new("o").current_dir(&deep).spawn()) });
}

#[test]
fn a_command_and_what_comes_of_it_may_go_to_other_threads() {
    fn may_be_sent<T: Send + Sync>(_: &T) {}
    let seen = same!(1, {
        let mut command = Command::new("echo");
        may_be_sent(&command);
        may_be_sent(&Stdio::piped());
        let child = command.arg("elsewhere").stdout(Stdio::piped()).spawn().expect("it starts");
        may_be_sent(&child);
        std::thread::spawn(move || of_output(child.wait_with_output())).join().expect("the thread ends")
    });
    assert_eq!(seen, (0, "elsewhere\n".to_owned(), String::new()));
}

#[test]
fn a_command_is_shown_in_both_forms() {
    same!(0, {
        let mut command = Command::new("some-program");
        let bare = [format!("{command:?}"), format!("{command:#?}")];
        command.args(["one", "two words"]).env("KEY", "value").env_remove("GONE").current_dir("/some/where");
        let told = [format!("{command:?}"), format!("{command:#?}")];
        command.arg0("zero").env_clear().process_group(7).uid(3).gid(4);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        [bare, told, [format!("{command:?}"), format!("{command:#?}")]]
    });
}
