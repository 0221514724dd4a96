//! The page that a daemon shares with the client of a body that it has lent: whether the lease holds, and what the client has run.
//!
//! ```text
//!   daemon ──state──────────────────────────────> client      OK, BUSY (the daemon is looking at changes), REVOKED (for good)
//!          <──current, records, how many────────             the run that is under way; those that are over
//!          ──how many it has taken──────────────>
//! ```
//!
//! Invariants: REVOKED is never taken back. The body does not have the page. What the client writes is untrusted: the daemon takes
//! numbers of processes for hints, and reads no record twice.

#![allow(unsafe_code, reason = "shared memory that the other side writes")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

use regrow_sys::raw::{self, SharedMapping};
use rustix::fs::{SealFlags, fcntl_add_seals};

/// Records that the page has room for.
pub const RECORDS: u64 = 128;
/// Bytes of the page.
const BYTES: usize = 8192;

const OK: u32 = 1;
const BUSY: u32 = 2;
const REVOKED: u32 = 3;

/// The words of the page.
#[repr(C)]
struct Words {
    state: AtomicU32,
    /// The process that is about to get an order, or runs; zero for none.
    current: AtomicI32,
    /// Records that the client has written.
    written: AtomicU64,
    /// Records that the daemon has taken.
    taken: AtomicU64,
    records: [RecordWords; 128],
}

#[repr(C)]
struct RecordWords {
    pid: AtomicI32,
    refused: AtomicU32,
    ordered_ns: AtomicU64,
    entered_ns: AtomicU64,
    ended_ns: AtomicU64,
}

const _: () = assert!(size_of::<Words>() <= BYTES && RECORDS == 128);

/// A run that is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Its process.
    pub pid: i32,
    /// It has not begun: its order was refused.
    pub refused: bool,
    /// When the client asked for it, on the monotonic clock in nanoseconds.
    pub ordered_ns: u64,
    /// When its program was entered; zero where nobody has noted it.
    pub entered_ns: u64,
    /// When the client saw its end.
    pub ended_ns: u64,
}

/// The page, as one of the two sides has it.
#[derive(Debug)]
pub struct LeasePage {
    shared: SharedMapping,
}

impl LeasePage {
    /// Makes a page, and gives what the client maps it by. The daemon is busy with it.
    ///
    /// # Errors
    /// Without memory, or a descriptor.
    pub fn new() -> io::Result<(LeasePage, OwnedFd)> {
        let memfd = raw::memfd("regrow-lease", BYTES as u64)?;
        // A client that cut it short would have the daemon end by SIGBUS.
        fcntl_add_seals(&memfd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let page = LeasePage { shared: SharedMapping::new(memfd.as_fd(), BYTES)? };
        page.words().state.store(BUSY, SeqCst);
        Ok((page, memfd))
    }

    /// Maps the page that a daemon has made.
    ///
    /// # Errors
    /// As `mmap(2)`.
    pub fn map(memfd: BorrowedFd<'_>) -> io::Result<LeasePage> {
        Ok(LeasePage { shared: SharedMapping::new(memfd, BYTES)? })
    }

    fn words(&self) -> &Words {
        // SAFETY: the mapping has `BYTES` bytes, page-aligned, for the life of `self`, which `Words` fits into; all of it is atomic
        // numbers, of which every bit pattern is valid.
        unsafe { &*self.shared.as_ptr().cast::<Words>() }
    }

    // The daemon's side.

    /// Has the client start nothing until the lease is [concluded](LeasePage::conclude).
    pub fn set_busy(&self) {
        let _ = self.words().state.compare_exchange(OK, BUSY, SeqCst, SeqCst);
    }

    /// Ends the lease, or lets the client go on.
    pub fn conclude(&self, holds: bool) {
        if holds {
            let _ = self.words().state.compare_exchange(BUSY, OK, SeqCst, SeqCst);
        } else {
            self.words().state.store(REVOKED, SeqCst);
        }
    }

    /// The process that the client says is under way; zero for none.
    #[must_use]
    pub fn current(&self) -> i32 {
        self.words().current.load(SeqCst)
    }

    /// Takes the records that the client has written since the last time. `taken` is how many that were in all.
    pub fn take_records(&self, taken: &mut u64) -> Vec<LeaseRecord> {
        let words = self.words();
        let written = words.written.load(Acquire);
        let new = written.saturating_sub(*taken).min(RECORDS);
        let records = (0..new).filter_map(|index| {
            let at = words.records.get(slot(*taken + index))?;
            Some(LeaseRecord {
                pid: at.pid.load(Relaxed),
                refused: at.refused.load(Relaxed) != 0,
                ordered_ns: at.ordered_ns.load(Relaxed),
                entered_ns: at.entered_ns.load(Relaxed),
                ended_ns: at.ended_ns.load(Relaxed),
            })
        });
        let records = records.collect();
        *taken += new;
        words.taken.store(*taken, Release);
        records
    }

    // The client's side.

    /// Whether the daemon lets a run begin at this moment.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.words().state.load(SeqCst) == OK
    }

