//! The reply that a process writes: its head, and its body.
//!
//! ```text
//!  output ──> head ──> body, passed on as it comes ──> how the process has ended
//!     502: no head                                     a signal: the reply is not complete
//! ```

use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};

use crate::cgi_head::{self, CgiHead};
use crate::metrics::GaugeGuard;
use crate::request_error::RequestError;
use crate::serve::process::ScriptProcess;
use crate::serve::stdin_feed::FeedGuard;

/// The most bytes of a function's output that the gateway collects before it sends any.
const MAX_RESULT_BYTES: usize = 8 << 20;
/// How long the gateway waits for a process after the end of its output. It does not wait for one that goes on working.
const PATIENCE: Duration = Duration::from_millis(10);
/// As long it waits for one whose output has ended without a head, to say how the process has ended.
const HEADLESS_PATIENCE: Duration = Duration::from_secs(2);
/// The longest head of a reply.
const MAX_HEAD_BYTES: usize = 256 * 1024;

/// A process whose reply is still to come.
pub(crate) struct PendingReply {
    // Fields drop in this order. The feed knows the process by its number, so it stops before anybody waits for the process.
    pub(crate) _feed: FeedGuard,
    pub(crate) process: ScriptProcess,
    /// Whether a failure by exit status means that the reply is not complete. A death by signal always does.
    pub(crate) fails_by_status: bool,
    pub(crate) _under_way: GaugeGuard,
}

/// A reply: its head and its body.
pub(crate) struct CgiReply {
    pub(crate) head: CgiHead,
    pub(crate) body: ReplyBody,
}

/// The body of a reply.
pub(crate) struct ReplyBody {
    /// What has come with the head.
    first: Option<Bytes>,
    /// How many bytes are still to come, if the head has a length. Such a reply does not wait for the end of the process.
    missing: Option<u64>,
    source: BodySource,
}

/// Where the next piece of a body comes from.
enum BodySource {
    Output(Box<PendingReply>),
    /// The output has ended. The end of the process says whether the reply is complete.
    End(Pin<Box<dyn Future<Output = Option<RequestError>>>>),
    Done,
}

impl PendingReply {
    /// Waits for the head of the reply.
    pub(crate) async fn reply(mut self) -> Result<CgiReply, RequestError> {
        let mut bytes = BytesMut::new();
        loop {
            let Some(piece) = self.process.output().await else {
                let status = self.process.status(HEADLESS_PATIENCE).await;
                return Err(RequestError::NoHead { has_text: !bytes.is_empty(), status });
            };
            bytes.extend_from_slice(&piece?);
            if let Some((head, length)) = cgi_head::parse(&bytes)? {
                bytes.advance(length);
                let missing = head.length();
                if missing == Some(0) {
                    self.process.complete();
                }
                let first = Some(bytes.freeze()).filter(|first| !first.is_empty());
                let body = ReplyBody { first, missing, source: BodySource::Output(Box::new(self)) };
                return Ok(CgiReply { head, body });
            }
            if bytes.len() > MAX_HEAD_BYTES {
                return Err(RequestError::LongHead { limit: MAX_HEAD_BYTES });
            }
        }
    }

    /// Waits for the whole output of a function, and for its end. If the output is longer than the gateway collects, returns a body
    /// whose end tells whether the function has failed.
    pub(crate) async fn result(mut self) -> Result<(Bytes, Option<ReplyBody>), RequestError> {
        let mut bytes = BytesMut::new();
        while let Some(piece) = self.process.output().await {
            bytes.extend_from_slice(&piece?);
            if bytes.len() > MAX_RESULT_BYTES {
                let source = BodySource::Output(Box::new(self));
                let body = ReplyBody { first: Some(bytes.freeze()), missing: None, source };
                return Ok((Bytes::new(), Some(body)));
            }
        }
        let output = bytes.freeze();
        match self.process.end().await? {
            Some(status) if !status.success() => Err(RequestError::Function { status, output }),
            _ => Ok((output, None)),
        }
    }
}

/// Why a reply whose output has ended is not complete, if the process ends soon enough to tell.
async fn failure_of(pending: PendingReply) -> Option<RequestError> {
    let PendingReply { process, fails_by_status, .. } = pending;
    let status = process.status(PATIENCE).await?;
    let fails = status.code().is_none() || fails_by_status && !status.success();
    fails.then_some(RequestError::Failed(status))
}

impl ReplyBody {
    /// The next piece; `None` at the end.
    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, RequestError>>> {
        if self.is_whole() {
            return Poll::Ready(None);
        }
        let mut next = match self.first.take() {
            Some(first) => Some(Ok(first)),
            None => ready!(self.poll_source(context)),
        };
        if let (Some(Ok(piece)), Some(missing)) = (&mut next, &mut self.missing) {
            piece.truncate(usize::try_from(*missing).unwrap_or(usize::MAX));
            *missing -= u64::try_from(piece.len()).unwrap_or(u64::MAX);
            if let (0, BodySource::Output(pending)) = (*missing, &mut self.source) {
                pending.process.complete();
            }
        }
        Poll::Ready(next)
    }

    /// The next piece of the output; then the failure of the process, if it has failed.
    fn poll_source(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, RequestError>>> {
        loop {
            match std::mem::replace(&mut self.source, BodySource::Done) {
                BodySource::Done => return Poll::Ready(None),
                BodySource::Output(mut pending) => match pending.process.poll_output(context) {
                    Poll::Ready(None) => self.source = BodySource::End(Box::pin(failure_of(*pending))),
                    next => {
                        self.source = BodySource::Output(pending);
                        return next;
                    }
                },
                BodySource::End(mut end) => match end.as_mut().poll(context) {
                    Poll::Ready(failure) => return Poll::Ready(failure.map(Err)),
                    Poll::Pending => {
                        self.source = BodySource::End(end);
                        return Poll::Pending;
                    }
                },
            }
        }
    }

    /// The next piece, if it is there.
    pub(crate) fn try_next(&mut self) -> Option<Option<Result<Bytes, RequestError>>> {
        match self.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(next) => Some(next),
            Poll::Pending => None,
        }
    }

    /// As [`ReplyBody::poll_next`], to be awaited.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, RequestError>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// Whether the body has come as far as its length says.
    pub(crate) fn is_whole(&self) -> bool {
        self.missing == Some(0)
    }

    /// Why somebody has ended the process, if nobody has read it from the body.
    pub(crate) fn take_fault(&self) -> Option<RequestError> {
        match &self.source {
            BodySource::Output(pending) => pending.process.fault().take(),
            _ => None,
        }
    }

    /// Reads the body to its end for nobody: the reply to HEAD has no body, but its process must not be killed.
    pub(crate) async fn discard(mut self) {
        while let Some(Ok(_)) = self.next().await {}
    }
}
