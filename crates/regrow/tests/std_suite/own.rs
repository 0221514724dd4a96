//! What a process of its own is needed for: this program, told by a variable, is a caller or what is called.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;

use crate::facts::{of_output, raw};

/// Has the test `as_a_program` do something.
pub(crate) const DOES: &str = "REGROW_TEST_DOES";
/// The arguments that this program has then. One thread: it runs on the program's first.
pub(crate) const ARGS: [&str; 5] = ["--exact", "own::as_a_program", "--nocapture", "-q", "--test-threads=1"];
/// What it says when it has done it.
const DONE: &str = ": done\n";

/// With the variable, not a test.
#[test]
fn as_a_program() {
    match std::env::var(DOES).as_deref() {
        Ok("exit 64") => std::process::exit(64),
        Ok("panic") => panic!("as it was told"),
        Ok("abort") => std::process::abort(),
        Ok("write") => write_to_nobody(),
        Ok("lines") => lines(),
        Ok("look at descriptors") => look_at_descriptors(),
        Ok("std without descriptors") => without_descriptors(true),
        Ok("without descriptors") => without_descriptors(false),
        Ok("without descriptors from the start") => without_descriptors_from_the_start(),
        Ok("swapped descriptors") => swapped_descriptors(),
        Ok("given input") => given_input(),
        Ok("odd environment") => odd_environment(),
        _ => {}
    }
}

/// Has this program do something as another process, which must say that it has.
fn in_a_process(does: &str, tell: impl FnOnce(&mut std::process::Command)) {
    let mut command = std::process::Command::new(std::env::current_exe().expect("it has a path"));
    command.args(ARGS).env(DOES, does);
    tell(&mut command);
    let (status, output, error) = of_output(command.output());
    assert!(status == 0 && output.contains(DONE), "{does}: {status}\n{output}\n{error}");
}

fn done() {
    io::stdout().write_all(DONE.as_bytes()).expect("somebody reads");
}

/// Writes, and ends by what comes of it: a program in Rust ignores the signal.
fn write_to_nobody() {
    let failed = io::stderr().write(b"some text").map_err(|error| error.kind());
    std::process::exit(if failed == Err(io::ErrorKind::BrokenPipe) { 3 } else { 4 });
}

#[test]
fn a_program_in_rust_sees_that_nobody_reads() {
    let seen = same!(1, {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        raw(own_program!("write").stdout(Stdio::null()).stderr(writer).status())
    });
    assert_eq!(seen, 3 << 8);
}

/// Gives back the lines that it reads.
fn lines() {
    for line in io::stdin().lines() {
        println!(": {}", line.expect("text"));
    }
    std::process::exit(0);
}

#[test]
fn a_program_in_rust_reads_lines_to_the_end() {
    let seen = same!(1, {
        let mut command = own_program!("lines");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        child.stdin.as_mut().expect("a pipe").write_all(b"one\ntwo\nthree").expect("room in it");
        let (status, output, _) = of_output(child.wait_with_output());
        // The test's own frame says something before.
        (status, output.lines().filter(|line| line.starts_with(": ")).map(str::to_owned).collect::<Vec<_>>())
    });
    assert_eq!(seen, (0, [": one", ": two", ": three"].map(str::to_owned).to_vec()));
}

/// Ends well if the standard descriptors are there, may be written to, and have nothing to read.
fn look_at_descriptors() {
    let is_open = |fd: &dyn AsFd| rustix::io::fcntl_getfd(fd.as_fd()).is_ok();
    assert!(is_open(&io::stdin()) && is_open(&io::stdout()) && is_open(&io::stderr()));
    assert!(io::stdout().write(b"test\n").is_ok() && io::stderr().write(b"test\n").is_ok());
    assert_eq!(io::stdin().read(&mut [0; 10]).expect("it may be read"), 0);
    std::process::exit(7);
}

#[test]
fn a_program_in_rust_without_streams_has_null_ones() {
    let seen = same!(1, {
        let mut command = own_program!("look at descriptors");
        raw(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status())
    });
    assert_eq!(seen, 7 << 8);
}

/// Closes the standard descriptors, and says by its status alone what comes of two runs then: one whose command was made before, and
/// one of a command that is made then.
macro_rules! runs_without_descriptors {
    () => {{
        let mut before = own_program!("look at descriptors");
        for number in 0..3 {
            // SAFETY: nothing in this process owns the standard descriptors.
            unsafe { libc::close(number) };
        }
        let first = raw(before.status());
        (first, raw(own_program!("look at descriptors").status()))
    }};
}

fn without_descriptors(of_std: bool) {
    let (seen, in_bodies) = if of_std {
        use std::process::Command;
        (runs_without_descriptors!(), 2)
    } else {
        use crate::recycled::Command;
        let (seen, counts) = crate::recycled::counted(|| runs_without_descriptors!());
        (seen, counts.in_bodies())
    };
    std::process::exit(if (seen, in_bodies) == ((7 << 8, 7 << 8), 2) { 9 } else { 10 });
}

