//! The service for callers that have addresses alone: C programs, other allocators' hooks, `malloc` and `mmap` of unmodified programs.
//!
//! ```text
//!   alloc ── a block that the slot of this thread keeps ── else ──> the slot's zone          (see slots)
//!   free  ── what does the mark of its first page say?  ── used ──> kept in the slot, or home   (see marks)
//! ```
//!
//! A raw client is one client, whatever threads use it: memory that goes from one of its threads to another is not zeroed. Each address is
//! looked up before anything is done with it, so that a wrong one is an error and no harm.
//!
//! What a caller does to the mapping of its blocks (protects, maps over, gives back a part) it tells by [`RawClient::note_changed`] and
//! [`RawClient::free_part`]; such a block is mapped anew before anybody else has it.

mod marks;
mod slots;

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

pub use regrow_sys::raw::thread_pointer;

use crate::error::ServiceError;
use crate::request::{Mode, Owner, Want};
use crate::store::Store;
use crate::units::PAGE_BYTES;
use crate::units::{MAX_ORDER, Page, order_for, pages_of};

use marks::{Mark, Marks};
use regrow_sync::biased::Turn;
use slots::{Kept, Slots};

/// What can be wrong with a request by address. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
pub enum RawError {
    /// The block is free already.
    #[error("the block at {address:#x} was freed before")]
    FreedTwice {
        /// The address.
        address: usize,
    },
    /// No block of this client begins there.
    #[error("no block begins at {address:#x}")]
    NoBlock {
        /// The address.
        address: usize,
    },
    /// The address is none of the service.
    #[error("{address:#x} is outside of the service's range")]
    Outside {
        /// The address.
        address: usize,
    },
    /// The service cannot give what was asked for: too large, no memory, or the system refuses.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

/// What becomes of pages that are given back before the rest of their block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A touch of them faults, as after `munmap`.
    Closed,
    /// A touch of them finds zeroes.
    Open,
}

/// See the module.
#[derive(Debug)]
pub struct RawClient {
    store: Arc<Store>,
    owner: Owner,
    marks: Marks,
    slots: Slots,
    single_threaded: &'static AtomicU8,
}

/// For clients whose process may have several threads at any time.
pub(crate) static NEVER_SINGLE: AtomicU8 = AtomicU8::new(0);

/// Nobody else is in the middle of a request as long as this is there: what a fork needs.
#[derive(Debug)]
pub struct Held<'a> {
    _slots: Vec<Turn<'a, Kept>>,
}

impl RawClient {
    pub(crate) fn new(store: Arc<Store>, owner: Owner, single_threaded: &'static AtomicU8) -> RawClient {
        let marks = Marks::new(store.range().chunks());
        RawClient { store, owner, marks, slots: Slots::new(), single_threaded }
    }

    #[inline]
    fn is_single(&self) -> bool {
        self.single_threaded.load(Relaxed) != 0
    }

    /// A block of so many pages at least; its address. What is in it is zero, or what this client has written to a block before; all of
    /// it is zero where that is asked for.
    ///
    /// # Errors
    /// [`ServiceError::TooLarge`], [`ServiceError::NoMemory`], [`ServiceError::System`].
    pub fn alloc(&self, pages: u64, mode: Mode, zeroed: bool) -> Result<NonNull<u8>, RawError> {
        self.alloc_aligned(pages, 1, mode, zeroed)
    }

    /// The same, at a multiple of so many pages: at most a chunk.
    ///
    /// # Errors
    /// As [`RawClient::alloc`].
    #[inline]
    pub fn alloc_aligned(
        &self,
        pages: u64,
        multiple: u64,
        mode: Mode,
        zeroed: bool,
    ) -> Result<NonNull<u8>, RawError> {
        if let Some(block) = self.alloc_kept(pages, multiple, mode, zeroed) {
            return Ok(block);
        }
        self.alloc_any(pages, multiple, mode, zeroed)
    }

    #[inline(never)]
    fn alloc_any(
        &self,
        pages: u64,
        multiple: u64,
        mode: Mode,
        zeroed: bool,
    ) -> Result<NonNull<u8>, RawError> {
        let too_large = || ServiceError::TooLarge { pages, most: pages_of(MAX_ORDER) };
        let order = order_for(pages.max(multiple)).ok_or_else(too_large)?;
        let asked = u32::try_from(pages.max(1)).map_err(|_| too_large())?;
        let want = Want { order, owner: self.owner, mapped: mode == Mode::Immediate, zeroed };
        let mut slot = self.slots.mine();
        let page = match slot.take(order, mode) {
            Some(page) => self.prepare(page, want)?,
            None => self.ask(&mut slot, want)?,
        };
        self.marks.set(page, Mark::used(order, asked, mode));
        Ok(self.store.range().address(page))
    }

