//! What a client of a domain and its blocks share: the three mappings, the socket, and the client's side of its lane.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::doorman::has_ended;
use super::error::DomainError;
use super::hello::Hello;
use super::memory::{LaneMemory, SharedMemory};
use super::peer::Peer;
use super::socket_file::call;
use crate::error::ServiceError;
use crate::message::{Answer, PAGES, Pages, Request};
use crate::range::Range;
use crate::request::{Grant, Want};
use crate::ring::{Receiver, Sender};
use crate::shared::layout::{CUT_OFF, Desk, OVER};
use crate::units::{Page, pages_of};

/// How often a client looks for its answer before it gives its processor to others, and before it sleeps.
const LOOKS: u32 = 2_000;
const YIELDS: u32 = 20;
/// How long it sleeps before it looks whether the domain is there.
const PATIENCE: Duration = Duration::from_millis(50);

/// See the module. The socket is open until the client and all its blocks are gone: then the domain takes back what is left.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) range: Arc<Range>,
    pub(super) shared: SharedMemory,
    pub(super) peer: Peer,
    pub(super) key: u64,
    pub(super) lane: LaneMemory,
    socket: OwnedFd,
    wire: Mutex<Wire>,
    /// The process that it is of. A forked copy has the same blocks, and gives none of them back.
    process: u32,
    /// A bit for each page that this process has mapped. Only speed depends on it.
    mapped: Vec<AtomicU64>,
}

/// The client's side of its lane.
#[derive(Debug, Default)]
struct Wire {
    requests: Sender,
    answers: Receiver,
    tag: u16,
    /// Blocks that the domain has not taken back.
    not_taken: u64,
}

impl Connection {
    pub(super) fn open(path: &Path) -> Result<Connection, DomainError> {
        let socket = call(path)?;
        let (hello, [range, shared, lane]) = Hello::receive(socket.as_fd())?;
        let wrong = |_| DomainError::Version { what: "the size of its memory" };
        let peer = hello.peer.map_err(|_| DomainError::Gone)?;
        let range = Arc::new(Range::open(range, hello.chunks)?);
        let shared = SharedMemory::open(shared, hello.chunks).map_err(wrong)?;
        let lane = LaneMemory::open(lane).map_err(wrong)?;
        let words = hello.chunks as usize * crate::units::CHUNK_PAGES as usize / 64;
        let mapped = (0..words).map(|_| AtomicU64::new(0)).collect();
        let (wire, process) = (Mutex::new(Wire::default()), std::process::id());
        Ok(Connection { range, shared, peer, key: hello.key, lane, socket, wire, process, mapped })
    }

    /// What others see of a client; none where there is no such desk.
    pub(super) fn desk(&self, peer: Peer) -> Option<&Desk> {
        self.shared.head().desks.get(peer.desk as usize)
    }

    /// Refuses where nobody serves this client any more.
    pub(super) fn check(&self) -> Result<(), DomainError> {
        if self.desk(self.peer).is_some_and(|desk| desk.state.load(SeqCst) == CUT_OFF) {
            return Err(DomainError::CutOff);
        }
        if self.shared.head().state.load(SeqCst) == OVER || has_ended(self.socket.as_fd()) {
            return Err(DomainError::Gone);
        }
        Ok(())
    }

    /// Asks for blocks. Those that are to be had: fewer where memory runs out.
    pub(super) fn ask(&self, want: Want, count: usize, granted: &mut Vec<Grant>) -> Result<(), DomainError> {
        let mut wire = self.wire.lock().unwrap_or_else(PoisonError::into_inner);
        let wire = &mut *wire;
        self.wait_for_room(wire)?;
        wire.tag = wire.tag.wrapping_add(1);
        self.send(wire, &Request::Ask { tag: wire.tag, count, want });
        let mut got = 0;
        loop {
            match self.answer(wire)? {
                Answer::Granted { tag, grants } if tag == wire.tag => {
                    granted.extend_from_slice(grants.as_slice());
                    got += grants.as_slice().len();
                    // A line that is not full is the last one, but where the rest is refused.
                    if !grants.is_full() && got >= count {
                        return Ok(());
                    }
                }
                Answer::Refused { tag } if tag == wire.tag => return Ok(()),
                Answer::NotTaken { .. } => wire.not_taken += 1,
                // To a request whose sender has given up: the blocks come back with this client's end.
                Answer::Granted { .. } | Answer::Refused { .. } => {}
            }
        }
    }