/// As above, in a pool that is made when they are closed: descriptors of the pool's own may have their numbers, and are not passed on.
fn without_descriptors_from_the_start() {
    for number in 0..3 {
        // SAFETY: nothing in this process owns the standard descriptors.
        unsafe { libc::close(number) };
    }
    let (seen, counts) = crate::recycled::counted(|| {
        let mut command = crate::recycled::Command::new("sh");
        let closed = raw(command.args(["-c", LOOKS]).status());
        (closed, raw(command.stdin(regrow::Stdio::null()).status()))
    });
    std::process::exit(if (seen, counts.in_bodies()) == ((5 << 8, 6 << 8), 2) { 9 } else { 10 });
}

/// Ends with 5 where there is none of the standard descriptors.
const LOOKS: &str = "for n in 0 1 2; do if test -e /proc/$$/fd/$n; then exit 6; fi; done; exit 5";

#[test]
fn a_caller_without_standard_descriptors() {
    for does in ["std without descriptors", "without descriptors", "without descriptors from the start"] {
        let mut command = std::process::Command::new(std::env::current_exe().expect("it has a path"));
        let output = command.args(ARGS).env(DOES, does).output().expect("it starts");
        assert_eq!(output.status.code(), Some(9), "{does}: {output:?}");
    }
}

fn swapped_descriptors() {
    let seen = same!(1, {
        let mut files = [(), ()].map(|()| tempfile::tempfile().expect("temporary file"));
        let (out, err) = (
            io::stdout().as_fd().try_clone_to_owned().expect("a copy"),
            io::stderr().as_fd().try_clone_to_owned().expect("a copy"),
        );
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2"]).stdout(io::stderr()).stderr(io::stdout());
        rustix::stdio::dup2_stdout(&files[0]).expect("a file");
        rustix::stdio::dup2_stderr(&files[1]).expect("a file");
        let status = command.status();
        rustix::stdio::dup2_stdout(&out).expect("it is back");
        rustix::stdio::dup2_stderr(&err).expect("it is back");
        (raw(status), files.each_mut().map(text_of))
    });
    assert_eq!(seen, (0, ["err\n".to_owned(), "out\n".to_owned()]));
    done();
}

fn text_of(file: &mut File) -> String {
    io::Seek::rewind(file).expect("a file");
    let mut text = String::new();
    file.read_to_string(&mut text).expect("text");
    text
}

#[test]
fn output_goes_to_the_callers_error_and_the_other_way_round() {
    in_a_process("swapped descriptors", |_| {});
}

fn given_input() {
    let seen = same!(1, {
        let mut file = tempfile::tempfile().expect("temporary file");
        file.write_all(b"what there is to read\n").expect("it is written");
        io::Seek::rewind(&mut file).expect("a file");
        rustix::stdio::dup2_stdin(&file).expect("a file");
        raw(Command::new("sh").args(["-c", "read line && test \"$line\" = 'what there is to read'"]).status())
    });
    assert_eq!(seen, 0);
    done();
}

#[test]
fn a_status_that_is_waited_for_reads_the_callers_input() {
    in_a_process("given input", |_| {});
}

fn odd_environment() {
    let environment = |output: io::Result<std::process::Output>| {
        let output = output.expect("it starts");
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    let seen = same!(2, {
        let untouched = environment(Command::new("cat").arg("/proc/self/environ").output());
        let changed = environment(Command::new("cat").arg("/proc/self/environ").env("ADDED", "1").output());
        (untouched, changed)
    });
    assert!(seen.0.windows(7).any(|part| part == b"\0ALONE\0"), "{:?}", String::from_utf8_lossy(&seen.0));
    done();
}

#[test]
fn an_environment_of_odd_entries_is_passed_on() {
    in_a_process("odd environment", |command| {
        use std::ffi::CString;
        use std::os::unix::ffi::OsStrExt;
        use std::os::unix::process::CommandExt;
        let c_string = |bytes: &[u8]| CString::new(bytes).expect("no NUL byte");
        let path = std::env::current_exe().expect("it has a path");
        let program = c_string(path.as_os_str().as_bytes());
        let args: Vec<CString> =
            std::iter::once(program.clone()).chain(ARGS.iter().map(|arg| c_string(arg.as_bytes()))).collect();
        let search = std::env::var("PATH").expect("a path");
        let entries = [
            format!("{DOES}=odd environment"),
            format!("PATH={search}"),
            "ALONE".to_owned(),
            "=C:=value".to_owned(),
            "=".to_owned(),
            String::new(),
            "TWICE=1".to_owned(),
            "TWICE=2".to_owned(),
            "EQUALS==a=b=".to_owned(),
        ];
        let entries: Vec<CString> = entries.iter().map(|entry| c_string(entry.as_bytes())).collect();
        // SAFETY: it makes one system call, with memory that was made before.
        unsafe {
            command.pre_exec(move || {
                let pointers = |strings: &[CString]| -> [*const libc::c_char; 16] {
                    let mut pointers = [std::ptr::null(); 16];
                    pointers.iter_mut().zip(strings).for_each(|(place, string)| *place = string.as_ptr());
                    pointers
                };
                libc::execve(program.as_ptr(), pointers(&args).as_ptr(), pointers(&entries).as_ptr());
                Err(io::Error::last_os_error())
            });
        }
    });
}
