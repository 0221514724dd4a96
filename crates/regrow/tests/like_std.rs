//! The same scenario through `std::process` and through Regrow: what is seen must be equal.

#![allow(unsafe_code, reason = "`pre_exec` is unsafe")]

#[path = "common/elsewhere.rs"]
mod elsewhere;

use std::fmt::Debug;
use std::fs::{File, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Runs a scenario with the types of both, and compares what it gives.
///
/// The scenario is written once; `Command` and `Stdio` in it are those of `std::process` and then those of Regrow.
macro_rules! same {
    ($scenario:block) => {{
        let std_saw = {
            #[allow(unused_imports, reason = "not every scenario uses all of them")]
            use std::{os::unix::process::CommandExt, process::Command, process::Stdio};
            $scenario
        };
        let regrow_saw = {
            #[allow(unused_imports, reason = "not every scenario uses all of them")]
            use regrow::{Command, Stdio, os::unix::process::CommandExt};
            $scenario
        };
        assert_eq!(regrow_saw, std_saw);
        std_saw
    }};
}

/// What there is to compare in an error.
fn error_facts<T: Debug>(result: io::Result<T>) -> (io::ErrorKind, Option<i32>, String) {
    let error = result.expect_err("the scenario is one that fails");
    (error.kind(), error.raw_os_error(), error.to_string())
}

fn output_facts(output: io::Result<Output>) -> (i32, String, String) {
    let output = output.expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("output is text");
    (output.status.into_raw(), text(output.stdout), text(output.stderr))
}

fn raw(status: io::Result<ExitStatus>) -> i32 {
    status.expect("the program starts").into_raw()
}

/// A file that another process writes, with a mode.
fn write_elsewhere(path: &Path, content: &str, mode: u32) {
    elsewhere::write(path, content);
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("permissions");
}

#[test]
fn output_has_status_output_and_error() {
    let seen =
        same!({ output_facts(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]).output()) });
    assert_eq!(seen, (3 << 8, "out\n".to_owned(), "err\n".to_owned()));
    same!({ output_facts(Command::new("sh").arg("-c").arg("kill -SEGV $$").output()) });
    same!({ output_facts(Command::new("printf").args(["%s|", "a", "", "b c", "\u{e4}"]).output()) });
}

#[test]
fn output_reads_nothing_but_what_it_is_told_to() {
    let seen = same!({ output_facts(Command::new("readlink").args(["/proc/self/fd/0"]).output()) });
    assert_eq!(seen.1, "/dev/null\n");
    same!({ output_facts(Command::new("sh").args(["-c", "echo lost; cat"]).stdout(Stdio::null()).output()) });
    same!({
        let input = File::open("/proc/version").expect("a file");
        output_facts(Command::new("cat").stdin(input).output())
    });
}

#[test]
fn status_and_spawn_inherit() {
    let script = "test /proc/$$/fd/0 -ef /proc/$PPID/fd/0 && test /proc/$$/fd/2 -ef /proc/$PPID/fd/2";
    let seen = same!({ raw(Command::new("sh").args(["-c", script]).status()) });
    assert_eq!(seen, 0);
    same!({ raw(Command::new("sh").args(["-c", "exit 200"]).status()) });
    same!({ raw(Command::new("sh").args(["-c", "kill -9 $$"]).status()) });
}

#[test]
fn the_environment_is_the_callers_in_its_order() {
    let seen = same!({ output_facts(Command::new("env").output()) });
    assert!(seen.1.contains("PATH="));
}

#[test]
fn a_changed_environment_is_sorted() {
    let seen = same!({
        let mut command = Command::new("env");
        command.env("ZZ_LAST", "1").env("AA_FIRST", "2=3").env("ZZ_LAST", "4").env_remove("HOME");
        command.envs([("MM_A", ""), ("MM_B", "x")]).env_remove("MM_B");
        output_facts(command.output())
    });
    assert!(seen.1.starts_with("AA_FIRST=2=3\n") && seen.1.contains("\nMM_A=\n") && !seen.1.contains("MM_B"));
    let seen = same!({
        let mut command = Command::new("/usr/bin/env");
        command.env("LOST", "1").env_clear().env("ONLY", "2").env_remove("NONE");
        output_facts(command.output())
    });
    assert_eq!(seen.1, "ONLY=2\n");
}

