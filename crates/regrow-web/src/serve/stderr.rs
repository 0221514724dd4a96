//! The standard error of a process: the gateway writes it to its log, up to a limit.
//!
//! ```text
//!  Unwatched ── the process takes its time ──> Watched ── end of file ──> Closed
//! ```
//!
//! Most processes write nothing there, or so little that the pipe holds it until they end. So the gateway watches the pipe only of a
//! process that takes its time ([`StderrLog::watch`]).

use std::os::fd::{AsFd as _, OwnedFd};
use std::task::{Context, Poll};

use rustix::io::ioctl_fionbio;
use tokio::net::unix::pipe::Receiver;

use crate::serve::records::records;

/// The most bytes of one process that go to the log. The gateway counts the others.
const MAX_BYTES: usize = 16 * 1024;

/// The standard error of a process.
pub(crate) struct StderrLog {
    pipe: StderrPipe,
    text: Vec<u8>,
    dropped_bytes: u64,
}

enum StderrPipe {
    Closed,
    Unwatched(OwnedFd),
    Watched(Receiver),
}

impl StderrLog {
    /// The standard error that comes through a pipe. Without a pipe it is empty.
    pub(crate) fn new(pipe: Option<OwnedFd>) -> Self {
        Self {
            pipe: pipe.map_or(StderrPipe::Closed, StderrPipe::Unwatched),
            text: Vec::new(),
            dropped_bytes: 0,
        }
    }

    /// Has the event loop watch the pipe, so that [`StderrLog::poll`] reads it.
    pub(crate) fn watch(&mut self) {
        self.pipe = match std::mem::replace(&mut self.pipe, StderrPipe::Closed) {
            StderrPipe::Unwatched(pipe) => match Receiver::from_owned_fd(pipe) {
                Ok(pipe) => StderrPipe::Watched(pipe),
                Err(error) => {
                    tracing::error!(%error, "a script's standard error cannot be read");
                    StderrPipe::Closed
                }
            },
            pipe => pipe,
        };
    }

    /// Reads what is there, if the pipe is watched.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) {
        while let StderrPipe::Watched(pipe) = &self.pipe {
            match pipe.poll_read_ready(context) {
                Poll::Ready(Ok(())) => self.read(),
                Poll::Ready(Err(_)) => self.pipe = StderrPipe::Closed,
                Poll::Pending => return,
            }
        }
    }

    /// Reads once.
    fn read(&mut self) {
        let StderrPipe::Watched(pipe) = &self.pipe else { return };
        let mut piece = [0; 4096];
        match pipe.try_read(&mut piece) {
            Ok(0) => self.pipe = StderrPipe::Closed,
            Ok(read) => self.take(&piece[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => self.pipe = StderrPipe::Closed,
        }
    }

    /// Reads what is left after the end of the process. Does not wait for descendants that still hold the pipe.
    pub(crate) fn drain(&mut self) {
        let mut piece = [0; 4096];
        loop {
            // Reads the descriptor itself: the event loop may not have seen the last bytes yet.
            let read = match &self.pipe {
                StderrPipe::Closed => return,
                StderrPipe::Watched(pipe) => rustix::io::read(pipe.as_fd(), &mut piece),
                StderrPipe::Unwatched(pipe) => {
                    ioctl_fionbio(pipe, true).and_then(|()| rustix::io::read(pipe, &mut piece))
                }
            };
            match read {
                Ok(read) if read > 0 && self.dropped_bytes == 0 => self.take(&piece[..read]),
                _ => self.pipe = StderrPipe::Closed,
            }
        }
    }

    /// Keeps a piece up to the limit, and counts the rest.
    fn take(&mut self, piece: &[u8]) {
        let room = MAX_BYTES.saturating_sub(self.text.len()).min(piece.len());
        self.text.extend_from_slice(&piece[..room]);
        self.dropped_bytes += u64::try_from(piece.len() - room).unwrap_or(0);
    }

    /// Writes its records to the log.
    pub(crate) fn write_to_log(&self, name: &str) {
        for record in records(&String::from_utf8_lossy(&self.text)) {
            tracing::warn!(name, "{record}");
        }
        if self.dropped_bytes > 0 {
            tracing::warn!(
                name,
                bytes = self.dropped_bytes,
                "the script wrote more to standard error than the log keeps"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Write as _, pipe};

    #[test]
    fn what_is_left_in_the_pipe_is_kept_up_to_the_limit() {
        let (reader, mut writer) = pipe().expect("a pipe");
        writer.write_all(&vec![b'x'; MAX_BYTES + 1]).expect("room");
        let mut stderr = StderrLog::new(Some(reader.into()));
        // The writer is open: nobody waits for its end.
        stderr.drain();
        assert_eq!((stderr.text.len(), stderr.dropped_bytes), (MAX_BYTES, 1));
    }

    #[test]
    fn without_a_pipe_there_is_nothing() {
        let mut stderr = StderrLog::new(None);
        stderr.drain();
        assert_eq!((stderr.text.len(), stderr.dropped_bytes), (0, 0));
    }
}
