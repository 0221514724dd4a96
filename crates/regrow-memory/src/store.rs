//! What clients and blocks share: the range, its zones, and the master.
//!
//! ```text
//!   Client ── fellow zone ──> Seat (token) ──> Zone ──> grant ──> Range: zero, map ──> Block
//!                 └─ no room ──> master: chunks out of the reserve, or of another zone; or another zone for the client
//! ```

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::error::ServiceError;
use crate::giving_back::GivingBack;
use crate::keeper::Keeper;
use crate::master::{Load, Master};
use crate::range::Range;
use crate::request::{Grant, Owner, Want};
use crate::seat::{Departure, Emergency, Seat};
use crate::units::{CHUNK_ORDER, CHUNK_PAGES, Chunk, Page, chunk_of, pages_of};

/// See the module.
#[derive(Debug)]
pub(crate) struct Store {
    range: Range,
    seats: Vec<Seat>,
    /// The zone of each chunk that is not in the reserve. A chunk in which a block is in use stays where it is.
    owners: Vec<AtomicUsize>,
    reserve: Mutex<Reserve>,
    last_client: AtomicU32,
    grow_by: u32,
    giving_back: GivingBack,
    keeper: Keeper,
}

/// The master, and the chunks that no zone has had: all from a number on.
#[derive(Debug)]
struct Reserve {
    master: Master,
    next: Chunk,
}

impl Store {
    /// A store whose zones have a chunk each.
    pub(crate) fn new(range: Range, zones: usize, master: Master, grow_by: u32, keeper: Keeper) -> Store {
        let seats = (0..zones).map(|_| Seat::new()).collect();
        let owners = (0..range.chunks()).map(|_| AtomicUsize::new(0)).collect();
        let reserve = Mutex::new(Reserve { master, next: 0 });
        let (last_client, giving_back) = (AtomicU32::new(0), GivingBack::new());
        let mut store = Store { range, seats, owners, reserve, last_client, grow_by: 1, giving_back, keeper };
        for zone in 0..zones {
            store.grow(zone, 0);
        }
        store.grow_by = grow_by.max(1);
        store
    }

    /// Its zones.
    pub(crate) fn seats(&self) -> &[Seat] {
        &self.seats
    }

    /// What gives back.
    pub(crate) fn giving_back(&self) -> &GivingBack {
        &self.giving_back
    }

    /// The thread that says when.
    pub(crate) fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// The number of a new client, and the zone that the master routes it to.
    pub(crate) fn new_client(&self) -> (Owner, usize) {
        let loads = self.loads();
        let zone =
            self.reserve.lock().unwrap_or_else(PoisonError::into_inner).master.route(&loads).unwrap_or(0);
        (self.last_client.fetch_add(1, Relaxed).wrapping_add(1).max(1), zone)
    }

    /// A block of a zone, or of another one, which is the caller's from then on. Its memory is as it was asked for. Waits for the token.
    pub(crate) fn alloc(&self, zone: &mut usize, want: Want) -> Result<Page, ServiceError> {
        let grant = self.grant_elsewhere(zone, want)?;
        self.finish(grant, want).inspect_err(|_| {
            self.range.take_in(grant.page, pages_of(want.order));
            self.free(grant.page);
        })?;
        Ok(grant.page)
    }

    /// Makes the memory of a block what was asked for. It is its client's from here on.
    pub(crate) fn finish(&self, grant: Grant, want: Want) -> Result<(), ServiceError> {
        let pages = pages_of(want.order);
        self.range.give_out(grant.page, pages);
        if grant.zero {
            self.range.zero(grant.page, pages, want.is_zeroed_by_the_kernel());
        }
        if grant.map {
            self.range.map(grant.page, pages)?;
        }
        Ok(())
    }

    /// The same of blocks of one size, in the order of their pages. Those that lie side by side are mapped by one call.
    pub(crate) fn finish_all(&self, grants: &[Grant], want: Want) -> Result<(), ServiceError> {
        let pages = pages_of(want.order);
        for &grant in grants {
            self.finish(Grant { map: false, ..grant }, want)?;
        }
        let is_next = |one: &Grant, next: &Grant| one.map == next.map && one.page + pages == next.page;
        for run in grants.chunk_by(is_next) {
            if let Some(first) = run.first().filter(|first| first.map) {
                self.range.map(first.page, pages * u32::try_from(run.len()).unwrap_or(0))?;
            }
        }
        Ok(())
    }

    /// The memory of a block.
    pub(crate) fn range(&self) -> &Range {
        &self.range
    }