    /// Gives a block back, from any thread. Waits for room in the lane, as long as somebody serves it: where nobody does, the block comes back with this
    /// client's end.
    pub(super) fn give_back(&self, page: Page) {
        self.give_back_many(&[page]);
    }

    /// Gives back several at once.
    pub(super) fn give_back_many(&self, all: &[Page]) {
        if self.process != std::process::id() {
            return;
        }
        let mut wire = self.wire.lock().unwrap_or_else(PoisonError::into_inner);
        for some in all.chunks(PAGES) {
            if self.wait_for_room(&mut wire).is_err() {
                return;
            }
            let mut pages = Pages::default();
            some.iter().for_each(|&page| _ = pages.push(page));
            self.send(&mut wire, &Request::Return { tag: 0, pages });
        }
    }

    /// Lines of the domain that say that a block was not taken back.
    pub(super) fn not_taken(&self) -> u64 {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner).not_taken
    }

    fn wait_for_room(&self, wire: &mut Wire) -> Result<(), DomainError> {
        let mut looks = 0;
        while wire.requests.room(&self.lane.requests, 1) == 0 {
            // The domain has no room to answer: what it has said is taken.
            if let Some(line) = wire.answers.pop(&self.lane.answers)
                && let Ok(Answer::NotTaken { .. }) = Answer::read(&line)
            {
                wire.not_taken += 1;
            }
            self.pause(wire, &mut looks)?;
        }
        Ok(())
    }

    /// There is room.
    fn send(&self, wire: &mut Wire, request: &Request) {
        let is_sent = wire.requests.push(&self.lane.requests, &request.write());
        debug_assert!(is_sent, "there is room before something is sent");
        wire.requests.publish(&self.lane.requests);
        self.ring();
    }

    fn ring(&self) {
        self.shared.head().bell.ring(self.peer.desk as usize);
    }

    fn answer(&self, wire: &mut Wire) -> Result<Answer, DomainError> {
        let mut looks = 0;
        loop {
            if let Some(line) = wire.answers.pop(&self.lane.answers) {
                return Answer::read(&line).map_err(|_| DomainError::Version { what: "an answer" });
            }
            self.pause(wire, &mut looks)?;
        }
    }

    /// Lets the domain do its work: by a moment, the processor, or sleep.
    fn pause(&self, wire: &mut Wire, looks: &mut u32) -> Result<(), DomainError> {
        *looks += 1;
        match *looks {
            ..LOOKS => std::hint::spin_loop(),
            LOOKS..YIELDS_END => thread::yield_now(),
            _ => {
                self.check()?;
                // The domain may have left a request where it was, because it had no room to answer; or somebody has spoiled the bell.
                self.shared.head().bell.urge(self.peer.desk as usize);
                self.lane.bell.take();
                let answers = &mut wire.answers;
                let has_answer = || answers.peek(&self.lane.answers).is_some();
                self.lane.bell.wait(Some(PATIENCE), has_answer);
            }
        }
        Ok(())
    }

    /// Makes the memory of a block what was asked for. What was another one's is zeroed here, so that the domain does not wait for it.
    pub(super) fn finish(&self, grant: Grant, want: Want) -> Result<(), ServiceError> {
        let pages = pages_of(want.order);
        let by_the_kernel = want.is_zeroed_by_the_kernel();
        if grant.zero {
            self.range.zero(grant.page, pages, by_the_kernel);
        }
        if want.mapped {
            let is_new = self.note_mapped(grant.page, pages);
            if is_new || grant.zero && by_the_kernel {
                self.range.map(grant.page, pages)?;
            }
        }
        Ok(())
    }

    /// Notes that pages are mapped here. Whether one of them was not.
    fn note_mapped(&self, page: Page, pages: u32) -> bool {
        let mut is_new = false;
        let end = page as usize + pages as usize;
        let mut from = page as usize;
        while from < end {
            let to = end.min((from / 64 + 1) * 64);
            let mask = (u64::MAX >> (64 - (to - from))) << (from % 64);
            if let Some(word) = self.mapped.get(from / 64) {
                is_new |= word.load(Relaxed) & mask != mask && word.fetch_or(mask, Relaxed) & mask != mask;
            }
            from = to;
        }
        is_new
    }
}

/// See [`YIELDS`].
const YIELDS_END: u32 = LOOKS + YIELDS;
