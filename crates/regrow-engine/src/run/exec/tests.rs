//! What a process started by exec gets, seen from inside it, and which error there is when none starts.

use std::ffi::CString;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Seek};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;

use regrow_abi::task::Resource;
use regrow_sys::strings::Strings;

use super::*;
use crate::run::request::{ExtraFd, StdioFd};

fn request(program: &str, args: &[&str]) -> Request {
    let mut request = Request::new(CString::new(program).expect("no NUL"));
    for arg in args {
        request.args.push(&[arg.as_bytes()]).expect("no NUL");
    }
    request.env = regrow_sys::environ::current();
    request
}

fn sh(script: &str) -> Request {
    request("/bin/sh", &["-c", script])
}

fn spawn(request: &Request) -> io::Result<Started> {
    spawn_exec(request, Fallback::RecyclingOff)
}

/// Runs the request to its end with its output in a file.
fn run(mut request: Request) -> (ExitStatus, String) {
    let mut file = tempfile::tempfile().expect("temporary file");
    let output = OwnedFd::from(file.try_clone().expect("copy of the file"));
    request.stdio[1] = StdioFd::Given(Arc::new(output));
    let status = spawn(&request).expect("the program starts").wait().expect("its status is there");
    let mut text = String::new();
    file.rewind().expect("rewind");
    file.read_to_string(&mut text).expect("output is text");
    (status, text)
}

fn errno_of(request: &Request) -> i32 {
    spawn(request).expect_err("the program does not start").raw_os_error().expect("an error of the system")
}

fn given(file: File) -> Arc<OwnedFd> {
    Arc::new(OwnedFd::from(file))
}

#[test]
fn the_status_is_that_of_the_program() {
    let (status, _) = run(sh("exit 42"));
    assert_eq!(status.code(), Some(42));
    let (status, _) = run(sh("kill -TERM $$"));
    assert_eq!(status.signal(), Some(libc::SIGTERM));
    let started = spawn(&sh("exec sleep 600")).expect("the program starts");
    assert_eq!(started.try_wait().expect("it can be asked"), None);
    started.kill().expect("it can be killed");
    assert_eq!(started.wait().expect("its status is there").signal(), Some(libc::SIGKILL));
    assert_eq!(started.wait().expect_err("it was waited for").raw_os_error(), Some(libc::ECHILD));
    assert_eq!(started.kill().expect_err("it is gone").raw_os_error(), Some(libc::ESRCH));
    assert_eq!(started.creation.fallback(), Some(&Fallback::RecyclingOff));
}

#[test]
fn arguments_and_environment_are_those_of_the_request() {
    let mut asked = sh("tr '\\0' '|' </proc/$$/cmdline; echo; exec env");
    asked.args.push(&[b"", b""]).expect("no NUL");
    asked.args.push(&[b"a b"]).expect("no NUL");
    asked.arg0 = Some(c"other".to_owned());
    asked.env = Strings::new();
    asked.env.push(&[b"ONE=1"]).expect("no NUL");
    asked.env.push(&[b"PATH=/usr/bin:/bin"]).expect("no NUL");
    let (_, text) = run(asked);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("other|-c|tr '\\0' '|' </proc/$$/cmdline; echo; exec env||a b|"));
    assert!(text.contains("\nONE=1\n") && !text.contains("HOME="), "{text}");
}

/// The descriptors of the run, as `number=path` in rising order. A descriptor that the shell has while it lists
/// them is gone when its path is read.
fn open_descriptors(mut asked: Request) -> String {
    let script = "for f in /proc/$$/fd/*; do printf '\n%s=' ${f##*/}; readlink -n $f; done";
    asked.args = Strings::new();
    for arg in ["-c", script] {
        asked.args.push(&[arg.as_bytes()]).expect("no NUL");
    }
    let (_, text) = run(asked);
    text.lines()
        .filter(|line| !line.is_empty() && !line.ends_with('='))
        .map(|line| format!("{line}\n"))
        .collect()
}

#[test]
fn the_run_has_the_descriptors_it_was_given_and_no_others() {
    let mut leak = File::open("/etc/passwd").expect("a file");
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).expect("open over exec");
    let mut asked = sh("");
    asked.stdio[0] = StdioFd::Given(given(File::open("/dev/zero").expect("a device")));
    asked.stdio[2] = StdioFd::Closed;
    let null = given(File::open("/dev/null").expect("a device"));
    asked.extra_fds.push(ExtraFd { source: null.clone(), target: 9 });
    asked.extra_fds.push(ExtraFd { source: null, target: 5 });
    let text = open_descriptors(asked);
    let numbers: Vec<&str> = text.lines().filter(|line| !line.starts_with("1=")).collect();
    assert_eq!(numbers, ["0=/dev/zero", "5=/dev/null", "9=/dev/null"]);
    leak.read_exact(&mut [0]).expect("the caller's descriptor is still open");
}