#[test]
fn a_program_is_looked_for_in_the_path_of_the_run() {
    let directory = tempfile::tempdir().expect("temporary directory");
    write_elsewhere(&directory.path().join("only-here"), "#!/bin/sh\necho $0\n", 0o755);
    same!({ output_facts(Command::new("only-here").env("PATH", directory.path()).output()) });
    same!({ output_facts(Command::new("./only-here").current_dir(directory.path()).output()) });
    same!({
        output_facts(Command::new("only-here").env("PATH", ".").current_dir(directory.path()).output())
    });
    same!({ output_facts(Command::new("sh").args(["-c", "echo found"]).env_clear().output()) });
    same!({ output_facts(Command::new("sh").args(["-c", "echo found"]).env_remove("PATH").output()) });
    same!({ error_facts(Command::new("only-here").output()) });
    same!({ error_facts(Command::new("sh").env("PATH", "/nowhere:/neither").spawn()) });
}

#[test]
fn the_directory_is_set() {
    let seen = same!({ output_facts(Command::new("/bin/pwd").current_dir("/usr/bin/..").output()) });
    assert_eq!(seen.1, "/usr\n");
    same!({ error_facts(Command::new("true").current_dir("/nowhere").spawn()) });
    same!({ error_facts(Command::new("true").current_dir("/etc/passwd").spawn()) });
}

#[test]
fn argument_zero_is_set() {
    let script = "tr '\\0' '|' </proc/$$/cmdline";
    same!({ output_facts(Command::new("/bin/sh").arg0("-other").args(["-c", script]).output()) });
    same!({ output_facts(Command::new("sh").args(["-c", script]).output()) });
}

#[test]
fn errors_are_equal() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let file = |name: &str, content: &str, mode| -> PathBuf {
        let path = directory.path().join(name);
        write_elsewhere(&path, content, mode);
        path
    };
    let plain = file("plain", "text", 0o644);
    let no_format = file("no-format", "true\n", 0o755);
    let no_interpreter = file("no-interpreter", "#!/nowhere/sh\n", 0o755);
    let truncated = file("truncated", "\u{7f}ELF", 0o755);
    let paths =
        [plain.clone(), no_format, no_interpreter, truncated, plain.join("x"), directory.path().to_owned()];
    for path in paths {
        same!({ error_facts(Command::new(&path).spawn()) });
    }
    let long = "n".repeat(300);
    for program in ["", "/", ".", "..", "/nowhere", "not-a-program", "nowhere/x", &long] {
        same!({ error_facts(Command::new(program).spawn()) });
    }
    let large = "x".repeat(256 << 10);
    same!({ error_facts(Command::new("true").arg(&large).spawn()) });
    same!({ error_facts(Command::new("true").env("LARGE", &large).spawn()) });
}

#[test]
fn nul_bytes_are_found_before_anything_runs() {
    let seen = same!({ error_facts(Command::new("tr\0ue").spawn()) });
    assert_eq!(seen.0, io::ErrorKind::InvalidInput);
    same!({ error_facts(Command::new("true").arg("\0").spawn()) });
    same!({ error_facts(Command::new("true").arg0("a\0").spawn()) });
    same!({ error_facts(Command::new("true").env("a\0", "b").spawn()) });
    same!({ error_facts(Command::new("true").env("a", "b\0").output()) });
    same!({ error_facts(Command::new("true").current_dir("/\0").status()) });
    // It is found before the program is looked for.
    same!({ error_facts(Command::new("/nowhere").arg("\0").spawn()) });
}

