//! The porter: the thread of a domain that serves clients in other processes.
//!
//! ```text
//!   asleep in the bell ── a client rings, the doorman says something ──> looks at all lanes, again and again ── nothing for IDLE ──> asleep
//! ```
//!
//! Everything about guests is its own: nobody waits for a lock. Asleep it uses no processor time.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};

use super::guest::{Guest, Office};
use super::hello::{Hello, Refusal};
use super::memory::LaneMemory;
use super::peer::Peer;
use crate::request::Owner;
use crate::shared::handing;
use crate::shared::layout::{CUT_OFF, DESKS, OVER};
use crate::store::Store;

/// How long the porter looks for something to do before it sleeps, and how many looks there are between two at the clock.
const IDLE: Duration = Duration::from_micros(50);
const LOOKS: u32 = 32;

/// What the doorman says.
#[derive(Debug)]
pub(super) enum Event {
    /// A process of the same user has come.
    Arrival(Arc<OwnedFd>),
    /// The process of a socket has ended, or has closed it.
    Departure(Arc<OwnedFd>),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Porter {
    office: Office,
    guests: Vec<Option<Guest>>,
    events: Receiver<Event>,
    key: u64,
}

impl Porter {
    pub(super) fn new(office: Office, events: Receiver<Event>, key: u64) -> Porter {
        Porter { office, guests: Vec::new(), events, key }
    }

    /// Its life, until the doorman has gone.
    pub(super) fn work(mut self) {
        let shared = Arc::clone(&self.office.shared);
        let bell = &shared.head().bell;
        while self.serve_until_idle() {
            // Events come by the bell too.
            bell.wait(None, || false);
        }
        shared.head().state.store(OVER, SeqCst);
        self.guests.iter().flatten().for_each(|guest| guest.lane().bell.wake_if_asleep());
        // Who has ended gives all back here; who goes on has its memory still, and the service has its zones.
    }

    /// False when the doorman has gone.
    fn serve_until_idle(&mut self) -> bool {
        let shared = Arc::clone(&self.office.shared);
        let bell = &shared.head().bell;
        bell.attend(true);
        let mut last = Instant::now();
        let mut goes_on = true;
        while goes_on {
            for _ in 0..LOOKS {
                // An event is told by the bell alone.
                if bell.take() != 0 {
                    goes_on &= self.hear();
                    last = Instant::now();
                }
                if self.serve_all() > 0 {
                    last = Instant::now();
                } else {
                    std::hint::spin_loop();
                }
            }
            if last.elapsed() > IDLE {
                break;
            }
            // On a machine that is short of processors a client has its turn.
            std::thread::yield_now();
        }
        bell.attend(false);
        goes_on &= self.hear();
        self.serve_all();
        goes_on
    }

    fn serve_all(&mut self) -> usize {
        let mut done = 0;
        for guest in self.guests.iter_mut().flatten() {
            match guest.serve(&mut self.office) {
                Ok(requests) => done += requests,
                Err(error) => {
                    self.office.counts.note_forged(error);
                    if let Some(desk) = self.office.shared.head().desks.get(guest.peer.desk as usize) {
                        desk.state.store(CUT_OFF, SeqCst);
                    }
                    guest.lane().bell.wake_if_asleep();
                    done += 1;
                }
            }
        }
        if done > 0 {
            self.note_pages();
        }
        done
    }

    fn note_pages(&self) {
        self.office.counts.lent_pages.store(self.office.books.pages(), Relaxed);
    }

    /// Does what the doorman says. False when it has gone.
    fn hear(&mut self) -> bool {
        loop {
            match self.events.try_recv() {
                Ok(Event::Arrival(socket)) => self.welcome(socket),
                Ok(Event::Departure(socket)) => self.see_off(&socket),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn welcome(&mut self, socket: Arc<OwnedFd>) {
        let store = Arc::clone(&self.office.store);
        let (chunks, key) = (store.range().chunks(), self.key);
        let place = self.guests.iter().position(Option::is_none).unwrap_or(self.guests.len());
        let (lane, range) = match lane_and_range(place, &store) {
            Ok(both) => both,
            Err(refusal) => {
                // Who does not read why sees that the connection has ended.
                let _ = Hello { chunks, key, peer: Err(refusal) }.send(socket.as_fd(), &[]);
                return hang_up(&socket);
            }
        };
        let (number, zone) = store.new_client();
        let peer = Peer { desk: u32::try_from(place).unwrap_or(0), number };
        let Some(desk) = self.office.shared.head().desks.get(place) else { return hang_up(&socket) };
        desk.inbox.clear();
        desk.state.store(0, SeqCst);
        desk.presence.come(number);
        let files = [range, self.office.shared.file(), lane.file()];
        if (Hello { chunks, key, peer: Ok(peer) }).send(socket.as_fd(), &files).is_err() {
            desk.presence.leave();
            return hang_up(&socket);
        }
        let guest = Some(Guest::new(peer, zone, lane, socket));
        match self.guests.get_mut(place) {
            Some(slot) => *slot = guest,
            None => self.guests.push(guest),
        }
        self.office.counts.clients.fetch_add(1, Relaxed);
    }

    /// A process has ended: what it had comes back, and what others have handed to it.
    fn see_off(&mut self, socket: &Arc<OwnedFd>) {
        let is_its =
            |guest: &Option<Guest>| guest.as_ref().is_some_and(|guest| Arc::ptr_eq(&guest.socket, socket));
        let Some(place) = self.guests.iter().position(is_its) else { return };
        // What it gave back before it ended is in its lane still.
        while let Some(guest) = self.guests.get_mut(place).and_then(Option::as_mut)
            && guest.serve(&mut self.office).is_ok_and(|done| done > 0)
        {}
        let Some(guest) = self.guests.get_mut(place).and_then(Option::take) else { return };
        // Who hands something to it from here on sees that it is not there; what was handed to it before is found below.
        if let Some(desk) = self.office.shared.head().desks.get(place) {
            desk.presence.leave();
        }
        self.collect(guest.peer.number);
    }

    /// Takes back what nobody has who is there.
    fn collect(&mut self, gone: Owner) {
        let shared = Arc::clone(&self.office.shared);
        let there: HashSet<Owner> = self.guests.iter().flatten().map(|guest| guest.peer.number).collect();
        let is_over = |page| {
            shared.entry(page).is_none_or(|word| handing::collect(word, |owner| there.contains(&owner)))
        };
        let over = self.office.books.remove_where(is_over);
        for (page, loan) in over {
            self.office.take_home(page, loan, gone);
            self.office.counts.collected.fetch_add(1, Relaxed);
        }
        self.note_pages();
        self.office.counts.clients.fetch_sub(1, Relaxed);
    }
}

/// What a client needs beside what all share.
fn lane_and_range(place: usize, store: &Store) -> Result<(LaneMemory, BorrowedFd<'_>), Refusal> {
    if place >= DESKS {
        return Err(Refusal::Full);
    }
    let lane = LaneMemory::new()
        .map_err(|error| Refusal::Short(Errno::from_io_error(&error).unwrap_or(Errno::NOMEM)))?;
    Ok((lane, store.range().file().ok_or(Refusal::Full)?))
}

/// Ends a connection: the client sees it, and the doorman, who closes the socket.
fn hang_up(socket: &OwnedFd) {
    // It may have ended already.
    let _ = shutdown(socket, Shutdown::Both);
}
