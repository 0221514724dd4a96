//! What a program has printed.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::process::ExitStatus;

use crate::Output;

/// Files in memory, so that nobody need read while it runs.
#[derive(Debug)]
pub(crate) struct Printed {
    pub(crate) stdout: Option<File>,
    pub(crate) stderr: Option<File>,
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