#[test]
fn pipes_go_both_ways() {
    same!({
        let mut command = Command::new("tr");
        command.args(["a-z", "A-Z"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        assert!(child.stderr.is_none());
        child.stdin.take().expect("a pipe").write_all(b"some text").expect("room in the pipe");
        output_facts(child.wait_with_output())
    });
    same!({
        // `wait` closes the standard input, so that the program sees its end.
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("the program starts");
        let status = raw(child.wait());
        (
            status,
            child.stdin.is_none(),
            raw(child.wait()),
            child.try_wait().expect("it is known").map(ExitStatus::into_raw),
        )
    });
    same!({
        let mut first =
            Command::new("echo").arg("one two").stdout(Stdio::piped()).spawn().expect("it starts");
        let between = first.stdout.take().expect("a pipe");
        let counted = output_facts(Command::new("wc").arg("-w").stdin(between).output());
        (raw(first.wait()), counted)
    });
}

#[test]
fn much_output_on_both_pipes_does_not_block() {
    // Whoever reads one pipe to its end before the other waits for ever, in either order.
    let script = "head -c 900000 /dev/zero >&2; head -c 1200000 /dev/zero; head -c 900000 /dev/zero >&2";
    let seen = same!({ output_facts(Command::new("sh").args(["-c", script]).output()) });
    assert_eq!((seen.1.len(), seen.2.len()), (1_200_000, 1_800_000));
    let seen = same!({
        let mut command = Command::new("sh");
        command.args(["-c", "exec 2>&-; head -c 500000 /dev/zero"]);
        output_facts(command.output())
    });
    assert_eq!(seen.1.len(), 500_000);
}

#[test]
fn a_descriptor_is_shared_and_may_be_used_again() {
    let seen = same!({
        let mut file = tempfile::tempfile().expect("temporary file");
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2"]);
        command.stdout(file.try_clone().expect("copy")).stderr(file.try_clone().expect("copy"));
        let statuses = [raw(command.status()), raw(command.status())];
        file.rewind().expect("rewind");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("text");
        (statuses, text)
    });
    assert_eq!(seen.1, "out\nerr\nout\nerr\n");
    same!({ output_facts(Command::new("sh").args(["-c", "test 1 -ef 2"]).stdout(io::stderr()).output()) });
}

#[test]
fn a_child_is_asked_killed_and_waited_for() {
    same!({
        let mut child = Command::new("sleep").arg("600").spawn().expect("the program starts");
        let before = child.try_wait().expect("it can be asked");
        child.kill().expect("it runs");
        let status = raw(child.wait());
        child.kill().expect("there is no error after the end");
        (before, status, raw(child.wait()))
    });
    same!({
        let mut child = Command::new("true").stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut end = Vec::new();
        child.stdout.take().expect("a pipe").read_to_end(&mut end).expect("the pipe's end");
        let status = loop {
            if let Some(status) = child.try_wait().expect("it can be asked") {
                break status.into_raw();
            }
        };
        child.kill().expect("there is no error after the end");
        status
    });
}

#[test]
fn the_child_is_the_callers_own() {
    same!({
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ $PPID"]).stdout(Stdio::piped());
        let child = command.spawn().expect("the program starts");
        let expected = format!("{} {}\n", child.id(), std::process::id());
        output_facts(child.wait_with_output()).1 == expected
    });
}

#[test]
fn process_groups() {
    let script = "set -- $(cut -d' ' -f5 /proc/$$/stat) $$; test $1 = $2 && echo own || echo other";
    let seen = same!({ output_facts(Command::new("sh").args(["-c", script]).process_group(0).output()) });
    assert_eq!(seen.1, "own\n");
    same!({ output_facts(Command::new("sh").args(["-c", script]).output()) });
    same!({ error_facts(Command::new("true").process_group(i32::MAX).spawn()) });
    same!({ error_facts(Command::new("true").process_group(-5).spawn()) });
}

#[test]
fn signals_are_those_of_std() {
    let [_, ignored] = same!({
        let (_, text, _) =
            output_facts(Command::new("grep").args(["^Sig[BI]", "/proc/self/status"]).output());
        ["SigBlk:", "SigIgn:"].map(|name| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("the field is there");
            let mask = u64::from_str_radix(line.trim(), 16).expect("a mask");
            // Signals 32 and 33 are glibc's own. Its `posix_spawn` leaves them ignored, its `fork` does not.
            mask & !(3 << 31)
        })
    });
    assert_eq!(ignored & (1 << 12), 0, "SIGPIPE, number 13, which Rust ignores, is at its default");
}

#[test]
fn a_command_shows_what_it_was_told() {
    same!({
        let mut command = Command::new("pro gram");
        command.args(["a", "b c"]).arg("\"").env("K", "v").env_remove("R").current_dir("/d");
        let args: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
        let envs: Vec<_> =
            command.get_envs().map(|(k, v)| (k.to_owned(), v.map(std::ffi::OsStr::to_owned))).collect();
        let facts = (command.get_program().to_owned(), command.get_current_dir().map(Path::to_owned));
        let lengths = (command.get_args().len(), command.get_envs().len());
        (format!("{command:?}"), args, envs, facts, lengths)
    });
    same!({ format!("{:?}", Command::new("x")) });
    same!({ format!("{:?}", Command::new("x").arg0("y").env_clear().env("K", "v")) });
}

/// The lines of `/proc/self/status` that tell of users and groups.
fn who(output: io::Result<Output>) -> (i32, Vec<String>) {
    let (status, output, error) = output_facts(output);
    assert_eq!(error, "");
    let is_wanted = |line: &&str| ["Uid:", "Gid:", "Groups:"].iter().any(|name| line.starts_with(name));
    (status, output.lines().filter(is_wanted).map(str::to_owned).collect())
}

#[test]
fn another_user_and_other_groups() {
    if !rustix::process::geteuid().is_root() {
        // What a user without privilege may say of itself, and may not.
        let own = rustix::process::getuid().as_raw();
        same!({ who(Command::new("cat").arg("/proc/self/status").uid(own).output()) });
        let refused = same!({ error_facts(Command::new("true").uid(0).status()) });
        assert_eq!(refused.1, Some(libc::EPERM));
        same!({ error_facts(Command::new("true").gid(0).status()) });
        return;
    }
    let seen = same!({ who(Command::new("cat").arg("/proc/self/status").uid(65_534).gid(65_533).output()) });
    assert_eq!(
        seen.1,
        ["Uid:\t65534\t65534\t65534\t65534", "Gid:\t65533\t65533\t65533\t65533", "Groups:\t "]
    );
    same!({ who(Command::new("cat").arg("/proc/self/status").gid(65_533).output()) });
    // The directory is entered by the new user.
    let closed = tempfile::tempdir().expect("temporary directory");
    std::fs::set_permissions(closed.path(), Permissions::from_mode(0o700)).expect("permissions");
    let refused =
        same!({ error_facts(Command::new("true").uid(65_534).current_dir(closed.path()).status()) });
    assert_eq!(refused.0, io::ErrorKind::PermissionDenied);
    let mut command = regrow::Command::new("cat");
    {
        use regrow::os::unix::process::CommandExt;
        command.arg("/proc/self/status").uid(65_534).groups(&[7, 9]);
    }
    assert!(who(command.output()).1.contains(&"Groups:\t7 9 ".to_owned()));
    // The caller is as it was, also for those who look into it.
    assert_eq!(
        rustix::process::dumpable_behavior().expect("the kernel says"),
        rustix::process::DumpableBehavior::Dumpable
    );
}

#[test]
fn what_is_called_before_the_exec() {
    let own = std::process::id();
    let seen = same!({
        let mut command = Command::new("sh");
        let (reader, writer) = io::pipe().expect("a pipe");
        let count = Arc::new(AtomicU8::new(0));
        let counted = Arc::clone(&count);
        // SAFETY: they make system calls only, and write to memory that nobody else has.
        unsafe {
            command
                .pre_exec(move || {
                    counted.fetch_add(1, Relaxed);
                    assert_ne!(std::process::id(), own);
                    Ok(rustix::process::chdir("/proc")?)
                })
                .pre_exec(move || {
                    // A descriptor of the caller's, given on.
                    rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty())?;
                    rustix::io::write(&writer, &[b'0' + count.load(Relaxed)])?;
                    Ok(())
                });
        }
        let first = output_facts(command.current_dir("/").args(["-c", "pwd; umask"]).output());
        let second = output_facts(command.output());
        drop(command);
        let mut told = String::new();
        { reader }.read_to_string(&mut told).expect("it is text");
        (first, second, told)
    });
    // Each run has a copy of the caller's count.
    assert_eq!((seen.0.1.lines().next(), seen.2.as_str()), (Some("/proc"), "11"));
    for error in [io::Error::from_raw_os_error(libc::EXDEV), io::Error::other("of its own")] {
        let (kind, errno) = (error.kind(), error.raw_os_error());
        same!({
            let mut command = Command::new("true");
            let refuse = move || Err(errno.map_or_else(|| kind.into(), io::Error::from_raw_os_error));
            // SAFETY: makes no call.
            unsafe { command.pre_exec(refuse) };
            error_facts(command.status())
        });
    }
    let missing = same!({
        let mut command = Command::new("/nowhere/program");
        // SAFETY: makes no call.
        unsafe { command.pre_exec(|| Ok(())) };
        error_facts(command.spawn().map(|_| ()))
    });
    assert_eq!(missing.0, io::ErrorKind::NotFound);
    let broken = same!({
        let mut command = Command::new("true");
        // SAFETY: the process ends by it.
        unsafe { command.stderr(Stdio::null()).pre_exec(|| panic!("a hook that panics")) };
        raw(command.status())
    });
    assert_eq!(broken & 0x7f, libc::SIGABRT);
}

