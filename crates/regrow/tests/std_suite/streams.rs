//! Standard input, output and error.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::facts::{of_output, raw, until};

#[test]
fn output_is_read_from_a_pipe_that_stays_in_the_child() {
    let seen = same!(1, {
        let mut command = Command::new("/bin/sh");
        let mut child = command.args(["-c", "echo one"]).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut text = String::new();
        child.stdout.as_mut().expect("a pipe").read_to_string(&mut text).expect("text");
        (text, child.stdin.is_some(), child.stderr.is_some(), raw(child.wait()))
    });
    assert_eq!(seen, ("one\n".to_owned(), false, false, 0));
}

#[test]
fn what_is_written_to_the_input_comes_back() {
    let seen = same!(1, {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "read line; echo \"<$line>\""]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        child.stdin.as_mut().expect("a pipe").write_all(b"a line").expect("room in the pipe");
        drop(child.stdin.take());
        let mut text = String::new();
        child.stdout.as_mut().expect("a pipe").read_to_string(&mut text).expect("text");
        (text, raw(child.wait()))
    });
    assert_eq!(seen, ("<a line>\n".to_owned(), 0));
    // A last line without an end, and the pipe closed by the wait.
    same!(1, {
        let mut child = Command::new("sed")
            .arg("s/^/: /")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        child.stdin.as_mut().expect("a pipe").write_all(b"1\n2\n3").expect("room in the pipe");
        of_output(child.wait_with_output())
    });
}

#[test]
fn output_is_read_while_the_program_runs() {
    let seen = same!(1, {
        let mut command = Command::new("sh");
        command.args(["-c", "while read word; do echo \"got $word\"; done; echo end >&2"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut to = child.stdin.take().expect("a pipe");
        let mut from = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut answers = Vec::new();
        for word in ["first", "second", "third"] {
            writeln!(to, "{word}").expect("room in the pipe");
            let mut line = String::new();
            from.read_line(&mut line).expect("a line");
            answers.push(line);
        }
        assert!(child.try_wait().expect("it can be asked").is_none());
        drop(to);
        (answers, of_output(child.wait_with_output()))
    });
    assert_eq!(seen.0, ["got first\n", "got second\n", "got third\n"]);
    assert_eq!(seen.1, (0, String::new(), "end\n".to_owned()));
}

#[test]
fn a_pipe_of_the_callers_has_its_end_when_the_command_is_gone() {
    let seen = same!(1, {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let status = raw(Command::new("echo").arg("through it").stdout(writer).status());
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("text");
        (status, text)
    });
    assert_eq!(seen, (0, "through it\n".to_owned()));
}

#[test]
fn output_that_nobody_reads_holds_nobody_up() {
    let script = "i=0; while test $i -lt 2000; do echo some output; echo some error >&2; i=$((i+1)); done";
    let seen = same!(1, {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::null()).stderr(Stdio::null());
        of_output(command.spawn().expect("it starts").wait_with_output())
    });
    assert_eq!(seen, (0, String::new(), String::new()));
    // Of one pipe alone, more than it has room for.
    let seen = same!(1, {
        let mut command = Command::new("head");
        command.args(["-c", "1500000", "/dev/zero"]).stdout(Stdio::piped());
        of_output(command.spawn().expect("it starts").wait_with_output())
    });
    assert_eq!(seen.1.len(), 1_500_000);
}

#[test]
fn a_program_that_fails_says_why_on_its_error_alone() {
    let seen = same!(1, { of_output(Command::new("mkdir").arg("./").output()) });
    assert_eq!((seen.0, seen.1.as_str()), (1 << 8, ""));
    assert!(seen.2.contains("File exists"), "{}", seen.2);
}

#[test]
fn a_writer_whose_reader_has_gone_ends_without_a_word() {
    // SIGPIPE, which this caller ignores as every Rust program does, ends it.
    let seen = same!(1, {
        of_output(Command::new("sh").args(["-c", "while echo y; do :; done | head -n 3"]).output())
    });
    assert_eq!(seen, (0, "y\ny\ny\n".to_owned(), String::new()));
    let seen = same!(1, {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        // A child that another test is forking may have it until its exec.
        until("there is no reader", || has_no_reader(&writer));
        raw(Command::new("cat").arg("/proc/version").stdout(writer).status())
    });
    assert_eq!(seen, libc::SIGPIPE);
}

fn has_no_reader(writer: &io::PipeWriter) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(writer, PollFlags::OUT)];
    poll(&mut fds, Some(&Timespec::default())).expect("it can be asked");
    fds.iter().all(|fd| fd.revents().contains(PollFlags::ERR))
}

#[test]
fn a_reader_that_ends_breaks_the_pipe_of_its_writer() {
    let seen = same!(1, {
        let mut child = Command::new("true").stdin(Stdio::piped()).spawn().expect("it starts");
        let mut to = child.stdin.take().expect("a pipe");
        let status = raw(child.wait());
        let mut wrote = Ok(0);
        // A child that another test is forking may have the pipe's other end until its exec.
        until("there is no reader", || {
            wrote = to.write(b"nobody reads it").map_err(|error| error.kind());
            wrote.is_err()
        });
        (status, wrote)
    });
    assert_eq!(seen, (0, Err(io::ErrorKind::BrokenPipe)));
}

#[test]
fn descriptors_of_every_kind_stand_for_standard_ones() {
    let seen = same!(3, {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        let writes = file.reopen().expect("the file");
        let status = raw(Command::new("echo").arg("to a file").stdout(writes).status());
        let from_file = of_output(Command::new("cat").stdin(File::open(file.path()).expect("it")).output());
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        (&ours).write_all(b"by a socket").expect("room in it");
        ours.shutdown(std::net::Shutdown::Write).expect("it is connected");
        let from_socket = of_output(Command::new("cat").stdin(OwnedFd::from(theirs)).output());
        (status, from_file, from_socket)
    });
    assert_eq!((seen.1.1.as_str(), seen.2.1.as_str()), ("to a file\n", "by a socket"));
}

#[test]
fn a_number_stands_for_the_descriptor_that_it_owns() {
    use std::os::fd::{FromRawFd, IntoRawFd};
    let seen = same!(1, {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        // SAFETY: the number is that of the pipe's end, which nothing else owns from here on.
        let writer = unsafe { Stdio::from_raw_fd(writer.into_raw_fd()) };
        let status = raw(Command::new("echo").arg("by number").stdout(writer).status());
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("text");
        (status, text)
    });
    assert_eq!(seen, (0, "by number\n".to_owned()));
}

#[test]
fn no_descriptor_of_the_callers_is_in_the_program() {
    let file = File::open("/proc/version").expect("a file");
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let datagrams = std::net::UdpSocket::bind(("127.0.0.1", 0)).expect("a port");
    let (stream, _other) = UnixStream::pair().expect("a pair");
    let (reader, writer) = io::pipe().expect("a pipe");
    let numbers = [
        file.as_raw_fd(),
        listener.as_raw_fd(),
        datagrams.as_raw_fd(),
        stream.as_raw_fd(),
        reader.as_raw_fd(),
        writer.as_raw_fd(),
    ];
    let numbers = numbers.map(|number| number.to_string());
    let seen = same!(1, {
        let mut command = Command::new("sh");
        let script = "for n; do if test -e /proc/$$/fd/$n; then echo $n; fi; done; echo asked for $#";
        command.args(["-c", script, "sh"]).args(&numbers);
        of_output(command.output())
    });
    assert_eq!(seen.1, "asked for 6\n");
}
