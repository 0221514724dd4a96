//! A zone, its token, and the rings of its server: who has the token is the server for as long as that takes.
//!
//! ```text
//!   emergency   what cannot wait: give chunks up                          ┐ of all threads of the process
//!   response    what the server has asked the master for: chunks          │ (bit OWN of the bell)
//!   request     blocks that go home                                       ┘
//!               and a lane for each client                                  (its bit)
//!
//!   a request ── token free? ── yes ──> carried out at once, and with it what lies in the rings
//!                            ── no ───> into a ring; whoever has the token carries it out
//! ```
//!
//! So there is no thread of a server where there is little to do (delegation, "flat combining"), and no client waits for a place in a queue of
//! lock holders: the holder works for those who have come meanwhile. Where there is much to do a slave has the token and keeps it ([`crate::slave`]).
//! A ring that is full loses nothing: who finds it so waits for the token.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;

use crate::bell::{Bell, LANES};
use crate::lane::{Lane, Served};
use crate::request::Owner;
use crate::sync::{Mutex, MutexGuard};
use crate::units::{Chunk, Page};
use crate::zone::Zone;

/// Most blocks that wait to be taken back, and chunks that wait to be taken over.
const RING: usize = 256;
/// The bit of the bell for the rings of the seat itself; lanes have the others.
const OWN: usize = LANES - 1;
/// Most clients of a seat that have lanes.
pub(crate) const MOST_LANES: usize = 1 << 12;
/// Most lanes that a slave looks at all the time.
const MOST_ATTENDED: usize = 64;
/// From this mean length of the queue on a slave comes.
const GROW: f64 = 1.5;
/// A slave that stayed for less than this did not pay.
const PAYS: Duration = Duration::from_millis(20);
/// Pauses between slaves.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(1);
/// How a new look at the queue counts in its mean: 1/64.
const MEAN_SHIFT: u32 = 6;

/// What a server cannot put off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Emergency {
    /// It gives chunks up, as far as it has free ones.
    GiveUp {
        /// How many.
        chunks: u64,
        /// The zone that gets them.
        to: usize,
    },
}

/// A chunk that a server has given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Departure {
    pub(crate) chunk: Chunk,
    /// Its memory may be other than zero, or is mapped.
    pub(crate) is_used: bool,
    pub(crate) to: usize,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Seat {
    desk: Mutex<Desk>,
    /// What has something for the server.
    due: Bell,
    emergencies: ArrayQueue<Emergency>,
    responses: ArrayQueue<Chunk>,
    /// Blocks that go home.
    returned: ArrayQueue<Page>,
    /// Chunks that were given up, and wait for whoever wanted them.
    departures: ArrayQueue<Departure>,
    /// How many wait for the token.
    waiting: AtomicU32,
    /// A slave has the token, and keeps it.
    has_slave: AtomicBool,
    /// The processor of a client that has something for a slave.
    caller: AtomicU32,
    /// How many lanes had something when somebody looked, on the mean; times 64.
    queue: AtomicU32,
    /// Until when no slave comes, and how long the last pause was.
    pause: Mutex<(Option<Instant>, Duration)>,
}

/// What only the server touches.
#[derive(Debug, Default)]
struct Desk {
    zone: Zone,
    lanes: Vec<Option<(Arc<Lane>, Served)>>,
    /// What went through the rings of the seat itself, and through lanes that have ended, modulo 2^32.
    messages: u32,
}

impl Desk {
    fn count(&mut self, messages: u32) {
        self.messages = self.messages.wrapping_add(messages);
    }
}

/// The token of a seat.
#[derive(Debug)]
pub(crate) struct Token<'a> {
    desk: MutexGuard<'a, Desk>,
    seat: &'a Seat,
}

impl Seat {
    pub(crate) fn new() -> Seat {
        Seat {
            desk: Mutex::new(Desk::default()),
            due: Bell::new(),
            emergencies: ArrayQueue::new(RING),
            responses: ArrayQueue::new(RING),
            returned: ArrayQueue::new(RING),
            departures: ArrayQueue::new(RING),
            waiting: AtomicU32::new(0),
            has_slave: AtomicBool::new(false),
            caller: AtomicU32::new(u32::MAX),
            queue: AtomicU32::new(0),
            pause: Mutex::new((None, Duration::ZERO)),
        }
    }

