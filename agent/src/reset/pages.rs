//! Pages: every page that a run can have changed gets the image's content again.
//!
//! A page can differ only where it is anonymous (present or swapped): a clean page of a private file mapping is the
//! file's, an absent anonymous page is zero. So the scan's anonymous pages are merged with the table of saved pages:
//!
//! | scanned | saved | what is done |
//! |---|---|---|
//! | yes | yes | compared, and copied when it differs |
//! | yes | no  | in an anonymous mapping it was zero: zeroed in place up to a limit ("hot": no fault next time), else dropped; in a file mapping dropped: it is the file's again |
//! | no  | yes | copied if it was anonymous at the snapshot, else it is the file's already |
//!
//! Of an image that is large and whose runs are known, the seed alone has most of the saved pages: those that no run had written when it was
//! looked. They are read from there, a microsecond each.
//!
//! Where writes are tracked (see `track`) the scan tells pages that were not written since they were last right: they are passed over,
//! unless they are no longer shared with the seed, or a page of a file is in the place of one that was anonymous.
//!
//! Where they are not, code and constants of files are looked at by their words of `pagemap` in place of a scan: most of their pages are
//! there and the file's, which a word tells in a sixth of the time.

use core::sync::atomic::Ordering::Relaxed;

use regrow_abi::{Broken, PAGE_BYTES, PageEntry, VmaEntry, features, vma_flags};

use super::quick::{self, Look};
use super::result::ResetResult;
use super::scan::{self, PageFound};
use super::track;
use crate::memory;
use crate::state::{Agent, fd};
use crate::sys;

const MADV_DONTNEED: u32 = 4;

/// Where a reset is in its two sorted tables.
struct PageCursor<'a> {
    agent: &'a Agent,
    vmas: &'a [VmaEntry],
    pages: &'a [PageEntry],
    vma: usize,
    page: usize,
    /// Range of pages that are dropped together.
    drop: (u64, u64),
    /// Most pages that are zeroed in place.
    hot: u32,
    /// Pages that the image does not have and that are zero are dropped: most were mapped ahead, and the run has not needed
    /// them.
    drops_zero: bool,
    /// The scan leaves out pages that nobody has written.
    tracked: bool,
    /// It looks for what was written alone.
    is_quick: bool,
    /// Pages that are as they should be are write-protected again: the last runs may not have written them.
    protects: bool,
    /// Range of pages that are protected together.
    protect: (u64, u64),
    /// A page that is compared as soon as it is known which one comes after it.
    pending: Option<Pending>,
    zeroed: u32,
    compared: u32,
    copied: u32,
    dropped: u32,
}

/// A writable page of the image that a run may have written.
#[derive(Clone, Copy)]
struct Pending {
    address: u64,
    index: usize,
    /// Whether it is protected again if it is as it should be.
    protects: bool,
}

/// Gives every page the image's content. At most `hot` pages that the image does not have stay mapped, after the first run
/// of a body only those that are not zero.
pub fn put_back(agent: &Agent, hot: u32, is_first: bool, look: Look) -> ResetResult {
    let vmas = agent.vmas();
    let mut cursor = PageCursor {
        agent,
        vmas,
        pages: agent.pages(),
        vma: 0,
        page: 0,
        drop: (0, 0),
        hot,
        drops_zero: is_first,
        tracked: track::is_on(agent),
        is_quick: look != Look::AtAll && quick::is_on(agent),
        protects: look != Look::Usual && track::is_on(agent),
        protect: (0, 0),
        pending: None,
        zeroed: 0,
        compared: 0,
        copied: 0,
        dropped: 0,
    };
    let by_words = !cursor.tracked && agent.has(features::PAGEMAP_SCAN);
    let parts = Parts { vmas, by_words };
    for part in parts {
        cursor.look_at(part)?;
    }
    cursor.finish_pass()?;
    if cursor.tracked && !cursor.is_quick {
        scan::each_protected(agent, &mut |from, to, found| cursor.take(from, to, found))?;
        cursor.finish_pass()?;
    }
    cursor.count();
    Ok(())
}

/// A part of the program's memory that is looked at in one way.
struct Part {
    start: u64,
    end: u64,
    /// Files that cannot be written to are mapped there, without a hole.
    of_files: bool,
    /// Writes to it are tracked, where they are.
    is_tracked: bool,
}

/// Divides mappings into parts. What is not the program's is in none.
struct Parts<'a> {
    vmas: &'a [VmaEntry],
    /// Whether files that cannot be written to are parts of their own.
    by_words: bool,
}

