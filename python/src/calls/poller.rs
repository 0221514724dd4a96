//! What the polling thread of an executor waits for: processes that end, a time, and being woken.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec};
use rustix::io::Errno;

/// What stands for being woken where others have the number of their call.
const WOKEN: u64 = u64::MAX;
/// How many ends are told of at once.
const AT_ONCE: usize = 64;

/// Descriptors that one thread waits for, and others add to.
pub(super) struct Poller {
    epoll: OwnedFd,
    waker: OwnedFd,
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let waker = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &waker, EventData::new_u64(WOKEN), EventFlags::IN)?;
        Ok(Self { epoll, waker })
    }

    /// Adds the descriptor of a call's process. It may be there already.
    pub(super) fn watch(&self, process: BorrowedFd<'_>, number: u64) -> io::Result<()> {
        match epoll::add(&self.epoll, process, EventData::new_u64(number), EventFlags::IN) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Takes a descriptor out, if it is there.
    pub(super) fn forget(&self, process: impl AsFd) {
        let _ = epoll::delete(&self.epoll, process);
    }

    /// Ends the wait, or the next one.
    pub(super) fn wake(&self) {
        let _ = rustix::io::write(&self.waker, &1_u64.to_ne_bytes());
    }

    /// The calls whose processes have ended, once there are some, it is woken, or the time is over.
    pub(super) fn wait(&self, patience: Option<Duration>) -> io::Result<Vec<u64>> {
        let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
        let mut events = Vec::with_capacity(AT_ONCE);
        match epoll::wait(&self.epoll, spare_capacity(&mut events), patience.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut numbers: Vec<u64> = events.iter().map(|event| event.data.u64()).collect();
        if let Some(place) = numbers.iter().position(|&number| number == WOKEN) {
            numbers.swap_remove(place);
            let _ = rustix::io::read(&self.waker, &mut [MaybeUninit::<u8>::uninit(); 8]);
        }
        Ok(numbers)
    }
}
