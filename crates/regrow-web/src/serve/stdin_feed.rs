//! The standard input of a process: `/dev/null`, a file, or a pipe through which the body of the request comes.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::Sender;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::request_body::{RequestBody, StdinSource};
use crate::request_error::RequestError;
use crate::serve::fault::Fault;
use crate::serve::pipe_size::PipeSize;

/// Writes a body to a pipe.
pub(crate) struct StdinFeed {
    pipe: Sender,
    size: PipeSize,
    body: RequestBody,
}

/// Opens a standard input. Returns the descriptor for the process, which is `empty` if there is no body, and the feed of a pipe.
pub(crate) fn open(source: StdinSource, empty: OwnedFd) -> io::Result<(OwnedFd, Option<StdinFeed>)> {
    match source {
        StdinSource::Empty => Ok((empty, None)),
        StdinSource::Collected(file) => Ok((file.into(), None)),
        StdinSource::Stream(body) => {
            let (theirs, pipe) = io::pipe()?;
            let pipe = Sender::from_owned_fd(pipe.into())?;
            Ok((theirs.into(), Some(StdinFeed { pipe, size: PipeSize::default(), body })))
        }
    }
}

impl StdinFeed {
    /// Passes the body on until its end, or until the process closes its standard input. Kills the group of the process when the client
    /// sends nothing for `idle`.
    pub(crate) async fn run(mut self, idle: Duration, group: Option<Pid>, fault: Fault) {
        loop {
            let piece = match timeout(idle, self.body.next()).await {
                Ok(None) => return,
                Ok(Some(Ok(piece))) => piece,
                Ok(Some(Err(error))) => return give_up(group, &fault, error),
                Err(_) => return give_up(group, &fault, RequestError::Slow),
            };
            self.size.pass(&self.pipe, piece.len());
            if self.pipe.write_all(&piece).await.is_err() {
                // The process reads no more. Its connection deals with the rest of the body.
                return;
            }
        }
    }
}

/// Kills a process whose request does not come.
fn give_up(group: Option<Pid>, fault: &Fault, error: RequestError) {
    fault.set(error);
    if let Some(group) = group {
        // The feed stops before anybody waits for the process, so the number is still its own.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Stops the task of a feed when it is dropped.
pub(crate) struct FeedGuard(pub(crate) Option<AbortHandle>);

impl Drop for FeedGuard {
    fn drop(&mut self) {
        // The reply is complete, so the process does not need the rest of the body.
        if let Some(feed) = &self.0 {
            feed.abort();
        }
    }
}
