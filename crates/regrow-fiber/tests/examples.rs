//! The examples do what they say.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

/// An example, which `cargo test` has built beside this test.
fn example(name: &str) -> Command {
    let own = std::env::current_exe().unwrap();
    let folder = own.parent().and_then(std::path::Path::parent).unwrap();
    Command::new(folder.join("examples").join(name))
}

#[test]
fn mpx_copies_its_input() {
    let input: Vec<u8> = (0..100_000_u32).map(|at| (at * 7 % 256).to_le_bytes()[0]).collect();
    let mut child = example("mpx").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let copied = std::thread::scope(|scope| {
        scope.spawn(|| {
            to.write_all(&input).unwrap();
            drop(to);
        });
        child.wait_with_output().unwrap()
    });
    assert!(copied.status.success() && copied.stdout == input);
}

#[test]
fn grep_finds_what_grep_finds() {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<_> = (0..200)
        .map(|number| {
            let path = folder.path().join(format!("{number:03}"));
            let lines: Vec<String> =
                (0..20).map(|line| format!("line {line} of {}", number * line % 7)).collect();
            std::fs::write(&path, lines.join("\n") + "\n").unwrap();
            path
        })
        .collect();
    let ours = example("grep").arg("of 3").args(&files).output().unwrap();
    let theirs = Command::new("/bin/grep").args(["-n", "of 3"]).args(&files).output().unwrap();
    assert!(ours.status.success() && !ours.stdout.is_empty());
    assert_eq!(String::from_utf8_lossy(&ours.stdout), String::from_utf8_lossy(&theirs.stdout));
    let nothing = example("grep").arg("nowhere").args(&files).arg("/nonexistent").output().unwrap();
    assert_eq!(nothing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nothing.stderr).starts_with("/nonexistent: "));
}

#[test]
fn echo_sends_back_what_comes() {
    let mut server = example("echo").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let mut streams: Vec<TcpStream> =
        (0..50).map(|_| TcpStream::connect(address.trim_end()).unwrap()).collect();
    for round in 0..3_u8 {
        for (stream, number) in streams.iter_mut().zip(0_u8..) {
            stream.write_all(&[number, round]).unwrap();
        }
        for (stream, number) in streams.iter_mut().zip(0_u8..) {
            let mut back = [0; 2];
            stream.read_exact(&mut back).unwrap();
            assert_eq!(back, [number, round]);
        }
    }
    // Its connections are still there.
    drop(server.stdin.take());
    assert!(server.wait().unwrap().success());
    assert_eq!(streams[0].read(&mut [0]).unwrap(), 0);
}

#[test]
fn echo_rounds_counts_for_each() {
    let output = example("echo_rounds").args(["4", "5", "1"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.lines().count() == 6, "{text}");
}
