//! The observer: compares a body with its image from outside, byte for byte. It shares no code with the reset, reads what the
//! kernel says of the keeper, and believes nothing that stands in the body.
//!
//! ```text
//!   /proc/KEEPER/smaps     beside the image's table, and piece by piece beside the seed's: flags, names
//!   /proc/KEEPER/pagemap   which pages differ from their file, are swapped, or are guards
//!   /proc/KEEPER/mem       their content, beside the sealed image, or the seed where that alone has the page; where the image has no
//!                          page, beside the file as the seed sees it
//!   /proc/KEEPER/auxv, …   what lies in no page, beside the seed's
//! ```
//!
//! The body stands in `Clean`, in which nothing of the next process is in it yet (verify mode), or in `Armed` (a spot check).
//! There the next process has registered itself: the words that it or the kernel has written for that are left out.

use std::fs::File;
use std::os::unix::fs::FileExt;

use regrow_abi::{PAGE_BYTES, PAGE_LEN, State, VmaEntry, vma_flags};
use regrow_image::image::Image;
use regrow_image::saved::SavedReader;
use regrow_image::vmas::{joined, vma_table};
use regrow_sys::maps::{SmapsEntry, VmFlag, VmFlags, read_smaps};

use crate::body::Body;
use page::{BATCH, Batch, Expected, PageCheck, SavedPage};

pub use difference::Difference;
use difference::open;

mod difference;
mod own_words;
mod page;
mod space;
#[cfg(test)]
mod tests;

/// How many words of the page map are read at a time.
const WORDS: usize = 512;
/// What pages that were never written hold.
static ZEROES: [u8; BATCH * PAGE_LEN] = [0; BATCH * PAGE_LEN];

/// Whether a body can be compared as it stands. A process that was woken ahead of its order has run in its memory: it can not.
#[must_use]
pub fn is_comparable(image: &Image, body: &Body) -> bool {
    match body.state() {
        Some(State::Clean) => true,
        Some(State::Armed) => image.header.gate_address == 0,
        _ => false,
    }
}

/// Compares mappings, their flags and names, every page, and what lies in no page.
///
/// # Errors
/// The first [`Difference`].
pub fn compare(image: &Image, body: &Body) -> Result<(), Difference> {
    let pid = body.keeper();
    let header = &image.header;
    let smaps = read_smaps(pid)?;
    let have = vma_table(&smaps, (header.agent_start, header.agent_end));
    compare_mappings(&image.vmas, &have)?;
    let seed = image.seed_smaps()?;
    let ours = header.agent_start..header.agent_end;
    compare_flags(seed, smaps.iter().filter(|entry| !ours.contains(&entry.mapping.start)))?;
    space::compare_names(seed, &smaps)?;
    space::compare_agent(seed, &smaps, (header.agent_start, header.agent_end))?;
    space::compare_files(image.seed().pid(), pid)?;
    let numbers = usize::try_from(header.tid_word_count).unwrap_or(0).min(header.tid_words.len());
    let rseq = (header.rseq_address, header.rseq_bytes);
    let is_armed = body.state() == Some(State::Armed);
    let own = if is_armed { own_words::of(&header.tid_words[..numbers], rseq) } else { Vec::new() };
    if image.has_exchange() {
        compare_exchange(body)?;
    }
    let mut pages = BodyPages::open(image, pid, own)?;
    for vma in image.vmas.iter().filter(|vma| vma.flags & vma_flags::HANDS_OFF == 0) {
        pages.compare(vma)?;
    }
    Ok(())
}

/// Nothing of a run stands in the exchange when the next one begins. What a run has said is kept for its caller first.
fn compare_exchange(body: &Body) -> Result<(), Difference> {
    body.close_exchange();
    if body.control.has_clear_exchange() { Ok(()) } else { Err(Difference::Exchange) }
}

