//! Mappings and pages of a process that stands at its snapshot point.

use std::fs::File;
use std::os::unix::fs::FileExt;

use regrow_abi::{PAGE_BYTES, PAGE_LEN, PAGE_WAS_ANONYMOUS, PageEntry, VmaEntry, vma_flags};
use regrow_sys::maps::read_smaps;

use crate::arch::RED_ZONE_BYTES;
use crate::error::{MakeError, refuse};
use crate::making::fitness::check_mapping;
use crate::making::remote::Remote;
use crate::vmas::vma_table;

/// Mappings and pages of a process.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) vmas: Vec<VmaEntry>,
    pub(crate) pages: Vec<PageEntry>,
    /// Content of `pages`, in the same order.
    pub(crate) content: Vec<u8>,
}

impl Memory {
    /// Whether an address lies in a mapping that can be written to.
    pub(crate) fn is_writable(&self, address: u64) -> bool {
        self.vmas
            .iter()
            .any(|vma| vma.start <= address && address < vma.end && vma.flags & vma_flags::WRITE != 0)
    }

    /// All aligned words of saved, writable pages.
    pub(crate) fn words(&self) -> impl Iterator<Item = (u64, u64)> {
        let pages = self.pages.iter().zip(self.content.chunks_exact(PAGE_LEN));
        pages.filter(|(page, _)| self.is_writable(page.address())).flat_map(|(page, bytes)| {
            let words = bytes.chunks_exact(8).enumerate();
            words.map(move |(index, word)| {
                (page.address() + index as u64 * 8, word.try_into().map_or(0, u64::from_ne_bytes))
            })
        })
    }

    /// Adds the agent's mappings to the table.
    pub(crate) fn insert(&mut self, entries: &[VmaEntry]) {
        self.vmas.extend_from_slice(entries);
        self.vmas.sort_by_key(|vma| vma.start);
    }
}

/// Reads all that the image keeps. `stack_pointer` tells what of the stack is in use: pages wholly below are left out,
/// so that they are zero in every run.
pub(crate) fn read_memory(remote: &Remote, stack_pointer: u64) -> Result<Memory, MakeError> {
    let smaps = read_smaps(remote.pid())?;
    for entry in smaps.iter().filter(|entry| !entry.mapping.name.is_kernel_made()) {
        check_mapping(entry)?;
    }
    let mut memory = Memory { vmas: vma_table(&smaps, (0, 0)), ..Memory::default() };
    let pagemap = File::open(format!("/proc/{}/pagemap", remote.pid()));
    let pagemap = pagemap.map_err(MakeError::tracing("opening its pagemap"))?;
    for index in 0..memory.vmas.len() {
        let Some(&vma) = memory.vmas.get(index) else { break };
        if vma.flags & (vma_flags::HANDS_OFF | vma_flags::SHARED | vma_flags::WIPE) == 0 {
            let live = if vma.flags & vma_flags::STACK == 0 { 0 } else { stack_pointer - RED_ZONE_BYTES };
            save_pages(remote, &pagemap, &vma, live & !(PAGE_BYTES - 1), &mut memory)?;
        }
    }
    Ok(memory)
}

/// Saves the pages of a mapping from the address `live` on.
fn save_pages(
    remote: &Remote,
    pagemap: &File,
    vma: &VmaEntry,
    live: u64,
    memory: &mut Memory,
) -> Result<(), MakeError> {
    const PRESENT_OR_SWAPPED: u64 = 3 << 62;
    const FILE_OR_SHARED: u64 = 1 << 61;
    let pages = (vma.end - vma.start) / PAGE_BYTES;
    let mut words = vec![0u8; usize::try_from(pages * 8).unwrap_or(0)];
    pagemap
        .read_exact_at(&mut words, vma.start / PAGE_BYTES * 8)
        .map_err(MakeError::tracing("reading its pagemap"))?;
    let file = vma.flags & vma_flags::FILE != 0;
    let writable = vma.flags & vma_flags::WRITE != 0;
    for (index, word) in words.chunks_exact(8).enumerate() {
        let word = word.try_into().map_or(0, u64::from_ne_bytes);
        let anonymous = word & PRESENT_OR_SWAPPED != 0 && word & FILE_OR_SHARED == 0;
        // A clean page of a writable file mapping is saved too: the first run that writes it needs no lookup.
        let unsaved = !(anonymous || file && writable);
        if unsaved {
            continue;
        }
        if vma.flags & vma_flags::READ == 0 {
            return refuse(format!("mapping {:x} has pages but is not readable", vma.start));
        }
        let address = vma.start + index as u64 * PAGE_BYTES;
        if address < live {
            continue;
        }
        let mut page = [0u8; PAGE_LEN];
        if remote.read_into(address, &mut page).is_err() {
            // Beyond the end of its file: no process can have read or written it.
            continue;
        }
        // An untouched, or all-zero, page of an anonymous mapping needs no copy: zero is what it is reset to.
        if !file && page.iter().all(|&byte| byte == 0) {
            continue;
        }
        let flag = if anonymous { PAGE_WAS_ANONYMOUS } else { 0 };
        memory.pages.push(PageEntry { address_and_flags: address | flag });
        memory.content.extend_from_slice(&page);
    }
    Ok(())
}
