//! Runs that wait until a thread has looked their program up.
//!
//! A name that the shard remembers needs no look at any file. Every other one is looked up here first, so that a file system that does not
//! answer keeps waiting only those who ask for what lies there.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use regrow_engine::run::creation::Fallback;
use regrow_engine::run::lookup::Lookup;
use regrow_engine::run::request::Request;
use rustix::event::EventfdFlags;

use super::closing::Held;
use super::workers::Workers;
use crate::ticket::Ticket;

/// Most programs that are looked up at a time.
const MOST: usize = 16;

/// When a client is told that its run has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    AtOnce,
    /// It waits for the end alone.
    Never,
    /// If it is not over in a short while: most are, and each message wakes the client.
    Late,
}

/// A run that a client has asked for.
#[derive(Debug)]
pub(super) struct RunOrder {
    /// The program, in words.
    pub(super) program: String,
    /// When the client is told that it has started.
    pub(super) told: Told,
    pub(super) request: Request,
    pub(super) ticket: Ticket,
    /// What request and ticket use, and what must be dropped after them.
    pub(super) _held: Held,
}

/// A run order whose program has been looked up.
#[derive(Debug)]
pub(super) struct LookedUp {
    pub(super) client: u64,
    pub(super) order: RunOrder,
    pub(super) found: Result<(), Fallback>,
}

/// The run orders that wait.
#[derive(Debug)]
pub(super) struct Lookups {
    workers: Workers,
    bell: Arc<OwnedFd>,
    sender: Sender<(u64, Result<(), Fallback>)>,
    receiver: Receiver<(u64, Result<(), Fallback>)>,
    /// By numbers that are used once.
    waiting: HashMap<u64, (u64, RunOrder)>,
    next: u64,
}

impl Lookups {
    pub(super) fn new() -> io::Result<Lookups> {
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (sender, receiver) = channel();
        let waiting = HashMap::new();
        Ok(Lookups {
            workers: Workers::new(MOST, 0),
            bell: Arc::new(bell),
            sender,
            receiver,
            waiting,
            next: 0,
        })
    }

    /// What is readable when something has been looked up.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Has a program looked up.
    ///
    /// # Errors
    /// Gives the order back when every thread is kept waiting.
    pub(super) fn begin(
        &mut self,
        client: u64,
        order: RunOrder,
        lookup: Lookup,
    ) -> Result<(), Box<RunOrder>> {
        let number = self.next;
        self.next += 1;
        let (sender, bell) = (self.sender.clone(), Arc::clone(&self.bell));
        let submitted = self.workers.submit(move || {
            // Nobody listens any more when the daemon ends.
            let _ = sender.send((number, lookup.carry_out()));
            let _ = rustix::io::write(&*bell, &1u64.to_ne_bytes());
        });
        if !submitted {
            return Err(Box::new(order));
        }
        self.waiting.insert(number, (client, order));
        Ok(())
    }

    /// Those that have been looked up since the last time. A client that is gone waits for nothing.
    pub(super) fn done(&mut self) -> Vec<LookedUp> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.bell, &mut count);
        let found = self.receiver.try_iter();
        let waiting = &mut self.waiting;
        found
            .filter_map(|(number, found)| {
                waiting.remove(&number).map(|(client, order)| LookedUp { client, order, found })
            })
            .collect()
    }

    /// A client is gone.
    pub(super) fn forget(&mut self, client: u64) {
        self.waiting.retain(|_, (waiting, _)| *waiting != client);
    }

    /// Gives up all that wait.
    pub(super) fn give_up(&mut self) -> Vec<(u64, RunOrder)> {
        self.waiting.drain().map(|(_, waiting)| waiting).collect()
    }
}
