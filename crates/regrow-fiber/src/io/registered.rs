//! A wait for a descriptor, of a task or of a thread, and which workers watch the descriptor for it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::control::ControlAddress;
use crate::post::Post;
use crate::reactor::{Key, Way};
use crate::runtime::yield_now;
use crate::task::Woken;
use crate::wait::{self, Wait};
use crate::worker::{self, Worker};

/// Waits until a read of a descriptor does not block: there is something, or an end, or an error. Somebody else may come first.
///
/// # Errors
/// [`TimedOut`](io::ErrorKind::TimedOut) at the deadline; the kernel's, when there is no room to watch the descriptor, or it is none.
pub fn readable(descriptor: impl AsFd, deadline: Option<Instant>) -> io::Result<()> {
    Registered::default().wait_until_ready(descriptor.as_fd(), Way::In, deadline)
}

/// Waits until a write to a descriptor does not block: there is room, or an error. Somebody else may come first.
///
/// # Errors
/// As [`readable`].
pub fn writable(descriptor: impl AsFd, deadline: Option<Instant>) -> io::Result<()> {
    Registered::default().wait_until_ready(descriptor.as_fd(), Way::Out, deadline)
}

/// By which workers a descriptor is watched. It is dropped before the descriptor is closed.
#[derive(Debug, Default)]
pub(super) struct Registered(Mutex<Vec<(&'static Post, Key)>>);

impl Registered {
    /// Waits until a descriptor is ready.
    pub(super) fn wait_until_ready(
        &self,
        descriptor: BorrowedFd<'_>,
        way: Way,
        deadline: Option<Instant>,
    ) -> io::Result<()> {
        while !is_ready(descriptor, way, Some(&Timespec::default()))? {
            self.wait(descriptor, way, deadline)?;
        }
        Ok(())
    }

    /// Waits behind an attempt that would have blocked: until the next one may not.
    pub(super) fn wait(
        &self,
        descriptor: BorrowedFd<'_>,
        way: Way,
        deadline: Option<Instant>,
    ) -> io::Result<()> {
        match worker::here() {
            Some(worker) if worker.is_in_task() => self.wait_in_task(worker, descriptor, way, deadline),
            _ => wait_in_thread(descriptor, way, deadline),
        }
    }

    fn wait_in_task(
        &self,
        worker: &Worker,
        descriptor: BorrowedFd<'_>,
        way: Way,
        deadline: Option<Instant>,
    ) -> io::Result<()> {
        let reactor = worker.post().reactor()?;
        let key = match self.key(worker, descriptor) {
            Ok(key) => key,
            Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
                // It cannot be waited for, and is always ready.
                yield_now();
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let wait = Wait::begin();
        let Wait::Task(task) = &wait else { return Ok(()) };
        reactor.push(key, way, ControlAddress::of(worker.task()), task.number());
        let woken = wait.end(deadline);
        if woken != Woken::Happened {
            reactor.remove(key, way, task.number());
        }
        match woken {
            Woken::Happened | Woken::Given | Woken::Disturbed => Ok(()),
            Woken::TimedOut => Err(io::ErrorKind::TimedOut.into()),
            Woken::Cancelled => wait::unwind(),
        }
    }

    /// The key by which the present worker watches the descriptor; from now on, if it did not.
    fn key(&self, worker: &Worker, descriptor: BorrowedFd<'_>) -> io::Result<Key> {
        let mut registered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, key)) = registered.iter().find(|(post, _)| std::ptr::eq(*post, worker.post())) {
            return Ok(*key);
        }
        let key = worker.post().reactor()?.enter(descriptor, &mut |control, wait| {
            worker.wake(control, wait, Woken::Happened);
        })?;
        registered.push((worker.post(), key));
        Ok(key)
    }

    /// No worker watches it any more, until somebody waits again.
    pub(super) fn clear(&mut self) {
        for (post, key) in self.0.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if let Ok(reactor) = post.reactor() {
                reactor.leave(key);
            }
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Asks the kernel, and waits there for so long at most.
fn is_ready(descriptor: BorrowedFd<'_>, way: Way, timeout: Option<&Timespec>) -> io::Result<bool> {
    let flags = match way {
        Way::In => PollFlags::IN,
        Way::Out => PollFlags::OUT,
    };
    let mut asked = [PollFd::new(&descriptor, flags)];
    match poll(&mut asked, timeout) {
        Ok(_) if asked[0].revents().contains(PollFlags::NVAL) => Err(Errno::BADF.into()),
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn wait_in_thread(descriptor: BorrowedFd<'_>, way: Way, deadline: Option<Instant>) -> io::Result<()> {
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // Longer than the kernel can count is for ever.
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        if is_ready(descriptor, way, timeout.as_ref())? {
            return Ok(());
        }
        if left.is_some_and(|left| left.is_zero()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}
