//! Works that are other programs.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use super::died::Died;
use super::printed::Printed;
use super::process::{Outcome, Process, Task};
use super::weight::Weight;
use crate::{Command, Output, Resource, Stdio};

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
