//! Works that are other programs.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::process::ExitStatus;

use super::died::Died;
use super::process::{Outcome, Process, Task};
use super::weight::Weight;
use crate::{Command, Output, Resource, Stdio};

/// What a program has printed: files in memory, so that nobody need read while it runs.
#[derive(Debug)]
pub(crate) struct Printed {
    stdout: Option<File>,
    stderr: Option<File>,
}

/// Starts a program.
pub(crate) fn start(mut command: Command, memory: u64) -> Result<Process<Output>, Died> {
    let mut start = || {
        let printed = Printed { stdout: collect(&mut command, 1)?, stderr: collect(&mut command, 2)? };
        if command.has_no_stdin() {
            command.stdin(Stdio::null());
        }
        if memory != 0 {
            command.limit(Resource::Data, memory, memory);
        }
        io::Result::Ok((command.spawn()?, printed))
    };
    let (child, printed) = start().map_err(|error| Died::not_started(Weight::Program, error))?;
    let task = Task::Child(Box::new(child));
    Ok(Process { weight: Weight::Program, task, result: Outcome::Printed(printed, Ok), memory })
}

/// Has a stream of a command go to a file, unless the command says where to.
fn collect(command: &mut Command, stream: i32) -> io::Result<Option<File>> {
    if !command.is_collected(stream) {
        return Ok(None);
    }
    let file = File::from(regrow_sys::raw::memfd("regrow-output", 0)?);
    let copy = Stdio::from(OwnedFd::from(file.try_clone()?));
    if stream == 1 {
        command.stdout(copy);
    } else {
        command.stderr(copy);
    }
    Ok(Some(file))
}

impl Printed {
    /// All of it, when the program has ended.
    pub(crate) fn output(&mut self, status: ExitStatus) -> io::Result<Output> {
        Ok(Output { status, stdout: whole(self.stdout.as_mut())?, stderr: whole(self.stderr.as_mut())? })
    }
}

fn whole(file: Option<&mut File>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(file) = file {
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}