/// Advice against huge pages is compared with the other flags, where it is told from what can be taken back.
fn compare_mappings(want: &[VmaEntry], have: &[VmaEntry]) -> Result<(), Difference> {
    let (want, have) = (without_advice(want), without_advice(have));
    for (index, vma) in want.iter().enumerate() {
        if have.get(index) != Some(vma) {
            return Err(Difference::Mapping(have.get(index).copied().unwrap_or(*vma)));
        }
    }
    match have.get(want.len()) {
        Some(more) => Err(Difference::Mapping(*more)),
        None => Ok(()),
    }
}

fn without_advice(vmas: &[VmaEntry]) -> Vec<VmaEntry> {
    joined(vmas.iter().map(|vma| VmaEntry { flags: vma.flags & !vma_flags::NO_HUGE, ..*vma }))
}

/// The kernel's flags of each mapping are those of the seed, which never ran the program. A mapping that a run split and
/// that did not grow together again is compared piece by piece.
fn compare_flags<'a>(
    want: &[SmapsEntry],
    have: impl Iterator<Item = &'a SmapsEntry>,
) -> Result<(), Difference> {
    // Soft-dirty says that a page was written once, accounting follows a mapping's history, and a body may track what its runs
    // write: none of them is seen.
    let seen = |entry: &SmapsEntry| -> VmFlags {
        let mut flags = entry.flags;
        flags.remove(VmFlag::SOFT_DIRTY);
        flags.remove(VmFlag::ACCOUNTED);
        flags.remove(VmFlag::UFFD_WRITE_PROTECT);
        flags
    };
    for entry in have {
        let start = entry.mapping.start;
        let wanted = want.get(want.partition_point(|wanted| wanted.mapping.end <= start));
        let Some(wanted) = wanted.filter(|wanted| wanted.mapping.contains(start)) else { continue };
        let (have, want) = (seen(entry), seen(wanted));
        if have != want {
            return Err(Difference::Flags { start, have: have.to_string(), want: want.to_string() });
        }
    }
    Ok(())
}

/// The pages of a body beside those of its image.
struct BodyPages<'a> {
    image: &'a Image,
    saved: SavedReader<'a>,
    pid: i32,
    memory: File,
    pagemap: File,
    /// The seed's memory and page map, for what stands in no saved page.
    seed: SeedPages,
    /// What the next process has written when it registered itself: addresses and lengths.
    own: Vec<(u64, u64)>,
    next_saved: usize,
    /// The batch that has not been compared yet.
    batch: Option<Batch>,
    have: Vec<u8>,
    want: Vec<u8>,
}