    /// What most requests come to: a block that this thread keeps, as it is.
    #[inline]
    fn alloc_kept(&self, pages: u64, multiple: u64, mode: Mode, zeroed: bool) -> Option<NonNull<u8>> {
        let asked = u32::try_from(pages.max(1)).ok().filter(|_| !zeroed)?;
        let order = order_for(pages.max(multiple))?;
        let mut slot = self.slots.own()?;
        let page = slot.take(order, mode)?;
        self.store.range().give_out(page, pages_of(order));
        self.marks.set_again(page, Mark::used(order, asked, mode));
        Some(self.store.range().address(page))
    }

    /// Takes a block back, from any thread.
    ///
    /// # Errors
    /// [`RawError::FreedTwice`], [`RawError::NoBlock`], [`RawError::Outside`]; [`ServiceError::System`] where the block has been
    /// changed and cannot be mapped anew: it is in use then as before.
    pub fn free(&self, address: *const u8) -> Result<(), RawError> {
        if self.free_plain(address) {
            return Ok(());
        }
        let (page, mark) = self.block_at(address)?;
        self.free_marked(page, mark, address)
    }

    /// The same, unless the address is in a block that has a label: false then, and nothing is done.
    ///
    /// # Errors
    /// As [`RawClient::free`].
    #[inline]
    pub fn free_unless_labelled(&self, address: *const u8) -> Result<bool, RawError> {
        if self.free_plain(address) {
            return Ok(true);
        }
        match self.block_at(address) {
            Ok((page, mark)) if !mark.is_labelled() => self.free_marked(page, mark, address).map(|()| true),
            Ok(_) => Ok(false),
            Err(_) if self.is_labelled(address) == Some(true) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What most returns come to: a block that nobody has done anything special with. False where it is another one, or none.
    #[inline]
    fn free_plain(&self, address: *const u8) -> bool {
        let Some(page) = self.store.range().page_at(address.addr()) else { return false };
        let mark = self.marks.get(page);
        if !mark.is_plain()
            || !address.addr().is_multiple_of(PAGE_BYTES)
            || !self.marks.exchange(page, mark, mark.freed(), self.is_single())
        {
            return false;
        }
        self.store.range().take_in(page, pages_of(mark.order()));
        let is_kept = self.slots.own().is_some_and(|mut slot| slot.keep(page, mark.order(), mark.mode()));
        if !is_kept {
            self.keep_or_return(page, mark);
        }
        true
    }

    #[inline(never)]
    fn keep_or_return(&self, page: Page, mark: Mark) {
        // The slot is held meanwhile: a fork must not come in between.
        let mut slot = self.slots.mine();
        if !slot.keep(page, mark.order(), mark.mode()) {
            self.store.free(page);
        }
    }

    #[inline(never)]
    fn free_marked(&self, mut page: Page, mut mark: Mark, address: *const u8) -> Result<(), RawError> {
        while !self.marks.exchange(page, mark, mark.freed(), self.is_single()) {
            // Somebody else frees it, or notes that it was changed.
            (page, mark) = self.block_at(address)?;
        }
        self.store.range().take_in(page, pages_of(mark.order()));
        if mark.is_changed() {
            let _slot = self.slots.mine();
            self.renew(page, mark)?;
            self.store.free(page);
        } else {
            self.keep_or_return(page, mark);
        }
        Ok(())
    }

    /// Maps a block anew that its caller has changed; where that fails it is in use as before.
    #[cold]
    fn renew(&self, page: Page, mark: Mark) -> Result<(), RawError> {
        self.store.range().renew(page, pages_of(mark.order())).map_err(|source| {
            self.store.range().give_out(page, pages_of(mark.order()));
            self.marks.set(page, mark);
            ServiceError::System { what: "mapping a block anew", source }.into()
        })
    }

    /// Whether an address is in the range of its service.
    #[must_use]
    pub fn contains(&self, address: *const u8) -> bool {
        self.store.range().page_at(address.addr()).is_some()
    }

    /// The addresses of its service's range.
    #[must_use]
    pub fn addresses(&self) -> Range<usize> {
        let start = self.store.range().address(0).addr().get();
        start..start + self.store.range().bytes()
    }

    /// The bytes of the block that begins at an address: those that were asked for, and what there is behind them.
    ///
    /// # Errors
    /// As [`RawClient::free`].
    pub fn size(&self, address: *const u8) -> Result<usize, RawError> {
        let (_, mark) = self.block_at(address)?;
        Ok(pages_of(mark.order()) as usize * PAGE_BYTES)
    }

    /// The addresses, as far as they were asked for, of the block that an address is in, and whether it is as it was given: nobody has
    /// changed its mapping or given back a part.
    #[must_use]
    pub fn block_around(&self, address: *const u8) -> Option<(Range<usize>, bool)> {
        let page = self.store.range().page_at(address.addr())?;
        let (first, mark) = self.marks.block_of(page)?;
        let start = self.store.range().address(first).addr().get();
        Some((start..start + mark.asked() as usize * PAGE_BYTES, !mark.is_changed()))
    }

    /// Labels a block that its caller wants to tell from others until it is freed.
    ///
    /// # Errors
    /// As [`RawClient::free`].
    pub fn label(&self, address: *const u8) -> Result<(), RawError> {
        let (page, _) = self.block_at(address)?;
        self.marks.set_labelled(page);
        Ok(())
    }

    /// Whether the block that an address is in has a label; `None` where it is in no block.
    #[must_use]
    pub fn is_labelled(&self, address: *const u8) -> Option<bool> {
        let page = self.store.range().page_at(address.addr())?;
        Some(self.marks.block_of(page)?.1.is_labelled())
    }

    /// Has a block that is as it was given grow in its place, or become shorter. False where it cannot. Pages that a delayed, zeroed
    /// block grows by are zero.
    pub fn resize(&self, address: *const u8, pages: u64) -> bool {
        let Ok((page, mark)) = self.block_at(address) else { return false };
        let Ok(pages) = u32::try_from(pages.max(1)) else { return false };
        let fits = pages <= pages_of(mark.order()) && !mark.is_changed();
        fits && self.marks.exchange(page, mark, mark.asking_for(pages), self.is_single())
    }

    /// Gives pages back, of whatever blocks they are. A block goes home with its last page; pages of no block stay as they are.
    ///
    /// # Errors
    /// [`RawError::Outside`], [`ServiceError::System`]; pages may have been given back then.
    pub fn free_part(&self, address: *const u8, bytes: usize, part: Part) -> Result<(), RawError> {
        let pages = self.pages_at(address, bytes)?;
        let mut at = pages.start;
        while at < pages.end {
            let Some((first, mark)) = self.marks.block_of(at) else {
                at += 1;
                continue;
            };
            let (asked_end, end) = (first + mark.asked(), first + pages_of(mark.order()));
            if at == first && pages.end >= asked_end {
                self.free(self.store.range().address(first).as_ptr())?;
            } else if at < asked_end {
                self.free_in_block(at..pages.end.min(asked_end), first..asked_end, part)?;
            }
            at = end;
        }
        Ok(())
    }

    /// Whether all of these pages are of blocks in use, as far as they were asked for.
    #[must_use]
    pub fn is_in_use(&self, address: *const u8, bytes: usize) -> bool {
        let Ok(pages) = self.pages_at(address, bytes) else { return false };
        let mut at = pages.start;
        while at < pages.end {
            match self.marks.block_of(at) {
                Some((first, mark)) if at < first + mark.asked() => {
                    let asked_end = first + mark.asked();
                    if pages.end > asked_end && mark.asked() < pages_of(mark.order()) {
                        return false;
                    }
                    at = asked_end;
                }
                _ => return false,
            }
        }
        true
    }

    /// Notes that the caller has changed the mapping of pages: they are mapped anew before somebody else has them. No lock is taken.
    /// `is_there`: also of those that were given back, something is mapped there again.
    pub fn note_changed(&self, address: *const u8, bytes: usize, is_there: bool) {
        let Ok(pages) = self.pages_at(address, bytes) else { return };
        if is_there {
            self.marks.set_gone(pages.clone(), false);
        }
        let mut at = pages.start;
        while at < pages.end {
            match self.marks.block_of(at) {
                Some((first, mark)) => {
                    self.marks.set_changed(first);
                    at = first + pages_of(mark.order());
                }
                None => at += 1,
            }
        }
    }

    /// Makes pages of the caller's blocks zero, and gives them to the kernel until they are touched.
    ///
    /// # Errors
    /// [`RawError::NoBlock`], [`RawError::Outside`], [`ServiceError::System`].
    pub fn purge(&self, address: *const u8, bytes: usize) -> Result<(), RawError> {
        let pages = self.pages_at(address, bytes)?;
        if !self.is_in_use(address, bytes) {
            return Err(RawError::NoBlock { address: address.addr() });
        }
        let given = self.store.range().give_back(pages.start, pages.end - pages.start);
        Ok(given.map_err(|source| ServiceError::System { what: "giving pages back", source })?)
    }

    /// Gives home what its slots keep.
    pub fn trim(&self) {
        for mut slot in self.slots.all() {
            slot.drain().for_each(|page| self.store.free(page));
        }
    }

    /// The same of those slots that nobody is in the middle of a request with.
    pub fn trim_free(&self) {
        for mut slot in self.slots.all_free() {
            slot.drain().for_each(|page| self.store.free(page));
        }
    }

    /// Waits until nobody is in the middle of a request, and has all others wait.
    #[must_use]
    pub fn hold(&self) -> Held<'_> {
        Held { _slots: self.slots.all() }
    }

    /// What a block that a slot has kept needs before it is given again.
    fn prepare(&self, page: Page, want: Want) -> Result<Page, RawError> {
        let (range, pages) = (self.store.range(), pages_of(want.order));
        range.give_out(page, pages);
        if want.zeroed {
            range.zero(page, pages, want.is_zeroed_by_the_kernel());
            if want.mapped && want.is_zeroed_by_the_kernel() {
                range.map(page, pages).inspect_err(|_| {
                    range.take_in(page, pages);
                    self.store.free(page);
                })?;
            }
        }
        Ok(page)
    }

    /// A block of the zones.
    fn ask(&self, slot: &mut Kept, want: Want) -> Result<Page, RawError> {
        let zone = slot.zone.get_or_insert_with(|| self.store.new_client().1);
        let page = match self.store.alloc(zone, want) {
            Err(ServiceError::NoMemory { .. }) => {
                // What threads keep may be just what is missing. This one has its own slot already.
                let mut zone = *zone;
                slot.drain().for_each(|page| self.store.free(page));
                self.trim_free();
                self.store.alloc(&mut zone, want)?
            }
            other => other?,
        };
        self.marks.clear(page..page + pages_of(want.order));
        Ok(page)
    }

    /// The block in use that begins at an address.
    fn block_at(&self, address: *const u8) -> Result<(Page, Mark), RawError> {
        let address = address.addr();
        let page = self.store.range().page_at(address).ok_or(RawError::Outside { address })?;
        let mark = self.marks.get(page);
        match mark {
            _ if !address.is_multiple_of(PAGE_BYTES) => Err(RawError::NoBlock { address }),
            _ if mark.is_used() => Ok((page, mark)),
            _ if mark.is_freed() => Err(RawError::FreedTwice { address }),
            _ => Err(RawError::NoBlock { address }),
        }
    }

    /// The pages that have one of these bytes.
    fn pages_at(&self, address: *const u8, bytes: usize) -> Result<Range<Page>, RawError> {
        let (address, last) = (address.addr(), address.addr().saturating_add(bytes.saturating_sub(1)));
        let page = |address| self.store.range().page_at(address).ok_or(RawError::Outside { address });
        Ok(page(address)?..page(last)? + 1)
    }

    /// Gives back pages of a block, and the block itself if these were the last.
    fn free_in_block(&self, pages: Range<Page>, block: Range<Page>, part: Part) -> Result<(), RawError> {
        let (range, count) = (self.store.range(), pages.end - pages.start);
        self.marks.set_changed(block.start);
        let done = match part {
            Part::Closed => range.close(pages.start, count),
            Part::Open => range.renew(pages.start, count),
        };
        done.map_err(|source| ServiceError::System { what: "giving back a part of a block", source })?;
        self.marks.set_gone(pages, true);
        if !block.clone().all(|page| self.marks.get(page).is_gone()) {
            return Ok(());
        }
        match self.free(range.address(block.start).as_ptr()) {
            // Another thread has given back its part at the same time, and saw that it was the last.
            Err(RawError::FreedTwice { .. }) => Ok(()),
            other => other,
        }
    }
}

impl Drop for RawClient {
    fn drop(&mut self) {
        self.trim();
    }
}