    /// Whether the lease is over.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.words().state.load(SeqCst) == REVOKED
    }

    /// Says which process is under way; zero for none.
    pub fn set_current(&self, pid: i32) {
        self.words().current.store(pid, SeqCst);
    }

    /// How many records the daemon has not taken.
    #[must_use]
    pub fn untaken(&self) -> u64 {
        let words = self.words();
        words.written.load(Relaxed).saturating_sub(words.taken.load(Acquire))
    }

    /// Writes a record. There must be room.
    pub fn write(&self, record: &LeaseRecord) {
        let words = self.words();
        let written = words.written.load(Relaxed);
        let Some(at) = words.records.get(slot(written)) else { return };
        at.pid.store(record.pid, Relaxed);
        at.refused.store(record.refused.into(), Relaxed);
        at.ordered_ns.store(record.ordered_ns, Relaxed);
        at.entered_ns.store(record.entered_ns, Relaxed);
        at.ended_ns.store(record.ended_ns, Relaxed);
        words.written.store(written.wrapping_add(1), Release);
    }
}

fn slot(number: u64) -> usize {
    usize::try_from(number % RECORDS).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> (LeasePage, LeasePage) {
        let (daemons, memfd) = LeasePage::new().expect("a memfd");
        (daemons, LeasePage::map(memfd.as_fd()).expect("mapped"))
    }

    #[test]
    fn a_lease_that_holds_can_end_and_one_that_has_ended_never_holds_again() {
        let (daemons, clients) = pages();
        assert!(!clients.holds() && !clients.is_revoked(), "it is not concluded");
        daemons.conclude(true);
        assert!(clients.holds());
        daemons.set_busy();
        assert!(!clients.holds());
        daemons.conclude(true);
        assert!(clients.holds());
        daemons.conclude(false);
        daemons.conclude(true);
        daemons.set_busy();
        assert!(!clients.holds() && clients.is_revoked());
    }

    #[test]
    fn each_record_is_taken_once_in_its_order() {
        let (daemons, clients) = pages();
        let mut taken = 0;
        let mut expected = 0;
        for round in 1..=3 {
            for _ in 0..RECORDS {
                expected += 1;
                clients.write(&LeaseRecord { ordered_ns: expected, pid: round, ..LeaseRecord::default() });
            }
            assert_eq!(clients.untaken(), RECORDS);
            let records = daemons.take_records(&mut taken);
            assert_eq!(records.len() as u64, RECORDS);
            assert!(records.iter().all(|record| record.pid == round));
            assert_eq!(records.last().map(|record| record.ordered_ns), Some(expected));
            assert_eq!((daemons.take_records(&mut taken), clients.untaken()), (Vec::new(), 0));
        }
    }

    #[test]
    fn a_client_that_writes_anything_has_no_more_records_taken_than_there_is_room_for() {
        let (daemons, clients) = pages();
        let mut taken = 0;
        clients.words().written.store(u64::MAX, SeqCst);
        assert_eq!(daemons.take_records(&mut taken).len() as u64, RECORDS);
        clients.words().written.store(0, SeqCst);
        assert_eq!(daemons.take_records(&mut taken).len(), 0);
        clients.words().state.store(77, SeqCst);
        assert!(!clients.holds());
        clients.set_current(-5);
        assert_eq!(daemons.current(), -5);
    }
}
