//! A lane: what goes between one client and the server of its zone.
//!
//! ```text
//!   client ── requests ──> server      each client has rings of its own, so that one which dies in the middle of a line, is slow, or does not take
//!          <── answers ───             its answers, is in nobody's way: the server leaves its requests where they are
//! ```

use crate::bell::Bell;
use crate::error::MessageError;
use crate::message::{Answer, MOST_ASKED, PAGES, Pages, Request};
use crate::request::{Owner, Want};
use crate::ring::{Receiver, Ring, Sender};
use crate::units::Page;
use crate::zone::Zone;

/// Lines of a ring. The answer to the largest request fits.
const LINES: usize = if cfg!(loom) { 2 } else { 16 };
const _: () = assert!(cfg!(loom) || MOST_ASKED.div_ceil(PAGES) + 1 < LINES, "see `Served::serve`");

/// See the module. All zero it is new.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Lane {
    pub(crate) requests: Ring<LINES>,
    pub(crate) answers: Ring<LINES>,
    /// Wakes the client.
    pub(crate) bell: Bell,
}

impl Lane {
    /// A new one.
    pub(crate) fn new() -> Lane {
        Lane { requests: Ring::new(), answers: Ring::new(), bell: Bell::new() }
    }
}

/// The server's side of a lane.
#[derive(Debug)]
pub(crate) struct Served {
    owner: Owner,
    requests: Receiver,
    answers: Sender,
}

impl Served {
    /// The side of the server of a new lane, for a client.
    pub(crate) fn new(owner: Owner) -> Served {
        Served { owner, requests: Receiver::default(), answers: Sender::default() }
    }

    /// Carries out what lies in the lane, as far as there is room for answers. How many blocks were asked for or given back.
    ///
    /// # Errors
    /// The first line that is no message. It is passed over, and what lies behind it as well, until the server is called again.
    pub(crate) fn serve(&mut self, lane: &Lane, zone: &mut Zone) -> Result<usize, MessageError> {
        if self.requests.peek(&lane.requests).is_none() {
            return Ok(0);
        }
        let mut blocks = 0;
        let mut forged = Ok(());
        while let Some(line) = self.requests.peek(&lane.requests) {
            match Request::read(&line, self.owner) {
                Ok(Request::Ask { tag, count, want }) => {
                    let lines = count / PAGES + 2;
                    if self.answers.room(&lane.answers, lines) < lines {
                        break;
                    }
                    self.grant(lane, zone, tag, count, want);
                    blocks += count;
                }
                Ok(Request::Return { tag, pages }) => {
                    if self.answers.room(&lane.answers, 1) == 0 {
                        break;
                    }
                    blocks += pages.as_slice().len();
                    self.take_back(lane, zone, tag, &pages);
                }
                Err(error) => forged = Err(error),
            }
            self.requests.advance(&lane.requests);
            if forged.is_err() {
                break;
            }
        }
        self.answers.publish(&lane.answers);
        lane.bell.wake_if_asleep();
        forged.map(|()| blocks)
    }

    fn grant(&mut self, lane: &Lane, zone: &mut Zone, tag: u16, count: usize, want: Want) {
        let mut grants = Pages::default();
        for _ in 0..count {
            let Ok(grant) = zone.alloc(want) else {
                self.say(lane, &Answer::Granted { tag, grants });
                self.say(lane, &Answer::Refused { tag });
                return;
            };
            grants.push(grant);
            if grants.is_full() {
                self.say(lane, &Answer::Granted { tag, grants });
                grants = Pages::default();
            }
        }
        self.say(lane, &Answer::Granted { tag, grants });
    }

    fn take_back(&mut self, lane: &Lane, zone: &mut Zone, tag: u16, pages: &Pages<Page>) {
        let mut wrong = None;
        for &page in pages.as_slice() {
            if zone.free(page).is_err() {
                wrong = wrong.or(Some(page));
            }
        }
        if let Some(page) = wrong {
            self.say(lane, &Answer::NotTaken { tag, page });
        }
    }

    /// There is room: see [`Served::serve`].
    fn say(&mut self, lane: &Lane, answer: &Answer) {
        let is_said = self.answers.push(&lane.answers, &answer.write());
        debug_assert!(is_said, "there is room for an answer before it is made");
    }
}
