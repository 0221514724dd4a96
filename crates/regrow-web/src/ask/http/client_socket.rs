//! The socket of a client. It fails when the client reads nothing for too long, and knows where in a request the connection is.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// Where in a request a connection is.
#[derive(Debug, Default)]
pub(crate) struct RequestProgress {
    /// The gateway answers a request.
    answering: Cell<bool>,
    /// A part of the next request has come.
    begun: Cell<bool>,
    /// At least one request has come.
    asked: Cell<bool>,
}

impl RequestProgress {
    /// A request begins.
    pub(crate) fn head_has_come(&self) {
        self.answering.set(true);
        self.asked.set(true);
        self.begun.set(false);
    }

    /// A reply is complete.
    pub(crate) fn has_answered(&self) {
        self.answering.set(false);
    }

    /// Returns after the timeout if no request has come, and else never.
    pub(crate) async fn first_head(&self, timeout: Duration) {
        sleep(timeout).await;
        if self.asked.get() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether a part of a request has come, but not its whole head.
    pub(crate) fn is_in_head(&self) -> bool {
        self.begun.get()
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
                    if read > 0 && !self.progress.answering.get() {
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
