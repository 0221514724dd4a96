//! The reply that a process writes: its head, and what follows.
//!
//! ```text
//!  output ──> head ──> passed on as it comes ──> how the process has ended
//!     502: no head                               a signal: the reply is not whole
//! ```

use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::task::AbortHandle;

use crate::error::Refusal;
use crate::function;
use crate::head::{self, Head};
use crate::metrics::Count;
use crate::run::Run;

/// How much of a function's output is collected before any of it is sent.
const MAX_RESULT_BYTES: usize = 8 << 20;
/// How long a reply whose output has ended waits for its process to end as well: one that has closed its output to go on working is not
/// waited for.
const PATIENCE: Duration = Duration::from_millis(10);
/// The longest head of a reply.
const MAX_HEAD_BYTES: usize = 256 * 1024;

/// A process that is about to write a reply.
pub(crate) struct Started {
    // The feed is stopped before the process is waited for: it knows the process by its number.
    pub(crate) _feed: Feeding,
    pub(crate) run: Run,
    /// Whether an exit status says that the reply is not whole. A signal always does.
    pub(crate) fails_by_status: bool,
    pub(crate) _under_way: Count,
}

/// The task that passes a request's body on.
pub(crate) struct Feeding(pub(crate) Option<AbortHandle>);

/// A reply: its head, and what follows.
pub(crate) struct Reply {
    pub(crate) head: Head,
    pub(crate) rest: Rest,
}

/// What follows the head of a reply.
pub(crate) struct Rest {
    /// What has come already.
    first: Option<Bytes>,
    /// How much is to come, where the head has said it: then the reply does not wait for the process.
    missing: Option<u64>,
    state: State,
}

/// Where what follows the head of a reply comes from.
enum State {
    Output(Box<Started>),
    /// How the process ends says whether it is whole.
    End(Pin<Box<dyn Future<Output = Option<Refusal>>>>),
    Over,
}

impl Started {
    /// Waits for the head of the reply.
    pub(crate) async fn reply(mut self) -> Result<Reply, Refusal> {
        let mut bytes = BytesMut::new();
        loop {
            let piece = self.run.output().await.ok_or(Refusal::NoHead)??;
            bytes.extend_from_slice(&piece);
            if let Some((head, length)) = head::parse(&bytes)? {
                bytes.advance(length);
                let missing = head.length();
                if missing == Some(0) {
                    self.run.is_whole();
                }
                let first = Some(bytes.freeze()).filter(|first| !first.is_empty());
                let rest = Rest { first, missing, state: State::Output(Box::new(self)) };
                return Ok(Reply { head, rest });
            }
            if bytes.len() > MAX_HEAD_BYTES {
                return Err(Refusal::LongHead { limit: MAX_HEAD_BYTES });
            }
        }
    }

    /// Waits for the output of a function, and gives it, if the function has not failed. Of one that writes more than is collected the
    /// rest follows, and how it ends is not known before.
    pub(crate) async fn result(mut self) -> Result<(Bytes, Option<Rest>), Refusal> {
        let mut bytes = BytesMut::new();
        while let Some(piece) = self.run.output().await {
            bytes.extend_from_slice(&piece?);
            if bytes.len() > MAX_RESULT_BYTES {
                let rest =
                    Rest { first: Some(bytes.freeze()), missing: None, state: State::Output(Box::new(self)) };
                return Ok((Bytes::new(), Some(rest)));
            }
        }
        let status = self.run.end().await?;
        function::result(status, bytes.freeze()).map(|output| (output, None))
    }
}

/// Why a reply whose output has ended is not whole, if the process shows it soon enough.
async fn end_of(started: Started) -> Option<Refusal> {
    let Started { run, fails_by_status, .. } = started;
    let status = run.status(PATIENCE).await?;
    let fails = status.code().is_none() || fails_by_status && !status.success();
    fails.then_some(Refusal::Failed(status))
}

impl Drop for Feeding {
    fn drop(&mut self) {
        // What the process has not read it does not read any more: its reply is complete.
        if let Some(feed) = &self.0 {
            feed.abort();
        }
    }
}

impl Rest {
    /// The next piece; `None` at the end.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Refusal>>> {
        if self.missing == Some(0) {
            return Poll::Ready(None);
        }
        let mut next = match self.first.take() {
            Some(first) => Some(Ok(first)),
            None => ready!(self.poll_output(context)),
        };
        if let (Some(Ok(piece)), Some(missing)) = (&mut next, &mut self.missing) {
            piece.truncate(usize::try_from(*missing).unwrap_or(usize::MAX));
            *missing -= u64::try_from(piece.len()).unwrap_or(u64::MAX);
            if let (0, State::Output(started)) = (*missing, &mut self.state) {
                started.run.is_whole();
            }
        }
        Poll::Ready(next)
    }

    /// The next piece of what is written.
    fn poll_output(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Refusal>>> {
        loop {
            match std::mem::replace(&mut self.state, State::Over) {
                State::Over => return Poll::Ready(None),
                State::Output(mut started) => match started.run.poll_output(context) {
                    Poll::Ready(None) => self.state = State::End(Box::pin(end_of(*started))),
                    next => {
                        self.state = State::Output(started);
                        return next;
                    }
                },
                State::End(mut end) => match end.as_mut().poll(context) {
                    Poll::Ready(failure) => return Poll::Ready(failure.map(Err)),
                    Poll::Pending => {
                        self.state = State::End(end);
                        return Poll::Pending;
                    }
                },
            }
        }
    }

    /// The next piece, if it is there.
    pub(crate) fn ready(&mut self) -> Option<Option<Result<Bytes, Refusal>>> {
        match self.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(next) => Some(next),
            Poll::Pending => None,
        }
    }

    /// As [`Rest::poll_next`], to be awaited.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, Refusal>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// Reads to the end what nobody wants: a process is not to be killed for what was asked for (a reply to HEAD has no body).
    pub(crate) async fn discard(mut self) {
        while let Some(Ok(_)) = self.next().await {}
    }
}
