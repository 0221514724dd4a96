//! What the tasks of one worker wait for outside of the process: descriptors that become readable, or writable.
//!
//! ```text
//!   task ── would block ──> waits at a watched descriptor ── the kernel tells of it ──> ready
//!   worker: has nothing to do ──> waits in the poller        runs tasks ──> looks there now and then
//! ```
//!
//! Each worker has a reactor of its own, which stands in its post from the first wait on: a task that has begun stays with its worker, so that what
//! it waits for is of use to nobody else. A descriptor is told to the kernel once for each worker whose tasks wait for it, both ways, and the kernel
//! tells each change once (edges). After the reactors of mio and polling.
//!
//! Invariants: the worker's thread alone takes events, and no task of it runs meanwhile. So nothing is lost between an attempt of a task that would
//! block, and its wait. An event ends the waits of all tasks that wait that way: each makes its attempt again. A key is never used again, so that an
//! event that comes too late is nobody's.

#![allow(
    unsafe_code,
    reason = "a poller wants a promise that descriptors are taken out before they are closed"
)]

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use polling::{Event, Events, PollMode, Poller};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::control::ControlAddress;

/// How long a worker runs tasks before it looks at descriptors again.
const PERIOD: Duration = Duration::from_micros(50);

/// Which way a descriptor is to be ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// A read does not block.
    In,
    /// A write does not block.
    Out,
}

/// A descriptor that was told to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key(usize);

/// Who is told that the wait of a task is over, by its number.
pub(crate) type Tell<'a> = &'a mut dyn FnMut(ControlAddress, u64);

/// See the module.
#[derive(Debug)]
pub(crate) struct Reactor {
    poller: Poller,
    /// How many tasks wait. The worker changes it, with the table.
    waiting: AtomicUsize,
    table: Mutex<Table>,
    /// What the worker alone has.
    taking: Mutex<Taking>,
}

#[derive(Debug, Default)]
struct Table {
    last_key: usize,
    watched: HashMap<usize, Watched>,
    /// The key of each number of a descriptor.
    keys: HashMap<RawFd, usize>,
}

#[derive(Debug)]
struct Watched {
    number: RawFd,
    /// How many have entered it.
    users: usize,
    readers: Vec<(ControlAddress, u64)>,
    writers: Vec<(ControlAddress, u64)>,
}

#[derive(Debug)]
struct Taking {
    events: Events,
    /// When the worker has looked last.
    looked: Instant,
}

impl Watched {
    fn waiting(&mut self, way: Way) -> &mut Vec<(ControlAddress, u64)> {
        match way {
            Way::In => &mut self.readers,
            Way::Out => &mut self.writers,
        }
    }
}

impl Table {
    /// Takes one out; the tasks that wait for it.
    fn take_out(&mut self, key: usize) -> Vec<(ControlAddress, u64)> {
        let Some(watched) = self.watched.remove(&key) else { return Vec::new() };
        if self.keys.get(&watched.number) == Some(&key) {
            self.keys.remove(&watched.number);
        }
        [watched.readers, watched.writers].concat()
    }
}

