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

    /// How many requests and answers there were, modulo 2^32.
    pub(crate) fn messages(&self) -> u32 {
        self.requests.count().wrapping_add(self.answers.count())
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::message::{Line, WORDS};

    /// A client that does by hand what links do.
    struct Hand {
        lane: Lane,
        served: Served,
        requests: Sender,
        answers: Receiver,
    }

    impl Hand {
        fn new(owner: Owner) -> Hand {
            let (requests, answers) = (Sender::default(), Receiver::default());
            Hand { lane: Lane::new(), served: Served::new(owner), requests, answers }
        }

        /// How many of such lines have room.
        fn say(&mut self, line: &Line, times: usize) -> usize {
            let said = (0..times).take_while(|_| self.requests.push(&self.lane.requests, line)).count();
            self.requests.publish(&self.lane.requests);
            said
        }

        fn serve(&mut self, zone: &mut Zone) -> Result<usize, MessageError> {
            self.served.serve(&self.lane, zone)
        }

        /// The pages of all answers that are there.
        fn take(&mut self) -> Vec<Page> {
            let mut pages = Vec::new();
            while let Some(line) = self.answers.pop(&self.lane.answers) {
                match Answer::read(&line) {
                    Ok(Answer::Granted { grants, .. }) => {
                        pages.extend(grants.as_slice().iter().map(|grant| grant.page));
                    }
                    other => assert!(matches!(other, Ok(Answer::Refused { tag: 7 })), "{other:?}"),
                }
            }
            pages
        }
    }

    fn ask(count: usize) -> Line {
        Request::Ask { tag: 7, count, want: Want { order: 0, owner: 1, mapped: false, zeroed: false } }
            .write()
    }

    fn zone() -> Zone {
        let mut zone = Zone::default();
        zone.add_chunk(0).expect("a new chunk");
        zone
    }

    #[test]
    fn a_client_that_takes_no_answers_keeps_its_own_requests_waiting_and_loses_nothing() {
        let (mut zone, mut slow, mut other) = (zone(), Hand::new(1), Hand::new(2));
        assert_eq!(slow.say(&ask(20), 40), LINES, "its ring is full");
        // An answer to 20 has two lines, and there is room for three.
        assert_eq!(slow.serve(&mut zone), Ok(7 * 20));
        assert_eq!(slow.serve(&mut zone), Ok(0), "no room for an answer");
        assert_eq!(other.say(&ask(5), 1), 1);
        assert_eq!((other.serve(&mut zone), other.take().len()), (Ok(5), 5));
        let mut got = slow.take();
        while slow.serve(&mut zone).expect("messages") > 0 {
            got.extend(slow.take());
        }
        got.sort_unstable();
        got.dedup();
        assert_eq!((got.len(), zone.free_pages()), (20 * LINES, 512 - 20 * LINES as u64 - 5));
    }

    #[test]
    fn what_is_not_published_is_not_there_and_a_forged_line_harms_its_lane_alone() {
        let (mut zone, mut hand) = (zone(), Hand::new(1));
        assert!(hand.requests.push(&hand.lane.requests, &ask(3)));
        assert_eq!((hand.serve(&mut zone), zone.free_pages()), (Ok(0), 512), "its client may have died here");
        assert_eq!(hand.say(&[u64::MAX; WORDS], 1), 1);
        assert_eq!(hand.say(&ask(2), 1), 1);
        assert_eq!(hand.serve(&mut zone), Err(MessageError::Count { count: 15, most: PAGES }));
        assert_eq!(hand.serve(&mut zone), Ok(2), "what lies behind it");
        assert_eq!((hand.take().len(), zone.free_pages()), (5, 507));
    }

    #[test]
    fn what_is_no_block_is_not_taken_back_and_what_is_not_to_be_had_is_refused() {
        let (mut zone, mut hand) = (zone(), Hand::new(1));
        let mut pages = Pages::default();
        [3, 9999].into_iter().for_each(|page| assert!(pages.push(page)));
        hand.say(&Request::Return { tag: 9, pages }.write(), 1);
        assert_eq!(hand.serve(&mut zone), Ok(2));
        let answer = hand.answers.pop(&hand.lane.answers).expect("an answer");
        assert_eq!(Answer::read(&answer), Ok(Answer::NotTaken { tag: 9, page: 3 }));
        for asked in 0..10 {
            assert_eq!((asked, hand.say(&ask(56), 1), hand.serve(&mut zone)), (asked, 1, Ok(56)));
            assert_eq!(hand.take().len(), if asked < 9 { 56 } else { 512 - 9 * 56 });
        }
        assert_eq!(zone.free_pages(), 0);
    }
}
