//! The pipes between a process and its caller.
//!
//! ```text
//!   input ──▶ descriptor 0      written as far as the process takes it, then closed
//!   outputs ◀── descriptors     read to their ends
//! ```
//!
//! Invariant: the caller's ends stay open, under their numbers, until the pipes are closed, so that a poller of the caller
//! may go by the numbers. Only the input's is closed before: that is how the process learns of its end.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use regrow::Command;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

/// How much room there is for the first read of an output, and how much for those after it.
const FIRST_READ_BYTES: usize = 4 * 1024;
const READ_BYTES: usize = 64 * 1024;

/// The caller's ends of the pipes of a run.
pub(crate) struct Pipes {
    input: Option<Input>,
    outputs: Vec<Output>,
}

struct Input {
    fd: OwnedFd,
    bytes: Vec<u8>,
    written: usize,
}

struct Output {
    fd: OwnedFd,
    bytes: Vec<u8>,
    at_end: bool,
}

impl Pipes {
    /// Makes the pipes, and gives the command their other ends.
    pub(crate) fn give(command: &mut Command, input: Option<Vec<u8>>, outputs: &[RawFd]) -> io::Result<Self> {
        let input = match input {
            Some(bytes) => {
                let (reader, fd) = pipe_with(PipeFlags::CLOEXEC)?;
                rustix::fs::fcntl_setfl(&fd, OFlags::NONBLOCK)?;
                command.fd(reader, 0);
                Some(Input { fd, bytes, written: 0 })
            }
            None => None,
        };
        let mut ours = Vec::with_capacity(outputs.len());
        for &target in outputs {
            let (fd, writer) = pipe_with(PipeFlags::CLOEXEC)?;
            command.fd(writer, target);
            ours.push(Output { fd, bytes: Vec::new(), at_end: false });
        }
        let mut pipes = Self { input, outputs: ours };
        pipes.close_written_input();
        Ok(pipes)
    }

    /// Closes the caller's ends, and drops what has been read.
    pub(crate) fn close(&mut self) {
        self.input = None;
        self.outputs = Vec::new();
    }

    /// Whether there is input still to be written. Before the start: whether there is any.
    pub(crate) fn has_input(&self) -> bool {
        self.input.is_some()
    }

    /// Whether all outputs are at their ends.
    pub(crate) fn at_end(&self) -> bool {
        self.outputs.iter().all(|output| output.at_end)
    }

    /// The descriptors that are to be read from.
    pub(crate) fn readable(&self) -> Vec<RawFd> {
        self.outputs.iter().filter(|output| !output.at_end).map(|output| output.fd.as_raw_fd()).collect()
    }

    /// The descriptor that is to be written to.
    pub(crate) fn writable(&self) -> Option<RawFd> {
        self.input.as_ref().map(|input| input.fd.as_raw_fd())
    }

    /// The bytes of an output as far as they have been read.
    pub(crate) fn bytes(&self, output: usize) -> Option<&[u8]> {
        self.outputs.get(output).map(|output| output.bytes.as_slice())
    }

    /// What is to be polled.
    pub(crate) fn polled(&self) -> Vec<PollFd<'_>> {
        let outputs = self.outputs.iter().filter(|output| !output.at_end);
        let input = self.input.as_ref().map(|input| PollFd::new(&input.fd, PollFlags::OUT));
        input.into_iter().chain(outputs.map(|output| PollFd::new(&output.fd, PollFlags::IN))).collect()
    }

    /// Moves bytes through the pipes of which `events`, in the order of [`Pipes::polled`], say that they are ready: one read
    /// or write of each, which does not wait.
    pub(crate) fn transfer(&mut self, mut events: impl Iterator<Item = PollFlags>) -> io::Result<()> {
        if self.input.is_some() && events.next().is_some_and(|events| !events.is_empty()) {
            self.write_some()?;
        }
        for output in self.outputs.iter_mut().filter(|output| !output.at_end) {
            match events.next() {
                // Nothing is left to be read, and nothing will come.
                Some(PollFlags::HUP) => output.at_end = true,
                Some(events) if !events.is_empty() => output.read_some(events.contains(PollFlags::HUP))?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads what the outputs hold, without waiting for more.
    pub(crate) fn drain(&mut self) -> io::Result<()> {
        for output in &mut self.outputs {
            while !output.at_end && output.is_ready()? {
                output.read_some(false)?;
            }
        }
        Ok(())
    }

    fn write_some(&mut self) -> io::Result<()> {
        let Some(input) = &mut self.input else { return Ok(()) };
        let rest = input.bytes.get(input.written..).unwrap_or_default();
        match rustix::io::write(&input.fd, rest) {
            Ok(written) => input.written += written,
            Err(Errno::AGAIN | Errno::INTR) => {}
            // The process reads no further: that is its right.
            Err(Errno::PIPE) => input.written = input.bytes.len(),
            Err(errno) => return Err(errno.into()),
        }
        self.close_written_input();
        Ok(())
    }

    fn close_written_input(&mut self) {
        self.input.take_if(|input| input.written == input.bytes.len());
    }
}

/// A poll that does not wait.
const NO_TIME: rustix::event::Timespec = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };

impl Output {
    /// Whether there is something to be read.
    fn is_ready(&self) -> io::Result<bool> {
        let mut polled = [PollFd::new(&self.fd, PollFlags::IN)];
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut polled, Some(&NO_TIME)))?;
        Ok(polled.iter().any(|fd| fd.revents().contains(PollFlags::IN)))
    }

    /// Reads once from a pipe that is ready. One that nobody writes to any more is at its end when there was less than room.
    fn read_some(&mut self, is_last: bool) -> io::Result<()> {
        let room = if self.bytes.is_empty() { FIRST_READ_BYTES } else { READ_BYTES };
        self.bytes.reserve(room);
        let space = self.bytes.capacity() - self.bytes.len();
        let read =
            rustix::io::retry_on_intr(|| rustix::io::read(self.fd.as_fd(), spare_capacity(&mut self.bytes)))?;
        self.at_end = read == 0 || (is_last && read < space);
        Ok(())
    }
}
