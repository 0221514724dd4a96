//! A client in another process, as the porter serves it.
//!
//! Each request is looked at as a stranger's: what is no message ends the service of the client, and a block goes back only where the books and the entry say that
//! it is the client's.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::books::{Books, Loan};
use super::counts::Counts;
use super::memory::{LaneMemory, SharedMemory};
use super::peer::Peer;
use crate::error::MessageError;
use crate::message::{Answer, PAGES, Pages, Request};
use crate::request::{Grant, Want};
use crate::ring::{Receiver, Sender};
use crate::shared::entry::Entry;
use crate::shared::handing;
use crate::store::Store;
use crate::units::Page;

/// Most requests that are carried out before others have their turn.
const AT_ONCE: usize = 16;

/// What the porter has for all its guests.
#[derive(Debug)]
pub(super) struct Office {
    pub(super) store: Arc<Store>,
    pub(super) shared: Arc<SharedMemory>,
    pub(super) counts: Arc<Counts>,
    pub(super) books: Books,
    /// What a zone has just granted.
    granted: Vec<Grant>,
}

impl Office {
    pub(super) fn new(store: Arc<Store>, shared: Arc<SharedMemory>, counts: Arc<Counts>) -> Office {
        Office { store, shared, counts, books: Books::default(), granted: Vec::new() }
    }

    /// Takes back a block that is struck out of the books.
    pub(super) fn take_home(&self, page: Page, loan: Loan, last: u32) {
        if last == loan.first {
            self.store.free(page);
        } else {
            self.store.free_of(page, last);
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) peer: Peer,
    zone: usize,
    lane: LaneMemory,
    requests: Receiver,
    answers: Sender,
    /// It stays open as long as the client is there: its end says that the client has ended.
    pub(super) socket: Arc<OwnedFd>,
    /// It has said what is no message.
    is_cut_off: bool,
}

impl Guest {
    pub(super) fn new(peer: Peer, zone: usize, lane: LaneMemory, socket: Arc<OwnedFd>) -> Guest {
        let (requests, answers) = (Receiver::default(), Sender::default());
        Guest { peer, zone, lane, requests, answers, socket, is_cut_off: false }
    }

    pub(super) fn lane(&self) -> &LaneMemory {
        &self.lane
    }

    /// Carries out what lies in the lane, as far as there is room for answers. How many requests that were.
    ///
    /// # Errors
    /// A line that is no message: the client is served no longer. What it has comes back with its end.
    pub(super) fn serve(&mut self, office: &mut Office) -> Result<usize, MessageError> {
        if self.is_cut_off {
            return Ok(0);
        }
        let mut done = 0;
        let mut forged = Ok(());
        while done < AT_ONCE
            && let Some(line) = self.requests.peek(&self.lane.requests)
        {
            match Request::read(&line, self.peer.number) {
                Ok(Request::Ask { tag, count, want }) => {
                    let lines = count / PAGES + 2;
                    if self.answers.room(&self.lane.answers, lines) < lines {
                        break;
                    }
                    self.grant(office, tag, count, want);
                }
                Ok(Request::Return { tag, pages }) => {
                    if self.answers.room(&self.lane.answers, 1) == 0 {
                        break;
                    }
                    self.take_back(office, tag, &pages);
                }
                Err(error) => {
                    self.is_cut_off = true;
                    forged = Err(error);
                    break;
                }
            }
            self.requests.advance(&self.lane.requests);
            done += 1;
        }
        if done > 0 {
            self.answers.publish(&self.lane.answers);
            self.lane.bell.wake_if_asleep();
        }
        forged.map(|()| done)
    }

    /// Blocks of the client's zone; where that has none, of wherever the master finds them.
    fn grant(&mut self, office: &mut Office, tag: u16, count: usize, want: Want) {
        let mut granted = std::mem::take(&mut office.granted);
        if let Some(seat) = office.store.seats().get(self.zone) {
            seat.with(|zone| granted.extend((0..count).map_while(|_| zone.alloc(want).ok())));
        }
        while granted.len() < count
            && let Ok(grant) = office.store.grant_elsewhere(&mut self.zone, want)
        {
            granted.push(grant);
        }
        for grant in &granted {
            // Noted before it is said: who dies in between has it, and gives it back so.
            office.books.lend(grant.page, Loan { order: want.order, first: self.peer.number });
            if let Some(entry) = office.shared.entry(grant.page) {
                Entry::grant(entry, self.peer.number, want.order);
            }
        }
        for grants in granted.chunks(PAGES) {
            let mut line = Pages::default();
            grants.iter().for_each(|&grant| _ = line.push(grant));
            self.say(&Answer::Granted { tag, grants: line });
        }
        if granted.len() < count {
            self.say(&Answer::Refused { tag });
        } else if count.is_multiple_of(PAGES) {
            // The last line of an answer has room.
            self.say(&Answer::Granted { tag, grants: Pages::default() });
        }
        granted.clear();
        office.granted = granted;
    }

    fn take_back(&mut self, office: &mut Office, tag: u16, pages: &Pages<Page>) {
        let mut wrong = None;
        for &page in pages.as_slice() {
            if !self.take_back_one(office, page) {
                office.counts.not_taken.fetch_add(1, Relaxed);
                wrong = wrong.or(Some(page));
            }
        }
        if let Some(page) = wrong {
            self.say(&Answer::NotTaken { tag, page });
        }
    }

    /// False where the block is not the client's.
    fn take_back_one(&self, office: &mut Office, page: Page) -> bool {
        let Some((loan, word)) = office.books.loan(page).zip(office.shared.entry(page)) else { return false };
        if !handing::take_back(word, self.peer.number) {
            return false;
        }
        office.books.remove(page);
        office.take_home(page, loan, self.peer.number);
        true
    }

    /// There is room: see [`Guest::serve`].
    fn say(&mut self, answer: &Answer) {
        let is_said = self.answers.push(&self.lane.answers, &answer.write());
        debug_assert!(is_said, "there is room for an answer before it is made");
    }
}
