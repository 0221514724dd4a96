//! The body of a request on its way to a process.
//!
//! A body whose length is known goes through a pipe as it comes. CGI has no other way to say where a body ends (RFC 3875,
//! 4.1.2), so one without a length is collected first, in a file once it is large.

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame};
use hyper::body::Incoming;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::Sender;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::error::Refusal;
use crate::run::Fault;

/// A body, as it comes from a client.
pub(crate) enum Body {
    /// By HTTP.
    Http(Incoming),
    /// By FastCGI. The channel is closed without [`Piece::End`] where the client has gone.
    Channel(mpsc::Receiver<Piece>),
}

/// A piece of a body that comes by FastCGI.
pub(crate) enum Piece {
    Data(Bytes),
    End,
}

impl Body {
    /// The next piece; `None` at the end.
    async fn next(&mut self) -> Option<Result<Bytes, Refusal>> {
        match self {
            Body::Http(incoming) => loop {
                let frame = poll_fn(|context| Pin::new(&mut *incoming).poll_frame(context)).await?;
                match frame.map(Frame::into_data) {
                    Ok(Ok(data)) => return Some(Ok(data)),
                    // Trailers are no part of the body.
                    Ok(Err(_)) => {}
                    Err(error) => {
                        tracing::debug!(%error, "the body of a request breaks off");
                        return Some(Err(Refusal::Malformed("the body cannot be read")));
                    }
                }
            },
            Body::Channel(pieces) => match pieces.recv().await {
                Some(Piece::Data(data)) => Some(Ok(data)),
                Some(Piece::End) => None,
                None => Some(Err(Refusal::Input(io::ErrorKind::UnexpectedEof.into()))),
            },
        }
    }
}

/// What a process reads.
pub(crate) enum Input {
    /// Nothing.
    Empty,
    /// What was collected.
    Collected(File),
    /// What comes.
    Stream(Body),
}

/// The write end of a pipe that a body goes through.
pub(crate) struct Feed {
    pipe: Sender,
    body: Body,
}

impl Input {
    /// The process's descriptor, which is `empty` where there is nothing to read, and what is to be written to its other end.
    pub(crate) fn open(self, empty: OwnedFd) -> io::Result<(OwnedFd, Option<Feed>)> {
        match self {
            Input::Empty => Ok((empty, None)),
            Input::Collected(file) => Ok((file.into(), None)),
            Input::Stream(body) => {
                let (theirs, pipe) = io::pipe()?;
                let pipe = Sender::from_owned_fd(pipe.into())?;
                Ok((theirs.into(), Some(Feed { pipe, body })))
            }
        }
    }
}

impl Feed {
    /// Passes the body on to its end, or until the process does not read it. A client that sends nothing for `idle` ends the
    /// process.
    pub(crate) async fn run(mut self, idle: Duration, group: Option<Pid>, fault: Fault) {
        loop {
            let piece = match timeout(idle, self.body.next()).await {
                Ok(None) => return,
                Ok(Some(Ok(piece))) => piece,
                Ok(Some(Err(refusal))) => return give_up(group, &fault, refusal),
                Err(_) => return give_up(group, &fault, Refusal::Slow),
            };
            if self.pipe.write_all(&piece).await.is_err() {
                // It has closed its standard input, or has ended. What is left of the body is its sender's affair.
                return;
            }
        }
    }
}

/// Ends a process whose request does not come.
fn give_up(group: Option<Pid>, fault: &Fault, refusal: Refusal) {
    *fault.borrow_mut() = Some(refusal);
    if let Some(group) = group {
        // The feed is stopped when the reply ends, before the process is waited for: the number is its own.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Collects a body whose length is not known. Gives it with its length.
pub(crate) async fn collect(
    mut body: Body,
    limit: Option<u64>,
    idle: Duration,
) -> Result<(Input, u64), Refusal> {
    let mut file = None;
    let mut length = 0;
    while let Some(piece) = timeout(idle, body.next()).await.map_err(|_| Refusal::Slow)? {
        let piece = piece?;
        length += u64::try_from(piece.len()).unwrap_or(u64::MAX);
        if let Some(limit) = limit.filter(|&limit| length > limit) {
            return Err(Refusal::TooLarge { limit });
        }
        if file.is_none() {
            file = Some(tempfile::tempfile()?);
        }
        file.as_mut().map_or(Ok(()), |file: &mut File| file.write_all(&piece))?;
    }
    let Some(mut file) = file else { return Ok((Input::Empty, 0)) };
    file.seek(SeekFrom::Start(0))?;
    Ok((Input::Collected(file), length))
}