    /// Takes a block back.
    pub(crate) fn free(&self, page: Page) {
        if let Some(seat) = self.seats.get(self.zone_of(page)) {
            seat.give_back(page);
        }
    }

    /// Takes back a block that was passed to another client than the one that was given it.
    #[cfg(not(loom))]
    pub(crate) fn free_of(&self, page: Page, owner: Owner) {
        if let Some(seat) = self.seats.get(self.zone_of(page)) {
            let passed = seat.with(|zone| zone.pass_on(page, owner));
            debug_assert!(passed.is_ok(), "the block is in use: {passed:?}");
            seat.give_back(page);
        }
    }

    /// A block of the zone; where it has none it grows, or another zone has one, which is the client's from then on.
    pub(crate) fn grant_elsewhere(&self, zone: &mut usize, want: Want) -> Result<Grant, ServiceError> {
        self.grant_from_any(zone, want).or_else(|_| {
            // What was missing may just have been on its way to the kernel.
            let _nothing_is_away = self.giving_back.pause();
            self.grant_from_any(zone, want)
        })
    }

    fn grant_from_any(&self, zone: &mut usize, want: Want) -> Result<Grant, ServiceError> {
        let in_zone =
            |number: usize| self.seats.get(number).and_then(|seat| seat.with(|zone| zone.alloc(want)).ok());
        if let Some(grant) = in_zone(*zone) {
            return Ok(grant);
        }
        if self.grow(*zone, want.order)
            && let Some(grant) = in_zone(*zone)
        {
            return Ok(grant);
        }
        // Another one may have what this one cannot get.
        let others = (0..self.seats.len()).filter(|number| number != zone).collect::<Vec<_>>();
        for other in others {
            if let Some(grant) = in_zone(other) {
                *zone = other;
                return Ok(grant);
            }
        }
        Err(ServiceError::NoMemory { pages: pages_of(want.order) })
    }

    fn loads(&self) -> Vec<Load> {
        let load = |seat: &Seat| {
            seat.with(|zone| Load {
                own: zone.own_pages(),
                used: zone.own_pages() - zone.free_pages(),
                asked: 0,
            })
        };
        self.seats.iter().map(load).collect()
    }

    /// Has a zone grow, so that it has room for a block: out of the reserve, else out of another zone. False where neither has a chunk.
    fn grow(&self, zone: usize, order: u8) -> bool {
        let needed = 1u32 << order.saturating_sub(CHUNK_ORDER);
        let mut reserve = self.reserve.lock().unwrap_or_else(PoisonError::into_inner);
        let first = reserve.next.next_multiple_of(needed);
        let count = needed.max(self.grow_by).min(self.range.chunks().saturating_sub(first));
        if count >= needed {
            // What lies between is the zone's as well.
            let chunks = reserve.next..first + count;
            reserve.next = first + count;
            drop(reserve);
            return chunks.fold(false, |_, chunk| self.send(zone, chunk));
        }
        let loads = self.loads();
        let Some(plan) = reserve.master.balance(&loads, zone, u64::from(needed)) else { return false };
        // One thread at a time, so that the chunks that leave are this one's.
        let Some(from) = self.seats.get(plan.from) else { return false };
        from.hurry(Emergency::GiveUp { chunks: plan.chunks, to: zone });
        let mut moved = 0;
        while let Some(Departure { chunk, is_used, to }) = from.departure() {
            let page = chunk << CHUNK_ORDER;
            if is_used && self.range.give_back(page, CHUNK_PAGES).is_err() {
                self.range.zero(page, CHUNK_PAGES, false);
            }
            moved += usize::from(self.send(to, chunk));
        }
        moved > 0
    }

    /// Sends a chunk to a zone, which has it from then on.
    fn send(&self, zone: usize, chunk: Chunk) -> bool {
        if let Some(owner) = self.owners.get(chunk as usize) {
            owner.store(zone, Relaxed);
        }
        self.seats.get(zone).map(|seat| seat.respond(chunk)).is_some()
    }

    /// The zone of a page.
    pub(crate) fn zone_of(&self, page: Page) -> usize {
        self.owners.get(chunk_of(page) as usize).map_or(0, |owner| owner.load(Relaxed))
    }

    /// Notes how long a slave has stayed: the next one comes the later the less it paid.
    pub(crate) fn note_slave(&self, zone: usize, stayed: Duration) {
        if let Some(seat) = self.seats.get(zone) {
            seat.rest(stayed);
        }
    }
}
