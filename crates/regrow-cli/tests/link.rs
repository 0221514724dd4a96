//! `regrow link` and `regrow unlink`, and launchers: what they run, and that they never run one another.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod common;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{shell_status, stderr, stdout};
use regrow_testkit::program;

/// The command under test.
const REGROW: &str = env!("CARGO_BIN_EXE_regrow");
/// How long something may take that has to happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A home with programs, folders for launchers, and a place for a daemon's socket.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        let home = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o700)).tempdir();
        let home = Home(home.unwrap());
        fs::create_dir(home.at("programs")).unwrap();
        home
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// A program of this name, in `programs`.
    fn program(&self, name: &str, script: &str) -> PathBuf {
        let path = self.at("programs").join(name);
        program::write(&path, format!("#!/bin/sh\n{script}\n").as_bytes()).unwrap();
        path
    }

    /// A command without a terminal, in a session of its own, that finds its program in these folders of the home, in
    /// those of the system and nowhere else. There is no daemon, and none is started.
    fn command(&self, folders: &[&str], words: &[&str]) -> Command {
        let path = folders.iter().map(|folder| self.at(folder)).chain(["/usr/bin".into(), "/bin".into()]);
        self.command_with_path(std::env::join_paths(path).unwrap(), words)
    }

    fn command_with_path(&self, path: impl Into<OsString>, words: &[&str]) -> Command {
        let mut command = Command::new("/usr/bin/setsid");
        command.arg("--wait").args(words);
        command.env_clear().env("PATH", path.into()).env("HOME", self.0.path());
        command.env("XDG_RUNTIME_DIR", "/nonexistent").stdin(Stdio::null()).current_dir(self.0.path());
        command
    }

    /// Runs these words as a shell would that has these folders at the front of its PATH.
    fn typed(&self, folders: &[&str], words: &[&str]) -> Output {
        self.command(folders, words).output().unwrap()
    }

    /// Makes launchers for programs of `programs`.
    fn link(&self, folder: &str, names: &[&str]) -> Output {
        let words = [&[REGROW, "link", "--dir", folder], names].concat();
        self.command(&["programs"], &words).output().unwrap()
    }

    fn unlink(&self, folder: &str, names: &[&str]) -> Output {
        let words = [&[REGROW, "unlink", "--dir", folder], names].concat();
        self.command(&["programs"], &words).output().unwrap()
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = self.at(folder).read_dir().unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Asserts that it went well, and had nothing to say.
#[track_caller]
fn silent(output: &Output) {
    assert_eq!(
        (output.status.code(), stdout(output), stderr(output)),
        (Some(0), String::new(), String::new())
    );
}

/// Asserts that it was refused, with these words, which begin with this path.
#[track_caller]
fn refused(output: &Output, path: &Path, words: &str) {
    let text = format!("regrow: {}: {words}\n", path.display());
    assert_eq!((output.status.code(), stdout(output), stderr(output)), (Some(2), String::new(), text));
}

#[test]
fn a_launcher_runs_its_program_with_all_that_it_was_given() {
    let home = Home::new();
    home.program("tool", r#"read line; echo "$line|$*|$PATH|$(pwd -P)"; echo error >&2; exit 7"#);
    assert_eq!(home.link("bin", &["tool", "cat"]).status.code(), Some(0));
    let run = |folders: &[&str]| {
        let mut command = home.command(folders, &["tool", "--one", "two words"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .env("PATH", std::env::join_paths(folders.iter().map(|folder| home.at(folder))).unwrap())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"a line\n").unwrap();
        let output = child.wait_with_output().unwrap();
        (shell_status(output.status), stdout(&output), stderr(&output))
    };
    let (status, text, error) = run(&["bin", "programs"]);
    let here = home.0.path().canonicalize().unwrap();
    let path = format!("{}:{}", home.at("bin").display(), home.at("programs").display());
    assert_eq!(text, format!("a line|--one two words|{path}|{}\n", here.display()), "{error}");
    assert_eq!((status, error.as_str()), (7, "error\n"));
}

#[test]
fn the_program_sees_the_name_that_was_typed() {
    let home = Home::new();
    silent_but_for_the_path(&home.link("bin", &["sh", "cat"]));
    let own_name = "tr '\\0' '\\n' </proc/$$/cmdline | head -n 1";
    assert_eq!(stdout(&home.typed(&["bin"], &["sh", "-c", own_name])), "sh\n");
    let by_path = home.at("bin/sh");
    let by_path = by_path.to_str().unwrap();
    assert_eq!(stdout(&home.typed(&[], &[by_path, "-c", own_name])), format!("{by_path}\n"));
    // A caller may give any argv[0]: the launcher is known by its file.
    let as_login = format!("exec -a -login {by_path} -c \"$0\"");
    assert_eq!(stdout(&home.typed(&[], &["bash", "-c", &as_login, own_name])), "-login\n");
    // And it may be the interpreter of a script.
    let script = home.program("script", "");
    fs::write(&script, format!("#!{} -u\na line\n", home.at("bin/cat").display())).unwrap();
    assert_eq!(stdout(&home.typed(&["programs"], &["script"])), fs::read_to_string(&script).unwrap());
}

#[track_caller]
fn silent_but_for_the_path(output: &Output) {
    assert_eq!((output.status.code(), stdout(output)), (Some(0), String::new()), "{}", stderr(output));
}

#[test]
fn the_status_is_that_of_the_program() {
    let home = Home::new();
    home.link("bin", &["sh"]);
    for (words, wanted) in [("exit 3", 3), ("kill -TERM $$", 143), ("ulimit -c 0; kill -SEGV $$", 139)] {
        let output = home.typed(&["bin"], &["sh", "-c", words]);
        assert_eq!(shell_status(output.status), wanted, "{words}: {}", stderr(&output));
    }
}

#[test]
fn launchers_never_start_one_another() {
    let home = Home::new();
    home.program("tool", "echo the program");
    home.link("one", &["tool"]);
    home.link("two", &["tool"]);
    fs::create_dir(home.at("three")).unwrap();
    symlink(home.at("one/tool"), home.at("three/tool")).unwrap();
    // Another installation: no link leads to the file of this one, and it has launchers too.
    fs::create_dir_all(home.at("other/bin")).unwrap();
    program::copy(Path::new(REGROW), &home.at("other/regrow")).unwrap();
    symlink(home.at("other/regrow"), home.at("other/bin/tool")).unwrap();
    fs::create_dir(home.at("copies")).unwrap();
    program::copy(Path::new(REGROW), &home.at("copies/tool")).unwrap();
    let all = ["one", "two", "three", "other/bin", "copies"];
    for first in 0..all.len() {
        let mut folders = all.to_vec();
        folders.rotate_left(first);
        folders.push("programs");
        let output = home.typed(&folders, &["tool"]);
        assert_eq!(
            (stdout(&output).as_str(), stderr(&output).as_str()),
            ("the program\n", ""),
            "{folders:?}"
        );
        folders.pop();
        let alone = home.typed(&folders, &["tool"]);
        assert_eq!(alone.status.code(), Some(127), "{folders:?}");
        let text = "regrow: tool: there is no such program in PATH but Regrow's launchers\n";
        assert_eq!(stderr(&alone), text, "{folders:?}");
    }
}

#[test]
fn relative_entries_of_path_lead_to_no_launcher_either() {
    let home = Home::new();
    home.program("tool", "echo the program");
    home.link("bin", &["tool"]);
    let run = |path: &str, folder: &str| {
        let mut command = home.command_with_path(path, &["tool"]);
        command.current_dir(home.at(folder)).output().unwrap()
    };
    for (path, folder) in [
        ("bin:programs", "."),
        ("./bin/../bin:bin:./programs", "."),
        (":../programs", "bin"),
        (".:../bin:../programs:", "bin"),
        ("../bin:", "programs"),
    ] {
        let output = run(path, folder);
        assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("the program\n", ""), "{path}");
    }
    for (path, folder) in [("bin", "."), ("", "bin"), (":", "bin"), (".", "bin")] {
        let output = run(path, folder);
        assert_eq!(output.status.code(), Some(127), "{path}: {}", stderr(&output));
    }
}

#[test]
fn regrow_run_runs_what_a_launcher_stands_for() {
    let home = Home::new();
    home.program("tool", r#"echo "the program $1""#);
    home.link("bin", &["tool"]);
    let by_path = home.at("bin/tool");
    for flags in [&["--"][..], &["--embedded", "--"], &["--repeat", "2", "--"]] {
        for name in ["tool", by_path.to_str().unwrap()] {
            let words = [&[REGROW, "run"], flags, &[name, "x"]].concat();
            let output = home.command(&["bin", "programs"], &words).output().unwrap();
            let times = if flags.contains(&"2") { 2 } else { 1 };
            let wanted = "the program x\n".repeat(times);
            assert_eq!((stdout(&output), stderr(&output)), (wanted, String::new()), "{flags:?} {name}");
            let words = [&[REGROW, "run"], flags, &[name, "x"]].concat();
            let alone = home.command(&["bin"], &words).output().unwrap();
            assert_eq!(alone.status.code(), Some(127), "{flags:?} {name}");
        }
    }
}

#[test]
fn files_that_are_no_launchers_are_left_alone() {
    let home = Home::new();
    home.program("tool", "");
    home.program("mine", "echo mine");
    for folder in ["bin", "bin/folder"] {
        fs::create_dir(home.at(folder)).unwrap();
    }
    fs::write(home.at("bin/mine"), "kept").unwrap();
    symlink("/bin/true", home.at("bin/true")).unwrap();
    symlink(REGROW, home.at("bin/regrow")).unwrap();
    let there = "it is there already and is no launcher";
    for name in ["mine", "true"] {
        refused(&home.link("bin", &["tool", name]), &home.at("bin").join(name), there);
        assert!(!home.at("bin/tool").exists(), "nothing is made when one is refused");
    }
    assert_eq!(home.link("bin", &["tool", "cat"]).status.code(), Some(0));
    for name in ["mine", "true", "folder"] {
        refused(
            &home.unlink("bin", &["tool", name]),
            &home.at("bin").join(name),
            "is no launcher, left alone",
        );
    }
    refused(&home.unlink("bin", &["tool", "none"]), &home.at("bin/none"), "there is no such launcher");
    assert_eq!(home.names("bin"), ["cat", "folder", "mine", "regrow", "tool", "true"]);
    silent(&home.unlink("bin", &["tool"]));
    silent(&home.unlink("bin", &["--all"]));
    silent(&home.unlink("bin", &["--all"]));
    assert_eq!(home.names("bin"), ["folder", "mine", "regrow", "true"]);
    assert_eq!(fs::read_to_string(home.at("bin/mine")).unwrap(), "kept");
    silent(&home.unlink("nowhere", &["--all"]));
}

#[test]
fn names_that_cannot_be_launchers_are_told() {
    let home = Home::new();
    let no_program = home.link("bin", &["cat", "no-such-program-anywhere"]);
    refused(
        &no_program,
        Path::new("no-such-program-anywhere"),
        "there is no such program that can be executed",
    );
    let path = home.link("bin", &["/bin/cat"]);
    assert_eq!(stderr(&path), "regrow: \"/bin/cat\": a launcher has the name of a program, not its path\n");
    assert!(!home.at("bin").exists());
    for words in [&["link"][..], &["unlink"], &["unlink", "--all", "cat"]] {
        let output = home.command(&[], &[&[REGROW], words].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
    }
    let folder = home.program("file", "").join("bin");
    let output = home.link(folder.to_str().unwrap(), &["cat"]);
    assert!(stderr(&output).starts_with(&format!("regrow: {}", folder.display())), "{}", stderr(&output));
    let output = home.link("/proc/none", &["cat"]);
    let text = "regrow: /proc/none: the folder cannot be made: ";
    assert!(stderr(&output).starts_with(text), "{}", stderr(&output));
}

#[test]
fn a_launcher_of_an_installation_that_is_gone_is_renewed() {
    let home = Home::new();
    fs::create_dir(home.at("bin")).unwrap();
    symlink(home.at("gone/regrow"), home.at("bin/cat")).unwrap();
    silent_but_for_the_path(&home.link("bin", &["cat", "cat"]));
    let launcher = home.at("bin/cat").symlink_metadata().unwrap();
    assert!(launcher.is_file() && launcher.len() < 16 * 1024);
    assert_eq!(stdout(&home.typed(&["bin"], &["cat", "/proc/self/comm"])), "cat\n");
    assert_eq!(home.names("bin"), ["cat"]);
}

#[test]
fn the_folder_is_the_users_own_and_the_line_for_path_is_told() {
    let home = Home::new();
    let link = |words: &[&str]| home.command(&["front"], words);
    let line = |folder: &Path| {
        let folder = folder.display();
        format!(
            "regrow: {folder} is not at the front of PATH; add the line  export PATH={folder}:\"$PATH\"\n"
        )
    };
    let output = link(&[REGROW, "link", "cat"]).output().unwrap();
    assert_eq!(stderr(&output), line(&home.at(".local/share/regrow/bin")));
    let output = link(&[REGROW, "link", "cat"]).env("XDG_DATA_HOME", home.at("data")).output().unwrap();
    assert_eq!(stderr(&output), line(&home.at("data/regrow/bin")));
    silent(&link(&[REGROW, "link", "--dir", "front", "cat"]).output().unwrap());
    silent(&link(&[REGROW, "unlink", "cat"]).output().unwrap());
    assert_eq!(home.names(".local/share/regrow/bin"), [] as [&str; 0]);
    let nowhere = link(&[REGROW, "link", "cat"]).env_remove("HOME").output().unwrap();
    assert_eq!(stderr(&nowhere), "regrow: --dir is needed: neither XDG_DATA_HOME nor HOME names a folder\n");
}

/// A daemon of a home.
struct Daemon<'a>(&'a Home, Child);

impl<'a> Daemon<'a> {
    fn start(home: &'a Home) -> Daemon<'a> {
        let mut command = Command::new(REGROW);
        command.args(["daemon", "--idle", "0"]).env("XDG_RUNTIME_DIR", home.0.path());
        let daemon = Daemon(home, command.stdin(Stdio::null()).spawn().unwrap());
        let deadline = Instant::now() + PATIENCE;
        while !home.at("regrow.sock").exists() {
            assert!(Instant::now() < deadline, "the daemon does not listen");
            sleep(Duration::from_millis(5));
        }
        daemon
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let mut stop = Command::new(REGROW);
        let _ = stop.arg("stop").env("XDG_RUNTIME_DIR", self.0.0.path()).status();
        let _ = self.1.kill();
        let _ = self.1.wait();
    }
}

#[test]
fn what_a_launcher_runs_is_recycled_by_the_daemon() {
    let home = Home::new();
    home.link("bin", &["sh"]);
    let daemon = Daemon::start(&home);
    let pid = daemon.1.id().to_string();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let script = "echo $PPID; tr '\\0' '\\n' </proc/$$/cmdline | head -n 1; exit 5";
        let mut command = home.command(&["bin"], &["sh", "-c", script]);
        let output = command.env("XDG_RUNTIME_DIR", home.0.path()).output().unwrap();
        assert_eq!((output.status.code(), stderr(&output)), (Some(5), String::new()));
        let text = stdout(&output);
        let (parent, name) = text.trim().split_once('\n').unwrap();
        assert_eq!(name, "sh");
        if parent == pid {
            break;
        }
        assert!(Instant::now() < deadline, "no run is the daemon's child");
        sleep(Duration::from_millis(20));
    }
}