impl<'a> BodyPages<'a> {
    fn open(image: &'a Image, pid: i32, own: Vec<(u64, u64)>) -> Result<BodyPages<'a>, Difference> {
        let buffer = || vec![0; BATCH * PAGE_LEN];
        let (memory, pagemap) = (open(pid, "mem")?, open(pid, "pagemap")?);
        let (have, want) = (buffer(), buffer());
        let seed = SeedPages::open(image.seed().pid())?;
        let saved = image.saved();
        Ok(BodyPages {
            image,
            saved,
            pid,
            memory,
            pagemap,
            seed,
            own,
            next_saved: 0,
            batch: None,
            have,
            want,
        })
    }

    fn compare(&mut self, vma: &VmaEntry) -> Result<(), Difference> {
        let mut bytes = [0; WORDS * 8];
        let mut address = vma.start;
        while address < vma.end {
            let pages = usize::try_from((vma.end - address) / PAGE_BYTES).unwrap_or(WORDS).min(WORDS);
            let words = &mut bytes[..pages * 8];
            let read = self.pagemap.read_exact_at(words, address / PAGE_BYTES * 8);
            read.map_err(|source| Difference::Read { what: "pagemap", pid: self.pid, source })?;
            for word in words.chunks_exact(8) {
                let word = word.try_into().map_or(0, u64::from_ne_bytes);
                self.compare_page(address, word, vma)?;
                address += PAGE_BYTES;
            }
        }
        self.compare_batch()
    }

    /// Looks at a page by its word of the page map.
    fn compare_page(&mut self, address: u64, word: u64, vma: &VmaEntry) -> Result<(), Difference> {
        let saved = self.take_saved(address);
        let expected = match page::check(word, vma.flags & vma_flags::FILE != 0, saved) {
            PageCheck::Compare(expected) => expected,
            PageCheck::Untouched => return Ok(()),
            PageCheck::Guard if self.seed.has_guard(address)? => return Ok(()),
            PageCheck::Guard => return Err(Difference::Guard { address }),
            PageCheck::Missing => return Err(Difference::Missing { address }),
        };
        if !self.batch.as_mut().is_some_and(|batch| batch.take(address, expected)) {
            self.compare_batch()?;
            self.batch = Some(Batch::new(address, expected));
        }
        Ok(())
    }

    /// The saved page of an address. Addresses come in rising order.
    fn take_saved(&mut self, address: u64) -> Option<SavedPage> {
        let saved = self.image.pages.get(self.next_saved).filter(|page| page.address() == address)?;
        let page = SavedPage { index: self.next_saved, was_anonymous: saved.was_anonymous() };
        self.next_saved += 1;
        Some(page)
    }

    /// Compares the pages that were put off.
    fn compare_batch(&mut self) -> Result<(), Difference> {
        let Some(Batch { start, pages, expected }) = self.batch.take() else { return Ok(()) };
        let pid = self.pid;
        let have = &mut self.have[..pages * PAGE_LEN];
        let read = self.memory.read_exact_at(have, start);
        read.map_err(|source| Difference::Read { what: "mem", pid, source })?;
        let want = match expected {
            Expected::Saved(index) => {
                let want = &mut self.want[..pages * PAGE_LEN];
                let read = self.saved.read(index, want);
                read.map_err(|source| Difference::Read { what: "image", pid, source })?;
                &*want
            }
            Expected::Zeroes => &ZEROES[..pages * PAGE_LEN],
            Expected::TheFiles => {
                let want = &mut self.want[..pages * PAGE_LEN];
                self.seed.read_files(start, want)?;
                &*want
            }
        };
        own_words::take_out(&self.own, start, have, want);
        match first_difference(have, want) {
            None => Ok(()),
            Some((page, offset)) => Err(Difference::Page { address: start + page * PAGE_BYTES, offset }),
        }
    }
}

/// The pages of the seed, which never ran the program.
struct SeedPages {
    pid: i32,
    memory: File,
    pagemap: File,
}

impl SeedPages {
    fn open(pid: i32) -> Result<SeedPages, Difference> {
        Ok(SeedPages { pid, memory: open(pid, "mem")?, pagemap: open(pid, "pagemap")? })
    }

    fn word(&self, address: u64) -> Result<u64, Difference> {
        let mut word = [0; 8];
        let read = self.pagemap.read_exact_at(&mut word, address / PAGE_BYTES * 8);
        read.map_err(|source| Difference::Read { what: "pagemap", pid: self.pid, source })?;
        Ok(u64::from_ne_bytes(word))
    }

    fn has_guard(&self, address: u64) -> Result<bool, Difference> {
        Ok(page::is_guard(self.word(address)?))
    }

    /// Pages of a file. The image has no saved page there: one that the seed has as its own was written by somebody.
    fn read_files(&self, start: u64, pages: &mut [u8]) -> Result<(), Difference> {
        for address in (start..start + pages.len() as u64).step_by(PAGE_LEN) {
            if page::is_anonymous(self.word(address)?, true) {
                return Err(Difference::Page { address, offset: 0 });
            }
        }
        let read = self.memory.read_exact_at(pages, start);
        read.map_err(|source| Difference::Read { what: "mem", pid: self.pid, source })
    }
}

/// The first byte at which pages differ: number of the page, and offset in it.
fn first_difference(have: &[u8], want: &[u8]) -> Option<(u64, usize)> {
    if have == want {
        return None;
    }
    let at = have.iter().zip(want).position(|(have, want)| have != want).unwrap_or(0);
    Some(((at / PAGE_LEN) as u64, at % PAGE_LEN))
}
