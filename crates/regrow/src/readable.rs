//! Waiting for a descriptor to become readable, for futures of every runtime.
//!
//! ```text
//!   Readable::poll ── first time ──▶ entry Waiting(waker), epoll ADD (one shot) ─▶ Pending
//!                  ── later ───────▶ entry Waiting: the waker is replaced        ─▶ Pending
//!                                    entry Ready                                 ─▶ Ready
//!   thread: epoll_wait ── event ───▶ entry Ready, wake
//!   Readable::drop ────────────────▶ entry gone, epoll DEL
//! ```
//!
//! The thread is started with the first future that has to wait, and stays. A forked copy of the process starts its own: a future
//! that was registered before the fork registers again there. Invariants: an entry exists as
//! long as its future; the lock is never held while a waker runs.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use once_cell::race::OnceBox;

use crate::per_process::PerProcess;

/// How many events the thread takes at once.
const EVENTS: usize = 64;

/// Waits until `fd` is readable.
pub(crate) async fn readable(fd: BorrowedFd<'_>) -> io::Result<()> {
    if is_readable(fd)? {
        return Ok(());
    }
    Readable { fd, registered: None }.await
}

fn is_readable(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    Ok(rustix::io::retry_on_intr(|| rustix::event::poll(&mut polled, Some(&now)))? > 0)
}

/// A future that is done when the descriptor is readable.
struct Readable<'fd> {
    fd: BorrowedFd<'fd>,
    registered: Option<(Arc<Poller>, u64)>,
}

impl Future for Readable<'_> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.registered.as_ref().filter(|(poller, _)| poller.is_of_this_process()) {
            Some((poller, key)) => poller.check(*key, context.waker()),
            None => {
                let poller = Poller::get()?;
                let key = poller.register(self.fd, context.waker())?;
                self.registered = Some((poller, key));
                Poll::Pending
            }
        }
    }
}

impl Drop for Readable<'_> {
    fn drop(&mut self) {
        // In a forked copy the registration is the original's, which still waits.
        if let Some((poller, key)) = self.registered.take().filter(|(poller, _)| poller.is_of_this_process())
        {
            poller.forget(self.fd, key);
        }
    }
}

/// One `epoll` and the futures that wait for it.
struct Poller {
    /// The process whose thread waits.
    process: u32,
    epoll: OwnedFd,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    next_key: u64,
    by_key: HashMap<u64, Entry>,
}

enum Entry {
    Waiting(Waker),
    Ready,
}

impl Poller {
    /// The poller of this process, with its thread running.
    fn get() -> io::Result<Arc<Self>> {
        static POLLER: OnceBox<PerProcess<Mutex<Option<Arc<Poller>>>>> = OnceBox::new();
        let slots = POLLER.get_or_init(|| Box::new(PerProcess::new(Mutex::new(None))));
        let mut slot = slots.get(|_| Mutex::new(None)).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(poller) = &*slot {
            return Ok(Arc::clone(poller));
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let poller = Arc::new(Self { process: std::process::id(), epoll, entries: Mutex::default() });
        let shared = Arc::clone(&poller);
        thread::Builder::new().name("regrow-wait".to_owned()).spawn(move || shared.run())?;
        *slot = Some(Arc::clone(&poller));
        Ok(poller)
    }

    /// Whether its thread is there: a forked copy of the process has none of the original's threads.
    fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self, fd: BorrowedFd<'_>, waker: &Waker) -> io::Result<u64> {
        let key = {
            let mut entries = self.entries();
            let key = entries.next_key;
            entries.next_key += 1;
            entries.by_key.insert(key, Entry::Waiting(waker.clone()));
            key
        };
        let (data, flags) =
            (epoll::EventData::new_u64(key), epoll::EventFlags::IN | epoll::EventFlags::ONESHOT);
        let added = match epoll::add(&self.epoll, fd, data, flags) {
            // A future for the same descriptor was leaked: this one takes its place.
            Err(Errno::EXIST) => epoll::modify(&self.epoll, fd, data, flags),
            added => added,
        };
        if let Err(error) = added {
            self.entries().by_key.remove(&key);
            return Err(error.into());
        }
        Ok(key)
    }

    fn check(&self, key: u64, waker: &Waker) -> Poll<io::Result<()>> {
        match self.entries().by_key.get_mut(&key) {
            Some(Entry::Waiting(earlier)) => {
                earlier.clone_from(waker);
                Poll::Pending
            }
            Some(Entry::Ready) | None => Poll::Ready(Ok(())),
        }
    }

    fn forget(&self, fd: BorrowedFd<'_>, key: u64) {
        self.entries().by_key.remove(&key);
        // The descriptor is there as long as the future borrows it; were it not, there would be nothing to delete.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// What the thread does. It ends when the `epoll` is gone, as in a process that has closed all its
    /// descriptors: what waits then is woken, and waits for its process in the ordinary way.
    fn run(&self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) => self.wake(events.iter().map(|event| event.data.u64())),
                Err(Errno::INTR) => {}
                Err(_) => {
                    let keys: Vec<u64> = self.entries().by_key.keys().copied().collect();
                    return self.wake(keys.into_iter());
                }
            }
        }
    }

    fn wake(&self, keys: impl Iterator<Item = u64>) {
        for key in keys {
            let earlier =
                self.entries().by_key.get_mut(&key).map(|entry| std::mem::replace(entry, Entry::Ready));
            if let Some(Entry::Waiting(waker)) = earlier {
                waker.wake();
            }
        }
    }
}