    /// Works on the zone, when what lies in the rings was carried out.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Zone) -> T) -> T {
        let mut token = self.token();
        token.serve();
        let done = work(&mut token.desk.zone);
        drop(token);
        self.catch_up();
        done
    }

    /// The same, where nobody has the token.
    pub(crate) fn try_with<T>(&self, work: impl FnOnce(&mut Zone) -> T) -> Option<T> {
        let mut token = self.try_token()?;
        if self.due.has_rung() {
            token.serve();
        } else {
            self.note_queue(0);
        }
        let done = work(&mut token.desk.zone);
        drop(token);
        self.catch_up();
        Some(done)
    }

    /// Waits for the token. A slave lets it go for that.
    pub(crate) fn token(&self) -> Token<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Token { desk, seat: self }
    }

    fn try_token(&self) -> Option<Token<'_>> {
        let desk = match self.desk.try_lock() {
            Ok(desk) => desk,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Token { desk, seat: self })
    }

    /// Takes a block back: at once, or as soon as whoever has the token gets to it.
    pub(crate) fn give_back(&self, page: Page) {
        if self.try_with(|zone| take_back(zone, page)).is_none() {
            match self.returned.push(page) {
                Ok(()) => self.ring_own(),
                Err(page) => self.with(|zone| take_back(zone, page)),
            }
        }
    }

    /// Gives the zone a chunk that was asked for.
    pub(crate) fn respond(&self, chunk: Chunk) {
        match self.responses.push(chunk) {
            Ok(()) => self.ring_own(),
            Err(chunk) => self.with(|zone| take_over(zone, chunk)),
        }
    }

    /// Has the server do something before all else. Done when this returns.
    pub(crate) fn hurry(&self, emergency: Emergency) {
        // A full ring is one in which others wait for the same: the server gives up what it has anyway.
        let _ = self.emergencies.push(emergency);
        self.due.insist(OWN);
        self.with(|_| ());
    }

    /// The next of the chunks that the server has given up.
    pub(crate) fn departure(&self) -> Option<Departure> {
        self.departures.pop()
    }

    /// A lane for a client, and its number. None where there are too many.
    pub(crate) fn enroll(&self, owner: Owner) -> Option<(usize, Arc<Lane>)> {
        let mut token = self.token();
        let lanes = &mut token.desk.lanes;
        let number = lanes.iter().position(Option::is_none).unwrap_or(lanes.len());
        if number >= MOST_LANES {
            return None;
        }
        let lane = Arc::new(Lane::new());
        let entry = Some((Arc::clone(&lane), Served::new(owner)));
        match lanes.get_mut(number) {
            Some(slot) => *slot = entry,
            None => lanes.push(entry),
        }
        drop(token);
        self.catch_up();
        Some((number, lane))
    }

    /// Ends a lane, when what lies in it was carried out.
    pub(crate) fn dismiss(&self, number: usize) {
        let mut token = self.token();
        self.due.ring(bit_of(number));
        token.serve();
        let ended = token.desk.lanes.get_mut(number).and_then(Option::take);
        if let Some((_, served)) = ended {
            token.desk.count(served.messages());
        }
        drop(token);
        self.catch_up();
    }

    /// Says that a lane has something.
    pub(crate) fn ring(&self, lane: usize) {
        if self.due.is_asleep() {
            self.note_caller();
        }
        self.due.ring(bit_of(lane));
    }

    /// Notes on which processor the caller runs.
    pub(crate) fn note_caller(&self) {
        let processor = u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(u32::MAX);
        self.caller.store(processor, Ordering::Relaxed);
    }

    /// The processor of who has woken the slave, or has had it come.
    pub(crate) fn caller(&self) -> usize {
        self.caller.load(Ordering::Relaxed) as usize
    }

    /// Carries out what lies in the rings, where nobody has the token. Who has it carries it out else.
    pub(crate) fn catch_up(&self) {
        while self.due.has_rung() {
            // Who has the token looks at the bell after it has let the token go.
            let Some(mut token) = self.try_token() else { return };
            token.serve();
        }
    }

    /// Whether a slave has the token, so that requests go by message.
    pub(crate) fn has_slave(&self) -> bool {
        self.has_slave.load(Ordering::Relaxed)
    }

    /// Says whether a slave has it. True where that is new.
    pub(crate) fn set_slave(&self, has: bool) -> bool {
        self.has_slave.swap(has, Ordering::SeqCst) != has
    }

    /// The slave that has the token looks at all lanes itself, or does so no longer.
    pub(crate) fn attend(&self, does: bool) {
        self.due.attend(does);
    }

    /// Whether somebody waits for the token.
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// How many messages came and went, when what lies in the rings was carried out; modulo 2^32.
    pub(crate) fn messages(&self) -> u32 {
        let mut token = self.token();
        token.serve();
        let of_lanes = token.desk.lanes.iter().flatten().map(|(_, served)| served.messages());
        let all = of_lanes.fold(token.desk.messages, u32::wrapping_add);
        drop(token);
        self.catch_up();
        all
    }

    /// How many lanes had something when somebody looked, on the mean.
    pub(crate) fn queue_length(&self) -> f64 {
        f64::from(self.queue.load(Ordering::Relaxed)) / f64::from(1 << MEAN_SHIFT)
    }

    /// Whether a slave would have much to do, and the last one paid or left long ago.
    pub(crate) fn wants_slave(&self) -> bool {
        let until = || self.pause.lock().unwrap_or_else(PoisonError::into_inner).0;
        !self.has_slave() && self.queue_length() > GROW && until().is_none_or(|until| Instant::now() > until)
    }

    /// Notes how long a slave has stayed: one that did not pay comes again after a pause, which is twice as long each time.
    pub(crate) fn rest(&self, stayed: Duration) {
        let mut pause = self.pause.lock().unwrap_or_else(PoisonError::into_inner);
        let length = if stayed >= PAYS { SHORTEST } else { (pause.1 * 2).clamp(SHORTEST, LONGEST) };
        *pause = (Instant::now().checked_add(length), length);
    }

    /// Sleeps until a lane has something.
    pub(crate) fn wait(&self, is_over: impl FnMut() -> bool) {
        self.due.wait(None, is_over);
    }

    /// Wakes who waits.
    pub(crate) fn wake(&self) {
        self.due.insist(OWN);
    }

    fn ring_own(&self) {
        self.due.insist(OWN);
        self.catch_up();
    }
}