#[test]
fn descriptors_may_change_places() {
    let zero = given(File::open("/dev/zero").expect("a device"));
    let null = given(File::open("/dev/null").expect("a device"));
    let full = given(File::open("/dev/full").expect("a device"));
    let mut asked = sh("");
    // A ring of three, and one that stays where it is.
    for (source, target) in [(&zero, &null), (&null, &full), (&full, &zero)] {
        asked.extra_fds.push(ExtraFd { source: source.clone(), target: target.as_raw_fd() });
    }
    let stays = given(File::open("/dev/tty0").or_else(|_| File::open("/dev/random")).expect("a device"));
    asked.extra_fds.push(ExtraFd { source: stays.clone(), target: stays.as_raw_fd() });
    let text = open_descriptors(asked);
    for (fd, path) in [(&null, "/dev/zero"), (&full, "/dev/null"), (&zero, "/dev/full")] {
        assert!(text.lines().any(|line| line == format!("{}={path}", fd.as_raw_fd())), "{text}");
    }
    assert!(text.lines().any(|line| line.starts_with(&format!("{}=/dev/", stays.as_raw_fd()))), "{text}");
}

#[test]
fn attributes_are_set() {
    let mut asked = sh("umask; ulimit -c; ulimit -n; pwd; cut -d' ' -f5,6,19 /proc/$$/stat; echo $$");
    asked.task.set_umask(0o027).set_nice(7).set_session(true).set_process_group(0);
    asked.task.set_limit(Resource::Core, 0, 0).set_limit(Resource::Nofile, 50, 60);
    asked.current_dir = Some(c"/usr".to_owned());
    let (status, text) = run(asked);
    assert!(status.success());
    let lines: Vec<&str> = text.lines().collect();
    let pid = lines.last().expect("the pid");
    assert_eq!(lines, ["0027", "0", "50", "/usr", &format!("{pid} {pid} 7"), pid]);
}

#[test]
fn a_process_group_of_its_own() {
    let mut asked = sh("cut -d' ' -f5 /proc/$$/stat; echo $$");
    asked.task.set_process_group(0);
    let (_, text) = run(asked);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.first(), lines.last());
    let mut asked = sh("");
    asked.task.set_process_group(i32::MAX);
    assert_eq!(errno_of(&asked), libc::EPERM);
}

#[test]
fn names_are_looked_for_in_the_path_of_the_run() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let script = directory.path().join("regrow-test-name");
    write_elsewhere(&script, "#!/bin/sh\nexit 9\n");
    let mut asked = request("regrow-test-name", &[]);
    asked.env = Strings::new();
    assert_eq!(errno_of(&asked), libc::ENOENT);
    let path = format!("PATH=/nowhere:{}", directory.path().display());
    asked.env = Strings::new();
    asked.env.push(&[path.as_bytes()]).expect("no NUL");
    assert_eq!(errno_of(&asked), libc::EACCES);
    make_executable(&script);
    assert_eq!(spawn(&asked).expect("found").wait().expect("status").code(), Some(9));
    // A relative directory of the path is one of the run's directory.
    asked.env = Strings::new();
    asked.env.push(&[b"PATH=."]).expect("no NUL");
    asked.current_dir = Some(CString::new(directory.path().as_os_str().as_encoded_bytes()).expect("no NUL"));
    assert_eq!(spawn(&asked).expect("found").wait().expect("status").code(), Some(9));
}

/// Writes a file from another process: a descriptor for writing in this one could be copied into the child of a
/// test that runs at the same time, and the file could then not be executed for a moment (`ETXTBSY`).
fn write_elsewhere(path: &Path, content: &str) {
    let script = "printf %s \"$0\" >\"$1\"";
    let asked = request("/bin/sh", &["-c", script, content, path.to_str().expect("UTF-8")]);
    assert!(spawn(&asked).expect("the shell starts").wait().expect("status").success());
}

fn make_executable(path: &Path) {
    std::fs::set_permissions(path, Permissions::from_mode(0o755)).expect("permissions");
}

#[test]
fn errors_are_those_of_the_step_that_failed() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let text = directory.path().join("text");
    write_elsewhere(&text, "true\n");
    let text_path = text.to_str().expect("UTF-8");
    assert_eq!(errno_of(&request(text_path, &[])), libc::EACCES);
    make_executable(&text);
    assert_eq!(errno_of(&request(text_path, &[])), libc::ENOEXEC);
    let writer = OpenOptions::new().append(true).open(&text).expect("file");
    assert_eq!(errno_of(&request(text_path, &[])), libc::ETXTBSY);
    drop(writer);
    assert_eq!(errno_of(&request("/nowhere/x", &[])), libc::ENOENT);
    assert_eq!(errno_of(&request("", &[])), libc::ENOENT);
    assert_eq!(errno_of(&request(&format!("{text_path}/x"), &[])), libc::ENOTDIR);
    assert_eq!(errno_of(&request(directory.path().to_str().expect("UTF-8"), &[])), libc::EACCES);
    assert_eq!(errno_of(&request(&"n".repeat(300), &[])), libc::ENAMETOOLONG);
    assert_eq!(errno_of(&request("/bin/true", &[&"x".repeat(200 << 10)])), libc::E2BIG);
    let mut asked = request("/bin/true", &[]);
    asked.current_dir = Some(c"/nowhere".to_owned());
    assert_eq!(errno_of(&asked), libc::ENOENT);
    let mut asked = request("/bin/true", &[]);
    let source = given(File::open("/dev/null").expect("a device"));
    asked.extra_fds.push(ExtraFd { source, target: RawFd::MAX });
    assert_eq!(errno_of(&asked), libc::EBADF);
    let mut asked = request("/bin/true", &[]);
    asked.task.set_limit(Resource::Core, 2, 1);
    assert_eq!(errno_of(&asked), libc::EINVAL);
}
