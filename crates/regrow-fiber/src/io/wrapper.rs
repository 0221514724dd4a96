//! `Async`: a descriptor, and what its type can do with it. What would block waits as a task does.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::registered::Registered;
use crate::reactor::Way;
use crate::runtime::yield_now;
use crate::worker;

/// After how many operations that need not wait a task lets others run.
const MOST_AT_ONCE: u32 = 64;

/// A descriptor whose operations let other tasks run while they wait: reads, writes, connections.
///
/// The descriptor does not block any more ([`O_NONBLOCK`]), nor do its copies, in other processes too. It stays the same one as long as this is there:
/// what [`AsFd`] gives must not change behind [`get_ref`](Async::get_ref). Tasks of several workers may share it, and wait for it both ways.
///
/// [`O_NONBLOCK`]: https://man7.org/linux/man-pages/man2/open.2.html
pub struct Async<T> {
    /// Dropped before what it watches.
    waits: Waits,
    inner: T,
}

/// How operations of a descriptor wait.
#[derive(Debug, Default)]
struct Waits {
    registered: Registered,
    /// In nanoseconds; 0: without end.
    read_timeout: AtomicU64,
    write_timeout: AtomicU64,
    /// How many operations were done since one has waited.
    at_once: AtomicU32,
}

impl Waits {
    fn timeout(&self, way: Way) -> &AtomicU64 {
        match way {
            Way::In => &self.read_timeout,
            Way::Out => &self.write_timeout,
        }
    }

    fn set_timeout(&self, way: Way, timeout: Option<Duration>) {
        let nanos = timeout.map_or(0, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX).max(1));
        self.timeout(way).store(nanos, Ordering::Relaxed);
    }

    fn deadline(&self, way: Way) -> Option<Instant> {
        match self.timeout(way).load(Ordering::Relaxed) {
            0 => None,
            nanos => Instant::now().checked_add(Duration::from_nanos(nanos)),
        }
    }

    /// Does an operation as soon as it does not block.
    fn run<T: AsFd, R>(
        &self,
        way: Way,
        descriptor: &mut T,
        mut operation: impl FnMut(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.give_way();
        let mut deadline = None;
        loop {
            match operation(descriptor) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.at_once.store(0, Ordering::Relaxed);
                    let deadline = *deadline.get_or_insert_with(|| self.deadline(way));
                    self.registered.wait(descriptor.as_fd(), way, deadline)?;
                }
                done => return done,
            }
        }
    }

    /// A task whose operations never wait lets others run now and then.
    fn give_way(&self) {
        let at_once = self.at_once.load(Ordering::Relaxed);
        self.at_once.store(if at_once < MOST_AT_ONCE { at_once + 1 } else { 0 }, Ordering::Relaxed);
        if at_once == MOST_AT_ONCE && worker::here().is_some_and(worker::Worker::is_in_task) {
            yield_now();
        }
    }
}

impl<T: AsFd> Async<T> {
    /// Wraps a descriptor, which does not block any more.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(inner: T) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&inner, true)?;
        Ok(Self::of_non_blocking(inner))
    }

    /// Wraps one that does not block.
    pub(super) fn of_non_blocking(inner: T) -> Self {
        Self { waits: Waits::default(), inner }
    }

    /// Waits until a read does not block.
    ///
    /// # Errors
    /// As [`readable`](super::readable).
    pub fn readable(&self, deadline: Option<Instant>) -> io::Result<()> {
        self.waits.registered.wait_until_ready(self.inner.as_fd(), Way::In, deadline)
    }

    /// Waits until a write does not block.
    ///
    /// # Errors
    /// As [`readable`](super::readable).
    pub fn writable(&self, deadline: Option<Instant>) -> io::Result<()> {
        self.waits.registered.wait_until_ready(self.inner.as_fd(), Way::Out, deadline)
    }

    /// Does an operation that reads: whenever it [would block](io::ErrorKind::WouldBlock), waits until the descriptor is readable, and does it again.
    ///
    /// # Errors
    /// The operation's own; [`TimedOut`](io::ErrorKind::TimedOut) after [the time for it](Async::set_read_timeout); as [`readable`](super::readable).
    pub fn read_with<R>(&self, mut operation: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.waits.run(Way::In, &mut &self.inner, |inner| operation(inner))
    }

    /// The same with an operation that writes.
    ///
    /// # Errors
    /// As [`Async::read_with`].
    pub fn write_with<R>(&self, mut operation: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.waits.run(Way::Out, &mut &self.inner, |inner| operation(inner))
    }
}

impl<T> Async<T> {
    /// How long an operation that reads or accepts waits at most; then it is [`TimedOut`](io::ErrorKind::TimedOut). `None`, and at the beginning:
    /// without end.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) {
        self.waits.set_timeout(Way::In, timeout);
    }

    /// The same for one that writes.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) {
        self.waits.set_timeout(Way::Out, timeout);
    }

    /// What it wraps.
    pub fn get_ref(&self) -> &T {
        &self.inner
    }

    /// The same, to be changed. It may be another descriptor afterwards, which does not block either.
    pub fn get_mut(&mut self) -> &mut T {
        self.waits.registered.clear();
        &mut self.inner
    }

    /// What it wraps, which still does not block.
    pub fn into_inner(self) -> T {
        let Self { waits, inner } = self;
        drop(waits);
        inner
    }
}

impl<T: AsFd> AsFd for Async<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl<T: fmt::Debug> fmt::Debug for Async<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Async").field(&self.inner).finish()
    }
}

impl<T: AsFd + Read> Read for Async<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.waits.run(Way::In, &mut self.inner, |inner| inner.read(buffer))
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.waits.run(Way::In, &mut self.inner, |inner| inner.read_vectored(buffers))
    }
}

impl<'a, T: AsFd> Read for &'a Async<T>
where
    &'a T: Read,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.waits.run(Way::In, &mut &self.inner, |inner| inner.read(buffer))
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.waits.run(Way::In, &mut &self.inner, |inner| inner.read_vectored(buffers))
    }
}

impl<T: AsFd + Write> Write for Async<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waits.run(Way::Out, &mut self.inner, |inner| inner.write(bytes))
    }

    fn write_vectored(&mut self, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        self.waits.run(Way::Out, &mut self.inner, |inner| inner.write_vectored(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.waits.run(Way::Out, &mut self.inner, Write::flush)
    }
}

impl<'a, T: AsFd> Write for &'a Async<T>
where
    &'a T: Write,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waits.run(Way::Out, &mut &self.inner, |inner| inner.write(bytes))
    }

    fn write_vectored(&mut self, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        self.waits.run(Way::Out, &mut &self.inner, |inner| inner.write_vectored(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.waits.run(Way::Out, &mut &self.inner, Write::flush)
    }
}