/// This test is its own helper: with the variable it becomes a program.
#[test]
fn a_caller_becomes_the_program() {
    const WHAT: &str = "REGROW_TEST_BECOMES";
    let me = std::env::current_exe().expect("it has a path");
    let helper = |what: &str| {
        let mut command = std::process::Command::new(&me);
        command.args(["--exact", "a_caller_becomes_the_program", "--nocapture", "-q"]).env(WHAT, what);
        let (status, output, error) = output_facts(command.output());
        // What the test's own frame prints comes before.
        (
            status,
            output.lines().filter(|line| line.starts_with(": ")).map(str::to_owned).collect::<Vec<_>>(),
            error,
        )
    };
    // Whoever runs the tests may have left descriptors with higher numbers open: std passes them on.
    let script = "echo \": $0 $PWD $TOLD $(ls /proc/self/fd | grep -c '^.$') $(cat)\"
        read children </proc/$$/task/$$/children; echo \": children $children.\"; exit 7";
    match std::env::var(WHAT).as_deref() {
        Ok("std") => {
            use std::os::unix::process::CommandExt;
            let mut command = std::process::Command::new("sh");
            command.arg0("zero").args(["-c", script]).arg("zero").current_dir("/").env("TOLD", "1");
            panic!("{}", command.stdin(std::process::Stdio::null()).exec());
        }
        Ok("regrow") => {
            use regrow::os::unix::process::CommandExt;
            // What the pool keeps must be gone.
            regrow::Pool::global().prepare(&regrow::Command::new("true")).expect("it is recycled");
            let mut command = regrow::Command::new("sh");
            command.arg0("zero").args(["-c", script]).arg("zero").current_dir("/").env("TOLD", "1");
            panic!("{}", command.stdin(regrow::Stdio::null()).exec());
        }
        Ok("nothing") => {
            use regrow::os::unix::process::CommandExt;
            let file = File::open("/dev/null").expect("a device");
            let error = regrow::Command::new("/nowhere/program").exec();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            // It goes on with what it has.
            assert!(file.metadata().is_ok());
            assert!(regrow::Command::new("true").status().expect("it starts").success());
            println!("\n: goes on");
        }
        _ => {
            let seen = helper("std");
            assert_eq!(helper("regrow"), seen);
            assert_eq!((seen.0, seen.1.get(1).map(String::as_str)), (7 << 8, Some(": children .")));
            assert_eq!(helper("nothing").1, [": goes on"]);
        }
    }
}

#[test]
fn a_process_is_opened_as_a_descriptor_when_it_starts() {
    use regrow::os::unix::process::CommandExt;
    let child = regrow::Command::new("true").create_pidfd(true).spawn().expect("it starts");
    let pid = child.id();
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", {
        use std::os::fd::AsRawFd;
        child.pidfd().expect("it is open").as_raw_fd()
    }));
    assert!(info.expect("the kernel tells").contains(&format!("Pid:\t{pid}\n")));
    { child }.wait().expect("it ends");
}
