//! A connection that is given up when its client takes nothing, and that says where in a request it is.

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
pub(crate) struct Progress {
    /// A request has come and is not answered to its end.
    answering: Cell<bool>,
    /// Something has come since that is part of the next one.
    begun: Cell<bool>,
    /// A request has come.
    asked: Cell<bool>,
}

impl Progress {
    pub(crate) fn head_has_come(&self) {
        self.answering.set(true);
        self.asked.set(true);
        self.begun.set(false);
    }

    pub(crate) fn has_answered(&self) {
        self.answering.set(false);
    }

    /// Ends when the first request has not come in time.
    pub(crate) async fn first_head(&self, timeout: Duration) {
        sleep(timeout).await;
        if self.asked.get() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether a part of a request's head has come.
    pub(crate) fn is_in_head(&self) -> bool {
        self.begun.get()
    }
}

/// A connection. Copies are of the same one.
#[derive(Clone)]
pub(crate) struct Socket {
    stream: Rc<TcpStream>,
    idle: Duration,
    /// Runs while the client takes nothing of what it is sent.
    stalled: Rc<RefCell<Option<Pin<Box<Sleep>>>>>,
    progress: Rc<Progress>,
}

impl Socket {
    pub(crate) fn new(stream: TcpStream, idle: Duration, progress: Rc<Progress>) -> Self {
        Self { stream: Rc::new(stream), idle, stalled: Rc::default(), progress }
    }

    /// Says something that nobody waits for, before the connection is closed.
    pub(crate) fn say_last(&self, text: &[u8]) {
        // The client may have gone.
        let _ = self.stream.try_write(text);
    }

    /// Tries to write until it is done, would block, or takes too long.
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

impl AsyncRead for Socket {
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

impl AsyncWrite for Socket {
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