impl Token<'_> {
    /// Carries out what lies in the rings: emergencies, responses, requests. How many blocks went through it.
    pub(crate) fn serve(&mut self) -> usize {
        let bits = self.seat.due.take();
        if bits == 0 {
            return 0;
        }
        let own = if bits >> OWN & 1 == 1 { serve_own(self.seat, &mut self.desk) } else { 0 };
        let lanes = bits & !(1 << OWN);
        self.seat.note_queue(lanes.count_ones());
        let due = (0..OWN).filter(|bit| lanes >> bit & 1 == 1);
        own + due.map(|bit| self.serve_lanes(bit, OWN)).sum::<usize>()
    }

    /// The same, of all lanes, whether they have rung or not.
    pub(crate) fn serve_all(&mut self) -> usize {
        self.serve() + self.serve_lanes(0, 1)
    }

    /// Whether there are so few lanes that looking at all of them costs less than their bell.
    pub(crate) fn may_attend(&self) -> bool {
        self.desk.lanes.len() <= MOST_ATTENDED
    }

    fn serve_lanes(&mut self, first: usize, step: usize) -> usize {
        let desk = &mut *self.desk;
        let mut blocks = 0;
        for (lane, served) in desk.lanes.iter_mut().skip(first).step_by(step).flatten() {
            // A lane of this process has no line that is none.
            blocks += served.serve(lane, &mut desk.zone).unwrap_or(0);
        }
        blocks
    }
}

