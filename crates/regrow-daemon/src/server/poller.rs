//! What the loop waits for: descriptors under numbers, by epoll.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;

/// Events that are taken at once.
const EVENTS: usize = 64;

/// Waits for descriptors, each of which has a number.
#[derive(Debug)]
pub(super) struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    pub(super) fn new() -> io::Result<Poller> {
        Ok(Poller { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Waits for a descriptor from here on to be readable.
    pub(super) fn add(&self, fd: impl AsFd, number: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(number), EventFlags::IN)?)
    }

    /// Waits for other events of a descriptor from here on.
    pub(super) fn change(&self, fd: impl AsFd, number: u64, events: EventFlags) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(number), events)?)
    }

    /// Waits for a descriptor no more.
    pub(super) fn remove(&self, fd: impl AsFd) {
        // One that is not waited for is not waited for.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Waits for events, and puts the numbers of the descriptors that have one into `numbers`. A signal ends the wait.
    pub(super) fn wait(&self, timeout: Option<&Timespec>, numbers: &mut Vec<u64>) -> io::Result<()> {
        let mut room = [MaybeUninit::uninit(); EVENTS];
        numbers.clear();
        match epoll::wait(&self.epoll, &mut room, timeout) {
            Ok((events, _)) => numbers.extend(events.iter().map(|event| event.data.u64())),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
