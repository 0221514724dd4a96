//! Has another process write the files that a test executes. A process that another test makes at that moment would
//! inherit a file that this test has open for writing, and the kernel executes no such file (`ETXTBSY`).

use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// Writes a file that everybody may execute.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut command = Command::new("sh");
    command.args(["-c", "cat >\"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut child = command.spawn()?;
    let written = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(content));
    checked(path, child.wait()?)?;
    written
}

/// Copies a file with its mode.
///
/// # Errors
/// When it cannot be read or written.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    checked(to, Command::new("cp").arg("--preserve=mode").args([from, to]).status()?)
}

fn checked(path: &Path, status: ExitStatus) -> io::Result<()> {
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{} could not be written: {status}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_and_its_copy_are_executed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        write(&one, b"#!/bin/sh\nexit 7\n").expect("it is written");
        copy(&one, &two).expect("it is copied");
        for path in [&one, &two] {
            assert_eq!(Command::new(path).status().expect("it starts").code(), Some(7));
        }
        write(&folder.path().join("none/one"), b"").expect_err("there is no such folder");
    }
}
