//! Where threads keep the blocks that they have just freed: a slot for each thread, as far as there are slots.
//!
//! A thread takes its own slot, or, where somebody else has it, any other one. Whatever a raw client does with the service it does with
//! a slot in its hands: who has all of them knows that nobody is in the middle of anything. What a thread has left in its slot when it
//! ends serves the next one.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::request::Mode;
use crate::units::{CHUNK_ORDER, Page};

/// How many there are. Most programs have fewer threads that work at a time.
const SLOTS: usize = 64;
/// How many pages are kept in blocks of one order.
const KEPT_PAGES: usize = 64;
const ORDERS: usize = CHUNK_ORDER as usize + 1;

/// What is kept in a slot.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The zone that requests go to; `None` before the first.
    pub(super) zone: Option<usize>,
    immediate: [Vec<Page>; ORDERS],
    delayed: [Vec<Page>; ORDERS],
}

impl Kept {
    fn blocks(&mut self, order: u8, mode: Mode) -> Option<&mut Vec<Page>> {
        let lists = match mode {
            Mode::Immediate => &mut self.immediate,
            Mode::Delayed => &mut self.delayed,
        };
        lists.get_mut(usize::from(order))
    }

    /// A block that is kept.
    pub(super) fn take(&mut self, order: u8, mode: Mode) -> Option<Page> {
        self.blocks(order, mode)?.pop()
    }

    /// Keeps a block. False where it keeps enough of them.
    pub(super) fn keep(&mut self, page: Page, order: u8, mode: Mode) -> bool {
        match self.blocks(order, mode) {
            Some(blocks) if blocks.len() < (KEPT_PAGES >> order).max(1) => {
                blocks.push(page);
                true
            }
            _ => false,
        }
    }

    /// All that is kept; it is kept no longer.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Page> {
        self.immediate.iter_mut().chain(&mut self.delayed).flat_map(|blocks| blocks.drain(..))
    }
}

/// A line of the cache, and the one that is fetched with it, are one thread's.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Slot(Mutex<Kept>);

/// See the module.
#[derive(Debug)]
pub(super) struct Slots(Box<[Slot]>);

thread_local! {
    /// A number for each thread that has asked for a slot.
    static THREAD: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    THREAD.with(|thread| {
        if thread.get() == usize::MAX {
            thread.set(NEXT.fetch_add(1, Relaxed));
        }
        thread.get()
    })
}

impl Slots {
    pub(super) fn new() -> Slots {
        Slots((0..SLOTS).map(|_| Slot::default()).collect())
    }

    /// A slot for this thread.
    pub(super) fn mine(&self) -> MutexGuard<'_, Kept> {
        let own = thread_number() % SLOTS;
        let (before, from_own) = self.0.split_at(own);
        let free = from_own.iter().chain(before).find_map(Slot::try_lock);
        // All of them are in somebody's hands: this one will be let go.
        free.unwrap_or_else(|| from_own.first().unwrap_or(&self.0[0]).lock())
    }

    /// All slots, one after the other.
    pub(super) fn each(&self) -> impl Iterator<Item = MutexGuard<'_, Kept>> {
        self.0.iter().map(Slot::lock)
    }

    /// Those that nobody has.
    pub(super) fn each_free(&self) -> impl Iterator<Item = MutexGuard<'_, Kept>> {
        self.0.iter().filter_map(Slot::try_lock)
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Kept>> {
        match self.0.try_lock() {
            Ok(kept) => Some(kept),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