impl Reactor {
    /// A reactor that watches nothing.
    pub(crate) fn new() -> io::Result<Self> {
        let taking = Taking { events: Events::new(), looked: Instant::now() };
        Ok(Self {
            poller: Poller::new()?,
            waiting: AtomicUsize::new(0),
            table: Mutex::default(),
            taking: Mutex::new(taking),
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // What is behind it is whole between any two operations.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_waiting(&self, count: isize) {
        let waiting = self.waiting.load(Ordering::Relaxed);
        self.waiting.store(waiting.saturating_add_signed(count), Ordering::Relaxed);
    }

    /// Whether a task waits.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Has the kernel tell of a descriptor, until whoever asks for it [leaves](Reactor::leave) it, which is before it is closed. Who waits for another
    /// one of the same number, which was closed meanwhile, is told.
    ///
    /// # Errors
    /// The kernel's; `EPERM`: this is none that can be waited for.
    pub(crate) fn enter(&self, descriptor: BorrowedFd<'_>, tell: Tell<'_>) -> io::Result<Key> {
        let number = descriptor.as_raw_fd();
        let mut table = self.table();
        if let Some(&key) = table.keys.get(&number) {
            match self.poller.modify_with_mode(descriptor, Event::all(key), PollMode::Edge) {
                Ok(()) => {
                    if let Some(watched) = table.watched.get_mut(&key) {
                        watched.users += 1;
                    }
                    return Ok(Key(key));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let left = table.take_out(key);
                    self.end_waits(left, tell);
                }
                Err(error) => return Err(error),
            }
        }
        table.last_key += 1;
        let key = table.last_key;
        // SAFETY: who enters a descriptor leaves it before it closes it. One that was closed all the same does no harm: the kernel forgets it, and an
        // event has a key, not an address.
        unsafe { self.poller.add_with_mode(number, Event::all(key), PollMode::Edge)? };
        table.keys.insert(number, key);
        table.watched.insert(key, Watched { number, users: 1, readers: Vec::new(), writers: Vec::new() });
        Ok(Key(key))
    }

    /// Takes that back. Nobody waits by it any more.
    pub(crate) fn leave(&self, key: Key) {
        let mut table = self.table();
        let Some(watched) = table.watched.get_mut(&key.0) else { return };
        watched.users -= 1;
        if watched.users > 0 {
            return;
        }
        // SAFETY: who has entered it has not closed it. If it was closed all the same, the kernel finds nothing: another one of the same number would
        // have another key.
        let descriptor = unsafe { BorrowedFd::borrow_raw(watched.number) };
        let _ = self.poller.delete(descriptor);
        table.take_out(key.0);
    }

    /// A task of this worker is about to wait.
    pub(crate) fn push(&self, key: Key, way: Way, control: ControlAddress, wait: u64) {
        if let Some(watched) = self.table().watched.get_mut(&key.0) {
            watched.waiting(way).push((control, wait));
            self.add_waiting(1);
        }
    }

    /// A task of this worker has stopped waiting.
    pub(crate) fn remove(&self, key: Key, way: Way, wait: u64) {
        if let Some(watched) = self.table().watched.get_mut(&key.0) {
            let waiting = watched.waiting(way);
            if let Some(place) = waiting.iter().position(|one| one.1 == wait) {
                waiting.swap_remove(place);
                self.add_waiting(-1);
            }
        }
    }

    fn end_waits(&self, waits: impl IntoIterator<Item = (ControlAddress, u64)>, tell: Tell<'_>) {
        for (control, wait) in waits {
            self.add_waiting(-1);
            tell(control, wait);
        }
    }

    /// Waits until the kernel tells of a descriptor, [`Reactor::notify`] is called or the time is over, and ends the waits of all tasks concerned.
    pub(crate) fn wait(&self, timeout: Option<Duration>, tell: Tell<'_>) {
        let mut taking = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        taking.events.clear();
        // It fails when the process has closed the poller's descriptors: then nothing comes any more.
        let _ = self.poller.wait(&mut taking.events, timeout);
        let mut table = self.table();
        for event in taking.events.iter() {
            let Some(watched) = table.watched.get_mut(&event.key) else { continue };
            if event.readable {
                self.end_waits(watched.readers.drain(..), tell);
            }
            if event.writable {
                self.end_waits(watched.writers.drain(..), tell);
            }
        }
    }

    /// The same without waiting, if the last look was some time ago.
    pub(crate) fn look(&self, tell: Tell<'_>) {
        let now = Instant::now();
        let mut taking = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(taking.looked) < PERIOD {
            return;
        }
        taking.looked = now;
        drop(taking);
        // One question to the kernel, where the poller has several.
        let mut asked = [PollFd::new(&self.poller, PollFlags::IN)];
        if poll(&mut asked, Some(&Timespec::default())).unwrap_or(1) > 0 {
            self.wait(Some(Duration::ZERO), tell);
        }
    }

    /// Has [`Reactor::wait`] return, this time or next time.
    pub(crate) fn notify(&self) {
        let _ = self.poller.notify();
    }

    /// The next worker has it: nobody waits.
    pub(crate) fn move_in(&self) {
        let mut table = self.table();
        for watched in table.watched.values_mut() {
            watched.readers.clear();
            watched.writers.clear();
        }
        self.waiting.store(0, Ordering::Relaxed);
    }
}

// Miri has no descriptors that can be waited for.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::io::{Read, Write, pipe};
    use std::os::fd::{AsFd, IntoRawFd};

    const NOBODY: ControlAddress = ControlAddress(std::ptr::null());

    /// Waits, and gives the numbers of the waits that have ended.
    fn ended(reactor: &Reactor, timeout: Duration) -> Vec<u64> {
        let mut numbers = Vec::new();
        reactor.wait(Some(timeout), &mut |_, wait| numbers.push(wait));
        numbers.sort_unstable();
        numbers
    }

    fn enter(reactor: &Reactor, descriptor: impl AsFd) -> Key {
        reactor.enter(descriptor.as_fd(), &mut |_, _| panic!("nobody was waiting")).unwrap()
    }

    #[test]
    fn both_ways_of_one_descriptor_are_told_apart() {
        let reactor = Reactor::new().unwrap();
        let (mut own, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
        own.set_nonblocking(true).unwrap();
        while own.write(&[0; 4096]).is_ok() {}
        let keys = [enter(&reactor, &own), enter(&reactor, &own)];
        assert_eq!(keys[0], keys[1]);
        reactor.push(keys[0], Way::In, NOBODY, 1);
        reactor.push(keys[1], Way::Out, NOBODY, 2);
        assert_eq!(ended(&reactor, Duration::ZERO), [0; 0]);
        other.write_all(b"x").unwrap();
        assert_eq!(ended(&reactor, Duration::from_secs(60)), [1]);
        other.set_nonblocking(true).unwrap();
        while other.read(&mut [0; 4096]).is_ok() {}
        assert_eq!(ended(&reactor, Duration::from_secs(60)), [2]);
        assert!(!reactor.is_awaited());
        keys.into_iter().for_each(|key| reactor.leave(key));
        assert!(reactor.table().watched.is_empty() && reactor.table().keys.is_empty());
    }

    /// Its number is another descriptor's soon: who waited for the first one is told, and the second one is waited for as any other.
    #[test]
    fn a_descriptor_that_is_closed_while_waited_for() {
        let reactor = Reactor::new().unwrap();
        let (first, _kept) = pipe().unwrap();
        let key = enter(&reactor, &first);
        reactor.push(key, Way::In, NOBODY, 1);
        let number = first.into_raw_fd();
        let (second, mut writer) = pipe().unwrap();
        // SAFETY: the number is nobody's; it is closed, and is a copy of the other descriptor then.
        let copy = unsafe {
            use std::os::fd::{FromRawFd, OwnedFd};
            let mut closed = OwnedFd::from_raw_fd(number);
            rustix::io::dup2(&second, &mut closed).unwrap();
            closed
        };
        let mut told = Vec::new();
        let other = reactor.enter(copy.as_fd(), &mut |_, wait| told.push(wait)).unwrap();
        assert!(told == [1] && other != key && !reactor.is_awaited());
        reactor.leave(key);
        reactor.push(other, Way::In, NOBODY, 2);
        writer.write_all(b"x").unwrap();
        assert_eq!(ended(&reactor, Duration::from_secs(60)), [2]);
        reactor.leave(other);
        assert!(reactor.table().watched.is_empty() && reactor.table().keys.is_empty());
    }

    #[test]
    fn a_file_cannot_be_waited_for() {
        let reactor = Reactor::new().unwrap();
        let file = tempfile::tempfile().unwrap();
        let refused = reactor.enter(file.as_fd(), &mut |_, _| ()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(reactor.table().watched.is_empty() && reactor.table().keys.is_empty());
    }
}
