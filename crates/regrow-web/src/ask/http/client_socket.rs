//! The socket of a client. It fails when the client reads nothing for too long, and knows what the connection is at.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// What a connection is at.
#[derive(Debug)]
pub(crate) struct RequestProgress {
    /// The requests that are being answered. A connection of HTTP/2 can have several.
    answering: Cell<usize>,
    /// A part of the next request has come.
    begun: Cell<bool>,
    /// At least one request has come.
    asked: Cell<bool>,
    /// When the last reply was complete.
    answered: Cell<Instant>,
    /// Of replies whose next part the client has not taken as yet: since when.
    untaken: RefCell<HashMap<u64, Instant>>,
    /// Replies so far.
    replies: Cell<u64>,
}

impl RequestProgress {
    /// A connection that has just been opened.
    pub(crate) fn new() -> Self {
        Self {
            answering: Cell::default(),
            begun: Cell::default(),
            asked: Cell::default(),
            answered: Cell::new(Instant::now()),
            untaken: RefCell::default(),
            replies: Cell::default(),
        }
    }

    /// A request begins. Gives the number of its reply.
    pub(crate) fn head_has_come(&self) -> u64 {
        self.answering.set(self.answering.get() + 1);
        self.asked.set(true);
        self.begun.set(false);
        self.replies.set(self.replies.get() + 1);
        self.replies.get()
    }

    /// A part of a reply is on its way to the client. The next one is asked for when there is room for it.
    pub(crate) fn part_is_sent(&self, reply: u64) {
        self.untaken.borrow_mut().insert(reply, Instant::now());
    }

    /// There is room for the next part of a reply.
    pub(crate) fn part_is_taken(&self, reply: u64) {
        self.untaken.borrow_mut().remove(&reply);
    }

    /// A reply is complete.
    pub(crate) fn has_answered(&self, reply: u64) {
        self.part_is_taken(reply);
        self.answering.set(self.answering.get().saturating_sub(1));
        self.answered.set(Instant::now());
    }

    /// Returns after the timeout if no request has come, and else never.
    pub(crate) async fn first_head(&self, timeout: Duration) {
        sleep(timeout).await;
        if self.asked.get() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns when for so long the client has asked for nothing and taken nothing, while no process was at work on a reply. Whatever
    /// else it sends does not count.
    pub(crate) async fn unused(&self, timeout: Duration) {
        loop {
            let due = self.unused_since().map_or_else(|| Instant::now() + timeout, |since| since + timeout);
            if due <= Instant::now() {
                return;
            }
            sleep_until(due).await;
        }
    }

    fn unused_since(&self) -> Option<Instant> {
        let untaken = self.untaken.borrow();
        let is_clients_turn = self.asked.get() && untaken.len() == self.answering.get();
        is_clients_turn.then(|| untaken.values().copied().fold(self.answered.get(), Instant::max))
    }

    /// Whether a part of a request has come, but not its whole head.
    pub(crate) fn is_in_head(&self) -> bool {
        self.begun.get()
    }

    fn is_answering(&self) -> bool {
        self.answering.get() > 0
    }
}

/// The socket of a client. Clones are of the same connection.
#[derive(Clone)]
pub(crate) struct ClientSocket {
    stream: Rc<TcpStream>,
    idle: Duration,
    /// The timer while the client reads nothing.
    stalled: Rc<RefCell<Option<Pin<Box<Sleep>>>>>,
    progress: Rc<RequestProgress>,
}

impl ClientSocket {
    pub(crate) fn new(stream: TcpStream, idle: Duration, progress: Rc<RequestProgress>) -> Self {
        Self { stream: Rc::new(stream), idle, stalled: Rc::default(), progress }
    }

    /// Sends a text before the connection closes, if there is room for it.
    pub(crate) fn send_last(&self, text: &[u8]) {
        // The client may have gone.
        let _ = self.stream.try_write(text);
    }

    /// Writes as soon as there is room. Fails when the client reads nothing for the idle time.
    fn poll_try(
        &self,
        context: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.stream.poll_write_ready(context) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => return self.poll_stalled(context),
            }
            match write(&self.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => {
                    *self.stalled.borrow_mut() = None;
                    return Poll::Ready(done);
                }
            }
        }
    }

    fn poll_stalled(&self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut stalled = self.stalled.borrow_mut();
        let timer = stalled.get_or_insert_with(|| Box::pin(sleep(self.idle)));
        ready!(timer.as_mut().poll(context));
        timer.as_mut().reset(Instant::now() + self.idle);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for ClientSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            match self.stream.try_read(buffer.initialize_unfilled()) {
                Ok(read) => {
                    if read > 0 && !self.progress.is_answering() {
                        self.progress.begun.set(true);
                    }
                    buffer.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_try(context, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_try(context, |stream| stream.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(rustix::net::shutdown(&*self.stream, rustix::net::Shutdown::Write).map_err(Into::into))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Whether a connection ends as unused within so many times [`LONG`].
    async fn is_unused_within(progress: &RequestProgress, times: u32) -> bool {
        tokio::time::timeout(LONG * times, progress.unused(LONG)).await.is_ok()
    }

    fn with_a_clock_of_its_own(test: impl AsyncFnOnce()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(test());
    }

    #[test]
    fn a_connection_is_unused_between_requests_and_not_in_one() {
        with_a_clock_of_its_own(async || {
            let progress = RequestProgress::new();
            assert!(!is_unused_within(&progress, 3).await, "the first head has a time of its own");
            let (first, second) = (progress.head_has_come(), progress.head_has_come());
            assert!(!is_unused_within(&progress, 3).await);
            progress.has_answered(first);
            assert!(!is_unused_within(&progress, 3).await, "the second is being answered");
            progress.has_answered(second);
            assert!(is_unused_within(&progress, 2).await);
            let third = progress.head_has_come();
            assert!(!is_unused_within(&progress, 3).await);
            progress.has_answered(third);
            assert!(is_unused_within(&progress, 2).await);
        });
    }

    #[test]
    fn a_connection_is_unused_whose_client_takes_nothing() {
        with_a_clock_of_its_own(async || {
            let progress = RequestProgress::new();
            let (slow, other) = (progress.head_has_come(), progress.head_has_come());
            progress.part_is_sent(slow);
            progress.part_is_taken(slow);
            assert!(!is_unused_within(&progress, 3).await, "the process may take its time");
            progress.part_is_sent(slow);
            progress.part_is_sent(other);
            progress.part_is_taken(other);
            assert!(!is_unused_within(&progress, 3).await, "one of several replies is taken");
            progress.has_answered(other);
            assert!(is_unused_within(&progress, 2).await);
        });
    }
}
