//! What a new body has mapped before its first process, so that the first run has no fault there: code, data, and small mappings that
//! are zero.

use regrow_abi::{PAGE_BYTES, PREFAULT_READ, PageEntry, VmaEntry, command, vma_flags};
use regrow_image::image::Image;

use crate::control::ControlArea;

/// Most ranges of pages that are mapped ahead in one body.
const MAX_RANGES: usize = 4096;
/// Files that are mapped ahead as a whole are not larger.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// All of them together.
const MAX_FILES_BYTES: u64 = 16 << 20;
/// Zero pages of a mapping that is larger are not mapped ahead.
const MAX_ZERO_BYTES: u64 = 256 << 10;
/// All of them together.
const MAX_ZEROS_BYTES: u64 = 1 << 20;
/// Saved pages of an image that has more are not mapped ahead.
const MAX_SAVED_PAGES: usize = 96;
/// Of an image that has more nothing is mapped to be written: the kernel tells its bodies which pages their runs have written, and a page
/// that is mapped ahead is one of these in every reset.
const MAX_PAGES: usize = 256;

/// Has the keeper of a body that is about to be made map the pages that most first runs touch, before it makes its first process.
pub(crate) fn order(control: &ControlArea, image: &Image) {
    let ranges = likely_pages(&image.vmas, &image.pages, image.header.brk);
    if !ranges.is_empty() && write(control, &ranges) {
        control.set_command(command::PREFAULT);
    }
}

/// Writes ranges where the keeper reads them.
pub(crate) fn write(control: &ControlArea, ranges: &[(u64, u64)]) -> bool {
    let words = ranges.iter().take(MAX_RANGES).flat_map(|range| [range.0, range.1]).chain([0, 0]);
    let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
    control.write_args(0, &bytes)
}

/// What most first runs touch: all of small files that are mapped to be read, saved pages that can be written, and small
/// mappings that are zero. As ranges of address and bytes, of which bit 0 says that they are only read.
fn likely_pages(vmas: &[VmaEntry], pages: &[PageEntry], brk: u64) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    let (mut file_bytes, mut zero_bytes) = (0, 0);
    for vma in vmas.iter().filter(|vma| vma.flags & (vma_flags::HANDS_OFF | vma_flags::SHARED) == 0) {
        let bytes = vma.end - vma.start;
        let has = |flag: u32| vma.flags & flag != 0;
        match (has(vma_flags::WRITE), has(vma_flags::FILE)) {
            (false, true) if bytes <= MAX_FILE_BYTES && file_bytes + bytes <= MAX_FILES_BYTES => {
                file_bytes += bytes;
                ranges.push((vma.start, bytes | PREFAULT_READ));
            }
            (true, false)
                if pages.len() <= MAX_PAGES
                    && bytes <= MAX_ZERO_BYTES
                    && zero_bytes + bytes <= MAX_ZEROS_BYTES
                    && !has(vma_flags::STACK | vma_flags::WIPE)
                    && !(vma.start..=vma.end).contains(&brk) =>
            {
                zero_bytes += bytes;
                ranges.push((vma.start, bytes));
            }
            (true, _) if pages.len() <= MAX_SAVED_PAGES => {
                let own = pages.iter().map(|page| page.address());
                for address in own.filter(|address| (vma.start..vma.end).contains(address)) {
                    push_page(&mut ranges, address);
                }
            }
            _ => {}
        }
    }
    ranges
}

/// Adds a page to ranges of address and bytes: to the last one, if it is its neighbour.
pub(crate) fn push_page(ranges: &mut Vec<(u64, u64)>, address: u64) {
    match ranges.last_mut() {
        Some(last) if last.0 + last.1 == address => last.1 += PAGE_BYTES,
        _ => ranges.push((address, PAGE_BYTES)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vma(start: u64, pages: u64, flags: u32) -> VmaEntry {
        VmaEntry { start, end: start + pages * PAGE_BYTES, flags, ..VmaEntry::default() }
    }

    fn pages(addresses: &[u64]) -> Vec<PageEntry> {
        addresses.iter().map(|&address_and_flags| PageEntry { address_and_flags }).collect()
    }

    #[test]
    fn code_is_mapped_to_be_read_and_small_zeroes_to_be_written() {
        let code = vma(0x1000, 4, vma_flags::READ | vma_flags::FILE);
        let zeroes = vma(0x10_0000, 2, vma_flags::READ | vma_flags::WRITE);
        let ranges = likely_pages(&[code, zeroes], &[], 0);
        assert_eq!(ranges, [(0x1000, 0x4000 | PREFAULT_READ), (0x10_0000, 0x2000)]);
    }

    #[test]
    fn the_stack_the_heap_wiped_and_foreign_mappings_are_left() {
        let write = vma_flags::READ | vma_flags::WRITE;
        let vmas = [
            vma(0x1000, 1, write | vma_flags::STACK),
            vma(0x3000, 1, write | vma_flags::WIPE),
            vma(0x5000, 1, write | vma_flags::HANDS_OFF),
            vma(0x7000, 1, write | vma_flags::SHARED),
            vma(0x9000, 1, write),
        ];
        assert_eq!(likely_pages(&vmas, &[], 0x9800), []);
    }

    #[test]
    fn large_files_and_large_zeroes_are_left() {
        let file = vma(0, MAX_FILE_BYTES / PAGE_BYTES + 1, vma_flags::READ | vma_flags::FILE);
        let zeroes = vma(1 << 40, MAX_ZERO_BYTES / PAGE_BYTES + 1, vma_flags::READ | vma_flags::WRITE);
        assert_eq!(likely_pages(&[file, zeroes], &[], 0), []);
    }

    #[test]
    fn saved_pages_of_a_small_image_are_mapped_and_neighbours_are_one_range() {
        let data = vma(0x10_000, 16, vma_flags::READ | vma_flags::WRITE | vma_flags::FILE);
        let saved = pages(&[0x10_000, 0x11_001, 0x14_000, 0x90_000]);
        assert_eq!(likely_pages(&[data], &saved, 0), [(0x10_000, 0x2000), (0x14_000, 0x1000)]);
        let many = vec![PageEntry { address_and_flags: 0x10_000 }; MAX_SAVED_PAGES + 1];
        assert_eq!(likely_pages(&[data], &many, 0), []);
    }
}
