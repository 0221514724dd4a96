//! Maps the pages of a waiting body that runs in another body of the image have touched.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use regrow_abi::{PAGE_BYTES, PAGE_LEN, VmaEntry, command, vma_flags};
use regrow_image::image::Image;

use crate::ahead::{push_page, write};
use crate::body::Body;

impl Body {
    /// Maps the pages of a waiting body that runs in another body of the same image, that of the keeper `like`, have
    /// touched. False as for [`Body::trim`].
    pub fn prefault_like(&self, image: &Image, like: i32) -> bool {
        self.map(&own_pages(&image.vmas, like).unwrap_or_default())
    }

    /// Maps ranges of pages.
    fn map(&self, ranges: &[(u64, u64)]) -> bool {
        if ranges.is_empty() {
            return true;
        }
        if self.armed().is_none() || !self.control.take() {
            return false;
        }
        write(&self.control, ranges) && self.command(command::PREFAULT)
    }
}

/// The pages of a keeper's program that it shares with nobody, as ranges of address and bytes: runs have written them.
///
/// # Errors
/// When the kernel does not tell, or the keeper is gone.
pub fn own_pages(vmas: &[VmaEntry], keeper: i32) -> io::Result<Vec<(u64, u64)>> {
    let pagemap = File::open(format!("/proc/{keeper}/pagemap"))?;
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    let ours = |vma: &&VmaEntry| vma.flags & (vma_flags::WRITE | vma_flags::HANDS_OFF) == vma_flags::WRITE;
    for vma in vmas.iter().filter(ours) {
        let pages = usize::try_from((vma.end - vma.start) / PAGE_BYTES).unwrap_or(0);
        let mut words = vec![0u8; pages * 8];
        pagemap.read_exact_at(&mut words, vma.start / PAGE_BYTES * 8)?;
        add_exclusive_pages(&mut ranges, vma.start, &words);
    }
    Ok(ranges)
}

/// Adds the pages that a process shares with nobody, by their words of the page map.
fn add_exclusive_pages(ranges: &mut Vec<(u64, u64)>, start: u64, words: &[u8]) {
    const PRESENT: u64 = 1 << 63;
    const FILE_OR_SHARED: u64 = 1 << 61;
    const EXCLUSIVE: u64 = 1 << 56;
    for (word, address) in words.chunks_exact(8).zip((start..).step_by(PAGE_LEN)) {
        let word = u64::from_ne_bytes(word.try_into().unwrap_or_default());
        if word & (PRESENT | FILE_OR_SHARED | EXCLUSIVE) == PRESENT | EXCLUSIVE {
            push_page(ranges, address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_its_own_are_taken_from_another_body() {
        const PRESENT: u64 = 1 << 63;
        const FILE: u64 = 1 << 61;
        const EXCLUSIVE: u64 = 1 << 56;
        let own = PRESENT | EXCLUSIVE;
        let words = [own, own, PRESENT, own | FILE, EXCLUSIVE, 0, own];
        let words: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
        let mut ranges = Vec::new();
        add_exclusive_pages(&mut ranges, 0x1000, &words);
        assert_eq!(ranges, [(0x1000, 0x2000), (0x7000, 0x1000)]);
    }
}