impl Iterator for Parts<'_> {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        const KIND: u32 = vma_flags::FILE | vma_flags::WRITE | vma_flags::SHARED;
        let is_ours = |vma: &VmaEntry| vma.flags & vma_flags::HANDS_OFF == 0;
        let (mut vmas, by_words) = (self.vmas, self.by_words);
        let is_of_file = |vma: &VmaEntry| by_words && vma.flags & KIND == vma_flags::FILE;
        while let [vma, rest @ ..] = vmas
            && !is_ours(vma)
        {
            vmas = rest;
        }
        let [first, rest @ ..] = vmas else { return None };
        let is_tracked = |vma: &VmaEntry| track::is_tracked(vma.flags);
        let mut part = Part {
            start: first.start,
            end: first.end,
            of_files: is_of_file(first),
            is_tracked: is_tracked(first),
        };
        vmas = rest;
        while let [next, rest @ ..] = vmas
            && is_ours(next)
            && is_of_file(next) == part.of_files
            && is_tracked(next) == part.is_tracked
            && (!part.of_files || next.start == part.end)
        {
            part.end = next.end;
            vmas = rest;
        }
        self.vmas = vmas;
        Some(part)
    }
}

impl PageCursor<'_> {
    /// Treats a part of the memory.
    fn look_at(&mut self, part: Part) -> ResetResult {
        let (agent, Part { start, end, of_files, is_tracked }) = (self.agent, part);
        if !of_files {
            let is_quick = self.is_quick;
            let each = &mut |from, to, found| self.take(from, to, found);
            return scan::each_changed(agent, (start, end), is_tracked, is_quick, each);
        }
        scan::each_of_files(agent, start, end, &mut |from, to, found| {
            self.absent_below(from)?;
            self.take(from, to, found)
        })?;
        self.absent_below(end)
    }

    /// A range that a scan has found.
    fn take(&mut self, from: u64, to: u64, found: PageFound) -> ResetResult {
        if self.tracked {
            self.pass_over(from);
        }
        match found {
            PageFound::Anonymous => self.anonymous(from, to),
            PageFound::Absent => self.absent_below(to),
            PageFound::OfFile => self.of_file(from),
            // The kernel notes for ever that the mapping had one.
            PageFound::Guard => Err((Broken::Guarded, 0)),
        }
    }

    /// Saved pages below `limit` are as they were.
    fn pass_over(&mut self, limit: u64) {
        while self.pages.get(self.page).is_some_and(|saved| saved.address() < limit) {
            self.page += 1;
        }
    }

    /// A range of anonymous pages of the body.
    fn anonymous(&mut self, from: u64, to: u64) -> ResetResult {
        let mut at = from;
        while at < to {
            self.absent_below(at)?;
            match self.pages.get(self.page) {
                Some(saved) if saved.address() == at => {
                    self.compare(at, self.page)?;
                    self.page += 1;
                }
                _ => self.unsaved(at)?,
            }
            at += PAGE_BYTES;
        }
        Ok(())
    }

    /// A page of a file. Dropped, an anonymous page makes way for it.
    fn of_file(&mut self, at: u64) -> ResetResult {
        match self.pages.get(self.page) {
            Some(saved) if saved.address() == at && saved.was_anonymous() => {
                self.compare(at, self.page)?;
                self.page += 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Saved pages below `limit` that the scan did not find.
    fn absent_below(&mut self, limit: u64) -> ResetResult {
        while let Some(saved) = self.pages.get(self.page).filter(|saved| saved.address() < limit) {
            if saved.was_anonymous() {
                self.copied += 1;
                self.write(saved.address(), self.page)?;
            }
            self.page += 1;
        }
        Ok(())
    }

    fn compare(&mut self, address: u64, index: usize) -> ResetResult {
        self.compared += 1;
        if let Some(vma) = self.vma_at(address).filter(|vma| vma.flags & vma_flags::WRITE != 0) {
            let protects = self.protects && track::is_tracked(vma.flags);
            let next = Pending { address, index, protects };
            return match self.pending.replace(next) {
                Some(page) => self.restore(page, next),
                None => Ok(()),
            };
        }
        let from = self.saved(index)?;
        // SAFETY: the page is there and readable (the image has no saved page in an unreadable mapping), and so is the
        // saved one; nobody else runs in this memory.
        if unsafe { memory::page_differs(address as *const u64, from.cast()) } {
            self.copied += 1;
            self.write(address, index)?;
        }
        Ok(())
    }

    /// Gives the last page of a pass its content.
    fn restore_last(&mut self) -> ResetResult {
        self.pending.take().map_or(Ok(()), |page| self.restore(page, page))
    }

    /// Gives a page its content, while the processor fetches what `next` needs.
    fn restore(&mut self, page: Pending, next: Pending) -> ResetResult {
        let from = self.saved(page.index)?;
        let ahead = (next.address, self.agent.saved(next.index));
        // SAFETY: a page of the image that is there and writable, and its saved one; nobody else runs in this memory.
        let differed = unsafe { memory::restore_page(page.address as *mut u64, from.cast(), ahead) };
        self.copied += u32::from(differed);
        if page.protects && !differed { self.protect_again(page.address) } else { Ok(()) }
    }

    /// The content of a saved page: in the image, or read from the seed, which has not changed it since the image was made. It is there
    /// until the next page is asked for.
    fn saved(&self, index: usize) -> Result<*const u8, (Broken, i32)> {
        let Some(page) = self.pages.get(index).filter(|page| page.is_in_seed()) else {
            return Ok(self.agent.saved(index));
        };
        // SAFETY: the private area is this body's own, no reference to it is alive, and the place has room for a page.
        let (to, got) = unsafe {
            let to = (&raw mut (*self.agent.private()).fetched).cast::<u8>();
            (to, sys::pread(fd::SEED_MEMORY, to, PAGE_BYTES as usize, page.address()))
        };
        // A seed that is gone has nothing to read.
        if got == PAGE_BYTES as isize { Ok(to) } else { Err((Broken::Seed, (-got).max(0) as i32)) }
    }

    /// Has a page be looked at again only after the next write to it.
    fn protect_again(&mut self, address: u64) -> ResetResult {
        if self.protect.1 != address {
            self.flush_protect()?;
            self.protect.0 = address;
        }
        self.protect.1 = address + PAGE_BYTES;
        Ok(())
    }

    fn flush_protect(&mut self) -> ResetResult {
        let (start, end) = core::mem::take(&mut self.protect);
        if start == end || track::protect_again(self.agent, start, end) {
            return Ok(());
        }
        Err((Broken::Pages, 2))
    }

    /// The mapping that holds an address. Addresses come in rising order.
    fn vma_at(&mut self, address: u64) -> Option<VmaEntry> {
        while self.vmas.get(self.vma).is_some_and(|vma| vma.end <= address) {
            self.vma += 1;
        }
        self.vmas.get(self.vma).filter(|vma| vma.start <= address).copied()
    }

    /// Writes a saved page, lifting the write protection of its mapping for the moment where it has one.
    fn write(&mut self, address: u64, index: usize) -> ResetResult {
        let Some(vma) = self.vma_at(address) else { return Err((Broken::Pages, 0)) };
        let from = self.saved(index)?;
        if vma.flags & vma_flags::WRITE != 0 {
            // SAFETY: a writable page of the image.
            unsafe { memory::copy_page(address, from) };
            return Ok(());
        }
        // SAFETY: the page is the program's; its protection is put back at once.
        unsafe {
            let result = sys::mprotect(address, PAGE_BYTES, sys::prot::READ | sys::prot::WRITE);
            if result < 0 {
                return Err((Broken::Pages, -result as i32));
            }
            memory::copy_page(address, from);
            let result = sys::mprotect(address, PAGE_BYTES, vma.flags & 7);
            if result < 0 { Err((Broken::Pages, -result as i32)) } else { Ok(()) }
        }
    }

    /// An anonymous page that the image does not have.
    fn unsaved(&mut self, address: u64) -> ResetResult {
        let Some(vma) = self.vma_at(address) else { return Err((Broken::Pages, 1)) };
        let zero_in_place = vma.flags & (vma_flags::FILE | vma_flags::WRITE) == vma_flags::WRITE;
        if zero_in_place && self.zeroed < self.hot {
            // SAFETY: a page of a writable mapping, and nobody else runs in this memory.
            let is_zero = unsafe { memory::page_is_zero(address) };
            if !is_zero {
                // SAFETY: a writable page of an anonymous mapping of the image. The kernel's zero page is not written to.
                unsafe { memory::zero_page(address) };
            }
            if !(is_zero && self.drops_zero) {
                self.zeroed += 1;
                return Ok(());
            }
        }
        self.dropped += 1;
        if self.drop.1 == address {
            self.drop.1 += PAGE_BYTES;
            return Ok(());
        }
        self.flush()?;
        self.drop = (address, address + PAGE_BYTES);
        Ok(())
    }

    fn flush(&mut self) -> ResetResult {
        let (start, end) = self.drop;
        if start == end {
            return Ok(());
        }
        self.drop = (0, 0);
        // SAFETY: anonymous pages that the image does not have; dropped they are zero, or the file's again.
        let result = unsafe { sys::madvise(start, end - start, MADV_DONTNEED) };
        if result < 0 { Err((Broken::Pages, -result as i32)) } else { Ok(()) }
    }

    /// Treats what is left of a pass, and begins at the first page again.
    fn finish_pass(&mut self) -> ResetResult {
        if !self.tracked {
            self.absent_below(u64::MAX)?;
        }
        self.restore_last()?;
        (self.vma, self.page) = (0, 0);
        self.flush_protect()?;
        self.flush()
    }

    fn count(&self) {
        let counters = &self.agent.control().reset;
        counters.compared.store(self.compared, Relaxed);
        counters.copied.store(self.copied, Relaxed);
        counters.zeroed.store(self.zeroed, Relaxed);
        counters.dropped.store(self.dropped, Relaxed);
    }
}
