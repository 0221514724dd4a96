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
use regrow_sys::maps::{ReadMapsError, SmapsEntry, read_smaps};

use crate::body::Body;

/// Bytes in a page, to index with.
const PAGE: usize = 4096;
const _: () = assert!(PAGE as u64 == PAGE_BYTES);

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
    compare_flags(&read_smaps(image.seed().pid())?, &smaps)?;
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
    let letters = |entry: &SmapsEntry| {
        // Soft-dirty says that a page was written once, and accounting follows a mapping's history: neither is seen.
        const IGNORED: [&str; 2] = ["sd", "ac"];
        let flags = entry.flags.iter().map(|flag| flag.to_string());
        flags.filter(|flag| !IGNORED.contains(&flag.as_str())).collect::<Vec<_>>().join(" ")
    };
    for entry in have {
        let start = entry.mapping.start;
        let Some(wanted) = want.iter().find(|wanted| wanted.mapping.contains(start)) else { continue };
        let (have, want) = (letters(entry), letters(wanted));
        if have != want {
            return Err(Difference::Flags { start, have, want });
        }
    }
    Ok(())
}

/// The pages of a body beside those of its image.
struct Pages<'a> {
    image: &'a Image,
    pid: i32,
    memory: File,
    pagemap: File,
    store: File,
    next_saved: usize,
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

impl<'a> Pages<'a> {
    fn open(image: &'a Image, pid: i32) -> Result<Pages<'a>, Difference> {
        let open = |what: &'static str| {
            let path = PathBuf::from(format!("/proc/{pid}/{what}"));
            File::open(path).map_err(|source| Difference::Read { what, pid, source })
        };
        let store = image.store().try_clone_to_owned();
        let store = File::from(store.map_err(|source| Difference::Read { what: "image", pid, source })?);
        Ok(Pages { image, pid, memory: open("mem")?, pagemap: open("pagemap")?, store, next_saved: 0 })
    }

    fn read(&self, file: &File, what: &'static str, at: u64, bytes: &mut [u8]) -> Result<(), Difference> {
        file.read_exact_at(bytes, at).map_err(|source| Difference::Read { what, pid: self.pid, source })
    }

    fn compare(&mut self, vma: &VmaEntry) -> Result<(), Difference> {
        const PRESENT_OR_SWAPPED: u64 = 3 << 62;
        const FILE_OR_SHARED: u64 = 1 << 61;
        let mut address = vma.start;
        while address < vma.end {
            let mut word = [0; 8];
            self.read(&self.pagemap, "pagemap", address / PAGE_BYTES * 8, &mut word)?;
            let word = u64::from_ne_bytes(word);
            let anonymous = word & PRESENT_OR_SWAPPED != 0 && word & FILE_OR_SHARED == 0;
            let saved = self.take_saved(address);
            match (anonymous, saved) {
                (true, Some((index, _))) => self.compare_saved(address, index)?,
                (true, None) => self.compare_zero(address, vma)?,
                (false, Some((_, true))) => return Err(Difference::Missing { address }),
                (false, _) => {}
            }
            address += PAGE_BYTES;
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

    fn page(&self, address: u64) -> Result<[u8; PAGE], Difference> {
        let mut page = [0; PAGE];
        self.read(&self.memory, "mem", address, &mut page)?;
        Ok(page)
    }

    fn compare_saved(&self, address: u64, index: usize) -> Result<(), Difference> {
        let have = self.page(address)?;
        let mut want = [0; PAGE];
        let at = self.image.header.store_offset + index as u64 * PAGE_BYTES;
        self.read(&self.store, "image", at, &mut want)?;
        match have.iter().zip(&want).position(|(have, want)| have != want) {
            Some(offset) => Err(Difference::Page { address, offset }),
            None => Ok(()),
        }
    }

    /// An anonymous page without a saved copy: zero in an anonymous mapping; in a file mapping it should be the file's.
    fn compare_zero(&self, address: u64, vma: &VmaEntry) -> Result<(), Difference> {
        if vma.flags & vma_flags::FILE != 0 {
            return Err(Difference::Page { address, offset: 0 });
        }
        match self.page(address)?.iter().position(|&byte| byte != 0) {
            Some(offset) => Err(Difference::Page { address, offset }),
            None => Ok(()),
        }
    }
}
