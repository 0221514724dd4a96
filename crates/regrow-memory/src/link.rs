//! A client's side of a lane: its requests go in, their answers come out.
//!
//! A client that asks a slave for several blocks will do so again: the same is asked for ahead, and the answer is there when it is wanted.

use std::sync::Arc;
use std::thread;

use crate::lane::Lane;
use crate::message::{Answer, Pages, Request};
use crate::request::{Grant, Owner, Want};
use crate::ring::{Receiver, Sender};
use crate::seat::Seat;
use crate::store::Store;
use crate::units::{Page, pages_of};

/// How often a client looks for its answer before it gives its processor to others, and before it sleeps.
const LOOKS: u32 = 200;
const YIELDS: u32 = 50;

/// See the module.
#[derive(Debug)]
pub(crate) struct Link {
    store: Arc<Store>,
    zone: usize,
    number: usize,
    lane: Arc<Lane>,
    requests: Sender,
    answers: Receiver,
    tag: u16,
    /// What was asked for ahead and is not answered yet.
    ahead: Option<(Want, usize)>,
    /// What was granted ahead, and of what kind it is. Its memory is not yet as it was asked for.
    spare: Vec<Grant>,
    spare_want: Option<Want>,
}

/// From so many blocks on, up to so high an order, it is asked ahead.
const AHEAD_FROM: usize = 4;
const AHEAD_ORDER: u8 = 4;

impl Link {
    /// A link to a zone. None where it has too many clients.
    pub(crate) fn open(store: &Arc<Store>, zone: usize, owner: Owner) -> Option<Link> {
        let (number, lane) = store.seats().get(zone)?.enroll(owner)?;
        let (requests, answers) = (Sender::default(), Receiver::default());
        Some(Link {
            store: Arc::clone(store),
            zone,
            number,
            lane,
            requests,
            answers,
            tag: 0,
            ahead: None,
            spare: Vec::new(),
            spare_want: None,
        })
    }

    /// The zone it leads to.
    pub(crate) fn zone(&self) -> usize {
        self.zone
    }

    /// Asks for blocks. Those that the zone has: fewer where it has no more.
    pub(crate) fn ask(&mut self, want: Want, count: usize, granted: &mut Vec<Grant>) {
        self.await_ahead();
        if self.spare_want != Some(want) {
            self.abandon_spare();
        }
        let from = self.spare.len().saturating_sub(count);
        granted.extend(self.spare.drain(from..));
        let missing = count.saturating_sub(granted.len());
        if missing > 0 {
            self.send_ask(want, missing);
            self.collect(missing, granted);
        }
        if count >= AHEAD_FROM && want.order <= AHEAD_ORDER && self.spare.is_empty() && self.is_served() {
            self.send_ask(want, count);
            self.ahead = Some((want, count));
        }
    }

    /// Gives back what was granted ahead.
    pub(crate) fn trim(&mut self) {
        self.await_ahead();
        self.abandon_spare();
    }

    fn await_ahead(&mut self) {
        if let Some((want, count)) = self.ahead.take() {
            let mut spare = std::mem::take(&mut self.spare);
            self.collect(count, &mut spare);
            (self.spare, self.spare_want) = (spare, Some(want));
        }
    }

    /// What was granted is zeroed where it was somebody else's: for its zone it is this client's by now.
    fn abandon_spare(&mut self) {
        let Some(want) = self.spare_want.take() else { return };
        for grant in self.spare.drain(..) {
            // Memory that cannot be mapped is mapped at its first touch.
            let _ = self.store.finish(grant, want);
            self.store.range().take_in(grant.page, pages_of(want.order));
            self.store.free(grant.page);
        }
    }

    fn send_ask(&mut self, want: Want, count: usize) {
        self.tag = self.tag.wrapping_add(1);
        self.send(&Request::Ask { tag: self.tag, count, want });
    }

    /// The answer to what was asked for last.
    fn collect(&mut self, count: usize, granted: &mut Vec<Grant>) {
        let mut got = 0;
        loop {
            match self.answer() {
                Answer::Granted { tag, grants } if tag == self.tag => {
                    granted.extend_from_slice(grants.as_slice());
                    got += grants.as_slice().len();
                    // A line that is not full is the last one, but where the rest is refused.
                    if !grants.is_full() && got == count {
                        return;
                    }
                }
                Answer::Refused { tag } if tag == self.tag => return,
                // Of a return before: the zone has not taken what is none of its blocks.
                other => debug_assert!(matches!(other, Answer::NotTaken { .. }), "{other:?}"),
            }
        }
    }

    /// Gives blocks of the zone back. Nothing is waited for but room in the ring.
    pub(crate) fn give_back(&mut self, pages: &[Page]) {
        for pages in pages.chunks(crate::message::PAGES) {
            let mut line = Pages::default();
            pages.iter().for_each(|&page| _ = line.push(page));
            self.send(&Request::Return { tag: 0, pages: line });
        }
        if !self.is_served() {
            self.seat_do(Seat::catch_up);
        }
    }

    fn send(&mut self, request: &Request) {
        let line = request.write();
        while !self.requests.push(&self.lane.requests, &line) {
            self.seat_do(Seat::catch_up);
            thread::yield_now();
        }
        self.requests.publish(&self.lane.requests);
        let number = self.number;
        self.seat_do(|seat| seat.ring(number));
    }

    /// The next answer, which comes from whoever has the token, or is made here.
    fn answer(&mut self) -> Answer {
        let mut looks = 0;
        loop {
            if let Some(line) = self.answers.pop(&self.lane.answers) {
                match Answer::read(&line) {
                    Ok(answer) => return answer,
                    Err(error) => debug_assert!(false, "a server of this process has said it: {error}"),
                }
            }
            if !self.is_served() {
                self.seat_do(Seat::catch_up);
            }
            looks += 1;
            match looks {
                0..LOOKS => std::hint::spin_loop(),
                LOOKS..YIELDS_END => thread::yield_now(),
                _ => self.sleep(),
            }
        }
    }

    /// Sleeps until there is an answer: whoever has the token says so.
    fn sleep(&mut self) {
        // A slave may sleep as well, or have gone: then this thread is the server.
        self.seat_do(Seat::catch_up);
        let (lane, answers) = (&self.lane, &mut self.answers);
        lane.bell.take();
        lane.bell.wait(None, || answers.peek(&lane.answers).is_some());
    }

    fn is_served(&self) -> bool {
        self.store.seats().get(self.zone).is_some_and(Seat::has_slave)
    }

    fn seat_do(&self, work: impl FnOnce(&Seat)) {
        if let Some(seat) = self.store.seats().get(self.zone) {
            work(seat);
        }
    }
}

/// See [`YIELDS`].
const YIELDS_END: u32 = LOOKS + YIELDS;

impl Drop for Link {
    fn drop(&mut self) {
        self.trim();
        let number = self.number;
        self.seat_do(|seat| seat.dismiss(number));
    }
}
