//! What a process writes to its standard error: lines of the log, up to a limit.
//!
//! Most write nothing there, and what little others write fits the pipe until they have ended. So the pipe is watched only when a process
//! takes its time ([`Errors::watch`]).

use std::os::fd::{AsFd as _, OwnedFd};
use std::task::{Context, Poll};

use rustix::io::ioctl_fionbio;
use tokio::net::unix::pipe::Receiver;

/// How much of a process's standard error is passed to the log; the rest is counted.
const MAX_BYTES: usize = 16 * 1024;

/// What a process writes to its standard error.
pub(crate) struct Errors {
    pipe: Pipe,
    text: Vec<u8>,
    dropped_bytes: u64,
}

enum Pipe {
    Over,
    Unwatched(OwnedFd),
    Watched(Receiver),
}

impl Errors {
    /// What comes out of a pipe; of none, nothing.
    pub(crate) fn new(pipe: Option<OwnedFd>) -> Self {
        Self { pipe: pipe.map_or(Pipe::Over, Pipe::Unwatched), text: Vec::new(), dropped_bytes: 0 }
    }

    /// From now on [`Errors::poll`] takes what comes.
    pub(crate) fn watch(&mut self) {
        self.pipe = match std::mem::replace(&mut self.pipe, Pipe::Over) {
            Pipe::Unwatched(pipe) => match Receiver::from_owned_fd(pipe) {
                Ok(pipe) => Pipe::Watched(pipe),
                Err(error) => {
                    tracing::error!(%error, "a script's standard error cannot be read");
                    Pipe::Over
                }
            },
            other => other,
        };
    }

    /// Takes what is there, if it is watched.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) {
        while let Pipe::Watched(pipe) = &self.pipe {
            match pipe.poll_read_ready(context) {
                Poll::Ready(Ok(())) => self.read(),
                Poll::Ready(Err(_)) => self.pipe = Pipe::Over,
                Poll::Pending => return,
            }
        }
    }

    /// Reads once.
    fn read(&mut self) {
        let Pipe::Watched(pipe) = &self.pipe else { return };
        let mut piece = [0; 4096];
        match pipe.try_read(&mut piece) {
            Ok(0) => self.pipe = Pipe::Over,
            Ok(read) => self.take(&piece[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => self.pipe = Pipe::Over,
        }
    }

    /// Reads what is left. Whoever could still write is gone, but for those that have left the group.
    pub(crate) fn drain(&mut self) {
        let mut piece = [0; 4096];
        loop {
            // The event may not have been seen yet: the descriptor itself is asked.
            let read = match &self.pipe {
                Pipe::Over => return,
                Pipe::Watched(pipe) => rustix::io::read(pipe.as_fd(), &mut piece),
                Pipe::Unwatched(pipe) => {
                    ioctl_fionbio(pipe, true).and_then(|()| rustix::io::read(pipe, &mut piece))
                }
            };
            match read {
                Ok(read) if read > 0 && self.dropped_bytes == 0 => self.take(&piece[..read]),
                _ => self.pipe = Pipe::Over,
            }
        }
    }

    fn take(&mut self, piece: &[u8]) {
        let room = MAX_BYTES.saturating_sub(self.text.len()).min(piece.len());
        self.text.extend_from_slice(&piece[..room]);
        self.dropped_bytes += u64::try_from(piece.len() - room).unwrap_or(0);
    }

    /// Writes it to the log.
    pub(crate) fn tell(&self, name: &str) {
        for line in String::from_utf8_lossy(&self.text).lines() {
            tracing::warn!(name, "{line}");
        }
        if self.dropped_bytes > 0 {
            tracing::warn!(
                name,
                bytes = self.dropped_bytes,
                "more was written to standard error than is logged"
            );
        }
    }
}