impl Seat {
    fn note_queue(&self, length: u32) {
        let mean = self.queue.load(Ordering::Relaxed);
        let new = mean - (mean >> MEAN_SHIFT) + length;
        self.queue.store(new, Ordering::Relaxed);
    }
}

/// The rings that are not of one client.
fn serve_own(seat: &Seat, desk: &mut Desk) -> usize {
    while let Some(Emergency::GiveUp { chunks, to }) = seat.emergencies.pop() {
        desk.count(1);
        for _ in 0..chunks {
            let has_room = seat.departures.len() < seat.departures.capacity();
            let Some((chunk, is_used)) = has_room.then(|| desk.zone.take_chunk()).flatten() else { break };
            desk.count(1);
            let has_left = seat.departures.push(Departure { chunk, is_used, to });
            debug_assert!(has_left.is_ok(), "who has the token alone pushes there");
        }
    }
    while let Some(chunk) = seat.responses.pop() {
        desk.count(1);
        take_over(&mut desk.zone, chunk);
    }
    let mut blocks = 0;
    while let Some(page) = seat.returned.pop() {
        desk.count(1);
        take_back(&mut desk.zone, page);
        blocks += 1;
    }
    blocks
}

fn bit_of(lane: usize) -> usize {
    lane % OWN
}

fn take_back(zone: &mut Zone, page: Page) {
    let freed = zone.free(page);
    debug_assert!(freed.is_ok(), "a block goes home once: {freed:?}");
}

fn take_over(zone: &mut Zone, chunk: Chunk) {
    let added = zone.add_chunk(chunk);
    debug_assert!(added.is_ok(), "a chunk has one zone: {added:?}");
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::message::{Answer, Request};
    use crate::request::Want;
    use crate::ring::{Receiver, Sender};

    #[test]
    fn what_comes_while_somebody_has_the_token_is_carried_out() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let seat = loom::sync::Arc::new(Seat::new());
            let want = Want { order: 0, owner: 1, mapped: false, zeroed: false };
            let pages = seat.with(|zone| {
                zone.add_chunk(0).expect("a new chunk");
                [1, 2, 3].map(|_| zone.alloc(want).expect("room").page)
            });
            let of_other = loom::sync::Arc::clone(&seat);
            let other =
                loom::thread::spawn(move || pages[1..].iter().for_each(|&page| of_other.give_back(page)));
            seat.give_back(pages[0]);
            other.join().expect("it does not panic");
            let token = seat.try_token().expect("nobody has it");
            assert_eq!((seat.due.has_rung(), token.desk.zone.free_pages()), (false, 512));
        });
    }

    #[test]
    fn each_request_is_answered_by_whoever_has_the_token() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let seat = loom::sync::Arc::new(Seat::new());
            seat.with(|zone| zone.add_chunk(0)).expect("a new chunk");
            let client = |owner: Owner, seat: loom::sync::Arc<Seat>| {
                let (number, lane) = seat.enroll(owner).expect("there are few");
                move || {
                    let (mut requests, mut answers) = (Sender::default(), Receiver::default());
                    let want = Want { order: 0, owner, mapped: false, zeroed: false };
                    assert!(requests.push(&lane.requests, &Request::Ask { tag: 1, count: 1, want }.write()));
                    requests.publish(&lane.requests);
                    seat.ring(number);
                    seat.catch_up();
                    // Who had the token meanwhile may still be at it: it is asked for once more when both have ended.
                    move || {
                        let answer = answers.pop(&lane.answers).expect("somebody has answered");
                        let Ok(Answer::Granted { grants, .. }) = Answer::read(&answer) else {
                            panic!("{answer:?}")
                        };
                        grants.as_slice()[0].page
                    }
                }
            };
            let [one, other] = [1, 2].map(|owner| client(owner, loom::sync::Arc::clone(&seat)));
            let other = loom::thread::spawn(other);
            let mut one = one();
            let mut other = other.join().expect("it does not panic");
            assert_ne!(one(), other());
        });
    }
}
