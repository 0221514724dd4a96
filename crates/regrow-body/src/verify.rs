//! Compares a body with its image from outside, byte for byte: the check of the reset, by other code than the reset's.
//!
//! The body must stand in `Clean`: put back, and nothing of the next process in it yet.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use regrow_abi::{PAGE_BYTES, VmaEntry, vma_flags};
use regrow_image::image::Image;
use regrow_image::vmas::vma_table;
use regrow_sys::maps::{ReadMapsError, SmapsEntry, VmFlag, VmFlags, read_smaps};

use crate::body::Body;

/// Bytes in a page, to index with.
const PAGE: usize = 4096;
const _: () = assert!(PAGE as u64 == PAGE_BYTES);
/// How many words of the page map are read at a time.
const WORDS: usize = 512;
/// How many pages are compared at a time.
const BATCH: usize = 16;
/// What pages that were never written hold.
static ZEROES: [u8; BATCH * PAGE] = [0; BATCH * PAGE];

/// What differs.
#[derive(Debug, thiserror::Error)]
pub enum Difference {
    /// A mapping is missing, is there in addition, or is another one.
    #[error("mapping {0:x?} is not that of the image")]
    Mapping(VmaEntry),
    /// Flags of a mapping (advice, locks) are not as in the seed.
    #[error("mapping {start:x} has flags {have}, the image has {want}")]
    Flags {
        /// Its first address.
        start: u64,
        /// The kernel's letters.
        have: String,
        /// The seed's.
        want: String,
    },
    /// A page has another content.
    #[error("page {address:x} differs from the image first at byte {offset}")]
    Page {
        /// Its address.
        address: u64,
        /// The first byte that differs.
        offset: usize,
    },
    /// A page that was anonymous in the image is not there.
    #[error("page {address:x} of the image is missing")]
    Missing {
        /// Its address.
        address: u64,
    },
    /// The body cannot be read.
    #[error("reading {what} of process {pid}: {source}")]
    Read {
        /// What.
        what: &'static str,
        /// The keeper, or the seed.
        pid: i32,
        /// Why.
        source: io::Error,
    },
    /// The mappings cannot be read.
    #[error(transparent)]
    Maps(#[from] ReadMapsError),
}

/// Compares mappings, their flags, and every page.
///
/// # Errors
/// The first [`Difference`].
pub fn compare(image: &Image, body: &Body) -> Result<(), Difference> {
    let pid = body.keeper();
    let header = &image.header;
    let smaps = read_smaps(pid)?;
    let have = vma_table(&smaps, (header.agent_start, header.agent_end));
    compare_mappings(&image.vmas, &have)?;
    compare_flags(image.seed_smaps()?, &smaps)?;
    let mut pages = Pages::open(image, pid)?;
    for vma in image.vmas.iter().filter(|vma| vma.flags & vma_flags::HANDS_OFF == 0) {
        pages.compare(vma)?;
    }
    Ok(())
}

fn compare_mappings(want: &[VmaEntry], have: &[VmaEntry]) -> Result<(), Difference> {
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

/// The kernel's flags of each mapping are those of the seed, which never ran the program. A mapping that a run split and
/// that did not grow together again is compared piece by piece.
fn compare_flags(want: &[SmapsEntry], have: &[SmapsEntry]) -> Result<(), Difference> {
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

impl Difference {
    /// Whether all that differs is advice for huge pages, which the kernel has no way to take back. It changes nothing that
    /// a program can read.
    #[must_use]
    pub fn is_huge_page_advice(&self) -> bool {
        let Difference::Flags { have, want, .. } = self else { return false };
        let rest = |flags: &str| {
            let others = flags.split(' ').filter(|flag| !matches!(*flag, "hg" | "nh"));
            others.map(str::to_owned).collect::<Vec<_>>()
        };
        rest(have) == rest(want)
    }
}

/// What a page is to hold.
#[derive(Clone, Copy)]
enum Wanted {
    /// The image's saved page of this index.
    Saved(usize),
    /// Nothing: nobody has written to it.
    Zeroes,
}

/// Neighbouring pages that are compared at once.
struct Batch {
    start: u64,
    pages: usize,
    wanted: Wanted,
}

impl Batch {
    /// Takes in the page at an address, unless it is no neighbour, of another kind, or one too many.
    fn take(&mut self, address: u64, wanted: Wanted) -> bool {
        let is_next = self.start + self.pages as u64 * PAGE_BYTES == address && self.pages < BATCH;
        let is_alike = match (self.wanted, wanted) {
            (Wanted::Saved(first), Wanted::Saved(index)) => first + self.pages == index,
            (Wanted::Zeroes, Wanted::Zeroes) => true,
            _ => false,
        };
        if is_next && is_alike {
            self.pages += 1;
        }
        is_next && is_alike
    }
}

/// The pages of a body beside those of its image.
struct Pages<'a> {
    image: &'a Image,
    pid: i32,
    memory: File,
    pagemap: File,
    store: File,
    next_saved: usize,
    /// The batch that has not been compared yet.
    batch: Option<Batch>,
    have: Vec<u8>,
    want: Vec<u8>,
}

impl<'a> Pages<'a> {
    fn open(image: &'a Image, pid: i32) -> Result<Pages<'a>, Difference> {
        let open = |what: &'static str| {
            let path = PathBuf::from(format!("/proc/{pid}/{what}"));
            File::open(path).map_err(|source| Difference::Read { what, pid, source })
        };
        let store = image.store().try_clone_to_owned();
        let store = File::from(store.map_err(|source| Difference::Read { what: "image", pid, source })?);
        let buffer = || vec![0; BATCH * PAGE];
        let (memory, pagemap) = (open("mem")?, open("pagemap")?);
        let (have, want) = (buffer(), buffer());
        Ok(Pages { image, pid, memory, pagemap, store, next_saved: 0, batch: None, have, want })
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
        const PRESENT: u64 = 1 << 63;
        const PRESENT_OR_SWAPPED: u64 = 3 << 62;
        const FILE_OR_SHARED: u64 = 1 << 61;
        const WRITE_PROTECTED: u64 = 1 << 57;
        // In a mapping of a file the kernel notes the protection of a page that is not there as it notes a swapped one.
        let is_noted =
            word & (PRESENT | WRITE_PROTECTED) == WRITE_PROTECTED && vma.flags & vma_flags::FILE != 0;
        let anonymous = word & PRESENT_OR_SWAPPED != 0 && word & FILE_OR_SHARED == 0 && !is_noted;
        let wanted = match (anonymous, self.take_saved(address)) {
            (true, Some((index, _))) => Wanted::Saved(index),
            // In a mapping of a file it should be the file's.
            (true, None) if vma.flags & vma_flags::FILE != 0 => {
                return Err(Difference::Page { address, offset: 0 });
            }
            (true, None) => Wanted::Zeroes,
            (false, Some((_, true))) => return Err(Difference::Missing { address }),
            (false, _) => return Ok(()),
        };
        if !self.batch.as_mut().is_some_and(|batch| batch.take(address, wanted)) {
            self.compare_batch()?;
            self.batch = Some(Batch { start: address, pages: 1, wanted });
        }
        Ok(())
    }

    /// The index of the saved page of an address, and whether it was anonymous. Addresses come in rising order.
    fn take_saved(&mut self, address: u64) -> Option<(usize, bool)> {
        let saved = self.image.pages.get(self.next_saved).filter(|page| page.address() == address)?;
        let index = self.next_saved;
        self.next_saved += 1;
        Some((index, saved.was_anonymous()))
    }

    fn compare_batch(&mut self) -> Result<(), Difference> {
        let Some(Batch { start, pages, wanted }) = self.batch.take() else { return Ok(()) };
        let pid = self.pid;
        let have = &mut self.have[..pages * PAGE];
        let read = self.memory.read_exact_at(have, start);
        read.map_err(|source| Difference::Read { what: "mem", pid, source })?;
        let want = match wanted {
            Wanted::Saved(index) => {
                let want = &mut self.want[..pages * PAGE];
                let at = self.image.header.store_offset + index as u64 * PAGE_BYTES;
                let read = self.store.read_exact_at(want, at);
                read.map_err(|source| Difference::Read { what: "image", pid, source })?;
                &*want
            }
            Wanted::Zeroes => &ZEROES[..pages * PAGE],
        };
        if *have == *want {
            return Ok(());
        }
        let at = have.iter().zip(want).position(|(have, want)| have != want).unwrap_or(0);
        Err(Difference::Page { address: start + (at / PAGE * PAGE) as u64, offset: at % PAGE })
    }
}
