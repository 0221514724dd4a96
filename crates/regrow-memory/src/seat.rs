//! A zone and its token: who has the token is the zone's server for as long as that takes.
//!
//! ```text
//!   a request ── token free? ── yes ──> carried out at once, and with it what lies in the ring
//!                            ── no ───> into the ring; whoever has the token carries it out
//! ```
//!
//! So there is no thread of a server where there is little to do (delegation, "flat combining"), and no client waits for a place in a queue of
//! lock holders: the holder works for those who have come meanwhile. A ring that is full loses nothing: the client waits for the token.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crossbeam_queue::ArrayQueue;

use crate::units::Page;
use crate::zone::Zone;

/// Most blocks that wait to be taken back.
const RING: usize = 256;

/// See the module.
#[derive(Debug)]
pub(crate) struct Seat {
    zone: Mutex<Zone>,
    /// Blocks that go home.
    returned: ArrayQueue<Page>,
}

impl Seat {
    pub(crate) fn new() -> Seat {
        Seat { zone: Mutex::new(Zone::default()), returned: ArrayQueue::new(RING) }
    }

    /// Works on the zone, when what lies in the ring was carried out.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Zone) -> T) -> T {
        let done = {
            let mut zone = self.zone.lock().unwrap_or_else(PoisonError::into_inner);
            self.take_returned(&mut zone);
            work(&mut zone)
        };
        self.catch_up();
        done
    }

    /// Takes a block back: at once, or as soon as whoever has the token gets to it.
    pub(crate) fn give_back(&self, page: Page) {
        match self.try_token() {
            Some(mut zone) => take_back(&mut zone, page),
            None => {
                if let Err(page) = self.returned.push(page) {
                    self.with(|zone| take_back(zone, page));
                }
            }
        }
        self.catch_up();
    }

    /// Carries out what has come into the ring since somebody else has looked there last.
    fn catch_up(&self) {
        while !self.returned.is_empty() {
            // Who has the token looks into the ring after it has let the token go.
            let Some(mut zone) = self.try_token() else { return };
            self.take_returned(&mut zone);
        }
    }

    fn take_returned(&self, zone: &mut Zone) {
        while let Some(page) = self.returned.pop() {
            take_back(zone, page);
        }
    }

    fn try_token(&self) -> Option<MutexGuard<'_, Zone>> {
        match self.zone.try_lock() {
            Ok(zone) => Some(zone),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

fn take_back(zone: &mut Zone, page: Page) {
    let freed = zone.free(page);
    debug_assert!(freed.is_ok(), "a block goes home once: {freed:?}");
}
